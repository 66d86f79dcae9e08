"""Causes of misses, each by an experiment: the suspected rule or workload is changed and the study is run again.

`docs/causes.toml` declares the experiments and keeps what they gave. What the tables of docs/validation.md call a miss
(MISS, or NO of a statement) and no experiment explains has an unknown cause. An experiment of another scale than the
table's has a value before of its own; and it may show what else a rule moves, misses or not.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
import typer
from rich.console import Console

from loiter import cli, engine, resources, studies
from loiter.errors import Fault
from loiter.report import terminal
from loiter.runs import pool
from loiter.studies.base import Findings, Point, Verdict
from loiter.studies.changes import Changes
from loiter.studies.runner import Order, carry_out

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "validation.md"
EXPERIMENTS = ROOT / "docs" / "causes.toml"
RESULTS = ROOT / "results" / "causes"

CAUSE, PART, NOT = "the cause", "a part", "not the cause"
MOVED, STAYED = "moved", "not moved"
TABLES = "default"
"""The scale of the tables in the document."""

_NEARER = 0.1
"""A change that takes away less than this share of the distance is no cause (assumed)."""
_DECIDING = ("crates/*/src/**/*.rs", "machines/*.toml", "guests/programs/**/*.[cSh]", "guests/runtime/*.[cSh]",
             "locks/include/loiter/*.h", "reference/*.toml", "docs/causes/*.patch")  # fmt: skip
_NO_PART = ROOT / "crates" / "explore"
"""What no study runs."""


@dataclass(frozen=True)
class Row:
    """A miss, or a value that is none, as a table of the document has it."""

    published: str
    ours: str
    missed: bool


@dataclass(frozen=True)
class Experiment:
    """One entry of the file. `recorded` is what the tool wrote: before, after and what that shows, by name."""

    study: str
    suspect: str
    explains: tuple[str, ...]
    moves: tuple[str, ...]
    scale: str
    figure: str | None
    changes: Changes
    patch: str | None
    """The file, by its path from the project's folder, of a change to what guests are built from."""
    instead: str | None
    """The figure whose runs measure it otherwise, in place of that of the table."""
    recorded: Mapping[str, Any]

    def words(self, changes: Changes, figure: str | None) -> list[str]:
        """The command line of `loiter` that runs a figure of it."""
        words = ["--figure", figure] if figure else []
        return ["study", "run", self.study, "--scale", self.scale, *words, *changes.options()]

    @property
    def measured(self) -> str | None:
        """The figure by which it shows something."""
        return self.instead or self.figure

    @property
    def names(self) -> tuple[str, ...]:
        """All that it shows something of."""
        return self.explains + self.moves

    @property
    def command(self) -> str:
        """As a person types it; the default scale goes without saying."""
        words = self.words(self.changes, self.measured)
        if self.scale == TABLES:
            del words[3:5]
        built = f"git apply {self.patch} && make guests && " if self.patch else ""
        return built + shlex.join(["loiter", *words])

    def value(self, kind: str, name: str) -> str:
        """What was recorded, or nothing."""
        return str(self.recorded.get(kind, {}).get(name, ""))


def read(path: Path = EXPERIMENTS) -> list[Experiment]:
    """The file's experiments, in its order."""
    found = tomlkit.parse(path.read_text(encoding="utf-8")).unwrap()
    return [_experiment(entry) for entry in found.get("experiment", [])]


def _experiment(entry: Mapping[str, Any]) -> Experiment:
    return Experiment(
        study=entry["study"],
        suspect=entry["suspect"],
        explains=tuple(entry.get("explains", ())),
        moves=tuple(entry.get("moves", ())),
        scale=entry.get("scale", TABLES),
        figure=entry.get("figure"),
        changes=Changes(*(tuple(entry.get(each, ())) for each in ("set", "argument", "append"))),
        patch=entry.get("patch"),
        instead=entry.get("instead"),
        recorded=entry.get("recorded", {}),
    )


def marks(name: str) -> re.Pattern[str]:
    """What stands in the document between the marks of this name."""
    begin, end = re.escape(f"<!-- {name} -->"), re.escape(f"<!-- end of {name.removeprefix('figures of ')} -->")
    return re.compile(f"(?<={begin}\n).*?(?={end})", re.DOTALL)


def table(document: str, study: str) -> dict[str, Row]:
    """The values and statements of a study's tables in the document, by name."""
    found = marks(f"figures of {study}").search(document)
    rows = {}
    for line in found[0].splitlines() if found else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[5] in [verdict.value for verdict in Verdict]:
            rows[cells[0].strip("`")] = Row(cells[2], cells[3], cells[5] == Verdict.MISS.value)
        elif len(cells) == 3 and cells[1] in ("yes", "NO"):
            name = cells[0].split("`")[1] if cells[0].startswith("`") else cells[0]
            rows[name] = Row("yes", cells[1], cells[1] == "NO")
    return rows


