"""What one wants to know of a result at a glance: named metrics, worked out from its tables.

A metric is declared once, in `METRICS`; commands and documents read it there. Names are those of the published figures
(reference/) where these have one. A metric whose inputs a machine does not count, or which would be a share of nothing,
is left out rather than 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from loiter import sampling
from loiter.counts import ALL, CORE, GROUPS, KERNEL, L2, USER, Absent, Counts
from loiter.engine import Json
from loiter.results import Result
from loiter.sampling import Samples

_USER = ("user",)
# A routine that takes a lock is executed in the mode of whoever takes it, which for the locks that tables name is the
# kernel's.
_ACQUIRING = ("acquiring",)
_KERNEL = ("kernel", "machine", "interrupt", *_ACQUIRING)
_SPINNING = ("spinning",)
_POLLING = ("idle_polling",)
_USEFUL = _USER + _KERNEL
_OUTSIDE_LOCKS = tuple(each for each in _USEFUL if each not in _ACQUIRING)
_PURPOSES = ("useful", "spinning", "polling")
# Parts that count transfers of control of each kind, by the name of its counter.
_BRANCH = "branch"
_AWAKE = (*_USEFUL, *_SPINNING, *_POLLING, "pausing", "napping", "blocked")


Value = Callable[[Counts, str], float]


@dataclass(frozen=True)
class Metric:
    """A metric: name, unit, what it is in a sentence, and how it is worked out for a group of modes."""

    name: str
    unit: str
    definition: str
    value: Value
    groups: tuple[str, ...] = (ALL,)


@dataclass(frozen=True)
class Measured:
    """A metric of one result, by group of modes. What is not there is left out."""

    metric: Metric
    values: Mapping[str, float]
    half_widths: Mapping[str, float] = field(default_factory=dict)
    """Of the intervals around the values, where they are means of samples."""


def _ratio(part: float, whole: float) -> float:
    if whole == 0:
        raise Absent
    return part / whole


def _percent(part: float, whole: float) -> float:
    return 100 * _ratio(part, whole)


def _miss_percent(first_level: str) -> Value:
    """Of out-of-order cores by mode, of in-order cores as the buffer counts itself."""

    def value(counts: Counts, group: str) -> float:
        misses = counts.first(group, (CORE, f"{first_level}_misses"), (first_level, "misses"))
        return _percent(misses, counts.first(group, (CORE, f"{first_level}_accesses"), (first_level, "accesses")))

    return value


def _mix(part: str, name: str) -> Value:
    """In-order cores count instructions when they issue."""

    def value(counts: Counts, group: str) -> float:
        found = counts.first(group, (part, name), (CORE, name))
        return _percent(found, counts.first(group, (CORE, "retired"), (CORE, "issued")))

    return value


def _cycles_percent(name: str) -> Value:
    return lambda counts, group: _percent(counts.counter(name), counts.core_cycles)


def _average(name: str, part: str = CORE) -> Value:
    """Of what is summed over the cycles of each core, or of the chip."""

    def value(counts: Counts, group: str) -> float:
        return _ratio(counts.counter(name, part), counts.cycles if part == L2 else counts.core_cycles)

    return value


def _ipc(counts: Counts, group: str) -> float:
    retired = counts.instructions() if group == ALL else counts.counter("retired", group=group)
    return _ratio(retired, counts.core_cycles)


def _ipc_of(activities: Sequence[str]) -> Value:
    return lambda counts, group: _ratio(counts.instructions(activities), counts.core_cycles)


def _per_thread(counts: Counts, activities: Sequence[str]) -> float:
    return _ratio(counts.instructions(activities), counts.context_cycles(activities))


def _per_thread_ipc(counts: Counts, group: str) -> float:
    return _per_thread(counts, {ALL: _AWAKE, USER: _USER, KERNEL: _KERNEL}[group])


def _per_thread_of(activities: Sequence[str]) -> Value:
    return lambda counts, group: _per_thread(counts, activities)


def _instructions_percent(activities: Sequence[str]) -> Value:
    return lambda counts, group: _percent(counts.instructions(activities), counts.instructions())


def _awake_percent(activities: Sequence[str]) -> Value:
    return lambda counts, group: _percent(counts.context_cycles(activities), counts.context_cycles(_AWAKE))


def _spin_to_useful(counts: Counts, group: str) -> float:
    return _ratio(_per_thread(counts, _SPINNING), _per_thread(counts, _USEFUL))


def _mispredicted(counts: Counts, group: str) -> float:
    kinds = ("branches", "returns", "indirect_jumps")
    wrong = sum(counts.counter(f"{kind}_mispredicted", "branch", group) for kind in kinds)
    return _percent(wrong, sum(counts.counter(kind, "branch", group) for kind in kinds))


def _of_full_queue(purpose: str) -> Value:
    def value(counts: Counts, group: str) -> float:
        shares = {each: counts.counter("full_queue_entries", each) for each in _PURPOSES}
        return _percent(shares[purpose], sum(shares.values()))

    return value


def _correct_path(counts: Counts, group: str) -> float:
    astray = counts.counter("misled_contexts")
    return _ratio(counts.counter("fetchable_contexts") - astray, counts.core_cycles)


def _useful_issue(counts: Counts, group: str) -> float:
    issued = counts.counter("integer_issued", "useful")
    return _percent(issued, counts.top("integer_issued") * counts.core_cycles)


def _bus_delay(counts: Counts, group: str) -> float:
    """What is written back follows the line that takes its place, and waits for nothing else."""
    transactions = counts.counter("misses", L2) + counts.counter("writebacks", L2)
    return _ratio(counts.counter("channel_wait_cycles", L2), transactions)


_KINDS: dict[str, tuple[tuple[str, str], ...]] = {
    "conditional": ((_BRANCH, "branches"),),
    "unconditional": ((_BRANCH, "fixed_jumps"),),
    "indirect": ((_BRANCH, "returns"), (_BRANCH, "indirect_jumps")),
    "system": ((CORE, "environment_calls"), (CORE, "trap_returns")),
}
"""Kinds of branches as Redstone's Table 3.4 has them, and what counts them."""


