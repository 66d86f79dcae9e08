"""Hosts with guests: the file that says what they are, a run of it, and what came of it.

The simulator reads and checks the file (crates/sim/src/vm); here its programs and images are found.
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import tomlkit
from rich.console import Console
from tomlkit.exceptions import ParseError

import loiter
from loiter import machines, programs, store
from loiter.engine import Engine, Json, Vm
from loiter.errors import Fault, RunFault, UserFault, unknown
from loiter.machines import Machine
from loiter.programs import Placement, Program
from loiter.runs.request import Request
from loiter.systems.request import Disk

GUEST_MACHINE = "virt"
"""What guests see of their machine is this, with the harts, memory and clock of the file."""
_STEP_SECONDS = 0.1
_SECTOR_BYTES = 512
SECTIONS = ("host", "scheduler", "helping")
"""Of a file, beside its guests."""
TABLES = ("vcpus", "cpus", "waits")
TIMED_TABLES = ("counters", "accounts", "activities", "histograms")
"""What timing cores have counted."""


@dataclass(frozen=True)
class HostFile:
    """A file of virtual machines that was read and checked."""

    path: Path
    text: str
    values: Json
    """Every key with its value: `host`, `scheduler`, `helping`, and a list of `guests`."""

    @property
    def guests(self) -> list[Json]:
        """The guests, in their order."""
        found: list[Json] = self.values["guests"]
        return found


@dataclass
class Linux:
    """What a guest with Linux leaves: its command's exit status, if it has ended, and what it said."""

    status: int | None = None
    out: bytes = b""
    err: bytes = b""


@dataclass
class Run:
    """A host that has run."""

    file: HostFile
    result: Json
    host_seconds: float
    programs: dict[str, str] = field(default_factory=dict)
    """The hash of the program of each guest that runs one."""
    linux: dict[str, Linux] = field(default_factory=dict)
    begun: Json = field(default_factory=dict)
    """The result of a run that went on from a snapshot, as it was there."""

    def native(self) -> Json:
        """As `--json` has it."""
        linux = {
            name: {
                "status": guest.status,
                "stdout": guest.out.decode(errors="replace"),
                "stderr": guest.err.decode(errors="replace"),
            }
            for name, guest in self.linux.items()
        }
        return self.result | {"linux": linux, "host_seconds": self.host_seconds}


