"""Figures 4.2 and 4.3: how fast spin threads and useful ones are, and what removing the spinning gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loiter.counts import TABLES, Counts
from loiter.engine import Engine
from loiter.runs.worker import Job
from loiter.studies.base import Chart, Exhibit, Grid, Point
from loiter.studies.redstone2002 import idle, kernel_tables
from loiter.studies.redstone2002 import kernel_spin as kernel
from loiter.studies.redstone2002.common import (
    ABOUT,
    RATIO,
    SHARE,
    SOURCE,
    Part,
    Run,
    Runs,
    Spec,
    gain_percent,
    mean,
    repeated_bars,
)

_FIGURE_2, _FIGURE_3 = f"{SOURCE}, Figure 4.2", f"{SOURCE}, Figure 4.3"
_APACHE = "kernelmix on Linux for Apache on Digital Unix"
_AT_HALF = f"{_APACHE}; ours at {kernel.COMPARED_CYCLES} cycles, where half of all instructions spin as at 300 there"
_FOURS = ("multi4a", "multi4b")


def _spec(key: str, unit: str = "percent", note: str = "") -> Spec:
    figure = _FIGURE_2 if key.startswith("figure_4_2") else _FIGURE_3
    tolerance = {"percent": SHARE}.get(unit, RATIO)
    return Spec(key, unit, figure, tolerance, note)


_SPIN, _IDLE = ("spinning", "acquiring"), ("idle_polling",)


def _cycles_percent(run: Run, activities: Sequence[str]) -> float:
    return 100 * run.context_cycles(activities=activities) / run.context_cycles()


def _instructions_percent(run: Run, activities: Sequence[str]) -> float:
    return 100 * run.instructions(activities=activities) / run.instructions()


def _thread_ipc(run: Run, activities: Sequence[str]) -> float:
    """By context-cycle of these activities; 0 where there are none."""
    cycles = run.context_cycles(activities=activities)
    return run.instructions(activities=activities) / cycles if cycles else 0.0


_OTHERS = ("user", "kernel", "machine", "interrupt")


def _columns(scale: str) -> dict[str, tuple[list[str], Sequence[str]]]:
    """By column of the figure: labels of the boots of its run, and what spins there."""
    found: dict[str, tuple[list[str], Sequence[str]]] = {}
    for constant in kernel.constants(scale):
        cell = kernel.Cell(kernel.BASE, constant, kernel.SPIN)
        found[f"locks, {constant} cycles"] = ([boot.label for boot in cell.boots()], _SPIN)
    for name in idle.workloads_of(scale):
        found[f"idle, {name}"] = ([idle.Cell(name, idle.POLL).label], _IDLE)
    return found


class Figure42:
    """See `loiter.studies.redstone2002.common.Measures`."""

    exhibit = Exhibit("figure_4_2", "Figure 4.2: per-thread IPC of spin and useful threads, and their shares")

    def plan(self, engine: Engine, scale: str) -> list[Job]:
        """The runs with spinning of `kernel_spin` and `idle`."""
        cells = [cell for cell in kernel.cells(scale) if cell.configuration == kernel.BASE and cell.way == kernel.SPIN]
        polling = [idle.Cell(name, idle.POLL) for name in idle.workloads_of(scale)]
        return [
            *(kernel_tables.job(engine, scale, cell) for cell in cells),
            *(idle.job(engine, scale, cell) for cell in polling),
        ]

    def evaluate(self, runs: Runs, scale: str) -> Part:
        """The figure as a table and two charts, and what the text says of it."""
        points = [*_lock_points(runs), *_idle_points(runs, idle.workloads_of(scale))]
        return Part(points=points, grids=[_figure_2_grid(runs, scale)], charts=_figure_2_charts(runs, scale))

    def unmeasured(self, note: str) -> Part:
        """Without a run."""
        points = [*_lock_points({}), *_idle_points({}, [])]
        return Part(points=[replace(point, note=note) for point in points])


def _over(spec: Spec, values: Sequence[float]) -> Point:
    return spec.over(values) if values else spec.point(None, "not in this scale")


def _lock_points(runs: Runs) -> list[Point]:
    most = kernel.Cell(kernel.BASE, kernel.PUBLISHED_CYCLES[-1], kernel.SPIN)
    ratio = kernel.metric("lock_ipc_ratio")
    useful = [kernel.each(runs, cell, lambda run: _thread_ipc(run, _OTHERS)) for cell in (kernel.WITHOUT, kernel.HALF)]
    rise = _spec("figure_4_2.useful_ipc_rise_percent", note=_AT_HALF)
    shares = "figure_4_2.lock_spin_instructions_percent"
    routines = f"{_APACHE}; all that routines which take a spin lock execute, successes included"
    return [
        _over(_spec(f"{shares}.0", note=routines), kernel.each(runs, kernel.WITHOUT, kernel.routine_percent)),
        _over(_spec(f"{shares}.300", note=routines), kernel.each(runs, most, kernel.routine_percent)),
        _over(_spec("figure_4_2.lock_ipc_ratio.0", "ratio", _APACHE), kernel.each(runs, kernel.WITHOUT, ratio)),
        _over(_spec("figure_4_2.lock_ipc_ratio.300", "ratio", _AT_HALF), kernel.each(runs, kernel.HALF, ratio)),
        rise.point(gain_percent(mean(useful[0]), mean(useful[1])))
        if all(useful)
        else rise.point(None, "not in this scale"),
    ]


def _idle_points(runs: Runs, workloads: list[str]) -> list[Point]:
    found: dict[Spec, float | None] = {
        _spec("figure_4_2.idle_cycles_percent_one_program", note="newlisp beside seven idle contexts"): None,
        _spec("figure_4_2.multi7_idle_instructions_percent", note="one idle context beside seven programs"): None,
        _spec("figure_4_2.idle_ipc_ratio.one_idle", "ratio", "beside seven programs"): None,
        _spec("figure_4_2.idle_ipc_ratio.seven_idle_with_li", "ratio", "beside newlisp"): None,
    }
    one, instructions, ratio, ratio_of_seven = found
    if "li" in workloads:
        cell = idle.Cell("li", idle.POLL)
        found[one] = _cycles_percent(runs[cell.label], _IDLE)
        found[ratio_of_seven] = idle.idle_ipc(runs, cell) / idle.program_ipc(runs, cell)
    if "multi7" in workloads:
        cell = idle.Cell("multi7", idle.POLL)
        found[instructions] = idle.idle_percent(runs, cell)
        found[ratio] = idle.idle_ipc(runs, cell) / idle.program_ipc(runs, cell)
    return [spec.point(value, "" if value is not None else "not in this scale") for spec, value in found.items()]


_HEADS = ("spin IPC", "useful IPC", "instructions that spin, %", "context-cycles that spin, %")


def _row(run: Run, spins: Sequence[str]) -> tuple[float, ...]:
    return (
        _thread_ipc(run, spins),
        _thread_ipc(run, _OTHERS),
        _instructions_percent(run, spins),
        _cycles_percent(run, spins),
    )


def _figure_2_grid(runs: Runs, scale: str) -> Grid:
    rows = []
    for name, (labels, spins) in _columns(scale).items():
        found = [_row(runs[label], spins) for label in labels if label in runs]
        rows.append((name, *(f"{mean(values):.2f}" for values in zip(*found, strict=True))))
    caption = (
        "smt8; IPCs are per thread, by context-cycle. With locks, spinning is all that routines which take a spin lock "
        "execute, and useful what is neither there nor idle; beside programs, spinning is polling for work."
    )
    return Grid("figure_4_2", "Figure 4.2: spin and useful threads", caption, ("", *_HEADS), tuple(rows))


_PUBLISHED_SHARES = {
    ("locks, 0 cycles", _HEADS[2]): "figure_4_2.lock_spin_instructions_percent.0",
    ("locks, 300 cycles", _HEADS[2]): "figure_4_2.lock_spin_instructions_percent.300",
    ("idle, multi7", _HEADS[2]): "figure_4_2.multi7_idle_instructions_percent",
    ("idle, li", _HEADS[3]): "figure_4_2.idle_cycles_percent_one_program",
    ("idle, compress", _HEADS[3]): "figure_4_2.idle_cycles_percent_one_program",
}


def _figure_2_charts(runs: Runs, scale: str) -> list[Chart]:
    columns = _columns(scale)
    note = "Means; error bars are one standard deviation, where a system was booted several times."

    def values(runs: Runs, column: tuple[list[str], Sequence[str]], head: str) -> list[float]:
        labels, spins = column
        return [_row(runs[label], spins)[_HEADS.index(head)] for label in labels if label in runs]

    return [
        repeated_bars(name, f"smt8, Figure 4.2: {what}", unit, columns, heads, values, note, runs, _PUBLISHED_SHARES)
        for name, what, unit, heads in (
            ("figure_4_2_ipc", "IPC of a spin thread and of a useful one", "instructions a context-cycle", _HEADS[:2]),
            ("figure_4_2_shares", "shares of spinning", "percent", _HEADS[2:]),
        )
    ]


class Figure43:
    """See `loiter.studies.redstone2002.common.Measures`."""

    exhibit = Exhibit("figure_4_3", "Figure 4.3: useful IPC with spinning and without, and the gain")

    def plan(self, engine: Engine, scale: str) -> list[Job]:
        """The runs with spinning of `kernel_spin` and `idle`, and those that block in hardware."""
        ways = (kernel.SPIN, kernel.HARDWARE)
        cells = [cell for cell in kernel.cells(scale) if cell.configuration == kernel.BASE and cell.way in ways]
        beside = [idle.Cell(name, way) for name in idle.workloads_of(scale) for way in (idle.POLL, idle.HARDWARE)]
        return [
            *(kernel_tables.job(engine, scale, cell) for cell in cells),
            *(idle.job(engine, scale, cell) for cell in beside),
        ]

    def evaluate(self, runs: Runs, scale: str) -> Part:
        """The figure as a table and a chart, and what the text says of it."""
        points = _gain_points(runs, idle.workloads_of(scale))
        return Part(points=points, grids=[_figure_3_grid(runs, scale)], charts=[_figure_3_chart(runs, scale)])

    def unmeasured(self, note: str) -> Part:
        """Without a run."""
        return Part(points=[replace(point, note=note) for point in _gain_points({}, [])])


def drop_percent(runs: Runs, workload: str, name: str) -> float:
    """How much lower a metric is when idle contexts block."""
    polls, blocks = (runs[idle.Cell(workload, way).label].metrics.get(name, 0.0) for way in (idle.POLL, idle.HARDWARE))
    return 100 * (1 - blocks / polls) if polls else 0.0


def useful_misses(run: Run) -> float:
    """Misses of useful loads, by useful instruction."""
    counts = Counts({name: run.result.rows(name) for name in TABLES})
    return counts.counter("load_misses", "useful") / run.instructions(activities=("acquiring", *_OTHERS))


def _by_idle_loop(runs: Runs, workload: str) -> float:
    """Misses of useful loads that go when the idle loop goes, of those beside it."""
    polls, blocks = (useful_misses(runs[idle.Cell(workload, way).label]) for way in (idle.POLL, idle.HARDWARE))
    return 100 * (1 - blocks / polls) if polls else 0.0


def _gain_points(runs: Runs, workloads: list[str]) -> list[Point]:
    found: dict[Spec, float | None] = {}

    def add(spec: Spec, needs: Sequence[str], value: float | None) -> None:
        found[spec] = value if runs and all(name in workloads for name in needs) else None

    def gain(name: str) -> float:
        return (idle.speedup(runs, name) - 1) * 100

    def useful(name: str, way: str = idle.HARDWARE) -> float:
        return idle.useful_ipc(runs, idle.Cell(name, way))

    has = all(name in workloads for name in _FOURS) and bool(runs)
    for name, ours in (("li", "newlisp for li"), ("compress", "ncompress for compress")):
        spec = replace(
            _spec(f"figure_4_3.idle_speedup.{name}", "ratio", f"published as about; {ours}"), tolerance=ABOUT
        )
        add(spec, [name], idle.speedup(runs, name) if name in workloads else None)
    fours = "average of both groups of four"
    add(
        _spec("figure_4_3.idle_gain_percent.multi4_average", note=fours),
        _FOURS,
        mean(map(gain, _FOURS)) if has else None,
    )
    without = _spec("figure_4_3.useful_ipc_without_spinning.multi4_average", "instructions/cycle", fours)
    add(without, _FOURS, mean(map(useful, _FOURS)) if has else None)
    share = _spec("figure_4_3.multi4_idle_instructions_percent", note=fours)
    polling = [idle.Cell(name, idle.POLL) for name in _FOURS]
    add(share, _FOURS, mean(idle.idle_percent(runs, cell) for cell in polling) if has else None)
    worst = _spec("figure_4_3.degradation_max_percent", note="of all workloads beside idle contexts")
    lost = [100 * (1 - 1 / idle.speedup(runs, name)) for name in workloads]
    add(worst, list(idle.WORKLOADS), max(lost) if lost else None)
    for key, note, of in (
        ("useful_l1d_misses_by_idle_loop_percent", "loads; what goes with the idle loop", _by_idle_loop),
        (
            "idle_share_of_full_iq_percent",
            "",
            lambda runs, name: runs[idle.Cell(name, idle.POLL).label].metrics["full_queue_idle_percent"],
        ),
        (
            "l1d_miss_drop_percent",
            "of the share that misses, of all accesses",
            lambda runs, name: drop_percent(runs, name, "l1d_miss_percent"),
        ),
        (
            "iq_backup_drop_percent",
            "of the share of cycles",
            lambda runs, name: drop_percent(runs, name, "iq_backup_percent"),
        ),
    ):
        spec = _spec(f"figure_4_3.multi4b.{key}", note=note)
        add(spec, ["multi4b"], of(runs, "multi4b") if "multi4b" in workloads else None)
    points = [spec.point(value, "" if value is not None else "not in this scale") for spec, value in found.items()]
    gains = kernel.gains(runs, kernel.WITHOUT)
    spec = _spec("figure_4_3.lock_gain_percent.0", note=_APACHE)
    if not gains:
        return [*points, spec.point(None, "not in this scale")]
    return [*points, replace(spec.over(gains), ours=kernel.gain(runs, kernel.WITHOUT))]


def _pairs(scale: str) -> dict[str, tuple[list[str], list[str]]]:
    """By column: labels of runs that spin, and of those that block."""
    found = {}
    for constant in kernel.constants(scale):
        boots = kernel.Cell(kernel.BASE, constant, kernel.SPIN).boots()
        blocking = [boot.by(kernel.HARDWARE).label for boot in boots]
        found[f"locks, {constant} cycles"] = ([boot.label for boot in boots], blocking)
    for name in idle.workloads_of(scale):
        found[f"idle, {name}"] = tuple([idle.Cell(name, way).label] for way in (idle.POLL, idle.HARDWARE))  # type: ignore[assignment]
    return found


_SPINS, _BLOCKS = "spin", "block"


def _useful(runs: Runs, labels: Sequence[str]) -> list[float]:
    return [runs[label].metrics["useful_ipc"] for label in labels if label in runs]


def _figure_3_grid(runs: Runs, scale: str) -> Grid:
    rows = []
    for name, (spinning, blocking) in _pairs(scale).items():
        with_it, without = mean(_useful(runs, spinning)), mean(_useful(runs, blocking))
        rows.append((name, f"{with_it:.2f}", f"{without:.2f}", f"{gain_percent(with_it, without):.1f}"))
    caption = "smt8. Useful IPC of all contexts together: instructions that neither wait for a lock nor poll, by cycle."
    return Grid(
        "figure_4_3", "Figure 4.3: removing the spinning", caption, ("", "spins", "blocks", "gain, %"), tuple(rows)
    )


def _figure_3_chart(runs: Runs, scale: str) -> Chart:
    note = "Means; error bars are one standard deviation, where a system was booted several times."

    def values(runs: Runs, pair: tuple[list[str], list[str]], way: str) -> list[float]:
        return _useful(runs, pair[0] if way == _SPINS else pair[1])

    title = "smt8, Figure 4.3: useful IPC with spinning and without"
    unit, ways = "instructions a cycle", (_SPINS, _BLOCKS)
    published = {("locks, 300 cycles", _BLOCKS): "figure_4_3.useful_ipc_without_spinning.apache_300"}
    return repeated_bars("figure_4_3", title, unit, _pairs(scale), ways, values, note, runs, published)
