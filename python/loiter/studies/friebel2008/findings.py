"""Histograms, tables and sweeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from loiter import reference
from loiter.studies.base import Curves, Grid
from loiter.studies.friebel2008 import grid, mix, web
from loiter.studies.friebel2008.grid import ALONE, LOCKS, MODES, PREEMPTED, TEST_AND_SET, TICKET, YIELDING, Case, Scale
from loiter.studies.friebel2008.measured import Measured, Times, Waits

_NAMES = {TEST_AND_SET: "test-and-set", TICKET: "ticket", grid.QUEUED: "queued", grid.PARAVIRTUAL: "para-virtual"}
_TABLES = {TEST_AND_SET: "tas", TICKET: "ticket"}


def histograms(found: Measured, load: str) -> list[Curves]:
    """Waits by count and by time, a curve for each mode."""
    waits = {name: found.waits(grid.mode(load, TEST_AND_SET, name)) for name in MODES}
    return [
        _histogram(load, waits, "count", "waits", lambda each: each.counts),
        _histogram(load, waits, "time", "ms in all", lambda each: _ms(each.cycles)),
    ]


def _mode(case: Case) -> str:
    return YIELDING if case.after_log2 else PREEMPTED if case.rivals else ALONE


def count(of: float) -> str:
    """Of something, in the mean of runs."""
    return f"{of:,.0f}" if of == round(of) else f"{of:,.1f}"


def _ms(cycles: Mapping[int, float]) -> dict[int, float]:
    return {log2: n / (1000 * grid.CLOCK_MHZ) for log2, n in cycles.items()}


def _histogram(
    load: str, waits: Mapping[str, Waits], by: str, unit: str, values: Callable[[Waits], Mapping[int, float]]
) -> Curves:
    bins = range(max((log2 for each in waits.values() for log2 in each.counts), default=0) + 1)
    curves = {name: [(float(log2), values(each).get(log2, 0.0)) for log2 in bins] for name, each in waits.items()}
    title = f"Waits for locks by {by}: {grid.LOADS[load]}"
    caption = (
        f"Test-and-set; waits of 2^n up to 2^(n+1) cycles for locks that were not free. A slice is of "
        f"2^{grid.SLICE_LOG2} cycles. In the mean of repetitions; linked is the first."
    )
    runs = {(name, float(log2)): grid.mode(load, TEST_AND_SET, name).label for name in waits for log2 in bins}
    return Curves(f"waits_{by}_{load}", title, caption, "log2 of the cycles", unit, curves, runs=runs)


def waits(found: Measured, load: str) -> Grid:
    """What the histograms come to."""
    caption = (
        f"Test-and-set, {grid.LOADS[load]}. Waits are for a lock that was not free; how many were, Linux does not "
        "show. Counts are of a run, in the mean of repetitions."
    )
    return _waits(found, load, found.waits, Grid(f"waits_{load}", "Waits for locks", caption, (), ()))


def executed(found: Measured) -> Grid:
    """The same by what CPUs executed of them."""
    caption = (
        f"Test-and-set, {grid.LOADS[grid.BUILD]}, by the cycles in which CPUs executed who waits. Who has yielded or "
        "lost its CPU waits for longer. Counts are of a run, in the mean of repetitions."
    )
    named = Grid("waits_executed", "Waits for locks, as long as they were executed", caption, (), ())
    return _waits(found, grid.BUILD, found.executed, named)


def _waits(found: Measured, load: str, of: Callable[[Case], Waits], named: Grid) -> Grid:
    rows = []
    for name in MODES:
        each = of(grid.mode(load, TEST_AND_SET, name))
        long = sum(each.long().values())
        second = f"2^{each.second_mode}" if long else ""
        acquires = "" if load == grid.BUILD else count(found.acquires(grid.mode(load, TEST_AND_SET, name)))
        numbers = (count(each.count), f"2^{each.mode}", f"{each.share_below(16):.1f}", count(long), second)
        rows.append((name, acquires, *numbers, f"{each.time_share():.1f}"))
    near = grid.SLICE_LOG2 - 2
    columns = (
        "mode",
        "acquires",
        "waits",
        "most at",
        "below 2^16, %",
        f"from 2^{near}",
        "most of these at",
        "their share of the time, %",
    )
    return replace(named, columns=columns, rows=tuple(rows))


def window(found: Measured, scale: Scale) -> Grid:
    """Waits in a part of the native build, by the power of two of their cycles."""
    each = found.waits(grid.WINDOW)
    rows = tuple((f"2^{log2}", count(n), f"{each.share_below(log2 + 1):.1f}") for log2, n in each.counts.items())
    begins, ends = (us / 1000 for us in (scale.window_begins_us, scale.window_begins_us + scale.window_us))
    caption = (
        f"Test-and-set, {grid.LOADS[grid.BUILD]} from {begins:g} to {ends:g} ms, on a host that costs nothing: waits "
        "of 2^n up to 2^(n+1) cycles for locks that were not free. With --set vm:host.machine=MACHINE and --set "
        "vm:host.clock_mhz=MHZ, its clock, the machine's cores execute that part; their caches are cold when it begins."
    )
    return Grid("waits_window", "Waits for locks, natively", caption, ("cycles", "waits", "up to these, %"), rows)


def results(found: Measured, load: str) -> Grid:
    """The paper's tables of both locks, ours beside them."""
    rows = []
    for lock in LOCKS:
        for name in (ALONE, PREEMPTED, YIELDING):
            case = grid.mode(load, lock, name)
            wall, *others = _ours(found.times(case))
            rows.append((_NAMES[lock], name, f"{wall}{_span(found, case)}", *others, *_published(lock, name)))
    columns = (
        *("lock", "mode", "wall, ms", "guest, ms", "spinning, ms", "spinning, %"),
        *("published: wall, s", "guest, s", "spinning, s", "spinning, %"),
    )
    caption = f"{grid.LOADS[load]}. > : not done when the run was given up. {_MEANS}"
    return Grid(f"results_{load}", "What preemption costs and yielding saves", caption, columns, tuple(rows), words=2)