def render(experiments: Sequence[Experiment], rows: Mapping[str, Row], study: str) -> str:
    """A study's causes as Markdown: what experiments gave, and which misses none explains."""
    mine = [each for each in experiments if each.study == study]
    lines = []
    if mine:
        lines += ["| Value | Suspected | Published | Before | After | It is | Run |", "|---|---|---|---|---|---|---|"]
    for each in mine:
        for name in each.names:
            published = rows[name].published if name in rows else ""
            values = (each.value(kind, name) for kind in ("before", "after", "shows"))
            cells = (f"`{name}`", each.suspect, published, *values, f"`{each.command}`")
            lines.append(f"| {' | '.join(cells)} |")
    explained = {name for each in mine for name in each.explains if each.value("shows", name) in (CAUSE, PART)}
    unknown = [name for name, row in rows.items() if row.missed and name not in explained]
    if lines:
        lines.append("")
    lines += [f"Cause unknown, {len(unknown)}: {', '.join(f'`{name}`' for name in unknown)}." if unknown
              else "No miss is without its experiment."]  # fmt: skip
    return "\n".join(lines) + "\n"


def write_table(document: str, experiments: Sequence[Experiment], study: str) -> str:
    """The document with the causes of a study as they are."""
    text = render(experiments, table(document, study), study)
    return marks(f"causes of {study}").sub(lambda _: text, document)


def complaints(document: str, experiments: Sequence[Experiment]) -> Iterator[str]:
    """What is stale, as far as that shows without a run."""
    for each in experiments:
        yield from _complaints(each, table(document, each.study) if each.study in studies.NAMES else {})
    for study in studies.NAMES:
        if not table(document, study):
            yield f"{study}: {DOCUMENT.name} has no table of its figures"
        elif marks(f"causes of {study}").search(document) is None:
            yield f"{study}: {DOCUMENT.name} has no marks for its causes"
        elif write_table(document, experiments, study) != document:
            yield f"{study}: the causes in {DOCUMENT.name} are not those of {EXPERIMENTS.name}; write them again"


def _complaints(each: Experiment, rows: Mapping[str, Row]) -> Iterator[str]:
    if not each.names:
        yield f'"{each.suspect}": explains nothing'
    if not (each.changes or each.patch or each.instead):
        yield f'"{each.suspect}": changes nothing'
    fault = _parse(each) or _applies(each)
    if fault is not None:
        yield f"{each.command}: {fault}"
    for name in each.names:
        row = rows.get(name)
        if row is None:
            yield f'"{each.suspect}": the table of {each.study} has no {name} any more'
        elif name in each.explains and not row.missed:
            yield f'"{each.suspect}": the table of {each.study} has no miss {name} any more'
        elif not each.value("before", name) or not each.value("after", name):
            yield f"{each.command}: was not run for {name}"
        elif each.scale == TABLES and each.value("before", name) != row.ours:
            was = each.value("before", name)
            yield f"{each.command}: was run when {name} was {was}; the table has {row.ours}"


def _parse(each: Experiment) -> str | None:
    """Why the command would be refused, if it would."""
    try:
        command: Any = typer.main.get_command(cli.app)
        words = each.words(each.changes, each.measured)
        context = command.make_context("loiter", list(words))
        while hasattr(command, "resolve_command"):
            name, command, words = command.resolve_command(context, words)
            context = command.make_context(name, list(words), parent=context)
        study = studies.load(each.study)
        if each.scale not in study.scales:
            return f"there is no scale {each.scale}"
        known = [None, *(exhibit.id for exhibit in study.exhibits)]
        for figure in (each.figure, each.instead):
            if figure not in known:
                return f"there is no figure {figure}"
        each.changes.check(engine.load())
    except Fault as fault:
        return str(fault)
    except Exception as error:
        # What refuses a command line comes from click, or from typer's own copy of it.
        if not hasattr(error, "format_message"):
            raise
        return str(error.format_message())
    return None


def _applies(each: Experiment) -> str | None:
    """Why its patch cannot be applied, if it has one that cannot."""
    if each.patch is None:
        return None
    found = subprocess.run(["git", "apply", "--check", each.patch], cwd=ROOT, capture_output=True, text=True)
    return None if found.returncode == 0 else found.stderr.strip()


