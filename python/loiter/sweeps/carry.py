"""Carries out a sweep: what is there is found, what is missing is run, and every point has its row."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from loiter.engine import Engine, Json
from loiter.errors import Fault
from loiter.runs.pool import Ledger
from loiter.runs.worker import ATTEMPTS, Job
from loiter.store import Store
from loiter.sweeps import sweep, table
from loiter.sweeps.sweep import Plan, Point

if TYPE_CHECKING:
    import pandas as pd


class Executor(Protocol):
    """What carries runs out, whose results are in the store then."""

    def __call__(self, jobs: Sequence[Job], reused: int) -> Ledger:
        """Runs the jobs; `reused` are there already, for the display. Returns what became of them."""
        ...


def carry_out(plan: Plan, engine: Engine, store: Store, execute: Executor, earlier: Mapping[str, Json]) -> pd.DataFrame:
    """A row for every point of the plan. `earlier` has rows of points by key that need not be looked at again."""
    points = list(sweep.points(plan))
    keys = [None if point.request is None else point.request.key(engine) for point in points]
    by_key = {key: point for key, point in zip(keys, points, strict=True) if key is not None}
    found: dict[str, Json] = {key: dict(earlier[key]) for key in by_key if key in earlier}
    missing: dict[str, Job] = {}
    for key, point in by_key.items():
        if key in found:
            continue
        result = store.find("", key)
        if result is None:
            missing[key] = _job(point)
        else:
            found[key] = _row_of(result.path, table.measured(result))
    reused = len(by_key) - len(missing)
    failures: dict[str, Fault] = {}
    if missing:
        ledger = execute(list(missing.values()), reused)
        failed = {failure.label: failure.fault for failure in ledger.failures}
        for key, job in missing.items():
            measured = ledger.measured.get(job.label)
            if measured is not None:
                found[key] = _row_of(store.path(job.label, key), measured)
            else:
                failures[key] = failed.get(job.label, Fault("its result was removed by someone else; run it again"))
    rows = [_row(point, key, found, failures) for key, point in zip(keys, points, strict=True)]
    return table.frame(rows, [axis.key for axis in plan.grid.axes])


def _job(point: Point) -> Job:
    assert point.request is not None
    return Job(label(point.values), point.request, attempts=ATTEMPTS, measure=table.measured)


def label(values: Mapping[str, Any]) -> str:
    """A point as progress and failures name it: who runs on which contexts, arguments, and what of a machine is set.
    No two points of a sweep have the same."""
    placed = values.get("place")
    words = [f"{key.removeprefix('argument.')}={value}" for key, value in values.items() if key != "place"]
    if isinstance(placed, Mapping):
        words = [*(f"{task} {_contexts(on)}" for task, on in placed.items()), *words]
    elif placed is not None:
        words.append(f"place={placed}")
    return ", ".join(words)


def _contexts(on: int | str | Sequence[int | str]) -> str:
    """One as it is; many numbers that are equally far from one another by the first two and the last."""
    if isinstance(on, int | str):
        return str(on)
    numbers = [each for each in on if isinstance(each, int)]
    if 3 < len(numbers) == len(on) and len({each - before for before, each in itertools.pairwise(numbers)}) == 1:
        return f"{on[0]},{on[1]},..,{on[-1]}"
    return ",".join(map(str, on))


def _row_of(path: Path, measured: Json) -> Json:
    return measured | {table.RESULT: str(path)}


def _row(point: Point, key: str | None, found: Mapping[str, Json], failures: Mapping[str, Fault]) -> dict[str, Any]:
    fault = point.fault if key is None else failures.get(key)
    measured = {} if key is None else found.get(key, {})
    failed = {} if fault is None else {table.ERROR: str(fault), table.ERROR_STATUS: fault.exit_status}
    return {**measured, **point.values, table.KEY: key, **failed}