_MEANS = "Means of repetitions; in brackets from the least to the greatest."


def _span(found: Measured, case: Case) -> str:
    """From the least to the greatest wall time of repetitions."""
    span = found.spread(case, lambda times: times.wall)
    return f" ({span[0]:,.0f} to {span[1]:,.0f})" if span else ""


def _ours(times: Times) -> tuple[str, ...]:
    wall = f"{'' if times.over else '> '}{times.wall:,.0f}"
    return wall, f"{times.guest:,.0f}", f"{times.spinning:,.1f}", f"{times.spinning_percent:.1f}"


def _published(lock: str, name: str) -> tuple[str, ...]:
    table = reference.load(grid.PAPER)["result"][_TABLES[lock]].get(name, {})
    return tuple(str(table.get(key, "")) for key in ("wall_s", "guest_s", "spinning_s", "spinning_percent"))


def gain(before: float, after: float) -> float:
    """Per cent by which a time has become less."""
    return 100 * (1 - after / before)


def efficiency(found: Measured, load: str) -> Grid:
    """Where the CPUs' time goes while the guest is preempted, and what yielding gains."""
    rows = []
    for lock in LOCKS:
        before, after = (found.times(grid.mode(load, lock, name)) for name in (PREEMPTED, YIELDING))
        parts = (before.guest, before.rivals, before.switching, before.idle)
        shares = (f"{100 * part / sum(parts):.1f}" for part in parts)
        rows.append((_NAMES[lock], *shares, *_gains(before, after)))
    columns = ("lock", "guest, %", "rival, %", "switching, %", "idle, %", *_GAINS)
    caption = f"{grid.LOADS[load]}. Of the CPUs' time, preempted. {_AMDAHL}"
    return Grid(f"efficiency_{load}", "Efficiency", caption, columns, tuple(rows))


_GAINS = ("gain of guest time, %", "by Amdahl's law of wall time, %", "gain of wall time, %")
_AMDAHL = (
    "By Amdahl's law the wall time gains the guest's gain times the guest's part of what the CPUs do for it; the rest "
    "is the host's, here switching and in the paper a VMM that takes as long as the guest."
)


def expected_gain(before: Times, after: Times) -> float:
    """Of the wall time, where the host's part for the guest stays: Amdahl's law as the paper applies it."""
    return gain(before.guest, after.guest) * before.guest / (before.guest + before.host)


def _gains(before: Times, after: Times) -> tuple[str, ...]:
    bound = "> " if not before.over else "< " if not after.over else ""
    if not before.over and not after.over:
        return ("",) * len(_GAINS)
    gains = (gain(before.guest, after.guest), expected_gain(before, after), gain(before.wall, after.wall))
    # Without the sign of a zero.
    return tuple(f"{bound}{round(each, 1) + 0.0:.1f}" for each in gains)


