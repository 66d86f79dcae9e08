"""The `loiter` command."""

from __future__ import annotations

import signal
import sys
import traceback
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

import loiter
from loiter.cli import (
    advise,
    boot,
    compare,
    execute,
    explore,
    image,
    latency,
    lock_stats,
    locks,
    machine,
    metrics,
    native,
    run,
    snapshot,
    study,
    sweep,
    vm,
    wait,
)
from loiter.errors import Fault, InternalFault, Interrupted, UserFault

app = typer.Typer(
    name="loiter",
    help="loiter shows what waiting costs: programs on cycle-level models of multithreaded processors.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 all well, 1 a run failed, 2 your mistake, 3 loiter's own fault, 130 interrupted. "
    "[bold]loiter exec[/] has its program's, and 125 for each of the three.",
)
app.command("machines")(machine.list_machines)
app.add_typer(machine.app, name="machine")
app.command("programs")(run.list_programs)
app.command("run")(run.run)
app.command("sweep")(sweep.sweep)
app.command("compare")(compare.compare)
app.command("metrics")(metrics.show_metrics)
app.command("wait")(wait.wait)
app.command("latency")(latency.latency)
app.command("locks")(locks.locks)
app.command("advise")(advise.advise)
app.command("lock-stats")(lock_stats.lock_stats)
app.command("explore")(explore.explore)
app.add_typer(native.app, name="native")
app.add_typer(study.app, name="study")
app.command("boot")(boot.boot)
# What follows the program's name is the program's.
app.command("exec", context_settings={"allow_interspersed_args": False})(execute.execute)
app.command("vm")(vm.vm)
app.add_typer(snapshot.app, name="snapshot")
app.add_typer(image.app, name="image")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"loiter {loiter.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Options of loiter itself."""


# The status of `loiter exec` where loiter itself fails, as env, timeout and docker have it; others are the program's.
EXEC_FAILED = 125


def main(arguments: list[str] | None = None) -> Any:
    """Entry point. Turns faults into one message and an exit status."""
    before = signal.signal(signal.SIGINT, _interrupt)
    words = sys.argv[1:] if arguments is None else arguments
    passes_status = words[:1] == ["exec"]
    try:
        return app(arguments)
    except execute.ProgramEnded as program:
        sys.exit(program.status)
    except SystemExit as left:
        # The library has said what is wrong with the command line.
        sys.exit(EXEC_FAILED if passes_status and left.code == UserFault.exit_status else left.code)
    except Fault as fault:
        _report(fault)
        sys.exit(EXEC_FAILED if passes_status and not isinstance(fault, Interrupted) else fault.exit_status)
    except Exception as error:
        traceback.print_exc()
        _report(InternalFault(f"{type(error).__name__}: {error}"))
        sys.exit(EXEC_FAILED if passes_status else InternalFault.exit_status)
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # A fault like others; of a KeyboardInterrupt the command-line library makes exit status 1.
    raise Interrupted("interrupted")


def _report(fault: Fault) -> None:
    console = Console(stderr=True)
    text = Text("error: ", style="bold red")
    text.append(str(fault), style="default not bold")
    if isinstance(fault, InternalFault):
        text.append("\nThis is a fault in loiter, not yours. Please report it with the command that led to it.")
    console.print(text, soft_wrap=True, highlight=False)
