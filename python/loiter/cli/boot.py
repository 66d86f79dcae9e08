"""`loiter boot`: a system with a console."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from loiter import engine as engines
from loiter.cli.options import JsonOption, SetOption, err, print_json
from loiter.cli.systems import (
    AppendOption,
    DeviceTreeOption,
    DiskOption,
    FirmwareOption,
    HartsOption,
    ImageOption,
    InitrdOption,
    KernelOption,
    MachineOption,
    MemoryOption,
    NetworkOption,
    SeedOption,
    SystemOptions,
)
from loiter.engine import Session
from loiter.errors import RunFault
from loiter.systems.drive import Driver
from loiter.systems.ending import End, How
from loiter.systems.facts import describe, facts
from loiter.systems.terminal import Terminal
from loiter.systems.watch import Watch

_HELP = """\
Ctrl-A h  this help
Ctrl-A x  end the simulation
Ctrl-A i  where every hart stands
Ctrl-A a  send Ctrl-A to the guest (or Ctrl-A Ctrl-A)
"""


def boot(
    machine: MachineOption = None,
    harts: HartsOption = None,
    memory: MemoryOption = None,
    image: ImageOption = None,
    kernel: KernelOption = None,
    initrd: InitrdOption = None,
    firmware: FirmwareOption = None,
    disks: DiskOption = None,
    append: AppendOption = None,
    network: NetworkOption = False,
    seed: SeedOption = 0,
    device_tree: DeviceTreeOption = None,
    sets: SetOption = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TEXT", help="End well when the console says this.")
    ] = None,
    timeout_s: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", min=0.0, help="Fail when it has not ended by then; host time."),
    ] = None,
    max_instructions: Annotated[
        int | None, typer.Option("--max-instructions", metavar="N", min=1, help="End after so many, of all harts.")
    ] = None,
    pace: Annotated[
        bool | None,
        typer.Option(
            "--pace/--no-pace",
            help="Whether the guest's clock goes with the host's while it waits. Default: in a terminal.",
            show_default=False,
        ),
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
    options = SystemOptions(
        machine, harts, memory, image, kernel, initrd, firmware, disks, append, network, seed, device_tree, sets
    )
    request = options.request(engine)
    began = time.monotonic()
    session = engine.boot(request.native())
    with Terminal() as terminal:
        driver = Driver(
            session=session,
            terminal=terminal,
            watch=Watch(until),
            pace=terminal.interactive if pace is None else pace,
            command=lambda key: _command(session, terminal, key),
            show=not as_json,
            instructions=max_instructions,
            timeout_s=timeout_s,
            console=bytearray() if as_json else None,
        )
        if terminal.interactive:
            terminal.say("Ctrl-A x ends the simulation, Ctrl-A h is help.")
        try:
            end = driver.run()
        finally:
            if terminal.interactive:
                # The guest may be in the middle of a line.
                terminal.say("")
    found = facts(session, time.monotonic() - began)
    if as_json:
        said = bytes(driver.console or b"").decode(errors="replace")
        print_json(
            {"request": request.native(), "end": end.how.value, "message": end.message} | found | {"console": said}
        )
    else:
        err().print(describe(found), style="dim", highlight=False, soft_wrap=True)
    _judge(end, until)


def _command(session: Session, terminal: Terminal, key: str) -> None:
    if key == "i":
        text = "\n".join(session.where_harts_stand())
    elif key == "h":
        text = _HELP.rstrip()
    else:
        text = f"Ctrl-A {key!r}: no such command; Ctrl-A h is help"
    terminal.say(f"\n{text}")


def _judge(end: End, until: str | None) -> None:
    """Whether the run is a success."""
    missed = "" if until is None else f'; the console never said "{until}"'
    if end.how in (How.PANIC, How.FAILURE, How.STUCK, How.TIMEOUT):
        raise RunFault(f"{end.message}{missed}")
    if until is not None and end.how is not How.SAID:
        raise RunFault(f"{end.message}{missed}")
    if end.how is How.RESET:
        err().print(f"{end.message}; it ends here", highlight=False)
