"""`loiter image`: builds, lists, shows, exports, imports and removes what a boot needs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from loiter import images, resources
from loiter.cli import complete
from loiter.cli.options import JsonOption, err, out, print_json, warn
from loiter.errors import Fault, UserFault
from loiter.images import Image, Recipe, kinds
from loiter.images.image import HOST
from loiter.report.table import headed

app = typer.Typer(help="Kernels and Debian systems to boot, built from Debian's packages.", no_args_is_help=True)

_MIB = 1 << 20


@app.command("build")
def build(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]", help=f"{', '.join(kinds.NAMES)}, or a name of your own.", autocompletion=complete.images
        ),
    ] = "debian",
    packages: Annotated[
        list[str] | None,
        typer.Option("--packages", metavar="A,B,...", help="Packages beside those every root has. May be repeated."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="What it is, for a name of your own. Default: debian.")
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option("--kernel", metavar="KIND", help="Kernel of a root file system: kernel or small-kernel."),
    ] = None,
    no_patches: Annotated[
        bool, typer.Option("--no-patches", help="The small kernel as Debian's source is, without our patches.")
    ] = False,
    fragments: Annotated[
        list[str] | None,
        typer.Option(
            "--fragments",
            metavar="A,B,...",
            help="Options that the small kernel has beside its own, such as lock-stat. May be repeated.",
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option("--suite", metavar="SUITE", help=f"Debian's release, {images.SUITE} (default) or later."),
    ] = None,
    size_mib: Annotated[
        int | None,
        typer.Option("--size-mib", min=64, metavar="N", help="Size of the root file system. Default: as needed."),
    ] = None,
    mirror: Annotated[
        str | None, typer.Option("--mirror", metavar="URI", help="Debian mirror. Default: that of this system's apt.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Build it even if it is there, of the packages the mirror has today.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Build an image, unless it is there.

    Packages are downloaded and verified by apt, for riscv64, and unpacked; nothing of theirs runs on this system.

    A name that is there keeps its packages unless others are given.

    Example: [bold]loiter image build web --packages nginx,ruby[/]
    """
    if not any((packages, kind, kernel, suite, size_mib, no_patches, fragments)):
        # What an image of that name was built from, or the kind of that name.
        recipe = images.recipe_of(name).with_mirror(mirror)
    else:
        recipe = Recipe(
            kind or (name if name in kinds.NAMES else "debian"),
            suite or images.SUITE,
            _words(packages),
            size_mib,
            kernel or "kernel",
            not no_patches,
            _words(fragments),
            mirror,
        )
    before = images.lookup(name)
    image = images.build(name, recipe, err(), again=again)
    if as_json:
        print_json(_facts(image))
        return
    same = before is not None and before.path == image.path
    word = "is there already" if same and not again else "is built"
    out().print(f"image {name} {word}: {image.path}", soft_wrap=True, highlight=False)


@app.command("list")
def list_images(as_json: JsonOption = False) -> None:
    """List the images on this system, and the kinds that can be built."""
    found: list[Image] = []
    for name in images.names():
        try:
            found.append(images.find(name))
        except Fault as fault:
            warn(str(fault))
    if as_json:
        print_json([_facts(image) for image in found])
        return
    console = out()
    if found:
        console.print(_table(found))
    missing = [name for name in kinds.NAMES if name not in images.names()]
    for name in missing:
        console.print(
            Text.assemble((name, "bold"), f": {kinds.load(name).DESCRIPTION}; not built (loiter image build {name})")
        )
    console.print(Text(f"in {images.root()}", style="dim"), soft_wrap=True)


@app.command("show")
def show(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="An image by its name.", autocompletion=complete.images)
    ] = "debian",
    as_json: JsonOption = False,
) -> None:
    """Show an image: its files, how to boot it, and every package with version and hash."""
    image = images.find(name)
    if as_json:
        print_json(_facts(image) | {"manifest": image.manifest})
        return
    console = out()
    console.print(_summary(image), highlight=False)
    files = _columns("file", "bytes", "sha256")
    for file, facts in image.manifest["files"].items():
        files.add_row(str(image.path / file), f"{facts['bytes']:,}", facts["sha256"][:16])
    console.print(files, highlight=False)
    packages = _columns("package", "version", "architecture", "sha256")
    for each in image.manifest["packages"]:
        packages.add_row(each["name"], each["version"], each["architecture"], each["sha256"][:16])
    console.print(packages, highlight=False)


