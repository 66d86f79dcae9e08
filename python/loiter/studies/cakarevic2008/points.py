"""Every published number, and how ours is worked out from the measurements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loiter import reference
from loiter.studies.base import Point, Tolerance, Value
from loiter.studies.cakarevic2008 import grid
from loiter.studies.cakarevic2008.grid import (
    BENCHMARKS,
    LOOPS,
    MULTIPLE,
    OTHER_CORE,
    OTHER_LOOPS,
    OTHER_PIPE,
    SAME,
    SINGLE,
    Cell,
    with_spinners,
)
from loiter.studies.cakarevic2008.measurements import Measurements, NotMeasured

CITATION = "Cakarevic et al., WIOSCA 2008"

SINGLE_POINTS = Tolerance(5)
MULTIPLE_POINTS = Tolerance(10)
EXACT_CPI = Tolerance(2, relative=True)
LOOSE = Tolerance(10, relative=True)

Compute = Callable[[Measurements], Value]


@dataclass(frozen=True)
class Spec:
    """How one published number is measured. `id` is its key path in the reference file."""

    id: str
    unit: str
    compute: Compute
    note: str = ""
    tolerance: Tolerance | None = None
    bound: bool = False
    source: str = f"{CITATION}, text and figures"


def specs() -> list[Spec]:
    """All of them, in the order of the reference file."""
    return [*_spin_loop(), *_cpi_alone(), *_slowdowns("t1"), *_slowdowns("t2"), *_placed_apart(), *_delays()]


def evaluate(measurements: Measurements, absent: str) -> list[Point]:
    """Every point; `absent` says why a number was not measured, given the exhibits that would."""
    return [_point(spec, measurements, absent) for spec in specs()]


def best_delay(
    measurements: Measurements, machine: str, benchmarks: tuple[str, ...] = BENCHMARKS, place: int = 0
) -> str:
    """The loop with the lowest average at three spinners; `place` 1 is the second best. By the data, not by name."""

    def average(loop: str) -> float:
        return measurements.average(with_spinners(machine, SAME, 3, benchmarks, [loop]))

    return sorted(LOOPS, key=average)[place]


def _point(spec: Spec, measurements: Measurements, absent: str) -> Point:
    note = spec.note
    ours: Value | None
    try:
        ours = spec.compute(measurements)
    except NotMeasured as missing:
        ours = None
        exhibits = ", ".join(grid.needed_for(missing.cell))
        note = f"not measured: {absent} (it needs {missing.cell.label}, part of {exhibits})"
    published = reference.lookup(grid.PAPER, spec.id)
    return Point(spec.id, spec.unit, ours, published, spec.source, note, spec.tolerance, spec.bound)


def _average(machine: str, spinners: int, loops: list[str], benchmarks: tuple[str, ...]) -> Compute:
    cells = with_spinners(machine, SAME, spinners, benchmarks, loops)
    return lambda m: m.average(cells)


def _highest(machine: str, spinners: int, loops: list[str], benchmarks: tuple[str, ...]) -> Compute:
    cells = with_spinners(machine, SAME, spinners, benchmarks, loops)
    return lambda m: m.highest(cells)[1]


def _with_best(measurements: Measurements, machine: str) -> list[Cell]:
    return with_spinners(machine, SAME, 3, MULTIPLE, [best_delay(measurements, machine, MULTIPLE)])


def _spin_loop() -> list[Spec]:
    def cpi(machine: str) -> Compute:
        return lambda m: m.spinning(Cell(machine, grid.HOLDER, "default", OTHER_CORE, 1)).cpi

    note = "the default loop by itself in its core, from asking for the lock to getting it"
    return [
        Spec(f"spin_loop.average_cpi.{machine}", "cycles per instruction", cpi(machine), note, EXACT_CPI)
        for machine in grid.MACHINES
    ]


def _cpi_alone() -> list[Spec]:
    def cpi(machine: str, benchmark: str) -> Compute:
        return lambda m: m.timing(Cell(machine, benchmark)).cpi

    return [
        Spec(
            f"active.cpi_alone.{machine}.{benchmark}",
            "cycles per instruction",
            cpi(machine, benchmark),
            tolerance=EXACT_CPI if benchmark in SINGLE else LOOSE,
            source=f"{CITATION}, Table II",
        )
        for machine in grid.MACHINES
        for benchmark in reference.lookup(grid.PAPER, f"active.cpi_alone.{machine}")
    ]


def _slowdowns(machine: str) -> list[Spec]:
    """Spinners in the same core (T1) or pipe (T2)."""
    percent = "percent"
    default = ["default"]
    found = [
        Spec(f"result.{machine}_default_1_spinner_all_average", percent, _average(machine, 1, default, BENCHMARKS)),
        Spec(f"result.{machine}_default_3_spinners_all_average", percent, _average(machine, 3, default, BENCHMARKS)),
    ]
    if machine == "t1":
        found += _t1_only(percent, default)
    best = "with the loop that has the lowest average over these benchmarks by our measurements"
    found += [
        Spec(f"result.{machine}_default_3_spinners_multiple_average", percent, _average(machine, 3, default, MULTIPLE)),
        Spec(f"result.{machine}_default_3_spinners_multiple_max", percent, _highest(machine, 3, default, MULTIPLE)),
        Spec(
            f"result.{machine}_best_3_spinners_multiple_average",
            percent,
            lambda m: m.average(_with_best(m, machine)),
            best,
        ),
        Spec(
            f"result.{machine}_best_3_spinners_multiple_max",
            percent,
            lambda m: m.highest(_with_best(m, machine))[1],
            best,
        ),
    ]
    return [_with_tolerance(spec) for spec in found]


def _t1_only(percent: str, default: list[str]) -> list[Spec]:
    others = list(OTHER_LOOPS)
    return [
        Spec("result.t1_default_1_spinner_single_average", percent, _average("t1", 1, default, SINGLE)),
        Spec("result.t1_default_1_spinner_add", percent, _average("t1", 1, default, ("add",))),
        Spec("result.t1_default_1_spinner_multiple_average", percent, _average("t1", 1, default, MULTIPLE)),
        Spec(
            "result.t1_other_1_spinner_each_average_below",
            percent,
            lambda m: max(m.average(with_spinners("t1", SAME, 1, loops=[loop])) for loop in OTHER_LOOPS),
            "published as an upper bound; ours is the highest of the four loops' averages over all benchmarks",
            bound=True,
        ),
        Spec("result.t1_fdiv_1_spinner_mbv_fp", percent, _average("t1", 1, ["fdiv"], ("mbv_fp",))),
        Spec("result.t1_default_3_spinners_single_average", percent, _average("t1", 3, default, SINGLE)),
        Spec(
            "result.t1_other_3_spinners_single_average",
            percent,
            _average("t1", 3, others, SINGLE),
            "average over the four loops other than the default",
        ),
    ]


def _with_tolerance(spec: Spec) -> Spec:
    if spec.bound:
        return spec
    name = spec.id
    tolerance = SINGLE_POINTS if "_single_" in name or name.endswith("_add") else MULTIPLE_POINTS
    return Spec(spec.id, spec.unit, spec.compute, spec.note, tolerance, spec.bound, spec.source)


def _placed_apart() -> list[Spec]:
    def other_pipe(m: Measurements) -> float:
        return max(m.average(with_spinners("t2", OTHER_PIPE, 4, loops=[loop])) for loop in LOOPS)

    return [
        Spec(
            "result.t2_l2miss_3_spinners_average_below",
            "percent",
            _average("t2", 3, ["l2miss"], BENCHMARKS),
            "published as an upper bound; ours is the average over all benchmarks",
            bound=True,
        ),
        Spec(
            "result.t2_other_pipe_4_spinners_each_average_below",
            "percent",
            other_pipe,
            "published as an upper bound; ours is the highest of the five loops' averages over all benchmarks",
            bound=True,
        ),
        Spec(
            "result.t1_other_core_4_casx_or_l2miss_max",
            "percent",
            lambda m: m.highest(with_spinners("t1", OTHER_CORE, 4, loops=["casx", "l2miss"]))[1],
            "the highest over all benchmarks and both loops",
            SINGLE_POINTS,
        ),
    ]


def _delays() -> list[Spec]:
    alone = "mean time between two reads of the lock by a spinner that is by itself in its core"
    return [
        *(_best_delay(machine) for machine in grid.MACHINES),
        Spec("result.second_best_delay", "name", _second_best, "by the same average, on both machines"),
        *(
            Spec(f"result.responsiveness_ns.{machine}_l2miss", "ns", _responsiveness(machine, "l2miss"), alone, LOOSE)
            for machine in grid.MACHINES
        ),
        _casx_responsiveness("low", min, f"{alone}; the lower of the two machines"),
        _casx_responsiveness("high", max, f"{alone}; the higher of the two machines"),
    ]


def _best_delay(machine: str) -> Spec:
    note = "the loop with the lowest average over all benchmarks with three spinners"
    return Spec(f"result.best_delay.{machine}", "name", lambda m: best_delay(m, machine), note)


def _casx_responsiveness(end: str, choose: Callable[[list[float]], float], note: str) -> Spec:
    def compute(m: Measurements) -> float:
        return choose([nanoseconds(m, machine, "casx") for machine in grid.MACHINES])

    return Spec(f"result.responsiveness_ns.casx_{end}", "ns", compute, note, LOOSE)


def nanoseconds(measurements: Measurements, machine: str, loop: str) -> float:
    """Mean time between the reads of a spinner by itself."""
    spinning = measurements.spinning(Cell(machine, grid.HOLDER, loop, OTHER_CORE, 1))
    return spinning.mean_cycles * 1000 / measurements.clock_mhz(machine)


def _responsiveness(machine: str, loop: str) -> Compute:
    return lambda m: nanoseconds(m, machine, loop)


def _second_best(measurements: Measurements) -> str:
    names = {machine: best_delay(measurements, machine, place=1) for machine in grid.MACHINES}
    if len(set(names.values())) == 1:
        return names[grid.MACHINES[0]]
    return ", ".join(f"{name} ({machine})" for machine, name in names.items())