@contextlib.contextmanager
def patched(patch: str | None) -> Iterator[None]:
    """Guests are those that are built with the patch meanwhile."""
    if patch is None:
        yield
        return
    before = resources.GUESTS
    with tempfile.TemporaryDirectory() as folder:
        for name in ("guests", "locks"):
            shutil.copytree(ROOT / name, Path(folder, name), ignore=shutil.ignore_patterns("build"))
        subprocess.run(["git", "apply", ROOT / patch], cwd=folder, check=True)
        subprocess.run(["make", "-s", "-j", str(pool.cpus()), "-C", "guests"], cwd=folder, check=True)
        resources.GUESTS = Path(folder, "guests", "build")
        try:
            yield
        finally:
            resources.GUESTS = before


def sources() -> str:
    """A hash of what decides results: simulator, machines, guests, published figures."""
    total = hashlib.sha256()
    found = (path for pattern in _DECIDING for path in ROOT.glob(pattern))
    for path in sorted(path for path in found if not path.is_relative_to(_NO_PART)):
        total.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:16]


def run(each: Experiment, console: Console) -> dict[str, dict[str, str]]:
    """Runs an experiment, with and without its changes: before, after and what they show, by name."""
    before = _carry_out(each, Changes(), each.figure, "", console)
    with patched(each.patch):
        guests = f"+{Path(each.patch).stem}" if each.patch else ""
        after = _carry_out(each, each.changes, each.measured, guests, console)
    found: dict[str, dict[str, str]] = {"before": {}, "after": {}, "shows": {}}
    for name in each.names:
        found["before"][name], found["after"][name] = _value(before, name), _value(after, name)
        moves = STAYED if found["before"][name] == found["after"][name] else MOVED
        found["shows"][name] = moves if name in each.moves else _shows(before, after, name)
    return found


def _carry_out(each: Experiment, changes: Changes, figure: str | None, guests: str, console: Console) -> Findings:
    study = studies.load(each.study)
    out = RESULTS / changes.directory(f"{each.study}-{each.scale}{guests}")
    command = shlex.join(["loiter", *each.words(changes, figure)])
    order = Order(study, each.scale, figure, pool.cpus(), out, command, changes)
    outcome = carry_out(order, engine.load(), console)
    outcome.raise_failures()
    assert outcome.findings is not None
    return outcome.findings


def _point(findings: Findings, name: str) -> Point | None:
    return next((point for point in findings.points if point.id.removeprefix("result.") == name), None)


def _value(findings: Findings, name: str) -> str:
    point = _point(findings, name)
    if point is not None:
        # What only another figure measures has no value here.
        return "" if point.verdict is Verdict.NOT_MEASURED else terminal.ours(point)
    for statement in findings.statements:
        if name in (statement.id, statement.text):
            return {True: "yes", False: "NO", None: ""}[statement.holds]
    return ""


def _shows(before: Findings, after: Findings, name: str) -> str:
    """Whether the change takes the miss away, makes it smaller, or does neither."""
    first, second = _point(before, name), _point(after, name)
    if first is None or second is None:
        return CAUSE if _value(after, name) == "yes" else NOT
    if second.verdict is Verdict.WITHIN:
        return CAUSE
    distances = [_distance(point) for point in (first, second)]
    if None in distances:
        return NOT
    was, is_now = (distance or 0.0 for distance in distances)
    return PART if is_now < was * (1 - _NEARER) else NOT


def _distance(point: Point) -> float | None:
    aim = point.limit.value if point.limit is not None else point.published
    if isinstance(point.ours, str) or isinstance(aim, str) or point.ours is None:
        return None
    return abs(point.ours - aim)


def differences(each: Experiment, found: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What a new run gave otherwise than is recorded."""
    return [
        f"{each.command}: {kind} {name} is {value}, recorded was {each.value(kind, name) or 'nothing'}"
        for kind, values in found.items()
        for name, value in values.items()
        if each.value(kind, name) != value
    ]


def record(text: str, index: int, found: Mapping[str, Mapping[str, str]]) -> str:
    """The file's text with what an experiment gave."""
    document = tomlkit.parse(text)
    recorded = tomlkit.table()
    recorded["sources"] = sources()
    for kind, values in found.items():
        inline = tomlkit.inline_table()
        inline.update(values)
        recorded[kind] = inline
    experiments: Any = document["experiment"]
    experiments[index]["recorded"] = recorded
    return tomlkit.dumps(document)


def outdated(experiments: Iterable[Experiment]) -> list[str]:
    """Experiments that ran with other sources: not wrong by that, but to be run again before a release."""
    present = sources()
    return [each.command for each in experiments if each.recorded.get("sources") not in (None, present)]