@app.command("export")
def export(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A built image.", autocompletion=complete.images)],
    path: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write it. Default: NAME.tar.zst.")
    ] = None,
) -> None:
    """Write an image to one file, for another host: it need not build it then, nor have what that needs."""
    from loiter.images import transfer

    image = images.find(name)
    path = path or Path(f"{name}{transfer.SUFFIX}")
    if path.is_dir():
        raise UserFault(f"--out {path}: a directory; name a file.")
    with _bar(f"writing {path}") as share:
        transfer.export(image, path, share)
    out().print(f"wrote {path}, {path.stat().st_size / _MIB:,.0f} MiB", highlight=False, soft_wrap=True)


@app.command("import")
def import_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="What [bold]loiter image export[/] wrote.")],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What to call it. Default: as the file is called.")
    ] = None,
) -> None:
    """Make an image of a file that `loiter image export` wrote. All of it is checked first."""
    from loiter.images import transfer

    with _bar(f"reading {path}") as share:
        image = transfer.import_(path, name, share)
    out().print(f"image {image.name} is there: {image.path}", highlight=False, soft_wrap=True)


@contextlib.contextmanager
def _bar(title: str) -> Iterator[Callable[[float], None]]:
    """A bar with the remaining time, in a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err(), transient=True, disable=not err().is_terminal) as progress:
        task = progress.add_task(title, total=1.0)
        yield lambda part: progress.update(task, completed=part)


@app.command("remove")
def remove(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="Images by their names.", autocompletion=complete.images),
    ] = None,
    downloads: Annotated[
        bool, typer.Option("--downloads", help="Remove the packages that were downloaded for images, too.")
    ] = False,
) -> None:
    """Remove images, or what was downloaded to build them."""
    if not names and not downloads:
        raise UserFault("nothing named: give the names of images (`loiter image list`), or --downloads.")
    console = out()
    for name in names or []:
        images.remove(name)
        console.print(f"image {name} is removed", highlight=False)
    if downloads:
        console.print(f"downloads are removed: {images.remove_downloads() / _MIB:,.0f} MiB", highlight=False)


def _words(texts: list[str] | None) -> tuple[str, ...]:
    words = [word.strip() for text in texts or [] for word in text.split(",")]
    return tuple(word for word in words if word)


def _facts(image: Image) -> dict[str, Any]:
    return {
        "name": image.name,
        "kind": image.kind,
        "key": image.key,
        "current": images.is_current(image),
        "bytes": image.bytes,
        "recipe": image.manifest["recipe"],
        "kernel_release": image.manifest["kernel_release"],
        "command_line": image.command_line,
        "kernel": str(image.kernel),
        "firmware": str(image.firmware),
        "initrd": _text(image.initrd),
        "root": _text(image.root),
        "system_map": _text(image.system_map),
    }


def _text(path: object) -> str | None:
    return None if path is None else str(path)


def _columns(*names: str) -> Table:
    table = headed()
    for name in names:
        table.add_column(name, justify="right" if name in ("bytes", "MiB") else "left", overflow="fold")
    return table


def _table(found: list[Image]) -> Table:
    table = _columns("image", "kind", "suite", "kernel", "packages", "MiB", "state")
    for image in found:
        recipe = image.manifest["recipe"]
        current = images.is_current(image)
        table.add_row(
            Text(image.name, style="bold"),
            image.kind,
            recipe["suite"],
            image.manifest["kernel_release"],
            ", ".join(recipe["packages"]) or str(len(image.manifest["packages"])),
            f"{image.bytes / _MIB:,.0f}",
            Text("current" if current else "of an earlier loiter", style="" if current else "yellow"),
        )
    return table


def _summary(image: Image) -> Table:
    host = json.loads(resources.read_text(image.path / HOST, "facts of the build"))
    recipe = image.manifest["recipe"]
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    table.add_row("image", f"{image.name}, {kinds.load(image.kind).DESCRIPTION}")
    table.add_row("key", image.key[:16])
    table.add_row("suite", recipe["suite"])
    table.add_row("added packages", ", ".join(recipe["packages"]) or "none")
    table.add_row("kernel", image.manifest["kernel_release"])
    table.add_row("command line", image.command_line)
    table.add_row("built", f"{host['built']}, in {host['seconds']} s, by loiter {image.manifest['loiter']}")
    if not images.is_current(image):
        table.add_row("", f"of an earlier loiter: `loiter image build {image.name}` builds today's")
    return table
