"""`loiter exec`: one Linux program on a booted system."""

from __future__ import annotations

import contextlib
import re
import select
import sys
import tarfile
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from loiter import engine as engines
from loiter import waiting as tables
from loiter.cli.booting import Booting
from loiter.cli.live import SystemLine
from loiter.cli.observe import (
    CheckOption,
    GdbOption,
    Observation,
    PipelineFromOption,
    PipelineOption,
    PipelineToOption,
    ProfileFromOption,
    ProfileOption,
    SymbolsOption,
    TimelineOption,
    TraceCountOption,
    TraceFromOption,
    TraceOption,
)
from loiter.cli.options import PhasesOption, RoiOption, WaitingOption, err
from loiter.cli.systems import DEFAULT_IMAGE, SystemOptions, readable, takes
from loiter.engine import Engine, Session
from loiter.errors import Fault, RunFault, StoreFault, UserFault
from loiter.images import Image, agent
from loiter.systems import execute as executing
from loiter.systems import prepared
from loiter.systems.request import MEMORY, Boot
from loiter.systems.roi import of_program


class ProgramEnded(Exception):
    """The program ended, with a status that is the command's too."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


_SECONDS_BEFORE_REMARK = 3.0
# File systems allow 255 bytes for a name.
_NAME_LENGTH = 200


@takes(SystemOptions)
def execute(
    system: SystemOptions,
    command: Annotated[list[str], typer.Argument(metavar="PROGRAM [ARGS]", help="What to run, and its arguments.")],
    packages: Annotated[
        list[str] | None,
        typer.Option(
            "--packages", metavar="A,B,...", help="Debian packages beside those every image has. May be repeated."
        ),
    ] = None,
    put: Annotated[
        list[Path] | None,
        typer.Option(
            "--put", metavar="FILE", help="A file or directory that the program finds beside it. May be repeated."
        ),
    ] = None,
    get: Annotated[
        list[str] | None,
        typer.Option(
            "--get",
            metavar="FILE",
            help="A file or directory of the guest that is copied here when the program has ended. May be repeated.",
        ),
    ] = None,
    environment: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="A variable of the program's environment. May be repeated."),
    ] = None,
    no_stdin: Annotated[
        bool, typer.Option("--no-stdin", "-n", help="Give the program no standard input, and do not wait for its end.")
    ] = False,
    timeout_s: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", min=0.0, help="Fail when it has not ended by then; host time."),
    ] = None,
    out_directory: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write a result directory: manifest, output, console, tables."),
    ] = None,
    roi: RoiOption = None,
    phases: PhasesOption = None,
    waiting: WaitingOption = None,
    gdb: GdbOption = None,
    symbols: SymbolsOption = None,
    trace: TraceOption = None,
    trace_from: TraceFromOption = None,
    trace_count: TraceCountOption = None,
    profile: ProfileOption = None,
    profile_from: ProfileFromOption = None,
    pipeline: PipelineOption = None,
    pipeline_from: PipelineFromOption = None,
    pipeline_to: PipelineToOption = None,
    timeline: TimelineOption = None,
    check: CheckOption = False,
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

    observation = Observation(
        gdb=gdb,
        trace=trace,
        trace_from=trace_from,
        trace_count=trace_count,
        profile=profile,
        profile_from=profile_from,
        check=check,
        pipeline=pipeline,
        pipeline_from=pipeline_from,
        pipeline_to=pipeline_to,
        timeline=timeline,
    )
    if out_directory is not None:
        from loiter import store

        store.claim(out_directory)
    files = [*_program(command), *(put or [])]
    for path in put or []:
        if not path.exists():
            raise UserFault(f"--put {path}: No such file or directory.")
    variables, wanted = _variables(environment or []), get or []
    engine = engines.load()
    needs_symbols = _needs_symbols(engine, phases) or observation.names_functions
    image = _image(system.image, packages)
    boot = prepared.request(*system.seated(engine), image, system.append, network=system.network, seed=system.seed)
    region = of_program(boot.machine, roi, phases, gdb)
    phases = phases or region.plan
    observation = observation.of_region(region.plan is not None)
    # With phases, harts go to the cores of the machine when the first timed one begins.
    boot = replace(boot, untimed=phases is not None)
    if waiting is not None:
        boot = replace(boot, waiting=tables.named(waiting))
    boot = replace(
        boot, symbols=_symbols(boot, image, [*_elf_files(files), *(symbols or [])] if needs_symbols else None)
    )
    stdin = None if no_stdin else _stdin(boot.machine.count(MEMORY, 0) << 20)
    with Booting(f"booting {image.name} on {boot.machine.name}") as booting:
        session = prepared.restore(engine, boot, booting.waiting, booting.progress)
    if phases is not None:
        session.begin_phases(phases)
    began, first = time.monotonic(), session.instructions
    with (
        executing.archive(
            agent.script(command, variables, region.launch, wanted), files, stdin, comes_back=bool(wanted)
        ) as archive,
        observation.watching(session, command) as faults,
        SystemLine(session) as live,
    ):
        done = executing.run(session, archive, keep=out_directory is not None, timeout_s=timeout_s, live=live)
        faults += _take(archive, wanted)
    found = facts(session, time.monotonic() - began, first)
    if out_directory is not None:
        from loiter.systems import results

        manifest = results.describe(engine, boot) | {
            "command": command,
            "put": [path.name for path in files],
            "exit_status": done.status,
        }
        kept = {"stdout": done.out, "stderr": done.err, "console.txt": done.console}
        results.write(out_directory, manifest, found, {name: bytes(data) for name, data in kept.items()}, session)
    if stats:
        err().print(describe(found | region_of(session)), style="dim", highlight=False, soft_wrap=True)
    _judge(session, done.status, faults)
    raise ProgramEnded(done.status)


def _symbols(boot: Boot, image: Image, of_user: list[Path] | None) -> tuple[Path, ...]:
    """Files that name addresses: those of the user where they are of use. Reading them takes time."""
    own: list[Path | None] = []
    if of_user is not None:
        own = [image.system_map, *of_user]
    elif boot.waiting is not None and boot.machine.is_timed:
        own = [image.system_map]
    return tuple(readable(path, "--symbols") for path in own if path is not None)


def _needs_symbols(engine: Engine, phases: str | None) -> bool:
    """Whether a plan of phases names symbols. It must not end before the program."""
    if phases is None:
        return False
    plan = engine.describe_phases(phases)
    if plan["bounded"]:
        raise UserFault(
            f"--phases {phases}: the last phase has an end, where the program would be cut off; let another follow, "
            'such as "reference".'
        )
    return bool(plan["names_symbols"])


def _take(archive: executing.Archive, wanted: list[str]) -> list[Fault]:
    """Takes the files that were to come back; a fault for those that did not."""
    if not wanted:
        return []
    try:
        missing = agent.take(archive.file, wanted, Path())
    except (OSError, tarfile.TarError) as error:
        return [StoreFault(f"--get: cannot take what came back: {error}.")]
    return [RunFault(f"--get {name}: not there when the program had ended.") for name in missing]


def _judge(session: Session, status: int, faults: list[Fault]) -> None:
    """Whether all that was asked for besides the program's result came to pass."""
    missed = session.missed_phase()
    if missed is not None and status == 0:
        raise UserFault(f"--phases: {missed}")
    for fault in faults:
        raise fault


