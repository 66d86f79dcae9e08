"""Every published number, and how ours is worked out from the measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from loiter import reference
from loiter.studies.base import Limit, Point, Side, Tolerance, Value
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
from loiter.studies.cakarevic2008.measurements import MAIV_PERCENT, Measurements, NotMeasured

CITATION = "Cakarevic et al., WIOSCA 2008"

PERCENT = "percent"
DEFAULT = ("default",)
BUT_FDIV = tuple(loop for loop in OTHER_LOOPS if loop != "fdiv")

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
    side: Side | None = None
    """Of a bound."""
    words_mean: float | None = None
    """The bound that published words come to, where they are no number."""
    source: str = f"{CITATION}, text and figures"

    def limit(self) -> Limit | None:
        """The bound that ours has to keep."""
        if self.side is None:
            return None
        return Limit(self.side, reference.lookup(grid.PAPER, self.id) if self.words_mean is None else self.words_mean)


UNMEASURED = {
    "further.interconnect_overhead_between_cores": "not separable from the L2's part of further.t1_other_core",
}
"""Published, but measured by no run of ours, and why."""


def specs() -> list[Spec]:
    """All of them, in the order of the reference file."""
    return [
        *_spin_loop(),
        *_cpi_alone(),
        *_slowdowns("t1"),
        *_slowdowns("t2"),
        *_placed_apart(),
        *_delays(),
        *_further_same_core(),
        *_further_apart(),
    ]


def evaluate(measurements: Measurements, absent: str) -> list[Point]:
    """Every point; `absent` says why a number was not measured, given the exhibits that would."""
    return [_point(spec, measurements, absent) for spec in specs()]


def best_at_three(m: Measurements, machine: str, benchmarks: tuple[str, ...] = BENCHMARKS, place: int = 0) -> str:
    """The loop with the lowest average at three spinners; `place` 1 is the second best. By the data, not by name."""
    return _ranked(m, (machine, SAME, 3), benchmarks)[place]


def _ranked(m: Measurements, where: tuple[str, str, int], benchmarks: tuple[str, ...]) -> list[str]:
    return sorted(LOOPS, key=lambda loop: m.average(with_spinners(*where, benchmarks, [loop])))


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
    return Point(spec.id, spec.unit, ours, published, spec.source, note, spec.tolerance, spec.limit())


def _average(where: tuple[str, str, int], loops: Iterable[str], benchmarks: tuple[str, ...] = BENCHMARKS) -> Compute:
    cells = with_spinners(*where, benchmarks, loops)
    return lambda m: m.average(cells)


def _highest(where: tuple[str, str, int], loops: Iterable[str], benchmarks: tuple[str, ...] = BENCHMARKS) -> Compute:
    cells = with_spinners(*where, benchmarks, loops)
    return lambda m: m.highest(cells)[1]


def _highest_average(where: tuple[str, str, int], loops: Iterable[str], *groups: tuple[str, ...]) -> Compute:
    """Over loops and groups of benchmarks."""
    chosen = list(loops)
    return lambda m: max(m.average(with_spinners(*where, group, [loop])) for group in groups for loop in chosen)


def _with_best(measurements: Measurements, machine: str) -> list[Cell]:
    return with_spinners(machine, SAME, 3, MULTIPLE, [best_at_three(measurements, machine, MULTIPLE)])


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
    one, three, key = (machine, SAME, 1), (machine, SAME, 3), f"result.{machine}"
    found = [
        Spec(f"{key}_default_1_spinner_all_average", PERCENT, _average(one, DEFAULT), tolerance=MULTIPLE_POINTS),
        Spec(f"{key}_default_3_spinners_all_average", PERCENT, _average(three, DEFAULT), tolerance=MULTIPLE_POINTS),
    ]
    if machine == "t1":
        found += _t1_only(one, three)
    best = "with the loop that has the lowest average over these benchmarks by our measurements"
    default = (("average", _average(three, DEFAULT, MULTIPLE)), ("max", _highest(three, DEFAULT, MULTIPLE)))
    of_best: tuple[tuple[str, Compute], ...] = (
        ("average", lambda m: m.average(_with_best(m, machine))),
        ("max", lambda m: m.highest(_with_best(m, machine))[1]),
    )
    for loop, each, note in (("default", default, ""), ("best", of_best, best)):
        found += [
            Spec(f"{key}_{loop}_3_spinners_multiple_{what}", PERCENT, compute, note, MULTIPLE_POINTS)
            for what, compute in each
        ]
    return found


def _t1_only(one: tuple[str, str, int], three: tuple[str, str, int]) -> list[Spec]:
    return [
        Spec(
            "result.t1_default_1_spinner_single_average",
            PERCENT,
            _average(one, DEFAULT, SINGLE),
            tolerance=SINGLE_POINTS,
        ),
        Spec("result.t1_default_1_spinner_add", PERCENT, _average(one, DEFAULT, ("add",)), tolerance=SINGLE_POINTS),
        Spec(
            "result.t1_default_1_spinner_multiple_average",
            PERCENT,
            _average(one, DEFAULT, MULTIPLE),
            tolerance=MULTIPLE_POINTS,
        ),
        Spec(
            "result.t1_other_1_spinner_single_each_average_below",
            PERCENT,
            _highest_average(one, OTHER_LOOPS, SINGLE),
            "the highest of the four loops' averages over the single-behaviour benchmarks",
            side=Side.BELOW,
        ),
        Spec(
            "result.t1_other_but_fdiv_1_spinner_multiple_each_average_below",
            PERCENT,
            _highest_average(one, BUT_FDIV, MULTIPLE),
            "the highest of the averages of idiv, casx and l2miss over the multiple-behaviour benchmarks",
            side=Side.BELOW,
        ),
        Spec(
            "result.t1_fdiv_1_spinner_mbv_fp",
            PERCENT,
            _average(one, ["fdiv"], ("mbv_fp",)),
            tolerance=MULTIPLE_POINTS,
        ),
        Spec(
            "result.t1_default_3_spinners_single_average",
            PERCENT,
            _average(three, DEFAULT, SINGLE),
            tolerance=SINGLE_POINTS,
        ),
        Spec(
            "result.t1_other_3_spinners_single_average",
            PERCENT,
            _average(three, OTHER_LOOPS, SINGLE),
            "average over the four loops other than the default",
            SINGLE_POINTS,
        ),
    ]


def _placed_apart() -> list[Spec]:
    return [
        Spec(
            "result.t2_l2miss_3_spinners_average_below",
            PERCENT,
            _average(("t2", SAME, 3), ["l2miss"]),
            "the average over all benchmarks",
            side=Side.BELOW,
        ),
        Spec(
            "result.t2_other_pipe_4_spinners_each_average_below",
            PERCENT,
            _highest_average(("t2", OTHER_PIPE, 4), LOOPS, SINGLE, MULTIPLE),
            "the highest of the five loops' averages, over the single- or over the multiple-behaviour benchmarks",
            side=Side.BELOW,
        ),
        Spec(
            "result.t1_other_core_4_casx_or_l2miss_max",
            PERCENT,
            _highest(("t1", OTHER_CORE, 4), ["casx", "l2miss"]),
            "the highest over all benchmarks and both loops; published as 'up to'",
            side=Side.AT_MOST,
        ),
    ]


def _delays() -> list[Spec]:
    alone = "mean time between two reads of the lock by a spinner that is by itself in its core"
    return [
        *(_best_delay(machine) for machine in grid.MACHINES),
        Spec(
            "result.second_best_delay",
            "name",
            _second_best,
            "by the average over all benchmarks with three spinners, on both machines",
        ),
        *(
            Spec(f"result.responsiveness_ns.{machine}_l2miss", "ns", _responsiveness(machine, "l2miss"), alone, LOOSE)
            for machine in grid.MACHINES
        ),
        _casx_responsiveness("low", min, f"{alone}; the lower of the two machines"),
        _casx_responsiveness("high", max, f"{alone}; the higher of the two machines"),
    ]


def _best_delay(machine: str) -> Spec:
    """By the scope of the key: lowest on the multiple-behaviour benchmarks in all experiments."""
    experiments = [where for where in grid.PLACES.values() if where[0] == machine and where[1] != OTHER_CORE]
    note = "the loop with the lowest average over the multiple-behaviour benchmarks, in each experiment of the core"

    def compute(m: Measurements) -> Value:
        found = {f"{spinners}, {place}": _ranked(m, (machine, place, spinners), MULTIPLE)[0]
                 for _, place, spinners in experiments}  # fmt: skip
        if len(set(found.values())) == 1:
            return next(iter(found.values()))
        return "; ".join(f"{loop} ({where})" for where, loop in found.items())

    return Spec(f"result.best_delay.{machine}", "name", compute, note)


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
    names = {machine: best_at_three(measurements, machine, place=1) for machine in grid.MACHINES}
    if len(set(names.values())) == 1:
        return names[grid.MACHINES[0]]
    return ", ".join(f"{name} ({machine})" for machine, name in names.items())


def _further_same_core() -> list[Spec]:
    """What is derived from the text, or said in passing, of spinners in the same core or pipe."""

    def reduction(machine: str) -> Compute:
        default = with_spinners(machine, SAME, 3, MULTIPLE, DEFAULT)
        return lambda m: m.average(default) - m.average(_with_best(m, machine))

    return [
        *(
            Spec(
                f"further.reduction_points.{machine}",
                "points",
                reduction(machine),
                "multiple-behaviour average with three spinners: the default loop less the best one",
                MULTIPLE_POINTS,
            )
            for machine in grid.MACHINES
        ),
        Spec(
            "further.t1_fdiv_1_spinner_multiple_average_at_least",
            PERCENT,
            _average(("t1", SAME, 1), ["fdiv"], MULTIPLE),
            side=Side.AT_LEAST,
        ),
        Spec(
            "further.t1_idiv_1_spinner_hash_at_most",
            PERCENT,
            _average(("t1", SAME, 1), ["idiv"], ("hash",)),
            side=Side.AT_MOST,
        ),
        Spec(
            "further.t2_default_3_spinners_single_average",
            PERCENT,
            _average(("t2", SAME, 3), DEFAULT, SINGLE),
            tolerance=SINGLE_POINTS,
        ),
    ]


def _further_apart() -> list[Spec]:
    """Likewise in another pipe or core. What the authors could not measure is below the MAIV of their method."""
    none = f"published in words; the method resolves {MAIV_PERCENT:g} %"
    thrashing = _average(("t2", OTHER_PIPE, 4), ["casx", "l2miss"])
    key = "further.t2_other_pipe_casx_l2miss_l1_thrashing_average_percent"
    note = "the average over all benchmarks and both loops; published as a range"

    def contention(m: Measurements) -> float:
        elsewhere = m.average(with_spinners("t1", OTHER_CORE, 4, loops=["casx", "l2miss"]))
        return elsewhere / m.average(with_spinners("t1", SAME, 3, loops=DEFAULT))

    return [
        Spec(
            "further.t1_other_core_fdiv_with_fp_program_overhead",
            PERCENT,
            _average(("t1", OTHER_CORE, 4), ["fdiv"], ("mbv_fp",)),
            none,
            side=Side.BELOW,
            words_mean=MAIV_PERCENT,
        ),
        Spec(
            "further.t2_other_core_overhead",
            PERCENT,
            _highest_average(("t2", OTHER_CORE, 8), LOOPS, BENCHMARKS),
            f"the highest of the five loops' averages; {none}",
            side=Side.BELOW,
            words_mean=MAIV_PERCENT,
        ),
        Spec(f"{key}.0", PERCENT, thrashing, f"{note}, this is its lower end", side=Side.AT_LEAST),
        Spec(f"{key}.1", PERCENT, thrashing, f"{note}, this is its upper end", side=Side.AT_MOST),
        Spec(
            "further.memory_contention_against_core_contention",
            "ratio",
            contention,
            "T1: slowdown by casx and l2miss in the other core, over that by three default spinners in the same core; "
            "published in words, taken as two orders",
            side=Side.AT_MOST,
            words_mean=0.01,
        ),
    ]
