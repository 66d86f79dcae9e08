"""`loiter boot`: a system with a console."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from loiter import engine as engines
from loiter import waiting as tables
from loiter.cli.live import SystemLine
from loiter.cli.observe import Observation, SymbolsOption
from loiter.cli.options import COUNT_LIMIT, JsonOption, PhasesOption, RoiOption, WaitingOption, err, print_json, takes
from loiter.cli.systems import BootOptions, sits_in_cores
from loiter.engine import Engine, Json, Session
from loiter.errors import Fault, RunFault, UserFault
from loiter.resources import readable
from loiter.systems.drive import Driver
from loiter.systems.ending import End, How
from loiter.systems.facts import describe, facts
from loiter.systems.roi import Roi, of_boot
from loiter.systems.terminal import Terminal
from loiter.systems.watch import Watch

_HELP = """\
Ctrl-A h  this help
Ctrl-A x  end the simulation
Ctrl-A s  save a snapshot in this directory
Ctrl-A i  where every hart stands
Ctrl-A a  send Ctrl-A to the guest (or Ctrl-A Ctrl-A)"""


@takes(system=BootOptions, observation=Observation)
def boot(
    *,
    system: BootOptions,
    snapshot: Annotated[
        Path | None, typer.Option("--snapshot", metavar="FILE", help="Continue a system that was saved.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TEXT", help="End well when the console says this.")
    ] = None,
    timeout_s: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", min=0.0, help="Fail when it has not ended by then; host time."),
    ] = None,
    max_instructions: Annotated[
        int | None,
        typer.Option(
            "--max-instructions", metavar="N", min=1, max=COUNT_LIMIT, help="End after so many, of all harts."
        ),
    ] = None,
    pace: Annotated[
        bool | None,
        typer.Option(
            "--pace/--no-pace",
            help="Whether the guest's clock goes with the host's while it waits. Default: in a terminal.",
            show_default=False,
        ),
    ] = None,
    roi: RoiOption = None,
    phases: PhasesOption = None,
    waiting: WaitingOption = None,
    symbols: SymbolsOption = None,
    observation: Observation,
    out_directory: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write a result directory: manifest, console, tables."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Boot Linux and be at its console.

    Without options: Debian, built if it is not there, on the untimed reference engine. In a terminal, Ctrl-A is the
    escape key: Ctrl-A x ends, Ctrl-A h says what else there is.

    Example: [bold]loiter boot -m t1[/]

    Example: [bold]loiter boot --kernel Image --append "loglevel=8" --until "login:" --timeout 60[/]
    """
    engine = engines.load()
    observation.check_kept(out_directory is not None)
    if out_directory is not None:
        from loiter import store

        store.claim(out_directory)
    if phases is not None:
        engine.describe_phases(phases)
    timed = _Timed(roi, phases, observation.gdb)
    session, manifest, request, plan = _start(
        engine, system, snapshot, symbols or [], waiting, out_directory is not None, timed
    )
    if plan is not None:
        session.begin_phases(plan)
    observation = observation.of_region(plan is not None and phases is None)
    began, first = time.monotonic(), session.instructions
    keep = as_json or out_directory is not None
    with (
        observation.watching(session, [request["kernel"], request["bootargs"]]) as faults,
        Terminal() as terminal,
        SystemLine(session, wanted=not as_json) as live,
    ):
        driver = Driver(
            session=session,
            terminal=terminal,
            watch=Watch(until),
            pace=terminal.interactive if pace is None else pace,
            command=lambda key: _command(session, terminal, key),
            show=not as_json,
            instructions=None if max_instructions is None else first + max_instructions,
            timeout_s=timeout_s,
            console=bytearray() if keep else None,
            live=live,
        )
        if terminal.interactive:
            terminal.say("Ctrl-A x ends the simulation, Ctrl-A h is help.")
        try:
            end = driver.run()
        finally:
            live.clear()
            if terminal.interactive:
                # The guest may be in the middle of a line.
                terminal.say("")
    found = facts(session, time.monotonic() - began, first)
    said = bytes(driver.console or b"")
    ended = {"end": {"how": end.how.value, "message": end.message}}
    if out_directory is not None:
        from loiter.systems import results

        results.write(out_directory, manifest | ended, found, {"console.txt": said}, session)
    if as_json:
        print_json({"request": request} | ended | found | {"console": said.decode(errors="replace")})
    else:
        err().print(describe(found), style="dim", highlight=False, soft_wrap=True)
    judge(end, until)
    missed = session.missed_phase()
    if missed is not None and end.how in (How.POWER_OFF, How.RESET):
        raise UserFault(f"--phases: {missed}")
    for fault in faults:
        raise fault


