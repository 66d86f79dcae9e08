"""Builds images: one at a time, in a temporary place, with a manifest of what went in."""

from __future__ import annotations

import dataclasses
import datetime
import platform
import time
from pathlib import Path

from rich.console import Console

import loiter
from loiter.engine import Json
from loiter.errors import UserFault, unknown
from loiter.images import cache, kinds, sources, tools
from loiter.images import image as images
from loiter.images.apt import Apt, sha256
from loiter.images.image import Image
from loiter.images.kinds import Outcome, Work
from loiter.images.progress import Step, Steps
from loiter.images.recipe import Recipe, from_parameters


def recipe_of(name: str) -> Recipe:
    """The recipe of an image: what it was built from if it is there, else the kind of that name."""
    found = cache.lookup(name)
    if found is not None:
        return from_parameters(found.manifest["recipe"])
    cache.check_name(name)
    if name not in kinds.NAMES:
        advice = "One of your own is built with --packages or --kind."
        raise unknown("image", name, {*cache.names(), *kinds.NAMES}, advice)
    return Recipe(name)


def is_current(image: Image) -> bool:
    """Whether today's loiter would build the same from its recipe."""
    return from_parameters(image.manifest["recipe"]).key() == image.key


def ensure(name: str, console: Console | None = None) -> Image:
    """An image by its name, built if it is not there or loiter's own files have changed since."""
    return build(name, recipe_of(name), console)


def default_recipe(harts: int) -> tuple[str, Recipe]:
    """What a system of so many harts boots where no image is named, and the name of its image: Debian with its own
    kernel as far as that and its firmware go."""
    if harts <= images.FIRMWARE_HARTS:
        return "debian", Recipe("debian")
    return f"debian-{kinds.SMALL_KERNEL}", Recipe("debian", kernel=kinds.SMALL_KERNEL)


def default(harts: int, console: Console | None = None) -> Image:
    """That image."""
    return build(*default_recipe(harts), console)


def build(name: str, recipe: Recipe, console: Console | None = None, *, again: bool = False) -> Image:
    """Builds an image under a name, unless it is there already; `again` builds it in any case, of today's packages."""
    cache.check_name(name)
    if name in kinds.NAMES and name != recipe.kind:
        raise UserFault(f'"{name}" is the name of another kind of image; choose another.')
    found = None if again else _built(name, recipe)
    if found is not None:
        return found
    _require(recipe)
    return _build(name, recipe, console, again)


def _build(name: str, recipe: Recipe, console: Console | None, again: bool) -> Image:
    with cache.guard(name, lambda: _say(console, f"another loiter is building {name}; waiting for it")):
        # It may have built the same.
        found = None if again else _built(name, recipe)
        if found is not None:
            return found
        kernel = None
        if kinds.load(recipe.kind).HAS_ROOT:
            kernel = _build(recipe.name_of_kernel(), recipe.of_kernel(), console, again)
        with cache.guard(cache.DOWNLOADS, shared=True):
            return _carry_out(name, recipe, kernel, console)


def _carry_out(name: str, recipe: Recipe, kernel: Image | None, console: Console | None) -> Image:
    kind = kinds.load(recipe.kind)
    # Of the files as they are now, whatever happens to them in the meantime.
    key = recipe.key()
    with cache.incoming(name) as temporary, cache.reporting(temporary):
        out, scratch = temporary / "image", temporary / "scratch"
        out.mkdir()
        scratch.mkdir()
        began = time.monotonic()
        announced = [*kind.steps(recipe), Step("manifest", 1)]
        apt = Apt(cache.root() / "apt", scratch, recipe.suite, recipe.mirror)
        with Steps(console, name, announced) as steps:
            work = Work(recipe, key, apt, out, scratch, steps, kernel)
            outcome = kind.build(work)
            with steps.step("manifest"):
                manifest = _manifest(recipe, key, outcome, out)
                (out / images.MANIFEST).write_bytes(images.encode(manifest))
                (out / images.HOST).write_bytes(images.encode(_host(time.monotonic() - began)))
        build_name = f"{key[:16]}-{sha256(out / images.MANIFEST)[:8]}"
        return cache.settle(out, name, build_name)


def _built(name: str, recipe: Recipe) -> Image | None:
    found = cache.lookup(name)
    return found if found is not None and found.key == recipe.key() else None


def _require(recipe: Recipe) -> None:
    """Everything that is missing, at once, before anything is downloaded."""
    commands = ["setpriv", *kinds.load(recipe.kind).TOOLS]
    if kinds.load(recipe.kind).HAS_ROOT:
        commands += kinds.load(recipe.kernel).TOOLS
    keyring = next((path for path in sources.KEYRINGS if path.exists()), sources.KEYRINGS[0])
    tools.require(commands, {"debian-archive-keyring": keyring})


def _manifest(recipe: Recipe, key: str, outcome: Outcome, out: Path) -> Json:
    files = sorted(path for path in out.iterdir())
    return {
        "schema": images.SCHEMA,
        "loiter": loiter.__version__,
        "recipe": recipe.parameters(),
        "key": key,
        "kernel_release": outcome.kernel_release,
        "command_line": outcome.command_line,
        "root_command_line": outcome.root_command_line,
        "files": {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in files},
        "packages": [dataclasses.asdict(each) for each in outcome.packages],
    }


def _host(seconds: float) -> Json:
    return {
        "built": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "platform": platform.platform(),
    }


def _say(console: Console | None, text: str) -> None:
    if console is not None:
        console.print(text, style="dim", highlight=False, markup=False)