def _of_kind(counts: Counts, group: str, kind: str) -> int:
    return sum(counts.counter(name, part, group) for part, name in _KINDS[kind])


def _all_kinds(counts: Counts, group: str) -> int:
    return sum(_of_kind(counts, group, kind) for kind in _KINDS)


def _kind_percent(kind: str) -> Value:
    return lambda counts, group: _percent(_of_kind(counts, group, kind), _all_kinds(counts, group))


def _squashed(counts: Counts, group: str) -> float:
    return _percent(counts.counter("squashed", group=group), counts.counter("fetched", group=group))


def _btb(counts: Counts, group: str) -> float:
    """Returns are not looked for in the buffer, and what is not taken need not be in it."""
    taken = sum(counts.counter(name, _BRANCH, group) for name in ("branches_taken", "fixed_jumps", "indirect_jumps"))
    return _percent(counts.counter("btb_misses", _BRANCH, group), taken)


_PERCENT, _IPC, _THREAD_IPC = "percent", "instructions/cycle", "instructions/context-cycle"

KERNEL_SHARE = "kernel_cycles_percent"

METRICS: tuple[Metric, ...] = (
    Metric(
        KERNEL_SHARE,
        _PERCENT,
        "Context-cycles in supervisor and machine mode and in interrupts, of those in which a hart is not asleep in "
        "wfi; a hart that waits for a lock, or polls for work, is in neither mode.",
        _awake_percent(_KERNEL),
    ),
    Metric("ipc", _IPC, "Instructions retired, by cycle of a core; modes add up to all.", _ipc, GROUPS),
    Metric(
        "per_thread_ipc",
        _THREAD_IPC,
        "Instructions retired in an activity, by context-cycle of that activity; all: of harts that are not asleep "
        "in wfi.",
        _per_thread_ipc,
        GROUPS,
    ),
    Metric(
        "fetchable_contexts",
        "contexts",
        "Contexts of a core that could be fetched from, averaged over cycles.",
        _average("fetchable_contexts"),
    ),
    Metric(
        "branch_mispredict_percent",
        _PERCENT,
        "Mispredicted conditional branches, returns and indirect jumps, of those that retired.",
        _mispredicted,
        GROUPS,
    ),
    Metric("squashed_percent", _PERCENT, "Instructions squashed, of those fetched.", _squashed, GROUPS),
    Metric(
        "useful_squashed_percent",
        _PERCENT,
        "The same of instructions that neither wait for a lock nor poll for work, as far as that is known at fetch.",
        lambda counts, group: _percent(counts.counter("squashed", "useful"), counts.counter("fetched", "useful")),
    ),
    Metric(
        "correct_path_contexts",
        "contexts",
        "Those of `fetchable_contexts` that are not on a wrong path, after a branch or jump that was mispredicted.",
        _correct_path,
    ),
    Metric(
        "btb_miss_percent",
        _PERCENT,
        "Branches that were taken, and jumps and calls, whose target the branch target buffer did not hold, of those "
        "that retired; returns have the return stack.",
        _btb,
        GROUPS,
    ),
    Metric(
        "l1i_miss_percent",
        _PERCENT,
        "Share of the look-ups of fetches that miss in the instruction cache.",
        _miss_percent("l1i"),
        GROUPS,
    ),
    Metric(
        "l1d_miss_percent",
        _PERCENT,
        "Misses of the data cache, as a share of its look-ups. Of in-order cores, look-ups by loads alone. Of "
        "out-of-order cores, by loads and stores; a store misses too when its core does not own the line.",
        _miss_percent("l1d"),
        GROUPS,
    ),
    Metric(
        "l2_miss_percent",
        _PERCENT,
        "Lines that the second level did not have, of those asked of it.",
        _miss_percent("l2"),
        GROUPS,
    ),
    Metric(
        "itlb_miss_percent",
        _PERCENT,
        "Share of the look-ups of fetches that miss in the TLB.",
        _miss_percent("itlb"),
        GROUPS,
    ),
    Metric(
        "dtlb_miss_percent",
        _PERCENT,
        "Share of the look-ups of loads, stores and atomics that miss in the TLB, or find a translation that does not "
        "let them store.",
        _miss_percent("dtlb"),
        GROUPS,
    ),
    Metric(
        "zero_fetch_cycles_percent",
        _PERCENT,
        "Cycles of a core in which nothing was fetched.",
        _cycles_percent("zero_fetch_cycles"),
    ),
    Metric(
        "front_full_percent",
        _PERCENT,
        "Share of a core's cycles in which the front end was full, or a context's share of it.",
        _cycles_percent("front_full_cycles"),
    ),
    Metric(
        "zero_issue_cycles_percent",
        _PERCENT,
        "Cycles of a core in which nothing was issued.",
        _cycles_percent("zero_issue_cycles"),
    ),
    Metric(
        "max_issue_cycles_percent",
        _PERCENT,
        "Cycles of a core in which each of its integer units began an instruction: the last entry of the histogram "
        "`integer_issued`.",
        lambda counts, group: _percent(counts.greatest("integer_issued"), counts.core_cycles),
    ),
    Metric(
        "zero_retire_percent",
        _PERCENT,
        "Cycles of a core in which nothing retired.",
        _cycles_percent("zero_retire_cycles"),
    ),
    Metric(
        "iq_backup_percent",
        _PERCENT,
        "Cycles of a core in which an instruction could not be renamed because its queue, or its context's share of "
        "it, was full.",
        _cycles_percent("queue_full_cycles"),
    ),
    Metric(
        "registers_full_percent",
        _PERCENT,
        "The same because no register was free, or the context's share of them was used up.",
        _cycles_percent("registers_full_cycles"),
    ),
    Metric(
        "iq_average_size",
        "instructions",
        "Instructions in the integer queue of a core, averaged over cycles.",
        _average("integer_queue_occupancy"),
    ),
    Metric(
        "full_queue_spin_percent",
        _PERCENT,
        "Share of the integer queue's entries whose instructions wait for a lock, in the cycles of "
        "`iq_backup_percent`.",
        _of_full_queue("spinning"),
    ),
    Metric(
        "full_queue_idle_percent",
        _PERCENT,
        "The same of instructions that poll for work.",
        _of_full_queue("polling"),
    ),
    Metric(
        "few_polling_percent",
        _PERCENT,
        "Cycles of a core in which fewer than four instructions in the integer queue poll for work.",
        lambda counts, group: _percent(counts.of_histogram("polling_queued", 0, 3), counts.core_cycles),
    ),
    Metric(
        "useful_issue_percent",
        _PERCENT,
        "Instructions that integer units began and that neither wait for a lock nor poll, wrong paths included, "
        "of what the units could begin.",
        _useful_issue,
    ),
    Metric(
        "useful_load_miss_percent",
        _PERCENT,
        "Share of the look-ups of loads that miss in the data cache, of loads that neither wait for a lock nor poll.",
        lambda counts, group: _percent(
            counts.counter("load_misses", "useful"), counts.counter("load_lookups", "useful")
        ),
    ),
    Metric(
        "fq_average_size",
        "instructions",
        "Instructions in the floating-point queue of a core, averaged over cycles.",
        _average("fp_queue_occupancy"),
    ),
    Metric(
        "outstanding_misses.l1i",
        "lines",
        "Lines in flight to the instruction cache of a core, averaged over cycles.",
        _average("outstanding_misses", "l1i"),
    ),
    Metric(
        "outstanding_misses.l1d",
        "lines",
        "Lines in flight to the data cache of a core, averaged over cycles.",
        _average("outstanding_misses", "l1d"),
    ),
    Metric(
        "outstanding_misses.l2",
        "lines",
        "Lines in flight from memory to the second level, averaged over cycles.",
        _average("outstanding_misses", L2),
    ),
    Metric(
        "memory_bus_delay_cycles",
        "cycles",
        "Cycles that a line waits for its memory channel, averaged over lines read and lines written back.",
        _bus_delay,
    ),
    *(
        Metric(f"{name}_percent", _PERCENT, f"{what}, of the instructions that retired.", _mix(part, name), GROUPS)
        for name, part, what in (
            ("loads", CORE, "Loads"),
            ("stores", CORE, "Stores"),
            ("atomics", CORE, "Atomics"),
            ("branches", "branch", "Conditional branches"),
            ("fp_operations", CORE, "Floating-point operations, loads and stores not counted"),
        )
    ),
    Metric(
        "all_branches_percent",
        _PERCENT,
        "Branches and jumps of all kinds, environment calls and returns from traps, of the instructions that retired.",
        lambda counts, group: _percent(_all_kinds(counts, group), counts.counter("retired", group=group)),
        GROUPS,
    ),
    *(
        Metric(f"branch_mix.{kind}", _PERCENT, f"{what}, of `all_branches_percent`.", _kind_percent(kind), GROUPS)
        for kind, what in (
            ("conditional", "Conditional branches"),
            ("unconditional", "Jumps and calls to a fixed target"),
            ("indirect", "Returns, and jumps and calls to what a register says"),
            ("system", "Environment calls, and returns from traps"),
        )
    ),
    Metric(
        "conditional_taken_percent",
        _PERCENT,
        "Conditional branches that were taken, of those that retired.",
        lambda counts, group: _percent(
            counts.counter("branches_taken", _BRANCH, group), counts.counter("branches", _BRANCH, group)
        ),
        GROUPS,
    ),
    Metric(
        "interrupt_cycles_percent",
        _PERCENT,
        "Context-cycles in interrupts, of those in which a hart is not asleep in wfi.",
        _awake_percent(("interrupt",)),
    ),
    Metric(
        "spin_cycles_percent",
        _PERCENT,
        "Context-cycles of harts that execute and wait for a lock, of those in which a hart is not asleep in wfi.",
        _awake_percent(_SPINNING),
    ),
    Metric(
        "useful_ipc",
        _IPC,
        "Instructions retired while neither waiting for a lock nor polling for work, by cycle of a core.",
        _ipc_of(_USEFUL),
    ),
    Metric(
        "spin_ipc",
        _IPC,
        "Instructions retired while waiting for a lock, by cycle of a core.",
        _ipc_of(_SPINNING),
    ),
    Metric(
        "spin_instructions_percent",
        _PERCENT,
        "Share of the retired instructions that retire while waiting for a lock.",
        _instructions_percent(_SPINNING),
    ),
    Metric(
        "lock_instructions_percent",
        _PERCENT,
        "Share of the retired instructions that retire in routines that take a spin lock, waiting or not: what "
        "Redstone (2002) calls spinning.",
        _instructions_percent(_SPINNING + _ACQUIRING),
    ),
    Metric(
        "lock_cycles_percent",
        _PERCENT,
        "The same of context-cycles, of those in which a hart is not asleep in wfi.",
        _awake_percent(_SPINNING + _ACQUIRING),
    ),
    Metric(
        "idle_instructions_percent",
        _PERCENT,
        "Share of the retired instructions that retire while polling for work.",
        _instructions_percent(_POLLING),
    ),
    Metric(
        "useful_per_thread_ipc",
        _THREAD_IPC,
        "The IPC of a hart that neither waits for a lock nor polls, by context-cycle, in any mode.",
        _per_thread_of(_USEFUL),
    ),
    Metric(
        "spin_per_thread_ipc",
        _THREAD_IPC,
        "The IPC of a hart that waits for a lock, by context-cycle.",
        _per_thread_of(_SPINNING),
    ),
    Metric(
        "idle_per_thread_ipc",
        _THREAD_IPC,
        "The IPC of a hart that polls for work, by context-cycle.",
        _per_thread_of(_POLLING),
    ),
    Metric(
        "spin_to_useful_ipc_ratio",
        "ratio",
        "`spin_per_thread_ipc` to `useful_per_thread_ipc`.",
        _spin_to_useful,
    ),
    Metric(
        "lock_ipc_ratio",
        "ratio",
        "By context-cycle, the IPC of a hart in a routine that takes a spin lock to that of one which is in none "
        "and does "
        "not poll.",
        lambda counts, group: _ratio(_per_thread(counts, _SPINNING + _ACQUIRING), _per_thread(counts, _OUTSIDE_LOCKS)),
    ),
)


