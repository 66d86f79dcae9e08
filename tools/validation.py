#!/usr/bin/env python3
"""Keeps the tables of docs/validation.md: figures of the studies, and causes of what misses, each by an experiment.

    tools/validation.py STUDY RESULTS/points.md   puts the figures of a study between the marks that name it
    tools/validation.py --check                   fails on a cause that is stale; runs nothing
    tools/validation.py --run [STUDY]             runs the experiments of docs/causes.toml; fails where one differs
    tools/validation.py --record [STUDY]          runs them, and writes what they gave into docs/causes.toml
    tools/validation.py --write                   only writes the tables of causes again

The words around the tables are written by people; they give no cause that is not in docs/causes.toml.
"""

from __future__ import annotations

import sys
from pathlib import Path

import causes
from rich.console import Console

from loiter import studies
from loiter.errors import Fault


def main(words: list[str]) -> int:
    """Returns the exit code."""
    match words:
        case ["--check"]:
            return check()
        case ["--write"]:
            return write_causes()
        case ["--run" | "--record" as how, *names] if len(names) <= 1:
            return run(names[0] if names else None, record=how == "--record")
        case [study, table] if not study.startswith("-"):
            return write_figures(study, Path(table))
        case _:
            print(__doc__, file=sys.stderr)
            return 2


def write_figures(study: str, path: Path) -> int:
    """The figures of a study, and the causes beside them: a new figure may make one stale."""
    table = path.read_text(encoding="utf-8").strip()
    document = causes.DOCUMENT.read_text(encoding="utf-8")
    if not table.startswith(("| Value", "| Statement")):
        return _complain([f"{path}: not the figures of a study, but: {table.splitlines()[0]}"])
    pattern = causes.marks(f"figures of {study}")
    if not pattern.search(document):
        return _complain([f"{causes.DOCUMENT}: no marks for the study {study}"])
    causes.DOCUMENT.write_text(pattern.sub(lambda _: f"{table}\n", document), encoding="utf-8")
    return write_causes()


def write_causes() -> int:
    """The tables of causes, by the figures and the experiments as they are."""
    document, experiments = causes.DOCUMENT.read_text(encoding="utf-8"), causes.read()
    for study in studies.NAMES:
        document = causes.write_table(document, experiments, study)
    causes.DOCUMENT.write_text(document, encoding="utf-8")
    return check()


def check() -> int:
    """What is stale as far as that shows without a run."""
    experiments = causes.read()
    for command in causes.outdated(experiments):
        print(f"ran with other sources, `make causes` runs it again: {command}")
    return _complain(list(causes.complaints(causes.DOCUMENT.read_text(encoding="utf-8"), experiments)))


def run(study: str | None, *, record: bool) -> int:
    """All experiments, or those of one study."""
    if study not in (None, *studies.NAMES):
        print(f"there is no study {study}; there are {', '.join(studies.NAMES)}", file=sys.stderr)
        return 2
    found: list[str] = []
    for index, each in enumerate(causes.read()):
        if study not in (None, each.study):
            continue
        print(each.command, flush=True)
        try:
            values = causes.run(each, Console(stderr=True))
        except Fault as fault:
            return _complain([*found, str(fault)])
        found += causes.differences(each, values)
        if record:
            text = causes.EXPERIMENTS.read_text(encoding="utf-8")
            causes.EXPERIMENTS.write_text(causes.record(text, index, values), encoding="utf-8")
    if record:
        for line in found:
            print(line)
        return write_causes()
    return max(_complain(found), check())


def _complain(lines: list[str]) -> int:
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
