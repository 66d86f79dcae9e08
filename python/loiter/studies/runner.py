"""Carries out a study: plan, reuse what is stored, run the rest, evaluate, write everything down."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from loiter import tables
from loiter.engine import Engine
from loiter.errors import Interrupted, RunFault
from loiter.machines import Machine
from loiter.results import Result
from loiter.runs import pool
from loiter.runs.progress import Display, Estimate
from loiter.runs.worker import Job
from loiter.store import Store, save_bytes, save_text
from loiter.studies.base import Findings, Study
from loiter.studies.changes import NONE, Changes


@dataclass(frozen=True)
class Outcome:
    """A study that was carried out: its findings and the files it wrote."""

    findings: Findings
    files: tuple[Path, ...]


@dataclass(frozen=True)
class Order:
    """What a person asked for."""

    study: Study
    scale: str
    exhibit: str | None
    workers: int
    out: Path
    command: str
    changes: Changes = NONE


def carry_out(order: Order, engine: Engine, console: Console) -> Outcome:
    """Runs what is missing and writes the report. Raises when a run failed; finished runs are kept."""
    jobs = order.changes.apply(engine, order.study.plan(engine, order.scale, order.exhibit))
    store = Store(order.out / "runs")
    results = _run(order, jobs, store, engine, console)
    with console.status("writing the report"):
        findings = order.study.evaluate(results, order.scale, order.exhibit)
        if order.changes:
            findings = replace(findings, warnings=[order.changes.warning(), *findings.warnings])
        files = _write(order, findings, results, jobs, engine)
    return Outcome(findings, tuple(files))


def points_json(findings: Findings, changes: Changes) -> str:
    """The published and measured points, for other programs. What was changed of the study stands first."""
    changed = {"changed": changes.options()} if changes else {}
    return json.dumps(changed | {"points": [point.json() for point in findings.points]}, indent=2) + "\n"


def _run(order: Order, jobs: Sequence[Job], store: Store, engine: Engine, console: Console) -> dict[str, Result]:
    found = {job.label: store.find(job.label, job.request.key(engine)) for job in jobs}
    missing = [job for job in jobs if found[job.label] is None]
    workers = max(1, min(order.workers, len(missing)))
    estimate = Estimate(sum(job.weight for job in missing), workers)
    display = Display(console, len(missing), len(jobs) - len(missing), estimate)
    try:
        with display:
            failures = pool.execute(missing, store, engine, display, workers)
    except Interrupted:
        raise Interrupted(f"interrupted. {_kept(jobs, store, engine)}") from None
    except RunFault as fault:
        raise type(fault)(f"{fault}\n{_kept(jobs, store, engine)}") from None
    if failures:
        one = len(failures) == 1
        text = f"{'a run' if one else f'{len(failures)} runs'} failed: " + ", ".join(each.label for each in failures)
        worst = max((each.fault for each in failures), key=lambda fault: fault.exit_status)
        raise type(worst)(f"{text}. {_kept(jobs, store, engine)}")
    results = {job.label: _stored(store, job, engine) for job in jobs}
    store.supersede({label: result.path for label, result in results.items()})
    return results


def _kept(jobs: Sequence[Job], store: Store, engine: Engine) -> str:
    done = sum(store.path(job.label, job.request.key(engine)).is_dir() for job in jobs)
    return f"{done} of {len(jobs)} runs are finished and kept in {store.root}; the same command goes on from there."


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
    html = page.render(order.study, findings, pictures, provenance, results)
    texts = {"report.html": html}
    if findings.points:
        texts |= {"points.json": points_json(findings, order.changes), "points.md": markdown.render(findings)}
    for name, text in texts.items():
        save_text(order.out / name, text)
        files.append(order.out / name)
    table = order.out / "runs.parquet"
    save_bytes(table, tables.encode(tables.of_rows(findings.rows)))
    return [*files, table]


def _machines(jobs: Sequence[Job]) -> list[Machine]:
    return list({job.request.machine.hash: job.request.machine for job in jobs}.values())
