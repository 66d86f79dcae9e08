"""The one door to the compiled simulator.

Everything else in the package speaks to the simulator through `Engine`, which turns the native exceptions into faults
and JSON texts into dictionaries. A worker process opens its own engine by module name.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from loiter.errors import Fault, InternalFault, Interrupted, RunFault, UserFault

NATIVE = "loiter._native"

Json = dict[str, Any]
Progress = Callable[[Json], bool]


class Engine:
    """A loaded native module. `name` is what a worker needs to open the same one."""

    def __init__(self, name: str, module: ModuleType) -> None:
        self.name = name
        self._module = module

    def machine_text(self, shown: str, path: Path, presets: Path) -> str:
        """The text of a machine file with what the machine it builds on says; presets lie in `presets`."""
        with self._faults():
            text: str = self._module.machine_text(shown, path, presets)
        return text

    def describe_machine(self, name: str, toml: str, sets: list[str]) -> Json:
        """Name, description, hash and every parameter of a machine after its overrides."""
        with self._faults():
            return _object(self._module.describe_machine(name, toml, sets))

    def describe_counters(self, name: str, toml: str, sets: list[str]) -> list[Json]:
        """Every counter of a machine: component, name, unit, description."""
        with self._faults():
            found: list[Json] = json.loads(self._module.describe_counters(name, toml, sets))
        return found

    def inspect_program(self, path: str, elf: bytes) -> Json:
        """Entry, tasks, segments and hash of an ELF."""
        with self._faults():
            return _object(self._module.inspect_program(path, elf))

    def run(self, request: Json, elf: bytes, progress: Progress | None = None) -> Json:
        """Runs one request to its end. `progress` returning False stops it (raises Interrupted)."""
        callback = None if progress is None else lambda text: progress(json.loads(text))
        with self._faults():
            return _object(self._module.run(json.dumps(request), elf, callback))

    def explore(
        self, path: str, elf: bytes, model: str, harts: int, states: int, progress: Progress | None = None
    ) -> tuple[Json, Any]:
        """All executions of a program under a memory model: how much was looked at, and the shortest that fails.

        That comes a second time as the native object which `Debugger.serve` shows; None if nothing fails.
        """
        callback = None if progress is None else lambda text: progress(json.loads(text))
        with self._faults():
            report, failing = self._module.explore(path, elf, model, harts, states, callback)
            return _object(report), failing

    def debugger(self, address: str) -> Debugger:
        """Listens at [HOST:]PORT for GDB."""
        with self._faults():
            return Debugger(self._module.Debugger.listen(address), self._faults)

    def boot(self, request: Json) -> Session:
        """A system at reset, about to boot."""
        with self._faults():
            return Session(self._module.Session.boot(json.dumps(request)), self._faults)

    def restore(self, path: Path, request: Json) -> Session:
        """The system in a snapshot."""
        with self._faults():
            return Session(self._module.Session.restore(str(path), json.dumps(request)), self._faults)

    def show_snapshot(self, path: Path) -> Json:
        """What a snapshot is of: `header`, `sections` and `bytes`."""
        with self._faults():
            return _object(self._module.show_snapshot(str(path)))

    def describe_phases(self, text: str) -> Json:
        """What a plan of phases comes to: `plan` in the form that equal plans share, `bounded`, `names_symbols`,
        `names_program`, `ends_timed`."""
        with self._faults():
            return _object(self._module.describe_phases(text))

    def describe_vm(self, path: str, text: str) -> Json:
        """Every key of a file of virtual machines: `host`, `scheduler`, `helping`, and a list of `guests`."""
        with self._faults():
            return _object(self._module.describe_vm(path, text))

    def vm(self, path: str, text: str, machine: tuple[str, str, list[str]] | None = None) -> Vm:
        """The host of a file of virtual machines, whose guests are to be added in their order.

        `machine` is the one that the file names, if it names one: its name, its file's text, changes.
        """
        with self._faults():
            return Vm(self._module.Vm(path, text, machine), self._faults)

    @functools.cached_property
    def sha256(self) -> str:
        """Hash of the compiled module: results of another build are other results."""
        return hashlib.sha256(Path(str(self._module.__file__)).read_bytes()).hexdigest()

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except self._module.UserError as error:
            raise UserFault(str(error)) from None
        except self._module.GuestError as error:
            raise RunFault(str(error)) from None
        except self._module.InternalError as error:
            raise InternalFault(str(error)) from None
        except self._module.Interrupted as error:
            raise Interrupted(str(error)) from None
        except BaseException as error:
            # A Rust panic arrives as pyo3's PanicException, which is no Exception.
            if type(error).__name__ == "PanicException":
                raise InternalFault(f"the simulator panicked: {error}") from None
            raise


class Debugger:
    """Where GDB comes to look at a failing execution."""

    def __init__(self, native: Any, faults: Callable[[], AbstractContextManager[None]]) -> None:
        self._native = native
        self._faults = faults

    @property
    def address(self) -> str:
        """Where that is, with the free port that was chosen for port 0."""
        address: str = self._native.address
        return address

    def serve(self, failing: Any, tell: Callable[[str], None]) -> None:
        """Shows a failing execution, from when GDB comes until it goes; `tell` gets what the user should know."""

        def progress(text: str) -> bool:
            for message in json.loads(text):
                tell(message)
            return True

        with self._faults():
            self._native.serve(failing, progress)


class Vm:
    """A host with guests."""

    def __init__(self, native: Any, faults: Callable[[], AbstractContextManager[None]]) -> None:
        self._native = native
        self._faults = faults

    def add_program(self, request: Json, elf: bytes) -> None:
        """The next guest runs a program, as the request of a run says."""
        with self._faults():
            self._native.add_program(json.dumps(request), elf)

    def add_snapshot(self, path: Path, request: Json) -> None:
        """The next guest is the system in a snapshot, to which somebody types."""
        with self._faults():
            self._native.add_snapshot(str(path), json.dumps(request))

    def step(self, host_seconds: float, *, output: bool = False) -> Json:
        """Runs for about so long, or until a guest that is typed to has said something.

        The returned `state` is running, asleep (until somebody types), over, limit, or paused.
        """
        with self._faults():
            return _object(self._native.step(host_seconds, output=output))

    def pause_at(self, us: int) -> None:
        """The host is to stand still when it comes to so much simulated time, at the end of a turn."""
        with self._faults():
            self._native.pause_at(us)

    def save(self, path: Path) -> None:
        """Saves the host as it stands."""
        with self._faults():
            self._native.save(str(path))

    def restore(self, path: Path) -> None:
        """Makes the host, which has not run, what a snapshot is of."""
        with self._faults():
            self._native.restore(str(path))

    def result(self) -> Json:
        """What is known so far: `guests`, `vcpus` and `cpus`. The host continues."""
        with self._faults():
            return _object(self._native.result())

    def take_output(self, guest: int, port: int) -> bytes:
        """What a guest has sent to a console since last asked."""
        with self._faults():
            output: bytes = self._native.take_output(guest, port)
        return output

    def push_input(self, guest: int, port: int, data: bytes) -> None:
        """Types on a console of a guest."""
        with self._faults():
            self._native.push_input(guest, port, data)

    def replace_disk(self, guest: int, number: int, disk: Json) -> None:
        """Puts another disk of the same size in the place of one of a guest, counted from 0."""
        with self._faults():
            self._native.replace_disk(guest, number, json.dumps(disk))

    def kill(self, guest: int) -> None:
        """Ends a guest from outside."""
        with self._faults():
            self._native.kill(guest)


class Session:
    """A booted system between two steps."""

    def __init__(self, native: Any, faults: Callable[[], AbstractContextManager[None]]) -> None:
        self._native = native
        self._faults = faults
        self.counts_locks = False
        """Whether what locks cost is counted by the symbols of their functions."""

    def step(
        self,
        host_seconds: float,
        *,
        cycle: int | None = None,
        instructions: int | None = None,
        output: bool = False,
        sleep: bool = False,
    ) -> Json:
        """Runs for about so long, or until a cycle, a number of instructions, output on a console, sleep of all harts.

        The returned `state` is running, asleep (with `timer_s`, until the next timer), reached, or ended.
        """
        with self._faults():
            return _object(
                self._native.step(host_seconds, cycle=cycle, instructions=instructions, output=output, sleep=sleep)
            )

    def statistics(self) -> Json:
        """What is known so far: the tables of a run, and totals of the timing model. The session continues."""
        with self._faults():
            return _object(self._native.statistics())

    @property
    def was_timed(self) -> bool:
        """Whether cores have been timed, now or before."""
        was_timed: bool = self._native.was_timed
        return was_timed

    def doze(self, seconds: float) -> None:
        """Lets simulated time pass in which all harts sleep."""
        with self._faults():
            self._native.doze(seconds)

    def take_output(self, port: int) -> bytes:
        """What the guest has sent to a console since last asked."""
        output: bytes = self._native.take_output(port)
        return output

    def push_input(self, port: int, data: bytes) -> None:
        """Types on a console."""
        with self._faults():
            self._native.push_input(port, data)

    def take_messages(self) -> list[str]:
        """What the user should know of disks that fail and of drivers that break the rules."""
        messages: list[str] = self._native.take_messages()
        return messages

    def where_harts_stand(self) -> list[str]:
        """One line for each hart."""
        lines: list[str] = self._native.where_harts_stand()
        return lines

    def save(self, path: Path, description: str) -> int:
        """Saves the system to a file; the file's length."""
        with self._faults():
            length: int = self._native.save(str(path), description)
            return length

    def replace_disk(self, number: int, disk: Json) -> None:
        """Puts another disk of the same size in the place of one, counted from 0."""
        with self._faults():
            self._native.replace_disk(number, json.dumps(disk))

    def listen_gdb(self, address: str) -> str:
        """Waits for GDB at [HOST:]PORT before anything executes; where that is."""
        with self._faults():
            heard: str = self._native.listen_gdb(address)
            return heard

    def begin_check(self) -> None:
        """Checks what timing cores do against the reference engine from now on."""
        with self._faults():
            self._native.begin_check()

    def skip_nothing(self) -> None:
        """Goes through every cycle of cores that repeat themselves from now on."""
        self._native.skip_nothing()

    def begin_phases(self, text: str) -> None:
        """Continues in phases, as the plan says."""
        with self._faults():
            self._native.begin_phases(text)

    def phases(self) -> list[Json]:
        """The phases so far."""
        rows: list[Json] = json.loads(self._native.phases())
        return rows

    def missed_phase(self) -> str | None:
        """What the plan has waited for in vain, once the run is over."""
        missed: str | None = self._native.missed_phase()
        return missed

    @property
    def checked_instructions(self) -> int:
        """Instructions of timing cores that have been checked."""
        checked: int = self._native.checked_instructions
        return checked

    def begin_trace(self, request: Json) -> None:
        """Writes a trace of retired instructions from now on: `path`, and `from` and `count` if wanted."""
        with self._faults():
            self._native.begin_trace(json.dumps(request))

    def begin_pipeline(self, request: Json) -> None:
        """Writes a log of the cores' pipelines from now on: `path`, and `from` and `to` if wanted."""
        with self._faults():
            self._native.begin_pipeline(json.dumps(request))

    def begin_timeline(self, path: Path) -> None:
        """Writes what every context does from now on, for Perfetto."""
        with self._faults():
            self._native.begin_timeline(str(path))

    def end_logs(self) -> list[str]:
        """Ends the trace, the pipeline log and the timeline, if there are such; what went wrong with them."""
        faults: list[str] = self._native.end_logs()
        return faults

    def begin_profile(self, start: str | None = None) -> None:
        """Counts instructions by function and call from now on."""
        with self._faults():
            self._native.begin_profile(start)

    def begin_lock_stats(self) -> None:
        """Counts what the locks of the guest's kernel cost from now on."""
        with self._faults():
            self._native.begin_lock_stats()
        self.counts_locks = True

    def write_symbol(self, name: str, data: bytes) -> None:
        """Puts bytes where a symbol of the program or the kernel lies; the guest executes nothing for it."""
        with self._faults():
            self._native.write_symbol(name, data)

    def write_profile(self, path: Path, command: str) -> None:
        """Writes the profile: pprof's format if the name ends in .pprof or .pb.gz, else Callgrind's."""
        with self._faults():
            self._native.write_profile(str(path), command)

    def state_hash(self) -> str:
        """A hash of all that the guest can find out."""
        text: str = self._native.state_hash()
        return text

    @property
    def cycle(self) -> int:
        """Simulated time since power-on, in cycles of the cores' clock."""
        cycle: int = self._native.cycle
        return cycle

    @property
    def serial_is_read(self) -> bool:
        """Whether the guest waits for input on the serial console."""
        read: bool = self._native.serial_is_read
        return read

    @property
    def seconds(self) -> float:
        """Simulated time since power-on."""
        seconds: float = self._native.seconds
        return seconds

    @property
    def instructions(self) -> int:
        """Instructions retired by all harts."""
        instructions: int = self._native.instructions
        return instructions

    @property
    def instructions_by_hart(self) -> list[int]:
        """Instructions retired by each hart; hart n sits in context n."""
        instructions: list[int] = self._native.instructions_by_hart
        return instructions

    @property
    def timed(self) -> bool:
        """Whether the cores are timed."""
        timed: bool = self._native.timed
        return timed


@functools.cache
def load(name: str = NATIVE) -> Engine:
    """Opens the simulator, once a process."""
    try:
        return Engine(name, importlib.import_module(name))
    except ImportError as error:
        raise Fault(
            f"the compiled simulator {name} cannot be loaded ({error}). In a checkout, `make setup` builds it."
        ) from None


def _object(text: str) -> Json:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise InternalFault(f"the simulator returned {type(value).__name__}, not an object")
    return value