def threshold(found: Measured, scale: Scale) -> list[Curves]:
    """Wall time and spinning by the cycles after which a waiter yields."""
    cases = {lock: {n: Case(grid.SECTIONS, lock, "published", n) for n in scale.thresholds} for lock in LOCKS}
    return _swept(found, "threshold", "When a waiter yields", "log2 of the cycles after which a waiter yields", cases)


def guests(found: Measured, scale: Scale) -> list[Curves]:
    """The same by the number of guests."""
    cases = {
        f"{lock}, {'yielding' if yields else 'never'}": {n: grid.overcommitted(lock, n, yields) for n in scale.guests}
        for lock in LOCKS
        for yields in (False, True)
    }
    wall, spinning = _swept(found, "guests", "Guests on the same CPUs", "guests", cases)
    title = "Guests on the same CPUs: efficiency"
    caption = (
        "One lock on bare metal. The guest's time alone over that beside others; of runs that were given up, a bound."
    )
    kept = {series: [(float(n), _efficiency(found, case)) for n, case in by.items()] for series, by in cases.items()}
    return [wall, spinning, Curves("guests_efficiency", title, caption, "guests", "%", kept, runs=wall.runs)]


def _efficiency(found: Measured, case: Case) -> float:
    """Per cent of the guest's time that it would need alone."""
    alone = found.times(grid.overcommitted(case.lock, 1, yields=False))
    return 100 * alone.guest / found.times(case).guest


def overcommitment(found: Measured, scale: Scale) -> Grid:
    """What is left of the guest's time, and of its part of the wall time, by the number of guests."""
    rows = []
    for lock in LOCKS:
        alone = found.times(grid.overcommitted(lock, 1, yields=False))
        for n in scale.guests:
            pair = [grid.overcommitted(lock, n, yields) for yields in (False, True)]
            before, after = map(found.times, pair)
            for case, times, gains in zip(pair, (before, after), (("",) * 3, _gains(before, after)), strict=True):
                bound = "" if times.over else "< "
                kept = (_efficiency(found, case), 100 * n * alone.wall / times.wall)
                yields = f"after 2^{case.after_log2}" if case.after_log2 else "never"
                efficiency = (f"{bound}{each:.1f}" for each in kept)
                rows.append((_NAMES[lock], str(n), yields, *_ours(times), *efficiency, *gains))
    columns = (
        *("lock", "guests", "yields", "wall, ms", "guest, ms", "spinning, ms", "spinning, %"),
        *("efficiency of guest time, %", "of wall time, %", *_GAINS),
    )
    caption = (
        "One lock on bare metal. Efficiency: the guest's time alone over that beside others, and the wall time alone, "
        f"times the guests, over that here. Gains are of those that yield. {_AMDAHL}"
    )
    return Grid("guests", "Guests on the same CPUs", caption, columns, tuple(rows), words=3)


def _swept(
    found: Measured, name: str, title: str, across: str, cases: Mapping[str, Mapping[int, Case]]
) -> list[Curves]:
    runs = {(series, float(n)): case.label for series, by in cases.items() for n, case in by.items()}
    wall = {series: [(float(n), found.times(case).wall) for n, case in by.items()] for series, by in cases.items()}
    spins = {
        series: [(float(n), found.times(case).spinning_percent) for n, case in by.items()]
        for series, by in cases.items()
    }
    caption = "One lock on bare metal. Runs that were not done are given up at the same time."
    return [
        Curves(f"{name}_wall", f"{title}: wall time", caption, across, "ms", wall, runs=runs),
        Curves(f"{name}_spinning", f"{title}: spinning", caption, across, "% of the guest's time", spins, runs=runs),
    ]


def queued(found: Measured) -> Grid:
    """What the paper has not: queued locks."""
    rows = []
    for case in grid.queued():
        times = found.times(case)
        load = grid.LOADS[case.load]
        rows.append((load, _NAMES[case.lock], _mode(case), *_ours(times), count(times.yields), count(times.slept)))
    columns = ("load", "lock", "mode", "wall, ms", "guest, ms", "spinning, ms", "spinning, %", "yields", "sleeps")
    caption = (
        "On a kernel with queued spin locks. A waiter of a para-virtual one looks "
        f"{grid.LOOKS} times, which takes about 2^{grid.AFTER_LOG2} cycles, then sleeps until it is kicked."
    )
    return Grid("queued", "Queued spin locks", caption, columns, tuple(rows), words=3)


