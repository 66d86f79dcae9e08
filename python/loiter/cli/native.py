"""`loiter native`: this machine, and what waiting costs on it."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from loiter import contention
from loiter.cli.execute import ProgramEnded
from loiter.cli.options import JsonOption, check_directory, err, out, print_json, warn
from loiter.errors import UserFault
from loiter.native import host, siblings
from loiter.native import wrap as wrapping
from loiter.native.host import Cost, Host
from loiter.report.table import headed

_COUNTS = ("acquisitions", "contentions", "acq-bounces")
_TIMES = ("waittime-max", "waittime-total", "waittime-avg", "holdtime-max", "holdtime-total", "holdtime-avg")
_WIDTH = 160
_MOST_ROWS = 20

app = typer.Typer()


@app.callback(invoke_without_command=True)
def native(context: typer.Context, as_json: JsonOption = False) -> None:
    """Show this machine: CPUs and what they share, waiting instructions, what the kernel allows, what things cost.

    Costs are measured now, in about a second, by programs that your C compiler builds at first use.
    [bold]loiter locks -m native[/] compares locks on it.

    Example: [bold]loiter native[/]
    """
    if context.invoked_subcommand is not None:
        return
    found = host.measure()
    if as_json:
        print_json(dataclasses.asdict(found))
        return
    _show(out(), found)


@app.command("siblings")
def show_siblings(
    pair: Annotated[
        str | None, typer.Option("--pair", metavar="CPU,CPU", help="Two CPUs. Default: the first SMT siblings.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure what a waiter costs the program beside it in the same core, by waiting method.

    Programs that keep one part of a core busy run on one CPU, alone and beside a waiter on the other, in turn.

    Example: [bold]loiter native siblings[/]
    """
    cpus = None
    if pair is not None:
        words = pair.split(",")
        if len(words) != 2 or not all(word.isdecimal() for word in words):
            raise UserFault(f"--pair {pair}: two numbers of CPUs, as in 0,1.")
        cpus = int(words[0]), int(words[1])
    found = siblings.measure(cpus)
    if as_json:
        print_json(dataclasses.asdict(found))
        return
    console = out()
    first, second = found.cpus
    text = f"a program's time on CPU {first} beside a waiter on CPU {second} ({found.relation}), by that alone"
    console.print(text, highlight=False, soft_wrap=True)
    console.print("median over rounds ± half of the range", style="dim")
    cells = {(each.program, each.method): each for each in found.slowdowns}
    table = headed()
    table.add_column("waiter", no_wrap=True)
    names = list(dict.fromkeys(each.program for each in found.slowdowns))
    for name in names:
        table.add_column(name, justify="right")
    for method in dict.fromkeys(each.method for each in found.slowdowns):
        row = (cells[name, method] for name in names)
        table.add_row(method, *(f"{each.median:.2f} ±{(each.most - each.least) / 2:.2f}" for each in row))
    console.print(table)


@app.command("wrap", context_settings={"allow_interspersed_args": False})
def wrap_program(
    command: Annotated[list[str], typer.Argument(metavar="PROGRAM [ARGS]", help="What to run, and its arguments.")],
    lock: Annotated[str, typer.Option("--lock", metavar="NAME", help=f"One of {', '.join(wrapping.FORMS)}.")],
    policy: Annotated[
        str, typer.Option(metavar="NAME[:STEPS]", help=f"How threads wait: {', '.join(wrapping.METHODS)}.")
    ] = "pause",
    patience: Annotated[
        int, typer.Option(metavar="LOOKS", help="After so many looks a waiter also yields; 0: it never does.")
    ] = wrapping.PATIENCE,
    statistics: Annotated[
        bool, typer.Option("--statistics/--no-statistics", help="Count waits and sections, which takes time itself.")
    ] = True,
    out_directory: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where the statistics go, as Parquet and CSV. Default: nowhere."),
    ] = None,
) -> None:
    """Run a program with one of our locks under its pthread mutexes, and leave with its exit status.

    The program is not changed. Its normal and adaptive mutexes get the lock; recursive, error-checking, robust and
    process-shared ones, and those with a priority protocol, stay with the C library. Statistics come at the end, on
    standard error: a row for all mutexes that were first seen at one place of the program.

    Example: [bold]loiter native wrap --lock mcs -- pigz -k file[/]

    Example: [bold]loiter native wrap --lock spin_then_park --out results/pigz -- pigz -k file[/]
    """
    check_directory(out_directory)
    if out_directory is not None and not statistics:
        raise UserFault("--out: without statistics there is nothing to write.")
    method, steps = contention.method_and_steps(policy)
    asked = wrapping.Asked(lock, method, steps, patience, statistics)
    asked.check()
    if method == "nap" and host.nap() == "none":
        warn("this machine has no nap (Zawrs, WAITPKG, MONITORX, WFE): waiters pause instead")
    found = wrapping.run(command, asked)
    if statistics:
        console = Console(stderr=True, markup=False, width=None if sys.stderr.isatty() else _WIDTH)
        _show_wrapped(console, found, asked)
    if out_directory is not None:
        _write_wrapped(found, out_directory)
    raise ProgramEnded(found.status)


