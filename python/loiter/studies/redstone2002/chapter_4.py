"""The statements of chapter 4, each by its key in the reference file, and whether it holds here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from loiter import reference
from loiter.engine import Engine
from loiter.runs.worker import Job
from loiter.studies.base import Exhibit, Statement
from loiter.studies.redstone2002 import figures, idle, kernel_tables, pure, server
from loiter.studies.redstone2002 import kernel_spin as kernel
from loiter.studies.redstone2002.common import PAPER, Part, Runs, gain_percent, mean

Found = tuple[bool, str] | None
"""Whether it holds, and the values; None: not in this scale."""

_MOST_IDLE = "figure_4_2.idle_instructions_percent_one_program_above"
_FEW_QUEUED = "figure_4_2.multi7_cycles_with_fewer_than_4_idle_instructions_in_iq_percent_above"
_BOUNDS = {
    _MOST_IDLE: "Beside one program more than 80 % of instructions are those of idle contexts",
    _FEW_QUEUED: "With seven programs, fewer than four idle instructions are queued in more than half of all cycles",
}
"""What is published as a bound, in words."""


class Chapter4:
    """See `loiter.studies.redstone2002.common.Measures`."""

    exhibit = Exhibit("chapter_4", "Chapter 4: what the text states of spinning")

    def plan(self, engine: Engine, scale: str) -> list[Job]:
        """The runs of all exhibits that it speaks of."""
        parts = (pure.Pure(), server.Server(), kernel_tables.KernelSpin(), idle.Idle())
        return [job for part in parts for job in part.plan(engine, scale)]

    def evaluate(self, runs: Runs, scale: str) -> Part:
        """Every statement."""
        return Part(statements=[_statement(key, check(runs, scale)) for key, check in CHECKS.items()])

    def unmeasured(self, note: str) -> Part:
        """Without a run."""
        return Part(statements=[Statement(text_of(key), None, note, key) for key in CHECKS])


def text_of(key: str) -> str:
    """The words of a statement, by its key."""
    return _BOUNDS.get(key) or str(reference.lookup(PAPER, key))


def _statement(key: str, found: Found) -> Statement:
    holds, told = (None, "not in this scale") if found is None else found
    return Statement(text_of(key), holds, told, key)


def _has(scale: str, *workloads: str) -> bool:
    return set(workloads) <= set(idle.workloads_of(scale))


def _pure(runs: Runs, loop: str, machine: str, name: str) -> float:
    return runs[pure.Cell(loop, machine).label].metrics.get(name, 0.0)


def _spin_ipc_exceeds_programs(runs: Runs, scale: str) -> Found:
    alone = {"kernelmix": runs[server.LABEL].metrics["ipc"]}
    for name in ("li", "compress"):
        if _has(scale, name):
            alone[name] = idle.useful_ipc(runs, idle.Cell(name, idle.WFI, idle.SUPERSCALAR))
    loops = {loop: _pure(runs, loop, "superscalar", "ipc") for loop in pure.LOOPS}
    return min(loops.values()) > max(alone.values()), f"{_told(loops)}; {_told(alone)}"


def _lock_loop_same_on_smt(runs: Runs, scale: str) -> Found:
    ratios = {loop: _pure(runs, loop, "smt", "ipc") / _pure(runs, loop, "superscalar", "ipc") for loop in pure.LOOPS}
    holds = ratios["lock"] < 1.02 and 1.02 <= ratios["idle"] < 1.25
    return holds, f"IPC on 8 contexts to that on one: {_told(ratios, 3)}"


def _idle_conflicts(runs: Runs, scale: str) -> Found:
    misses = {machine: _pure(runs, "idle", machine, "l1d_miss_percent") for machine in pure.MACHINES}
    return misses["smt"] > 5 and misses["superscalar"] < 1, f"misses, %: {_told(misses)}"


def _spin_disproportionate(runs: Runs, scale: str) -> Found:
    ratios = {}
    for constant in sorted(kernel.constants(scale)):
        cell = kernel.Cell(kernel.BASE, constant, kernel.SPIN)
        ratios[str(constant)] = kernel.mean_of(runs, cell, kernel.metric("lock_ipc_ratio"))
    values = list(ratios.values())
    return min(values) > 1 and all(a > b for a, b in pairwise(values)), f"by lock-fail constant: {_told(ratios)}"


def _idle_ratio_reverses(runs: Runs, scale: str) -> Found:
    if not _has(scale, "li", "multi7"):
        return None
    cells = {name: idle.Cell(name, idle.POLL) for name in ("multi7", "li")}
    ratios = {name: idle.idle_ipc(runs, cell) / idle.program_ipc(runs, cell) for name, cell in cells.items()}
    holds = ratios["multi7"] >= 1.5 and ratios["li"] < 1
    return holds, f"idle to useful IPC: one idle {ratios['multi7']:.2f}, seven idle {ratios['li']:.2f}"


def _lock_gains(runs: Runs, scale: str) -> dict[str, float]:
    cells = [kernel.Cell(kernel.BASE, constant, kernel.SPIN) for constant in sorted(kernel.constants(scale))]
    return {f"{cell.fail_cycles} cycles": kernel.gain(runs, cell) for cell in cells}


def _removal_never_hurts(runs: Runs, scale: str) -> Found:
    """The more idle contexts, and the longer acquires fail."""
    locks = _lock_gains(runs, scale)
    beside = {name: gain_percent(1, idle.speedup(runs, name)) for name in idle.workloads_of(scale)}
    by_idle: dict[int, list[float]] = {}
    for name, gain in beside.items():
        by_idle.setdefault(-len(idle.WORKLOADS[name]), []).append(gain)
    means = [mean(gains) for _, gains in sorted(by_idle.items())]
    grows = all(a < b for a, b in pairwise(locks.values())) and all(a < b for a, b in pairwise(means))
    told = f"gains, %: {_told(locks, 1)}; idle contexts: {_told(beside, 1)}"
    return min(*locks.values(), *beside.values()) > 0 and grows, told


def _removal_small_for_apache(runs: Runs, scale: str) -> Found:
    gain, share = kernel.gain(runs, kernel.HALF), kernel.mean_of(runs, kernel.HALF, kernel.routine_percent)
    boots = ", ".join(f"{each:.1f}" for each in kernel.gains(runs, kernel.HALF))
    return 40 <= share <= 60 and 5 <= gain <= 25, f"{gain:.1f} %, {share:.1f} % of instructions spin; by boot {boots}"


def _removal_large_for_specint(runs: Runs, scale: str) -> Found:
    if not _has(scale, "li", "compress", "multi4a", "multi4b"):
        return None
    fours = mean(gain_percent(1, idle.speedup(runs, name)) for name in ("multi4a", "multi4b"))
    locks = kernel.gain(runs, kernel.HALF)
    alone = {name: idle.speedup(runs, name) for name in ("li", "compress")}
    holds = (
        fours > 4 * locks > 0 and alone["li"] > alone["compress"] and all(2 <= each <= 4.5 for each in alone.values())
    )
    return holds, f"four programs {fours:.1f} %, locks {locks:.1f} %; times: {_told(alone)}"


def _gain_order(runs: Runs, scale: str) -> Found:
    cells = kernel.compared(scale)
    if len(cells) < len(kernel.SHORT):
        return None
    gains = {kernel.SHORT[name]: kernel.gain(runs, cell) for name, cell in cells.items()}
    published: Mapping[str, float] = reference.lookup(PAPER, "table_4_5.removal_gain_percent")
    ours = sorted(gains, key=lambda name: -gains[name])
    told = _told({name: gains[name] for name in ours}, 1)
    return ours == sorted(published, key=lambda name: -published[name]), f"gains, %: {told}"


_PIPELINE = ("zero_fetch_cycles_percent", "zero_retire_percent", "useful_squashed_percent", "iq_backup_percent")


def _without_spin_pipeline(runs: Runs, scale: str) -> Found:
    """Twice: by half at least, as 6.2 and 12.2 are."""
    values = {
        name: [kernel.mean_of(runs, kernel.HALF.by(way), kernel.metric(name)) for way in kernel.COMPARED]
        for name in _PIPELINE
    }
    grows = [blocked > spun for spun, blocked in values.values()]
    spun, blocked = values["iq_backup_percent"]
    told = "; ".join(f"{name.replace('_', ' ')} {a:.1f} to {b:.1f}" for name, (a, b) in values.items())
    return all(grows) and blocked >= 1.5 * spun, told


_SHARED = ("l1i_miss_percent", "l1d_miss_percent", "l2_miss_percent", "branch_mispredict_percent")


def _caches_unchanged(runs: Runs, scale: str) -> Found:
    """Almost unchanged: within a point. Misses of what waits go with it, so those of useful loads stand for the L1D."""
    names = [name if name != "l1d_miss_percent" else "useful_load_miss_percent" for name in _SHARED]
    values = {
        name: [kernel.mean_of(runs, kernel.HALF.by(way), kernel.metric(name)) for way in kernel.COMPARED]
        for name in names
    }
    told = "; ".join(f"{name.replace('_', ' ')} {a:.1f} and {b:.1f}" for name, (a, b) in values.items())
    if not _has(scale, "multi4b"):
        return None
    lost = figures.drop_percent(runs, "multi4b", "l1d_miss_percent")
    return all(
        abs(a - b) <= 1 for a, b in values.values()
    ) and lost >= 10, f"{told}; idle loop's L1D misses {lost:.1f} %"


def _spin_in_queue(runs: Runs, scale: str) -> Found:
    locks = kernel.mean_of(runs, kernel.HALF, kernel.metric("full_queue_spin_percent"))
    if not _has(scale, "multi4b"):
        return None
    polls = runs[idle.Cell("multi4b", idle.POLL).label].metrics.get("full_queue_idle_percent", 0.0)
    return locks < 50 < polls, f"of a full queue: lock spin {locks:.1f} %, idle spin {polls:.1f} %"


def _idle_figures(runs: Runs, scale: str) -> Found:
    if not _has(scale, "li"):
        return None
    share = idle.idle_percent(runs, idle.Cell("li", idle.POLL))
    return share > reference.lookup(PAPER, _MOST_IDLE), f"{share:.1f} % of instructions"


def _few_queued(runs: Runs, scale: str) -> Found:
    if not _has(scale, "multi7"):
        return None
    share = runs[idle.Cell("multi7", idle.POLL).label].metrics["few_polling_percent"]
    return share > reference.lookup(PAPER, _FEW_QUEUED), f"{share:.1f} % of cycles"


CHECKS: dict[str, Callable[[Runs, str], Found]] = {
    "statements.spin_ipc_exceeds_programs": _spin_ipc_exceeds_programs,
    "statements.lock_loop_same_on_smt": _lock_loop_same_on_smt,
    "statements.idle_conflicts": _idle_conflicts,
    "statements.spin_disproportionate": _spin_disproportionate,
    "statements.idle_ratio_reverses": _idle_ratio_reverses,
    "statements.removal_never_hurts": _removal_never_hurts,
    "statements.removal_small_for_apache": _removal_small_for_apache,
    "statements.removal_large_for_specint": _removal_large_for_specint,
    "statements.gain_order": _gain_order,
    "statements.without_spin_pipeline": _without_spin_pipeline,
    "statements.caches_unchanged": _caches_unchanged,
    "statements.spin_in_queue": _spin_in_queue,
    _MOST_IDLE: _idle_figures,
    _FEW_QUEUED: _few_queued,
}
"""By key in the reference file."""


def _told(values: Mapping[str, float], digits: int = 2) -> str:
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in values.items())