def fences(found: Measured) -> Grid:
    """What a guest waits for beside locks: CPUs that are to forget translations and instructions."""
    rows = []
    for case in grid.fences():
        times, calls = found.times(case), found.calls(case)
        total = sum(calls.cycles.values()) / (1000 * grid.CLOCK_MHZ)
        numbers = (count(calls.count), f"{total:,.0f}", count(sum(calls.long().values())))
        rows.append((str(case.asid_bits), grid.FENCES[case.fences], _mode(case), *_ours(times), *numbers))
    columns = (
        *("ASID bits", "fences by", "mode", "wall, ms", "guest, ms", "spinning, ms", "spinning, %"),
        *("calls waited for", "ms in all", f"from 2^{grid.SLICE_LOG2 - 2}"),
    )
    caption = (
        f"{grid.LOADS[grid.BUILD]}, test-and-set. The firmware's waits for other CPUs do not show and cannot yield. "
        "The kernel's are among those for functions that other CPUs are to execute, which count as spinning and yield."
    )
    return Grid("fences", "Remote fences", caption, columns, tuple(rows), words=3)


def more_cpus(found: Measured, scale: Scale) -> Grid:
    """What the build waits for, the more the more CPUs there are."""
    rows = []
    for case in grid.more_cpus(scale):
        times, waits, calls = found.times(case), found.waits(case), found.calls(case)
        cpus, counts = str(scale.enlarged(case.times).cpus), (count(each.count) for each in (waits, calls))
        long = (count(sum(each.long().values())) for each in (waits, calls))
        rows.append((cpus, _mode(case), *_ours(times), *counts, *long))
    near = grid.SLICE_LOG2 - 2
    columns = (
        *("virtual CPUs", "mode", "wall, ms", "guest, ms", "spinning, ms", "spinning, %"),
        *("waits for locks", "for other CPUs", f"locks, from 2^{near}", f"other CPUs, from 2^{near}"),
    )
    caption = f"{grid.LOADS[grid.BUILD]}, ticket locks; as much to build for each virtual CPU."
    return Grid("cpus", "The build on more virtual CPUs", caption, columns, tuple(rows), words=2)


def contended(found: Measured) -> Grid:
    """How often a build waits for locks, and what happens where all CPUs of a guest meet in one."""
    rows = []
    for case in grid.contended():
        times, waits = found.times(case), found.waits(case)
        numbers = (count(waits.count), f"{waits.count / times.guest:.2f}", count(sum(waits.long().values())))
        rows.append((grid.LOADS[case.load], _NAMES[case.lock], _mode(case), *_ours(times), *numbers))
    columns = (
        *("load", "lock", "mode", "wall, ms", "guest, ms", "spinning, ms", "spinning, %"),
        *("waits", "a ms of the guest", f"from 2^{grid.SLICE_LOG2 - 2}"),
    )
    caption = (
        f"{mix.PROCESSES_A_CPU} processes a virtual CPU write {mix.ROUNDS} times each to one eventfd, which all watch: "
        "kernelmix, narrow. What they have done is checked. Compiling them is part of the times."
    )
    return Grid("contended", "A contended lock of the kernel", caption, columns, tuple(rows), words=3)


def pairs(found: Measured) -> Grid:
    """Guests that work side by side."""
    rows = []
    for case in grid.pairs():
        both = f"{case.load} beside {case.beside}" if case.beside else f"{case.load} alone"
        yields = f"after 2^{case.after_log2}" if case.after_log2 else "never"
        other = _ours(found.times(case, 1)) if case.beside else ("",) * 4
        rows.append((both, _NAMES[case.lock], yields, *_ours(found.times(case)), *other))
    columns = (
        *("guests", "lock", "yields", "wall, ms", "guest, ms", "spinning, ms", "spinning, %"),
        *("the other: wall, ms", "guest, ms", "spinning, ms", "spinning, %"),
    )
    caption = (
        f"{grid.LOADS[grid.BUILD]}; {grid.LOADS[grid.WEB]}, {web.REQUESTS_A_CLIENT} requests each. The host has as "
        "many CPUs as each guest."
    )
    return Grid("pairs", "Guests that work side by side", caption, columns, tuple(rows), words=3)


def choice(found: Measured) -> Grid:
    """Whom to run, beside each other."""
    rows = []
    for policy in grid.CHOICES:
        times = found.times(Case(grid.SECTIONS, TICKET, policy, grid.AFTER_LOG2))
        rows.append((policy, *_ours(times), count(times.yields), count(times.helped)))
    columns = ("policy", "wall, ms", "guest, ms", "spinning, ms", "spinning, %", "yields", "helped")
    caption = f"One ticket lock on bare metal, waiters that yield after 2^{grid.AFTER_LOG2} cycles."
    return Grid("choice", "Who runs instead of a waiter that yields", caption, columns, tuple(rows))