def _elf_files(files: list[Path]) -> list[Path]:
    """Those of the files that may name their functions: not stripped, or shared."""
    from loiter.systems import elf

    return [path for path in files if elf.has_symbols(path)]


def _program(command: list[str]) -> list[Path]:
    """The program, if it is a file of the user's; the command then names it as the guest finds it."""
    from loiter.systems import elf

    if not command[0].startswith(("./", "../")):
        return []
    path = Path(command[0])
    elf.require_program(path, command[0])
    command[0] = f"./{path.name}"
    return [path]


def _variables(texts: list[str]) -> dict[str, str]:
    variables = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise UserFault(f"--env {text}: a variable is written NAME=VALUE.")
        variables[name] = value
    return variables


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


def _image(name: str | None, packages: list[str] | None) -> Image:
    from loiter import images

    words = sorted({word.strip() for text in packages or [] for word in text.split(",")} - {""})
    if not words:
        image = images.ensure(name or DEFAULT_IMAGE, err())
    elif name is not None:
        raise UserFault(
            f"--packages and --image {name} contradict each other: an image has the packages it was built with. "
            f"`loiter image build {name} --packages ...` builds it with others."
        )
    else:
        image = images.build(
            f"{DEFAULT_IMAGE}+{'+'.join(words)}"[:_NAME_LENGTH], images.Recipe("debian", packages=tuple(words)), err()
        )
    if image.root is None:
        raise UserFault(f"image {image.name} has no root file system, so no programs; {DEFAULT_IMAGE} has.")
    return image
