"""What runs on Linux say: throughput, which functions take the time, and how much of it those that take locks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from loiter import reference
from loiter.profiles import Function
from loiter.results import Result
from loiter.runs.linux import FUNCTIONS
from loiter.studies.base import Curves, Grid, Point, Statement, Tolerance, judged
from loiter.studies.boyd2012 import grid
from loiter.studies.boyd2012.findings import KEPT, Curve, Judgement
from loiter.studies.boyd2012.grid import CORES, PAPER
from loiter.studies.boyd2012.linux import EXIM, KERNELS, LINUX_SCALES, PROFILED, TICKETS, Kernel, Run, Workload, counts

LOCKS = re.compile(
    r"_raw_(spin|read|write)_(try)?lock|queued_(spin|read|write)_lock|lockref_|osq_lock|(__)?mutex_(try)?lock|"
    r"mutex_spin|mutex_optimistic|rwsem_|down_(read|write)|__down_"
)
"""Functions that take locks, or counts with a lock beside them (lockref), by how their names begin."""
IDLE = "arch_cpu_idle"

LISTED = len(reference.lookup(grid.REFERENCE, f"{PAPER}.profile_{CORES}_cores_percent"))
"""Functions in such a profile."""
THIRD = 100 / 3


class LinuxRuns:
    """The results of a scale."""

    def __init__(self, results: Mapping[str, Result], scale: str) -> None:
        self._results, self.scale = results, LINUX_SCALES[scale]

    def pieces(self, run: Run) -> int:
        """How many pieces of work ended in the window."""
        result = self._results[run.label]
        window = result.manifest["phases"][-1]
        ends = (mark["cycle"] for mark in result.rows("marks") if mark["kind"] == "work_end")
        return sum(window["begin_cycle"] <= cycle < window["end_cycle"] for cycle in ends)

    def throughput(self, run: Run) -> float:
        """Operations in a million cycles."""
        window = self._results[run.label].manifest["phases"][-1]
        operations = self.pieces(run) / run.workload.pieces
        return float(1e6 * operations / (window["end_cycle"] - window["begin_cycle"]))

    def per_second(self, run: Run) -> float:
        """Operations in a second of the guest."""
        return float(self.throughput(run) * self._results[run.label].manifest["clock_mhz"])

    def shares(self, run: Run) -> dict[str, float]:
        """Each function's percentage of the time in which cores are not idle, the greatest first."""
        found = [Function(**each) for each in json.loads((self._results[run.label].path / FUNCTIONS).read_text())]
        busy = [each for each in found if each.name != IDLE]
        total = sum(each.cycles for each in busy)
        return {each.name: 100 * each.cycles / total for each in busy}

    def locking(self, run: Run) -> float:
        """The percentage of functions that take locks."""
        return sum(share for name, share in self.shares(run).items() if LOCKS.match(name))

    def top(self, run: Run) -> tuple[str, float]:
        """Of these the one with the greatest share, and that."""
        return next((pair for pair in self.shares(run).items() if LOCKS.match(pair[0])), ("none", 0.0))

    def curve(self, workload: Workload, kernel: Kernel) -> Curve:
        """Throughput by number of cores."""
        return {n: self.throughput(Run(workload, kernel, n)) for n in counts(self.scale, workload)}

    def row(self, run: Run) -> dict[str, Any]:
        """One line of the study's own table."""
        function, share = self.top(run)
        facts = {"run": run.label, "lock": run.kernel.name, "cores": run.cores, "workload": run.workload.name}
        return facts | {
            "pieces": self.pieces(run),
            "operations_per_1000000_cycles": self.throughput(run),
            "lock_functions_percent": self.locking(run),
            "lock_function": function,
            "lock_function_percent": share,
        }


def curves(found: LinuxRuns, workload: Workload) -> list[Curves]:
    """Throughput, and the share of the time in lock functions, of each kernel."""
    numbers = counts(found.scale, workload)
    runs = {(kernel.name, n): Run(workload, kernel, n) for kernel in KERNELS for n in numbers}
    labels: dict[tuple[str, float], str] = {key: run.label for key, run in runs.items()}
    rates = {kernel.name: list(found.curve(workload, kernel).items()) for kernel in KERNELS}
    shares = {kernel.name: [(n, found.locking(runs[kernel.name, n])) for n in numbers] for kernel in KERNELS}
    of_time = "Of the time in which cores are not idle."
    return [
        Curves(workload.name, workload.title, "", "cores", workload.unit, rates, runs=labels),
        Curves(
            f"{workload.name}-locks",
            f"{workload.title}: time in lock functions",
            of_time,
            "cores",
            "%",
            shares,
            runs=labels,
        ),
    ]


