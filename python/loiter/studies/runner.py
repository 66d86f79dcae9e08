"""Carries out a study: plan, reuse what is stored, run the rest, evaluate, write everything down."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from loiter import api, tables
from loiter.engine import Engine, Json
from loiter.errors import Interrupted, RunFault, StoreFault
from loiter.machines import Machine
from loiter.results import Result
from loiter.runs import pool
from loiter.runs.progress import Display, Estimate
from loiter.runs.worker import Job
from loiter.store import SharedStore, Store, StudyStore, save_bytes, save_text
from loiter.studies.base import Findings, Point, Study
from loiter.studies.changes import NONE, Changes

if TYPE_CHECKING:
    import pandas as pd

RUNS = "runs.parquet"


class Results(dict[str, Result]):
    """Results by the label of their run; one that failed is not there, and who needs it is told so."""

    def __missing__(self, label: str) -> Result:
        raise MissingRun(label)


class MissingRun(KeyError):
    """A study cannot be evaluated without this run."""


@dataclass(frozen=True)
class Outcome:
    """A study that was carried out: its findings, if it could be evaluated, its files, the runs that failed."""

    findings: Findings | None
    files: tuple[Path, ...]
    failures: tuple[pool.Failure, ...] = ()
    kept: str = ""
    """What is there of it, in words, where runs failed."""
    changes: Changes = NONE

    @property
    def points(self) -> pd.DataFrame:
        """Every published value and ours: id, unit, ours, published, verdict, source, note."""
        import pandas as pd

        points = [] if self.findings is None else self.findings.points
        rows = [each.json() | {"verdict": each.verdict.value} for each in points]
        columns = ["id", "unit", "ours", "published", "verdict", "source", "note"]
        frame: pd.DataFrame = pd.DataFrame(rows, columns=columns).set_index("id")
        return frame

    @property
    def runs(self) -> pd.DataFrame:
        """The study's own table, `runs.parquet`: a row for each run."""
        import pandas as pd

        (path,) = (path for path in self.files if path.name == RUNS)
        frame: pd.DataFrame = pd.read_parquet(path)
        return frame

    @property
    def points_json(self) -> str:
        """The published and measured points, for other programs. What was changed of the study stands first."""
        return _points_json([] if self.findings is None else self.findings.points, self.changes)

    def raise_failures(self) -> None:
        """Raises the worst fault of the runs that failed, if any did."""
        if not self.failures:
            return
        one = len(self.failures) == 1
        reasons = "\n".join(f"  {each.label}: {str(each.fault).splitlines()[0]}" for each in self.failures)
        worst = max((each.fault for each in self.failures), key=lambda fault: fault.exit_status)
        raise type(worst)(f"{'a run' if one else f'{len(self.failures)} runs'} failed:\n{reasons}\n{self.kept}")


@dataclass(frozen=True)
class Order:
    """What a person has ordered."""

    study: Study
    scale: str
    exhibit: str | None
    workers: int
    out: Path
    command: str
    changes: Changes = NONE


def carry_out(order: Order, engine: Engine, console: Console) -> Outcome:
    """Runs what is missing and writes the report. Where runs failed, the outcome has what the others give."""
    order.changes.check_words()
    jobs = order.changes.apply(engine, order.study.plan(engine, order.scale, order.exhibit))
    store = StudyStore(order.out / "runs", SharedStore(api.store_path()))
    results, failures = _run(order, jobs, store, engine, console)
    with console.status("writing the report"):
        try:
            findings = order.study.evaluate(results, order.scale, order.exhibit)
        except MissingRun:
            if not failures:
                raise
            path = order.out / RUNS
            save_bytes(path, tables.encode(tables.of_rows(_rows(jobs, results, failures))))
            return Outcome(None, (path,), tuple(failures), _kept(jobs, store, engine), order.changes)
        warnings = [order.changes.warning()] if order.changes else []
        warnings += [f"{each.label} failed, and is missing: {each.fault}" for each in failures]
        findings = replace(findings, warnings=[*warnings, *findings.warnings])
        files = _write(order, findings, results, jobs, engine)
    kept = _kept(jobs, store, engine) if failures else ""
    return Outcome(findings, tuple(files), tuple(failures), kept, order.changes)