@dataclass(frozen=True)
class _Timed:
    """What a person said of what is timed."""

    roi: Roi | None
    phases: str | None
    gdb: str | None


def _start(
    engine: Engine,
    system: BootOptions,
    snapshot: Path | None,
    symbols: list[Path],
    waiting: str | None,
    described: bool,
    timed: _Timed,
) -> tuple[Session, Json, Json, str | None]:
    """The system, what determines it, the request, and the phases in which it runs."""
    if snapshot is None:
        machine, _ = system.seated(engine)
        plan = of_boot(machine, timed.roi, timed.phases, timed.gdb)
        boot = system.request(engine)
        boot = replace(boot, symbols=boot.symbols + tuple(readable(path, "--symbols") for path in symbols))
        if waiting is not None:
            boot = replace(boot, waiting=tables.named(waiting))
        # With phases, harts go to the cores of the machine when the first timed one begins.
        request = boot.native() | {"untimed": plan is not None}
        manifest = {}
        if described:
            from loiter.systems import results

            manifest = results.describe(engine, boot)
        return engine.boot(request), manifest, request, plan
    if timed.roi not in (None, Roi.ALL):
        raise UserFault(
            f"--snapshot {snapshot} and --roi {timed.roi.value} contradict each other: a snapshot is taken where a run "
            "is to go on, and is timed from there. Say more with --phases."
        )
    found = engine.show_snapshot(snapshot)
    # With phases, harts go to the cores of the machine when the first timed one begins, unless they sit in them.
    request = system.request_of_snapshot(engine, snapshot)
    request["untimed"] = timed.phases is not None and not sits_in_cores(found)
    request["symbols"] += [str(readable(path, "--symbols").absolute()) for path in symbols]
    if waiting is not None:
        table = tables.named(waiting)
        request["waiting"] = None if table is None else table.native()
    manifest = {"snapshot": found["header"] if described else {}, "set": request["set"]}
    return engine.restore(snapshot, request), manifest, request, timed.phases


def _command(session: Session, terminal: Terminal, key: str) -> None:
    if key == "i":
        text = "\n".join(session.where_harts_stand())
    elif key == "h":
        text = _HELP
    elif key == "s":
        text = _save(session)
    else:
        text = f"Ctrl-A {key!r}: no such command; Ctrl-A h is help"
    terminal.say(f"\n{text}")


def _save(session: Session) -> str:
    """Saves a snapshot under a name that is not taken."""
    path = next(path for n in range(1, 10_000) if not (path := Path(f"loiter-{n}.snapshot")).exists())
    try:
        length = session.save(path, f"saved at the console, {session.seconds:.3f} s after power-on")
    except Fault as fault:
        return f"error: {fault}"
    return f"{path} is written, {length / 2**20:.1f} MiB; `loiter boot --snapshot {path}` continues from here"


def judge(end: End, until: str | None) -> None:
    """Whether the run is a success."""
    missed = "" if until is None else f'; the console never said "{until}"'
    if end.how in (How.PANIC, How.FAILURE, How.STUCK, How.TIMEOUT):
        raise RunFault(f"{end.message}{missed}")
    if until is not None and end.how is not How.SAID:
        raise RunFault(f"{end.message}{missed}")
    if end.how in (How.RESET, How.RESTED):
        err().print(f"{end.message}; it ends here", highlight=False)