def _show_wrapped(console: Console, found: wrapping.Wrapped, asked: wrapping.Asked) -> None:
    if not found.rows:
        why = (
            "no process of it took a private mutex"
            if found.processes
            else "it is linked statically, or runs as another user"
        )
        console.print(f"no statistics: {why}.", highlight=False, soft_wrap=True)
        return
    frame = found.table()
    how = f"{asked.lock}, {asked.method}, patience {asked.patience}"
    console.print(f"mutexes by place, {how}; times in us", highlight=False, soft_wrap=True)
    table = headed()
    table.add_column("class name", overflow="fold")
    for column in _COUNTS:
        table.add_column(column, justify="right")
    for column in _TIMES:
        table.add_column(column, justify="right")
    several = frame["pid"].nunique() > 1
    for row in frame.head(_MOST_ROWS).to_dict("records"):
        name = str(row["name"]) + (" (left to the C library)" if row["is_left"] else "")
        if several:
            name = f"{row['pid']} {name}"
        counts = (f"{int(row[column]):,}" for column in _COUNTS)
        times = (_microseconds(row[column] / found.tick_rate_mhz) for column in _TIMES)
        table.add_row(name, *counts, *times)
    console.print(table)
    if len(frame) > _MOST_ROWS:
        console.print(f"and {len(frame) - _MOST_ROWS} more; --out writes all", style="dim", highlight=False)
    if found.lost:
        console.print(f"{found.lost} uses of classes by threads had no room and are not counted", highlight=False)


def _microseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _write_wrapped(found: wrapping.Wrapped, directory: Path) -> None:
    import pandas as pd

    directory.mkdir(parents=True, exist_ok=True)
    frame = found.table()
    frame["cycles_per_us"] = found.tick_rate_mhz
    frame.to_parquet(directory / "mutexes.parquet")
    frame.to_csv(directory / "mutexes.csv", index=False)
    pd.DataFrame(list(found.rows)).to_parquet(directory / "locks.parquet")
    text = f"wrote mutexes.parquet, mutexes.csv, locks.parquet to {directory}"
    err().print(text, highlight=False, soft_wrap=True)


def _show(console: Console, found: Host) -> None:
    facts = [*_machine(found), *_allowed(found)]
    widest = max(len(name) for name, _ in facts)
    for name, text in facts:
        console.print(f"{name:{widest}}  {text}", highlight=False, soft_wrap=True)
    console.print("\ninstructions and calls, on one CPU, ns", highlight=False)
    console.print(_costs("", found.instructions))
    for between in found.between:
        first, second = between.cpus
        text = f"from a store on CPU {first} to the end of the wait on CPU {second} ({between.relation}), ns"
        console.print(text, highlight=False)
        console.print(_costs("waiter", between.one_way))


def _costs(title: str, costs: tuple[Cost, ...]) -> Table:
    table = headed()
    table.add_column(title, no_wrap=True)
    for column in ("least", "median"):
        table.add_column(column, justify="right")
    for cost in costs:
        table.add_row(cost.name, f"{cost.least_ns:,.1f}", f"{cost.median_ns:,.1f}")
    return table


def _counted(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _machine(found: Host) -> list[tuple[str, str]]:
    topology = found.topology
    counts = {
        "CPU": len(topology.cpus),
        "core": len({cpu.core for cpu in topology.cpus}),
        "package": len({cpu.package for cpu in topology.cpus}),
        "memory node": topology.memory_nodes,
    }
    rows = [
        ("processor", topology.model or "of unknown name"),
        ("has", ", ".join(_counted(count, name) for name, count in counts.items())),
    ]
    for cache in topology.caches:
        size = f"{cache.bytes // 1024} KiB" if cache.bytes < 1 << 20 else f"{cache.bytes / (1 << 20):g} MiB"
        text = f"{cache.count} of {size}, each of {_counted(cache.cpus, 'CPU')}, lines of {cache.line_bytes} bytes"
        rows.append((f"L{cache.level} {cache.kind}", text))
    if "SMT siblings" not in {each.relation for each in found.between}:
        rows.append(("SMT siblings", "none that this process may use"))
    return [*rows, ("counter", f"{found.tick_rate_hz / 1e6:,.1f} MHz")]


def _allowed(found: Host) -> list[tuple[str, str]]:
    nap = found.nap
    if nap == "none":
        nap = "none (no Zawrs, WAITPKG, MONITORX or WFE): waiters that would nap pause"
    elif found.umwait_limit_cycles is not None:
        limit = found.umwait_limit_cycles
        nap += f", for {limit} cycles at most" if limit else ", without a limit of the kernel's"
    refused = {name: why for name, why in found.counters.items() if why}
    text = ", ".join(name for name in found.counters if name not in refused) or "none"
    if refused:
        reasons = ", ".join(sorted(set(refused.values())))
        text += f"; not {', '.join(refused)}: {reasons} ({host.counters_advice()})"
    return [("nap", nap), ("performance counters", text), ("energy", found.energy or "of packages (RAPL)")]