def summary(found: LinuxRuns, workload: Workload) -> Grid:
    """By number of cores: throughput, the share of lock functions, and the one with the most."""
    rows = []
    for n in counts(found.scale, workload):
        cells = [str(n)]
        for kernel in KERNELS:
            run = Run(workload, kernel, n)
            function, share = found.top(run)
            cells += [f"{found.throughput(run):,.2f}", f"{found.locking(run):.1f}", f"{function}, {share:.1f}"]
        rows.append(tuple(cells))
    columns = ["cores"]
    for kernel in KERNELS:
        columns += [f"{kernel.name}: {workload.operation}", "in lock functions, %", "most of it in, %"]
    caption = (
        f"{workload.operation.capitalize()} in a million cycles. Shares are of the time in which cores are not idle."
    )
    return Grid(f"{workload.name}-table", workload.title, caption, tuple(columns), tuple(rows))


def profiles(found: LinuxRuns) -> Grid:
    """The first functions of Exim's profiles, beside those of the paper."""
    columns = []
    for n in PROFILED:
        published = reference.lookup(grid.REFERENCE, f"{PAPER}.profile_{n}_cores_percent")
        columns.append([f"{name}, {share:.1f}" for name, share in published.items()])
        ours = list(found.shares(Run(EXIM, TICKETS, n)).items())[:LISTED]
        columns.append([f"{name}, {share:.1f}" for name, share in ours])
    heads = tuple(f"{n} cores, {whose}" for n in PROFILED for whose in ("published", "ours"))
    caption = (
        "Functions with the greatest share of the time, in percent; published: Exim on Linux 2.6.35, ours on 6.12."
    )
    return Grid(
        "profiles", "Profiles of Exim, ticket locks", caption, heads, tuple(zip(*columns, strict=True)), len(heads)
    )


def points(found: LinuxRuns | None, source: str) -> list[Point]:
    """What the reference file has of Exim. Without runs, they are not measured."""
    before, after = (Run(EXIM, TICKETS, n) for n in PROFILED)
    ours: dict[str, Any] = {}
    if found is not None:
        function, share = found.top(after)
        rates = {run: found.per_second(run) for run in (before, after)}
        ours = {
            "exim_case.throughput_48_over_40": rates[after] / rates[before] if rates[before] else None,
            "exim.cores_40_msgs_per_s": rates[before],
            "exim.cores_48_msgs_per_s": rates[after],
            "exim.top_function_at_48": function,
            "exim.top_share_percent": share,
        }
    units = {
        "exim_case.throughput_48_over_40": "ratio",
        "exim.cores_40_msgs_per_s": "messages/s",
        "exim.cores_48_msgs_per_s": "messages/s",
        "exim.top_function_at_48": "function",
        "exim.top_share_percent": "percent",
    }
    note = "our messages are three processes each, on Linux 6.12"
    published = {key: reference.lookup(grid.REFERENCE, f"{PAPER}.{key}") for key in units}
    return [
        Point(f"{PAPER}.{key}", unit, ours.get(key), published[key], source, note, Tolerance(10, relative=True))
        for key, unit in units.items()
    ]


def total(found: LinuxRuns) -> Judgement:
    """Exim with all cores has lost more than a tenth of its best."""
    curve = found.curve(EXIM, TICKETS)
    best = max(curve, key=lambda n: curve[n])
    told = f"{EXIM.unit}: best {curve[best]:.2f} with {best} cores"
    told += "".join(f"; {curve[n]:.2f} with {n}" for n in PROFILED)
    return curve[CORES] < KEPT * curve[best], told


def visible(found: LinuxRuns) -> Judgement:
    """The function that takes most of Exim's time with all cores takes a lock and has a third; with fewer cores, one is
    enough, it is not in a list as long as the paper's."""
    curve = found.curve(EXIM, TICKETS)
    run = Run(EXIM, TICKETS, CORES)
    function, share = found.top(run)
    fewer = [n for n in curve if n < CORES and function not in list(found.shares(Run(EXIM, TICKETS, n)))[:LISTED]]
    shares = {n: found.shares(Run(EXIM, TICKETS, n)).get(function, 0.0) for n in curve}
    told = f"{function} by cores, in percent: " + ", ".join(f"{n}: {each:.1f}" for n, each in shares.items())
    told += f"; not among the first {LISTED} with {', '.join(map(str, fewer)) or 'any'}"
    return bool(fewer) and share >= THIRD and next(iter(found.shares(run))) == function, told


JUDGES: dict[str, Callable[[LinuxRuns], Judgement]] = {
    "statements.collapse_total": total,
    "statements.collapse_visible": visible,
}
"""Rules of statements that are about Exim, by key of the reference file."""


def statements(found: LinuxRuns, exhibit: str | None) -> list[Statement]:
    """All of them; those of other exhibits are named as not measured."""
    return [judged(key, _text(key), exhibit, (EXIM.name,), partial(rule, found)) for key, rule in JUDGES.items()]


def unmeasured(note: str) -> list[Statement]:
    """The same without runs."""
    return [Statement(_text(key), None, note, key) for key in JUDGES]


def _text(key: str) -> str:
    return str(reference.lookup(grid.REFERENCE, key))