def load(engine: Engine, path: Path) -> HostFile:
    """The file of virtual machines at `path`, checked."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserFault(f"{path}: cannot read the file of virtual machines: {error}") from None
    return parse(engine, path, text)


def parse(engine: Engine, path: Path, text: str) -> HostFile:
    """A file of virtual machines that is, or might be, at `path`, checked."""
    return HostFile(path, text, engine.describe_vm(str(path), text))


def change(word: str) -> tuple[str, str, str]:
    """Section, key and value of a change, SECTION.KEY=VALUE."""
    place, equals, value = word.partition("=")
    section, dot, key = place.strip().partition(".")
    if not (equals and dot and key):
        raise UserFault(f"{word}: what changes a file of virtual machines is written SECTION.KEY=VALUE.")
    if section not in SECTIONS:
        raise unknown("section of a file of virtual machines", section, SECTIONS)
    return section, key, value.strip()


def changed(engine: Engine, file: HostFile, changes: Sequence[str]) -> HostFile:
    """The same file with changes of its host, scheduler and helping, checked."""
    document = tomlkit.parse(file.text)
    for section, key, value in map(change, changes):
        table = document.setdefault(section, tomlkit.table())
        try:
            table[key] = tomlkit.value(value)
        except ParseError:
            # A word, whose quotation marks a shell has taken.
            table[key] = value
    return parse(engine, file.path, tomlkit.dumps(document))


def without_machine(engine: Engine, file: HostFile) -> HostFile:
    """The same host on the reference engine, with the same clock."""
    clock_mhz = file.values["host"]["clock_mhz"]
    return changed(engine, file, [f"host.clock_mhz={clock_mhz}", "host.machine=", "host.machine_set="])


@dataclass(frozen=True)
class Snapshots:
    """Where a run goes on from, and where it stands still to be saved."""

    begin: Path | None = None
    save: Path | None = None
    at_us: int = 0
    """Simulated time; the host stands still at the end of a turn."""


def run(
    engine: Engine,
    file: HostFile,
    progress: Callable[[Json], None],
    console: Console,
    sets: Sequence[str] = (),
    snapshots: Snapshots = Snapshots(),
) -> Run:
    """Runs the host to the end that its guests or the file set, or to where it is saved.

    `console` hears of images that are built for it. `sets` change what guests see of their machine, beside what their
    file changes.
    """
    began = time.monotonic()
    vm = engine.vm(str(file.path), file.text, _machine(engine, file))
    with contextlib.ExitStack() as stack:
        typed, hashes = [], {}
        for number, guest in enumerate(file.guests):
            changes = machines.overridden(guest["machine_set"].split(), sets)
            machine = machines.load(engine, GUEST_MACHINE, [*changes, *_sets(file, guest)])
            if guest["program"]:
                program = _program(engine, file, guest)
                hashes[guest["name"]] = program.hash
                words = tuple(guest["arguments"].split())
                vm.add_program(Request(machine, program, Placement(()), words).native(), program.elf)
            else:
                typed.append(_add_linux(engine, vm, file, number, machine, stack, console))
        for begin in typed:
            begin(snapshots.begin is None)
        _prepare(vm, snapshots)
        begun = vm.result() if snapshots.begin is not None else {}
        while (status := vm.step(_STEP_SECONDS))["state"] == "running":
            progress(status)
        if snapshots.save is not None:
            _save(vm, snapshots.save, snapshots.at_us, status)
        made = Run(file, vm.result(), time.monotonic() - began, hashes, begun=begun)
        for number, guest in enumerate(file.guests):
            if guest["image"]:
                made.linux[guest["name"]] = _linux(vm, number)
    return made


def _prepare(vm: Vm, snapshots: Snapshots) -> None:
    if snapshots.begin is not None:
        vm.restore(snapshots.begin)
    if snapshots.save is not None:
        vm.pause_at(snapshots.at_us)


def _save(vm: Vm, path: Path, at_us: int, status: Json) -> None:
    if status["state"] != "paused":
        raise UserFault(f"{path}: not written, for the run was over before {at_us:,} us of simulated time")
    vm.save(path)


def _machine(engine: Engine, file: HostFile) -> tuple[str, str, list[str]] | None:
    """The machine whose contexts the CPUs are: a path counts from the file's folder."""
    host = file.values["host"]
    if not host["machine"]:
        if host["machine_set"]:
            raise UserFault(f"{file.path}: host.machine_set changes a machine, and host.machine names none")
        return None
    named = file.path.parent / host["machine"]
    found = machines.load(engine, str(named) if named.is_file() else host["machine"], host["machine_set"].split())
    return found.name, found.toml, list(found.sets)


def _sets(file: HostFile, guest: Json) -> list[str]:
    return [
        f"system.clock_mhz={file.values['host']['clock_mhz']}",
        f"system.cores={guest['harts']}",
        f"system.ram_mib={guest['memory_mib']}",
    ]


def _program(engine: Engine, file: HostFile, guest: Json) -> Program:
    """What a guest on bare metal runs: a path counts from the file's folder."""
    named = file.path.parent / guest["program"]
    try:
        return programs.load(engine, str(named) if named.is_file() else guest["program"])
    except UserFault as fault:
        raise UserFault(f"{file.path}: guest {guest['name']}: {fault}") from None


def _put(file: HostFile, guest: Json) -> list[Path]:
    """The files that a guest's command finds beside it: a path counts from the file's folder."""
    found = [file.path.parent / word for word in guest["put"].split()]
    for path in found:
        if not path.exists():
            raise UserFault(f"{file.path}: guest {guest['name']}: put: {path}: No such file or directory")
    return found


