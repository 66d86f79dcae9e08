"""What `loiter run` says after the program's own output."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from loiter import sampling
from loiter.cli.options import out
from loiter.counts import Absent, Counts
from loiter.engine import Json
from loiter.report.table import headed
from loiter.results import regions
from loiter.runs.request import Request

IDLE_STATES = (1, 2, 3)
"""Those that a machine may have (`[idle]`)."""


def show_console(result: Json) -> None:
    """What the program printed."""
    if result["console"]:
        sys.stdout.write(result["console"].rstrip("\n") + "\n\n")
        sys.stdout.flush()


def show(request: Request, result: Json, written: Path | None) -> None:
    """How the run went and where its cycles went."""
    console = out()
    console.print(_facts(request, result, written), highlight=False)
    accounts = _accounts(request, result)
    if accounts.row_count:
        console.print(accounts, highlight=False)


def _facts(request: Request, result: Json, written: Path | None) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    cycles, instructions, seconds = result["cycles"], result["instructions"], result["host_seconds"]
    clock = result["clock_mhz"]
    time = f" ({cycles / clock:,.1f} µs at {clock:,} MHz)" if clock else ""
    rate = instructions / seconds / 1e6 if seconds else 0.0
    table.add_row("machine", f"{request.machine.name}, hash {request.machine.hash[:16]}")
    table.add_row("command line", request.bootargs)
    table.add_row("ended by", f"{result['exit']['reason']}, code {result['exit']['code']}")
    table.add_row("cycles", f"{cycles:,}{time}")
    table.add_row("instructions", f"{instructions:,} ({_rate(request, instructions, cycles)})")
    if asleep := _idle_states(request, result):
        table.add_row("idle states", asleep)
    if samples := result[sampling.TABLE]:
        table.add_row("samples", sampling.describe(sampling.summary(samples)))
    for words in _regions(result):
        table.add_row(*words)
    if result["checked_instructions"]:
        table.add_row("checked", f"{result['checked_instructions']:,} instructions, as the reference engine does them")
    table.add_row("host time", f"{seconds:.2f} s, {rate:.1f} M instructions/s")
    for report in result["reports"]:
        table.add_row("reported", f"{report['name']} = {report['value']} (hart {report['hart']})")
    if written is not None:
        table.add_row("result", str(written))
    return table


def _rate(request: Request, instructions: int, cycles: int) -> str:
    """Instructions a cycle: of the whole machine, and as the metric `ipc` has it, of one of its cores."""
    rate, cores = (instructions / cycles if cycles else 0.0), request.machine.cores
    whole = f"{rate:.3f} a cycle"
    return whole if cores == 1 else f"{whole} of all {cores} cores, {rate / cores:.3f} of one"


def _idle_states(request: Request, result: Json) -> str:
    """How long cores were in their idle states, by the names that these have."""
    counts = Counts(result)
    names = {each.key: each.value for each in request.machine.parameters}
    cycles = {n: _cycles_in(counts, n) for n in IDLE_STATES}
    shares = {n: f"{in_it / counts.core_cycles:.1%}" for n, in_it in cycles.items() if in_it}
    found = ", ".join(f"{names.get(f'idle.state{n}_name', f'state {n}')} {share}" for n, share in shares.items())
    return f"{found} of the cycles of all cores" if found else ""


def _cycles_in(counts: Counts, state: int) -> int:
    try:
        return counts.counter(f"state{state}_cycles", "idle")
    except Absent:
        # The reference engine has no cores.
        return 0


def _regions(result: Json) -> Iterator[tuple[str, str]]:
    """Regions of interest, and repetitions of each hart: how many, their mean, and where it differs the extremes."""
    by_hart: dict[tuple[str, int], list[Json]] = defaultdict(list)
    for region in regions(result["marks"], result["clock_mhz"]):
        by_hart[region["kind"], region["hart"]].append(region)
    for (kind, hart), found in by_hart.items():
        cycles = [region["cycles"] for region in found]
        mean = sum(cycles) / len(found)
        time = f" ({mean / result['clock_mhz']:,.1f} µs)" if result["clock_mhz"] else ""
        ipc = sum(region["instructions"] for region in found) / sum(cycles) if sum(cycles) else 0.0
        text = f"{mean:,.0f} cycles{time}, {ipc:.3f} instructions a cycle"
        if kind == "roi":
            yield "region", f"{text} (hart {hart})"
        else:
            spread = f", {min(cycles):,} to {max(cycles):,} cycles" if min(cycles) < max(cycles) else ""
            yield "repetitions", f"{len(found)} of {text}{spread} (hart {hart})"


def _accounts(request: Request, result: Json, most: int = 6) -> Table:
    """Where the cycles went of each context in which a hart with a task has sat, the greatest shares first."""
    placed = {hart for _, harts in request.placement.tasks for hart in harts}
    sat: dict[int, list[int]] = defaultdict(list)
    for seat in result["seats"]:
        if seat["hart"] not in sat[seat["context"]]:
            sat[seat["context"]].append(seat["hart"])
    moved = any(len(harts) > 1 for harts in sat.values())
    by_context: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in result["accounts"]:
        if placed.intersection(sat[row["context"]]):
            by_context[row["context"]][f"{row['activity']}: {row['slot']}"] += row["cycles"]
    table = headed("Where the cycles went")
    table.add_column("context", justify="right")
    if moved:
        table.add_column("harts, one after the other", justify="right")
    table.add_column("share of its cycles", overflow="fold")
    for context, slots in sorted(by_context.items()):
        greatest = sorted(slots.items(), key=lambda pair: -pair[1])[:most]
        whole = sum(slots.values())
        shares = [f"{name} {cycles / whole:.1%}" for name, cycles in greatest if cycles * 1000 >= whole]
        harts = [", ".join(map(str, sat[context]))] if moved else []
        table.add_row(str(context), *harts, ", ".join(shares))
    return table