def _points_json(points: Sequence[Point], changes: Changes) -> str:
    changed = {"changed": changes.options()} if changes else {}
    return json.dumps(changed | {"points": [point.json() for point in points]}, indent=2) + "\n"


def _run(
    order: Order, jobs: Sequence[Job], store: StudyStore, engine: Engine, console: Console
) -> tuple[Results, list[pool.Failure]]:
    found = {job.label: store.find(job.label, job.request.key(engine)) for job in jobs}
    missing = [job for job in jobs if found[job.label] is None]
    workers = max(1, min(order.workers, len(missing)))
    estimate = Estimate(sum(job.weight for job in missing), workers)
    display = Display(console, len(missing), len(jobs) - len(missing), estimate)
    try:
        with display:
            failures = pool.execute(missing, store, engine, display, workers).failures
    except Interrupted:
        raise Interrupted(f"interrupted. {_kept(jobs, store, engine)}") from None
    except RunFault as fault:
        raise type(fault)(f"{fault}\n{_kept(jobs, store, engine)}") from None
    failed = {each.label for each in failures}
    results = Results({job.label: _stored(store, job, engine) for job in jobs if job.label not in failed})
    with contextlib.suppress(StoreFault):  # the study has them; others will run them again
        for job in jobs:
            if job.label in results:
                store.share(job.label, job.request.key(engine))
    store.supersede({label: result.path for label, result in results.items()})
    return results, failures


def _rows(jobs: Sequence[Job], results: Results, failures: Sequence[pool.Failure]) -> list[Json]:
    """What there is to say of each run when the study itself cannot be evaluated: its metrics, or its fault."""
    from loiter import metrics

    faults = {each.label: str(each.fault) for each in failures}
    rows: list[Json] = []
    for job in jobs:
        row: Json = {"run": job.label, "machine": job.request.machine.name, "error": faults.get(job.label)}
        if job.label in results:
            result = results[job.label]
            row |= {"cycles": result.cycles, "instructions": result.instructions, **metrics.columns(metrics.of(result))}
        rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in names} for row in rows]


def _kept(jobs: Sequence[Job], store: Store, engine: Engine) -> str:
    done = sum(store.path(job.label, job.request.key(engine)).is_dir() for job in jobs)
    return f"{done} of {len(jobs)} runs are finished and kept in {store.root}; the same command continues from there."


def _stored(store: Store, job: Job, engine: Engine) -> Result:
    result = store.find(job.label, job.request.key(engine))
    if result is None:
        raise RunFault(f"{job.label}: its result in {store.root} was changed by someone else; run the command again.")
    return result


def _write(
    order: Order, findings: Findings, results: Mapping[str, Result], jobs: Sequence[Job], engine: Engine
) -> list[Path]:
    # Imported here: drawing takes a second to load, and a study that fails needs none of it.
    from loiter import plots
    from loiter.report import markdown, page

    pictures = {chart.id: plots.draw(chart) for chart in findings.charts}
    pictures |= {each.id: plots.draw_figure(each) for each in findings.curves}
    files = []
    for name, kinds in pictures.items():
        for kind, data in kinds.items():
            path = order.out / f"{name}.{kind}"
            save_bytes(path, data)
            if kind == "png":
                files.append(path)
    provenance = page.Provenance(
        command=order.command,
        scale=order.scale,
        native_sha256=engine.sha256,
        guests=list(dict.fromkeys(job.request.guest for job in jobs)),
        machines=_machines(jobs),
    )
    html = page.of_study(order.study, findings, provenance, results)
    texts = {"report.html": html}
    if findings.points or findings.statements:
        texts |= {"points.json": _points_json(findings.points, order.changes), "points.md": markdown.render(findings)}
    for name, text in texts.items():
        save_text(order.out / name, text)
        files.append(order.out / name)
    table = order.out / RUNS
    save_bytes(table, tables.encode(tables.of_rows(findings.rows)))
    return [*files, table]


def _machines(jobs: Sequence[Job]) -> list[Machine]:
    return list({job.request.machine.hash: job.request.machine for job in jobs}.values())
