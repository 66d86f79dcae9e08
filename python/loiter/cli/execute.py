"""`loiter exec`: one Linux program on a booted system."""

from __future__ import annotations

import contextlib
import select
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from loiter import engine as engines
from loiter.cli.booting import Booting
from loiter.cli.live import SystemLine
from loiter.cli.observe import Observation, SymbolsOption
from loiter.cli.options import (
    EnvironmentOption,
    PackagesOption,
    PhasesOption,
    PutOption,
    RoiOption,
    TimeoutOption,
    WaitingOption,
    err,
    takes,
)
from loiter.cli.systems import SystemOptions
from loiter.engine import Session
from loiter.errors import Fault, RunFault, StoreFault, UserFault
from loiter.systems import execute as executing
from loiter.systems import prepared
from loiter.systems import program as programs
from loiter.systems.request import MEMORY
from loiter.systems.roi import Roi


class ProgramEnded(Exception):
    """The program ended, with a status that is the command's too."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


_SECONDS_BEFORE_REMARK = 3.0


@takes(system=SystemOptions, observation=Observation)
def execute(
    *,
    system: SystemOptions,
    command: Annotated[list[str], typer.Argument(metavar="PROGRAM [ARGS]", help="What to run, and its arguments.")],
    packages: PackagesOption = None,
    put: PutOption = None,
    get: Annotated[
        list[str] | None,
        typer.Option(
            "--get",
            metavar="FILE",
            help="A file or directory of the guest that is copied here when the program has ended. May be repeated.",
        ),
    ] = None,
    environment: EnvironmentOption = None,
    no_stdin: Annotated[
        bool, typer.Option("--no-stdin", "-n", help="Give the program no standard input, and do not wait for its end.")
    ] = False,
    timeout_s: TimeoutOption = None,
    out_directory: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write a result directory: manifest, output, console, tables."),
    ] = None,
    roi: RoiOption = None,
    phases: PhasesOption = None,
    waiting: WaitingOption = None,
    symbols: SymbolsOption = None,
    observation: Observation,
    stats: Annotated[bool, typer.Option("--stats", help="Say at the end what it took, on standard error.")] = False,
) -> None:
    """Run one Linux program on a booted Debian, and leave with its exit status; 125 says that loiter failed.

    A program given as ./prog is a file of yours (a riscv64 ELF, or a script) and is put into the system; any other is
    one of the system's. It runs as root in the directory of the files that were put. Standard input is read to its end
    first, unless it is a terminal. The system is booted once, untimed, and kept; a later call takes a second. On a
    machine with timed cores the program runs on those, from its first instruction to its end (--roi).

    Example: [bold]loiter exec -- python3 -c 'print(6 * 7)'[/]

    Example: [bold]loiter exec -m t1 --put input.txt -- ./prog input.txt[/]
    """
    from loiter.systems.facts import describe, facts, region_of

    observation.check_kept(out_directory is not None)
    if out_directory is not None:
        from loiter import store

        store.claim(out_directory)
    engine = engines.load()
    wish = programs.Wish(
        command,
        put=put or [],
        get=get or [],
        environment=environment or [],
        append=system.append,
        network=system.network,
        seed=system.seed,
        roi=roi,
        phases=phases,
        gdb=observation.gdb,
        waiting=waiting,
        symbols=symbols or [],
        lock_stats=observation.lock_stats,
        names_functions=observation.names_functions,
    )
    machine, harts = system.seated(engine)
    image = programs.image(system.image, packages or [], harts, err())
    program = programs.request(engine, machine, harts, image, wish)
    observation = observation.of_region(program.roi is not Roi.ALL)
    boot = program.boot
    stdin = None if no_stdin else _stdin(boot.machine.count(MEMORY, 0) << 20)
    with Booting(f"booting {image.name} on {boot.machine.name}", harts) as booting:
        session = prepared.restore(engine, boot, booting.waiting, booting.progress)
    if program.phases is not None:
        session.begin_phases(program.phases)
    began, first = time.monotonic(), session.instructions
    with (
        program.archive(stdin) as archive,
        observation.watching(session, command) as faults,
        SystemLine(session) as live,
    ):
        done = executing.run(session, archive, keep=out_directory is not None, timeout_s=timeout_s, live=live)
        try:
            programs.take(archive, program.get, Path(), "--get ")
        except (RunFault, StoreFault) as fault:
            faults.append(fault)
    found = facts(session, time.monotonic() - began, first)
    if out_directory is not None:
        from loiter.systems import results

        results.write(out_directory, program.manifest(engine, done.status), found, done.files(), session)
    if stats:
        err().print(describe(found | region_of(session)), style="dim", highlight=False, soft_wrap=True)
    _judge(session, done.status, faults)
    raise ProgramEnded(done.status)


def _judge(session: Session, status: int, faults: list[Fault]) -> None:
    """Whether all that was wanted besides the program's result came to pass."""
    missed = session.missed_phase()
    if missed is not None and status == 0:
        raise UserFault(f"--phases: {missed}")
    for fault in faults:
        raise fault


def _stdin(most_bytes: int) -> BinaryIO | None:
    """What the program reads: all of it, for the guest gets it as a file in its memory."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return None
    with contextlib.suppress(OSError, ValueError):
        ready, _, _ = select.select([sys.stdin], [], [], _SECONDS_BEFORE_REMARK)
        if not ready:
            err().print("waiting for the end of standard input; -n gives the program none", style="dim")
    # Not in memory: who reads an endless stream is told when there is too much of it, and has lost nothing.
    with contextlib.ExitStack() as stack:
        try:
            kept = stack.enter_context(tempfile.TemporaryFile(prefix="loiter-"))
            while chunk := sys.stdin.buffer.read(1 << 20):
                kept.write(chunk)
                if kept.tell() > most_bytes:
                    raise UserFault(
                        f"standard input has more than the {most_bytes >> 20:,} MiB of the guest's memory, where it is "
                        "kept; give the guest more with --memory, or no standard input with -n."
                    )
        except OSError as error:
            raise StoreFault(f"{tempfile.gettempdir()}: cannot keep standard input: {error.strerror}.") from None
        stack.pop_all()
    return kept
