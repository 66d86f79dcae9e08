"""`loiter advise`: what each waiting method would do to the locks of a profile."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from loiter import engine as engines
from loiter.cli.options import (
    JsonOption,
    MachineOption,
    SetOption,
    check_directory,
    err,
    load_machine,
    out,
    print_json,
)
from loiter.errors import unknown
from loiter.report.table import headed

if TYPE_CHECKING:
    from rich.console import Console

    from loiter.advise.check import Checked

_CHECKS = ("recommended", "all")


def advise(
    profile: Annotated[
        Path,
        typer.Argument(
            metavar="PROFILE",
            help="Output of perf lock contention (with -x too), a /proc/lock_stat, or a result directory of loiter "
            "with counts of locks.",
        ),
    ],
    machine: MachineOption,
    sets: SetOption = None,
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", help="Threads that contend, one a context. Default: those of a result of loiter."),
    ] = None,
    lock: Annotated[
        list[str] | None,
        typer.Option("--lock", metavar="NAME", help="Only this class of the profile. May be repeated."),
    ] = None,
    top: Annotated[
        int, typer.Option(metavar="K", min=1, help="So many classes, those on which most time was waited.")
    ] = 3,
    hold: Annotated[
        str | None,
        typer.Option(
            metavar="TIME[..TIME]",
            help="How long the lock is held, or between what: 1.2us, 500ns..3us, 800cycles. Default: as the profile "
            "says.",
        ),
    ] = None,
    current: Annotated[str, typer.Option(metavar="LOCK/METHOD[:STEPS]", help="What was profiled.")] = "qspinlock/pause",
    policies: Annotated[
        str,
        typer.Option(
            metavar="A,B,...",
            help="What is tried: METHOD[:STEPS] of the current lock, LOCK, or LOCK/METHOD[:STEPS]; methods and locks "
            "are those of [bold]loiter locks[/].",
        ),
    ] = "pause,pause:3,fence,back_off,nap,catnap,ticket,mcs",
    wanted: Annotated[
        str, typer.Option("--for", metavar="throughput|wait|energy", help="What is to get better.")
    ] = "throughput",
    match: Annotated[
        str | None,
        typer.Option(
            metavar="share|wait|rate",
            help="What synthetic contention has in common with the profile: the share of acquires that contend, their "
            "mean wait, or acquisitions in a time. Default: the share where it is known and below 90 %, else the wait.",
        ),
    ] = None,
    arrivals: Annotated[
        str, typer.Option(metavar="exponential|uniform", help="How work outside is distributed.")
    ] = "exponential",
    clock_mhz: Annotated[
        float | None,
        typer.Option(
            "--profiled-clock-mhz",
            metavar="MHZ",
            min=1.0,
            help="Clock of the machine that was profiled: its cycles are kept. Default: its times are.",
        ),
    ] = None,
    lines: Annotated[int, typer.Option(metavar="COUNT", help="Lines that the section writes.")] = 1,
    fill: Annotated[
        str,
        typer.Option(
            metavar="cores|siblings|across", help="Which contexts come first, unless a result of loiter says it."
        ),
    ] = "cores",
    seeds: Annotated[int, typer.Option(metavar="COUNT", min=2, help="Runs of each policy.")] = 5,
    acquisitions: Annotated[
        int, typer.Option(metavar="COUNT", min=10, help="Of each run, about, as far as it does not take too long.")
    ] = 1000,
    most_cycles: Annotated[
        int | None,
        typer.Option(
            metavar="CYCLES",
            min=1000,
            help="Longest time of a run; long sections of many threads need more. Default: 40 million / threads.",
        ),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="recommended|all",
            help="Of a run of the program locks: run it again with the recommended policy, or with all, beside what "
            "was predicted.",
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Runs at a time. Default: one for each processor.")
    ] = None,
    out_directory: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where results go. Default: results/advise-PROFILE-MACHINE."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Advise which waiting method and which lock to take, from a profile of locks.

    Each class of the profile becomes contention of the same sections and the same share of acquires that contend, on a
    simulated machine; each policy runs it, and the best one is recommended if its gain is outside its uncertainty.
    Finished runs are kept: the same command continues where an earlier one was stopped.

    Example: [bold]loiter advise lock_stat.txt -m knl --threads 64 --top 1[/]

    Example: [bold]loiter advise perf.csv -m server --threads 56 --hold 500ns..3us --for energy[/]
    """
    from loiter.advise import check as checks
    from loiter.advise import plan
    from loiter.advise import policies as parsed
    from loiter.advise import profile as profiles
    from loiter.advise.study import OBJECTIVES, Advice, Asked
    from loiter.latency import check_timed
    from loiter.report import terminal
    from loiter.runs import pool
    from loiter.studies.runner import Order, carry_out

    if wanted not in OBJECTIVES:
        raise unknown("--for", wanted, OBJECTIVES)
    if check is not None and check not in _CHECKS:
        raise unknown("--check", check, _CHECKS)
    check_directory(out_directory)
    engine, workers = engines.load(), jobs or pool.cpus()
    found = load_machine(engine, machine, sets)
    check_timed(found)
    wish = plan.Wish(threads, hold, match, arrivals, lines, fill, clock_mhz, most_cycles)
    wish.check()
    now = parsed.parse(current, parsed.DEFAULT_LOCK)
    tried = parsed.chosen(found, [word.strip() for word in policies.split(",") if word.strip()], now)
    read = profiles.read(profile).in_cycles(plan.clock(found, wish))
    if check is not None:
        checks.refuse_others(profile, found, now)
    classes = read.chosen(lock or [], top)
    cases = plan.cases(engine, found, read, classes, wish, now, workers, err())
    advice = Advice(Asked(found, read, tuple(cases), tried, seeds, acquisitions, wanted))
    directory = out_directory or Path("results") / f"advise-{profile.stem}-{found.name}"
    words = {"--threads": threads, "--hold": hold, "--match": match, "--profiled-clock-mhz": clock_mhz, "--for": wanted}
    words |= {"--current": current, "--policies": policies, "--arrivals": arrivals, "--lines": lines, "--fill": fill}
    words |= {"--top": top, "--seeds": seeds, "--acquisitions": acquisitions, "--check": check}
    words |= {"--most-cycles": most_cycles}
    command = shlex.join(
        ["loiter", "advise", str(profile), "-m", machine]
        + [word for each in sets or [] for word in ("--set", each)]
        + [word for each in lock or [] for word in ("--lock", each)]
        + [word for name, value in words.items() if value is not None for word in (name, str(value))]
    )
    outcome = carry_out(Order(advice, "advise", None, workers, directory, command), engine, err())
    outcome.raise_failures()
    assert outcome.findings is not None, "whatever has all its runs can be evaluated"
    checked = [] if check is None else checks.check(advice.found, check == "all", workers, quiet=as_json)
    if as_json:
        print_json(advice.found.json() | {"checked": [each.json() for each in checked]})
        return
    console = out()
    terminal.show(console, outcome.findings)
    if checked:
        _show(console, checked)
    for path in outcome.files:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)


def _show(console: Console, checked: list[Checked]) -> None:
    title = "The program itself, run again: change over the current policy"
    table = headed(title)
    for column in ("lock", "policy", "predicted", "measured", "error, points", "intervals"):
        table.add_column(column, justify="left" if column in ("lock", "policy") else "right", overflow="fold")
    for each in checked:
        meet = Text("meet", style="green") if each.holds else Text("MISS", style="bold red")
        error = f"{each.error_points:+.1f}"
        table.add_row(each.case, each.policy, str(each.predicted), str(each.measured), error, meet)
    console.print(table)
