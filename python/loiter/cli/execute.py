"""`loiter exec`: one Linux program on a booted system."""

from __future__ import annotations

import contextlib
import re
import select
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

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
    ProfileOption,
    SymbolsOption,
    TimelineOption,
    TraceCountOption,
    TraceFromOption,
    TraceOption,
)
from loiter.cli.options import PhasesOption, WaitingOption, err
from loiter.cli.systems import DEFAULT_IMAGE, SystemOptions, readable, takes
from loiter.engine import Engine, Session
from loiter.errors import Fault, UserFault
from loiter.images import Image, agent
from loiter.systems import prepared

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
    phases: PhasesOption = None,
    waiting: WaitingOption = None,
    gdb: GdbOption = None,
    symbols: SymbolsOption = None,
    trace: TraceOption = None,
    trace_from: TraceFromOption = None,
    trace_count: TraceCountOption = None,
    profile: ProfileOption = None,
    pipeline: PipelineOption = None,
    pipeline_from: PipelineFromOption = None,
    pipeline_to: PipelineToOption = None,
    timeline: TimelineOption = None,
    check: CheckOption = False,
    stats: Annotated[bool, typer.Option("--stats", help="Say at the end what it took, on standard error.")] = False,
) -> None:
    """Run one Linux program on a booted Debian, and leave with its exit status.

    A program given as ./prog is a file of yours (a riscv64 ELF, or a script) and is put into the system; any other is
    one of the system's. It runs as root in the directory of the files that were put. Standard input is read to its end
    first, unless it is a terminal. The system is booted once, untimed, and kept; a later call takes a second.

    Example: [bold]loiter exec -- python3 -c 'print(6 * 7)'[/]

    Example: [bold]loiter exec -m t1 --put input.txt -- ./prog input.txt[/]
    """
    from loiter.systems import execute as executing
    from loiter.systems.facts import describe, facts

    observation = Observation(
        gdb, trace, trace_from, trace_count, profile, check, pipeline, pipeline_from, pipeline_to, timeline
    )
    if out_directory is not None:
        from loiter import store

        store.claim(out_directory)
    files = [*_program(command), *(put or [])]
    for path in put or []:
        if not path.exists():
            raise UserFault(f"--put {path}: No such file or directory.")
    variables = _variables(environment or [])
    engine = engines.load()
    needs_symbols = _needs_symbols(engine, phases) or observation.names_functions
    image = _image(system.image, packages)
    boot = prepared.request(*system.seated(engine), image, system.append, network=system.network, seed=system.seed)
    # With phases, harts go to the cores of the machine when the first timed one begins.
    boot = replace(boot, untimed=phases is not None)
    if waiting is not None:
        boot = replace(boot, waiting=tables.named(waiting))
    own: list[Path | None] = []
    if needs_symbols:
        # Reading them takes time, which other calls do not need to.
        own = [image.system_map, *_elf_files(files), *(symbols or [])]
    elif boot.waiting is not None and boot.machine.is_timed:
        own = [image.system_map]
    boot = replace(boot, symbols=tuple(readable(path, "--symbols") for path in own if path is not None))
    stdin = None if no_stdin else _stdin()
    with Booting(f"booting {image.name} on {boot.machine.name}") as booting:
        session = prepared.restore(engine, boot, booting.waiting, booting.progress)
    if phases is not None:
        session.begin_phases(phases)
    began, first = time.monotonic(), session.instructions
    with (
        executing.archive(agent.script(command, variables), files, stdin) as archive,
        observation.watching(session, command) as faults,
        SystemLine(session) as live,
    ):
        done = executing.run(session, archive, keep=out_directory is not None, timeout_s=timeout_s, live=live)
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
        err().print(describe(found), style="dim", highlight=False, soft_wrap=True)
    _judge(session, done.status, faults)
    raise typer.Exit(done.status)


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


def _stdin() -> bytes | None:
    """What the program reads: all of it, for the guest gets it as a file."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return None
    with contextlib.suppress(OSError, ValueError):
        ready, _, _ = select.select([sys.stdin], [], [], _SECONDS_BEFORE_REMARK)
        if not ready:
            err().print("waiting for the end of standard input; -n gives the program none", style="dim")
    return sys.stdin.buffer.read()


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
