"""Tables 3.4 (branches), 4.3, 4.4 and 4.5 beside ours: what the runs of `kernel_spin` say, value by value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from loiter import reference
from loiter.studies.base import Grid, Point, Statement, Tolerance
from loiter.studies.redstone2002 import kernel_spin as kernel
from loiter.studies.redstone2002.common import PAPER, RATIO, SHARE, SOURCE, Part, Run, Runs, Spec

_FOR_APACHE = "kernelmix on Linux for Apache on Digital Unix"
_AT_HALF = f"{_FOR_APACHE}; ours at {2000} cycles, where half of all instructions spin as at 300 there"


@dataclass(frozen=True)
class _Measured:
    """A published value, and what ours is of each boot; none where the scale does not run it."""

    spec: Spec
    runs: Sequence[float]
    mean: float | None = None
    """Where ours is not the mean of the boots: the gain of means."""

    @property
    def point(self) -> Point:
        if not self.runs:
            return self.spec.point(None, "not in this scale")
        point = self.spec.over(self.runs)
        return point if self.mean is None else replace(point, ours=self.mean)


Of = Callable[[Run], float]

# Key of Table 4.3, our metric, unit, tolerance.
PIPELINE: dict[str, tuple[str, str, Tolerance]] = {
    "zero_fetch_cycles_percent": ("zero_fetch_cycles_percent", "percent", SHARE),
    "fetchable_contexts": ("fetchable_contexts", "contexts", RATIO),
    "correct_path_fetchable_contexts": ("correct_path_contexts", "contexts", RATIO),
    "useful_squashed_percent": ("useful_squashed_percent", "percent", SHARE),
    "iq_backup_cycles_percent": ("iq_backup_percent", "percent", SHARE),
    "zero_retire_cycles_percent": ("zero_retire_percent", "percent", SHARE),
}


def _columns() -> dict[str, kernel.Cell]:
    """Columns of Table 4.3."""
    return {
        "smt_lock_300": kernel.HALF.by(kernel.HARDWARE),
        "spin_300": kernel.HALF,
        "smt_lock_0": kernel.WITHOUT.by(kernel.HARDWARE),
        "spin_0": kernel.WITHOUT,
    }


def _table_4_3(runs: Runs) -> list[_Measured]:
    found = []
    for key, (name, unit, tolerance) in PIPELINE.items():
        for column, cell in _columns().items():
            note = _AT_HALF if column.endswith("300") else _FOR_APACHE
            spec = Spec(f"table_4_3.{key}.{column}", unit, f"{SOURCE}, Table 4.3", tolerance, note)
            found.append(_Measured(spec, kernel.each(runs, cell, kernel.metric(name))))
    spec = Spec("table_4_3.spin_share_of_full_iq_percent", "percent", f"{SOURCE}, section 4.3", SHARE, _AT_HALF)
    return [*found, _Measured(spec, kernel.each(runs, kernel.HALF, kernel.metric("full_queue_spin_percent")))]


def _table_4_5(runs: Runs, scale: str) -> list[_Measured]:
    found = []
    cells = kernel.compared(scale)
    measures: dict[str, tuple[str, Tolerance, str, Of]] = {
        "spin_instructions_percent": ("percent", SHARE, kernel.SPIN, kernel.routine_percent),
        "useful_ipc_spin": ("instructions/cycle", RATIO, kernel.SPIN, kernel.useful_ipc),
        "useful_ipc_smt_lock": ("instructions/cycle", RATIO, kernel.HARDWARE, kernel.useful_ipc),
    }
    for key, (unit, tolerance, way, of) in measures.items():
        for name, short in kernel.SHORT.items():
            spec = Spec(f"table_4_5.{key}.{short}", unit, f"{SOURCE}, Table 4.5", tolerance, _AT_HALF)
            found.append(_Measured(spec, kernel.each(runs, cells[name].by(way), of) if name in cells else ()))
    for name, short in kernel.SHORT.items():
        spec = Spec(f"table_4_5.removal_gain_percent.{short}", "percent", f"{SOURCE}, Table 4.5", SHARE, _AT_HALF)
        found.append(_gain(spec, runs, cells.get(name)))
    in_use = kernel.metric("useful_issue_percent")
    for name in ("4", "4, 4 integer units"):
        path = f"table_4_5.useful_unit_utilisation_percent.{kernel.SHORT[name]}"
        note = f"{_AT_HALF}; integer units, without spinning, wrong paths included"
        spec = Spec(path, "percent", f"{SOURCE}, section 4.3", SHARE, note)
        found.append(
            _Measured(spec, kernel.each(runs, cells[name].by(kernel.HARDWARE), in_use) if name in cells else ())
        )
    return found


def _gain(spec: Spec, runs: Runs, cell: kernel.Cell | None) -> _Measured:
    if cell is None or not kernel.gains(runs, cell):
        return _Measured(spec, ())
    return _Measured(spec, kernel.gains(runs, cell), kernel.gain(runs, cell))


def _table_4_4(runs: Runs, scale: str) -> list[Point]:
    """Which of two machines useful threads use better: by the share of integer units in use, without spinning."""
    cells = kernel.compared(scale)
    points = []
    for name, short in kernel.SHORT.items():
        if short == "8":
            continue
        against = "4" if short == "4u" else "8"
        spec = Spec(f"table_4_4.{short}", "", f"{SOURCE}, Table 4.4", None, "useful_issue_percent without spinning")
        if name not in cells or not runs:
            points.append(spec.point(None, "not in this scale"))
            continue
        in_use = [
            kernel.mean_of(runs, cells[each].by(kernel.HARDWARE), kernel.metric("useful_issue_percent"))
            for each in (name, against)
        ]
        points.append(spec.point(f"{'more' if in_use[0] > in_use[1] else 'less'} than {against}"))
    return points


# Key of Table 3.4, and our metric. Its user columns are of the server's own code, for which kernelmix has no match.
MIX = {
    "branch_percent": "all_branches_percent",
    "percent_of_branches.conditional": "branch_mix.conditional",
    "percent_of_branches.unconditional": "branch_mix.unconditional",
    "percent_of_branches.indirect_jump": "branch_mix.indirect",
    "percent_of_branches.pal_call_return": "branch_mix.system",
    "conditional_taken_percent": "conditional_taken_percent",
    "load_percent": "loads_percent",
    "store_percent": "stores_percent",
}
_MIX_NOTE = f"{_FOR_APACHE}; Alpha calls PAL code for what RISC-V's kernel does by CSR instructions"


def _table_3_4(runs: Runs) -> list[_Measured]:
    found = []
    for key, name in MIX.items():
        spec = Spec(f"table_3_4.{key}.all", "percent", f"{SOURCE}, Table 3.4", SHARE, _MIX_NOTE)
        found.append(_Measured(spec, kernel.each(runs, kernel.WITHOUT, kernel.metric(name))))
    return found


def _all(runs: Runs, scale: str) -> list[_Measured]:
    bus = Spec(
        "machine.smt.mean_memory_bus_delay_cycles_per_transaction", "cycles", f"{SOURCE}, chapter 2", RATIO, _FOR_APACHE
    )
    delay = kernel.each(runs, kernel.WITHOUT, kernel.metric("memory_bus_delay_cycles"))
    return [
        *_table_3_4(runs),
        *_table_4_3(runs),
        *_table_4_5(runs, scale),
        _Measured(bus, delay),
    ]


def measured(runs: Runs, scale: str) -> list[Point]:
    """Every published value with ours."""
    return [*(each.point for each in _all(runs, scale)), *_table_4_4(runs, scale)]


_IDEAL = "With perfect prediction at most 0.5 % of what is fetched is squashed"
_IDEAL_KEY = "ideal_branch_prediction.squashed_percent_of_fetched_max"


def statements(runs: Runs, scale: str) -> list[Statement]:
    """What is published as a bound."""
    cell = kernel.compared(scale).get("8, perfect caches and branches")
    if cell is None:
        return [Statement(_IDEAL, None, "not in this scale", _IDEAL_KEY)]
    most: float = reference.lookup(PAPER, _IDEAL_KEY)
    squashed = [max(kernel.each(runs, cell.by(way), kernel.metric("squashed_percent"))) for way in kernel.COMPARED]
    told = ", ".join(f"{way} {value:.2f} %" for way, value in zip(kernel.COMPARED, squashed, strict=True))
    return [Statement(_IDEAL, max(squashed) <= most, f"at most, by way: {told}", _IDEAL_KEY)]


def unmeasured(note: str) -> Part:
    """Every published value without ours."""
    points = [each.spec.point(None, note) for each in _all({}, "default")]
    points += [replace(each, note=note) for each in _table_4_4({}, "default")]
    return Part(points=points, statements=[Statement(_IDEAL, None, note, _IDEAL_KEY)])


def pipeline_grid(runs: Runs) -> Grid:
    """Table 4.3, with the published values in brackets."""
    rows = []
    for key, (name, _, _) in PIPELINE.items():
        values = []
        for column, cell in _columns().items():
            ours = kernel.mean_of(runs, cell, kernel.metric(name))
            values.append(f"{ours:.1f} ({reference.lookup(PAPER, f'table_4_3.{key}.{column}')})")
        rows.append((key.replace("_percent", ", %").replace("_", " "), *values))
    heads = (
        "",
        f"smt_lock, {kernel.COMPARED_CYCLES} cycles",
        f"spin, {kernel.COMPARED_CYCLES}",
        "smt_lock, 0",
        "spin, 0",
    )
    caption = "kernelmix on smt8; means over boots. In brackets: published, at lock-fail constants 300 and 0."
    return Grid("table_4_3", "Table 4.3", caption, heads, tuple(rows))


def mix_grid(runs: Runs) -> Grid:
    """Table 3.4's branches."""
    rows = []
    for key, name in MIX.items():
        published = reference.lookup(PAPER, f"table_3_4.{key}")
        ours = kernel.mean_of(runs, kernel.WITHOUT, kernel.metric(name))
        rows.append(
            (key.removeprefix("percent_of_branches.").replace("_", " "), f"{ours:.1f}", f"{published['all']:.1f}")
        )
    caption = (
        "kernelmix on smt8 without induced spinning, of instructions that retired; kinds of branches in percent of all "
        "branches. PAL code stands beside environment calls and returns from traps."
    )
    return Grid("table_3_4", "Table 3.4: instructions", caption, ("", "kernelmix", "Apache"), tuple(rows))
