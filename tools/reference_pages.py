"""Reference pages of the documentation, from the declarations themselves: run by MkDocs (mkdocs.yml).

Writes reference/parameters.md, counters.md, metrics.md, commands.md and api.md. Nothing in them is written by hand, so
nothing in them can be out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import mkdocs_gen_files
import typer
from typer.main import get_command

import loiter
from loiter import cli, engine, machines, metrics

sys.path.insert(0, "tools")
import docs_links


def main() -> None:
    """Writes all pages."""
    for name, lines in {
        "parameters": parameters(),
        "counters": counters(),
        "metrics": the_metrics(),
        "commands": commands(),
        "api": api(),
    }.items():
        with mkdocs_gen_files.open(f"reference/{name}.md", "w") as file:
            file.write("\n".join(lines) + "\n")
    repository()


def repository() -> None:
    """Pages that stand outside of the documentation."""
    for name in docs_links.PAGES:
        with mkdocs_gen_files.open(f"repository/{name}", "w") as file:
            file.write(Path(name).read_text(encoding="utf-8"))


def parameters() -> Iterator[str]:
    """Every parameter of every machine: what it is, and each value with its source."""
    native = engine.load()
    yield from ("# Machines and parameters", "")
    yield "`loiter machine show NAME` prints a machine; `--set KEY=VALUE` changes it for one command."
    loaded = {name: machines.load(native, name) for name in machines.names()}
    yield ""
    yield from table(
        ("machine", "contexts", "what it is"),
        ((f"[`{n}`](#{n})", m.contexts, m.description) for n, m in loaded.items()),
    )
    described = {each.key: each for machine in loaded.values() for each in machine.parameters}
    yield from ("", "## What they mean", "")
    yield from table(
        ("parameter", "unit", "what it is"), ((f"`{e.key}`", e.unit, e.description) for e in described.values())
    )
    for name, machine in loaded.items():
        yield from ("", f"## {name}", "", machine.description, "")
        rows = ((f"`{each.key}`", f"`{each.value}`", each.unit, each.source) for each in machine.parameters)
        yield from table(("parameter", "value", "unit", "source"), rows)
        yield ""
        yield from (f"- [{tag}] {citation}" for tag, citation in machine.sources)


def counters() -> Iterator[str]:
    """Every counter of every kind of machine, once for each part that has it."""
    native = engine.load()
    found: dict[tuple[str, str], tuple[str, str, list[str]]] = {}
    for name in machines.names():
        machine = machines.load(native, name)
        for row in native.describe_counters(machine.name, machine.toml, list(machine.sets)):
            part = re.sub(r"^core\d+", "core*N*", row["component"])
            if ".user" in part or ".kernel" in part:
                continue
            _, _, where = found.setdefault((part, row["name"]), (row["unit"], row["description"], []))
            if name not in where:
                where.append(name)
    assert found, "no machine has a counter"
    yield from ("# Counters", "")
    yield (
        "What `counters.parquet` and `Result.counters` have, by component. Out-of-order cores have those of a core "
        "also by group of modes, as `core0.user` and `core0.kernel`."
    )
    for part in dict.fromkeys(part for part, _ in found):
        yield from ("", f"## {part}", "")
        rows = (
            (f"`{name}`", unit, description, ", ".join(f"`{each}`" for each in where))
            for (of, name), (unit, description, where) in found.items()
            if of == part
        )
        yield from table(("counter", "unit", "what it counts", "machines"), rows)


def the_metrics() -> Iterator[str]:
    """Every metric."""
    yield from (
        "# Metrics",
        "",
        "What `loiter metrics` and `Result.metrics` have, worked out from counters, accounts and activities.",
        "",
    )
    rows = ((f"`{each.name}`", each.unit, each.definition, ", ".join(each.groups)) for each in metrics.METRICS)
    yield from table(("metric", "unit", "definition", "of modes"), rows)


def commands() -> Iterator[str]:
    """Every command with its options, as `--help` says them."""
    yield from ("# Commands", "")
    root = get_command(cli.app)
    context = typer.Context(root, info_name="loiter")
    yield from _command("loiter", root, context)


def _command(name: str, command: object, context: typer.Context) -> Iterator[str]:
    described = getattr(command, "help", None) or ""
    children = getattr(command, "commands", {})
    yield from ("", f"## {name}", "", plain(described), "")
    rows = []
    for parameter in getattr(command, "params", ()):
        if getattr(parameter, "hidden", False):
            continue
        shown = parameter.get_help_record(context)
        text = shown or (parameter.make_metavar(context), getattr(parameter, "help", "") or "")
        rows.append((f"`{plain(text[0])}`", plain(text[1])))
    if rows:
        yield from table(("option", "what it is"), rows)
    for word, child in children.items():
        if not getattr(child, "hidden", False):
            yield from _command(f"{name} {word}", child, typer.Context(child, info_name=word, parent=context))


def api() -> Iterator[str]:
    """All that `import loiter` gives."""
    yield from ("# Python", "", "[Python and notebooks](../python.md) shows how they are used.", "")
    for name in loiter.__all__:
        home = getattr(getattr(loiter, name), "__module__", None)
        if home is not None and home.startswith("loiter."):
            yield from (f"::: {home}.{name}", "")


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """A table of Markdown. Each has rows: one without says that what it is made of has gone."""
    head = list(head)
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    count = 0
    for row in rows:
        count += 1
        yield f"| {' | '.join(str(cell).replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in row)} |"
    assert count, f"no rows of {head[0]}"


def plain(text: str) -> str:
    """Without the marks by which the terminal makes words bold."""
    text = re.sub(r"\[(/?)(bold|dim|red|green|yellow|italic)?\]", "", text)
    return re.sub(r"\s*\n\s*\n\s*", "\n\n", text.strip())


main()