def of(result: Result) -> list[Measured]:
    """The metrics of a result directory that has tables, of its samples if there are any. A program without an
    operating system has one mode."""
    found = measure(*sampling.counted(result))
    if "program" not in result.manifest:
        return found
    whole = (
        Measured(each.metric, {ALL: each.values[ALL]}, {ALL: each.half_widths[ALL]} if ALL in each.half_widths else {})
        for each in found
        if ALL in each.values
    )
    return [each for each in whole if each.metric.name != KERNEL_SHARE]


def measure(tables: Mapping[str, Sequence[Json]], samples: Samples | None = None) -> list[Measured]:
    """The metrics that tables have the inputs of; with samples, how sure they are."""
    sure = {} if samples is None else samples.half_widths(lambda tables: columns(measure(tables)))
    counts = Counts(tables)
    found = (_measured(metric, counts, sure) for metric in METRICS)
    return [each for each in found if each.values]


def _measured(metric: Metric, counts: Counts, sure: Mapping[str, float]) -> Measured:
    values = _values(metric, counts)
    names = {group: column(metric, group) for group in values}
    return Measured(metric, values, {group: sure[name] for group, name in names.items() if name in sure})


def column(metric: Metric, group: str) -> str:
    """A metric of a group of modes where each has a column of its own: `ipc`, `ipc.user`."""
    return metric.name if group == ALL else f"{metric.name}.{group}"


def columns(found: Iterable[Measured]) -> dict[str, float]:
    """Metrics by such names."""
    return {column(each.metric, group): value for each in found for group, value in each.values.items()}


def half_widths(found: Iterable[Measured]) -> dict[str, float]:
    """Half of the interval of every metric that is a mean of samples, by the same names."""
    return {column(each.metric, group): value for each in found for group, value in each.half_widths.items()}


def _values(metric: Metric, counts: Counts) -> dict[str, float]:
    values = {}
    for group in metric.groups:
        try:
            values[group] = metric.value(counts, group)
        except Absent:
            continue
    return values