def _own_disk(file: HostFile, guest: Json) -> Disk | None:
    """The disk beside that of the image: a path counts from the file's folder."""
    if not guest["disk"]:
        return None
    path = file.path.parent / guest["disk"]
    if not path.is_file() or path.stat().st_size == 0:
        problem = "is empty" if path.is_file() else "is no file" if path.exists() else "No such file"
        raise UserFault(f"{file.path}: guest {guest['name']}: disk: {path}: {problem}")
    # As the simulator takes a file whose end is within a sector.
    sectors = -(-path.stat().st_size // _SECTOR_BYTES)
    return Disk(path, sectors * _SECTOR_BYTES, guest["disk_writable"])


def _add_linux(
    engine: Engine, vm: Vm, file: HostFile, number: int, machine: Machine, stack: contextlib.ExitStack, console: Console
) -> Callable[[bool], None]:
    """Adds a guest that has booted its image; what gives it its command, and lets it begin if it has not."""
    from loiter.images import agent
    from loiter.systems import execute, prepared
    from loiter.systems import program as linux

    guest = file.guests[number]
    files, own = _put(file, guest), _own_disk(file, guest)
    image = linux.image(guest["image"], [], guest["harts"], console)
    # A kernel asks when it boots what its host does for it.
    boot = replace(prepared.request(machine, guest["harts"], image, guest["append"] or None), is_virtual=True)
    if own is not None:
        # What boots is kept for all disks that are as large: an empty one, which gives way to the guest's.
        boot = replace(boot, disks=(*boot.disks, Disk(bytes=own.bytes)))
    prepared.restore(engine, boot, lambda: None, lambda session: None)
    symbols = () if image.system_map is None else (image.system_map,)
    vm.add_snapshot(prepared.snapshot(engine, boot), replace(boot, symbols=symbols).native())
    script = agent.script(["sh", "-c", guest["command"]])
    put = stack.enter_context(execute.archive(script, files, io.BytesIO()))

    def begin(is_new: bool) -> None:
        vm.replace_disk(number, prepared.ARCHIVE_DISK, put.disk())
        if own is not None:
            vm.replace_disk(number, prepared.FIRST_OWN_DISK, own.native())
        if is_new:
            vm.push_input(number, agent.TALK, agent.GO)

    return begin


def _linux(vm: Vm, number: int) -> Linux:
    """What a guest has said, and the status that its agent has told."""
    from loiter.images import agent
    from loiter.systems import prepared

    out, err, talk = (vm.take_output(number, port) for port in (agent.OUT, agent.ERR, agent.TALK))
    ended = (agent.ended(line) for line in prepared.lines(talk))
    statuses = [each.status for each in ended if each is not None]
    return Linux(statuses[-1] if statuses else None, out, err)


def faults(made: Run) -> Iterator[Fault]:
    """What went wrong in guests. One that still runs when the time of the file is over has not failed."""
    for row in made.result["guests"]:
        name, linux = row["name"], made.linux.get(row["name"])
        if row["state"] == "failed" or row["code"]:
            yield RunFault(f"guest {name}: {row['message']}")
        elif row["state"] == "exited" and linux is not None and linux.status != 0:
            yield RunFault(f"guest {name}: its command ended with status {linux.status}")


def encoded(made: Run) -> dict[str, bytes]:
    """The tables of a run, by the names of their files."""
    import pyarrow as pa

    from loiter import tables

    of_host = {name: pa.Table.from_pylist(made.result[name]) for name in TABLES}
    timed = made.result["timed"]
    of_cores = {} if timed is None else tables.of(timed, TIMED_TABLES)
    return {f"{name}.parquet": tables.encode(table) for name, table in (of_host | of_cores).items()}


def write(path: Path, engine: Engine, made: Run) -> None:
    """Writes a result directory: manifest, the tables of virtual and physical CPUs, what the guests said."""
    result = made.result
    files = encoded(made)
    files |= {f"{row['name']}.console.txt": row["console"].encode() for row in result["guests"]}
    for name, linux in made.linux.items():
        files |= {f"{name}.stdout": linux.out, f"{name}.stderr": linux.err}
    manifest = {
        "loiter": {"version": loiter.__version__, "native_sha256": engine.sha256},
        "file": made.file.values,
        "programs": made.programs,
        "cycles": result["cycles"],
        "clock_mhz": result["clock_mhz"],
        "guests": [{key: value for key, value in row.items() if key != "console"} for row in result["guests"]],
    }
    store.write_files(path, manifest, made.host_seconds, files)
