"""One run on a booted Linux as a study asks for it: a script on an image, and a plan of phases that ends it.

The system boots once, untimed, to the agent of `loiter exec`, and is kept; runs start there, or where a lead-in that
they share has ended, which is kept likewise. Where the last phase of the plan ends, the run ends, well: what the script
still does is not waited for.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import loiter
from loiter import profiles, resources, store
from loiter.engine import Engine, Json, Progress, Session
from loiter.errors import RunFault, UserFault
from loiter.images import agent
from loiter.machines import Machine
from loiter.runs.request import SCHEMA, Finished, digest
from loiter.systems import ending, execute, prepared, results
from loiter.systems.ending import How
from loiter.systems.facts import Meter, booting
from loiter.systems.request import Boot
from loiter.systems.watch import Watch

_STEP_SECONDS = 0.2
_LINES = 8

FUNCTIONS = "functions.json"
"""File of a result: what functions cost on timed cores, by name, in instructions and cycles."""


@dataclass(frozen=True)
class LeadIn:
    """What runs have in common before they differ."""

    script: str
    """What the agent runs, in the system's shell. Runs are over before it is."""
    phases: str
    """Where the last one ends, it is kept: if that is timed, with what is in flight."""

    def ends_timed(self, engine: Engine) -> bool:
        """Whether the last phase is timed. What the system has come to is that of one machine then."""
        return bool(engine.describe_phases(self.phases)["ends_timed"])


@dataclass(frozen=True)
class LinuxRequest:
    """Everything that determines a result, and nothing that does not."""

    boot: Boot
    script: str
    """What the agent runs, in the system's shell; empty with a lead-in, whose script goes on."""
    phases: str
    lock_stats: bool = False
    """Whether the kernel's locks are counted. They are followed from the beginning of the lead-in on: a wait that ends
    in what is measured may have begun long before."""
    put: tuple[Path, ...] = ()
    """Files that go into the directory of the script."""
    profiled: bool = False
    """Whether the result has `FUNCTIONS`."""
    lead_in: LeadIn | None = None
    variables: tuple[tuple[str, bytes], ...] = ()
    """Of the kernel, by symbol, and what they are set to as the run begins. The guest executes nothing for it: a shell
    that writes a parameter takes its time, in which all others go on."""

    @property
    def machine(self) -> Machine:
        return self.boot.machine

    @property
    def guest(self) -> tuple[str, str]:
        """Name and hash of what runs."""
        image = self.boot.image or {}
        return str(image.get("name", self.boot.kernel.name)), digest(image)

    def on(self, machine: Machine) -> LinuxRequest:
        """The same on another machine with as many contexts."""
        return replace(self, boot=replace(self.boot, machine=machine))

    def identity(self, engine: Engine) -> Json:
        """What the key is the hash of: contents, not names or paths."""
        return {
            "schema": SCHEMA,
            "loiter": {"version": loiter.__version__, "native_sha256": engine.sha256},
            "booted": prepared.key(engine, self.boot),
            "machine_hash": self.machine.hash,
            "waiting": None if self.boot.waiting is None else self.boot.waiting.identity(),
            "script": self.script,
            "phases": self.phases,
            "lock_stats": self.lock_stats,
            "put": self._put(),
            "profiled": self.profiled,
            **self._begin(),
        }

    def key(self, engine: Engine) -> str:
        """Content hash of the request; equal requests have equal results."""
        return digest(self.identity(engine))

    def shares(self, engine: Engine) -> tuple[str, ...]:
        """The booted system, and what it has come to at the end of the lead-in."""
        booted = prepared.key(engine, self.boot)
        return (booted,) if self.lead_in is None else (booted, self._led_in_key(engine, self.lead_in))

    def carry_out(self, engine: Engine, progress: Progress, path: Path) -> Finished:
        """Runs it and writes its result at `path`."""
        began = time.monotonic()
        if self.lead_in is None:
            session = prepared.restore(engine, self.boot, lambda: None, booting(progress))
        else:
            session = self._led_in(engine, self.lead_in, progress)
        for symbol, value in self.variables:
            session.write_symbol(symbol, value)
        session.begin_phases(self.phases)
        if self.lock_stats:
            session.begin_lock_stats()
        if self.profiled:
            session.begin_profile("timing")
        first = session.instructions
        if self.lead_in is None:
            said = _run_archive(session, self.script, self.put, progress)
        else:
            said = _run(session, progress)
        seconds = time.monotonic() - began
        statistics = session.statistics()
        manifest = results.describe(engine, self.boot) | {
            "key": self.key(engine),
            "request": {
                "bootargs": self.boot.bootargs,
                "script": self.script,
                "phases": self.phases,
                "lock_stats": self.lock_stats,
                **self._begin(),
            },
            "cycles": session.cycle,
            "instructions": session.instructions - first,
            "phases": session.phases(),
            **{name: statistics[name] for name in results.TIMED},
        }
        files = {"console.txt": said} | ({FUNCTIONS: _functions(session)} if self.profiled else {})
        store.write_files(path, manifest, seconds, files, statistics, replace=False)
        return Finished(seconds, manifest["cycles"], manifest["instructions"])

    def _led_in(self, engine: Engine, lead_in: LeadIn, progress: Progress) -> Session:
        """The system at the end of a lead-in."""

        def make() -> Session:
            session = prepared.restore(engine, self.boot, lambda: None, booting(progress))
            session.begin_phases(lead_in.phases)
            if self.lock_stats:
                session.begin_lock_stats()
            _run_archive(session, lead_in.script, self.put, progress)
            # The guest has unpacked the archive, which is not there when somebody restores the system.
            session.replace_disk(prepared.ARCHIVE_DISK, self.boot.native()["disks"][prepared.ARCHIVE_DISK])
            return session

        boot, key = replace(self.boot, untimed=not lead_in.ends_timed(engine)), self._led_in_key(engine, lead_in)
        return prepared.restore_kept(engine, boot, key, make, lambda: None, "at the end of a lead-in")

    def _led_in_key(self, engine: Engine, lead_in: LeadIn) -> str:
        """Names what the system has come to at the end of a lead-in."""
        booted = {"booted": prepared.key(engine, self.boot), "put": self._put(), **_words(lead_in)}
        if self.lock_stats:
            booted["lock_stats"] = True
        if lead_in.ends_timed(engine):
            booted["machine_hash"] = self.machine.hash
        return digest(booted)

    def _begin(self) -> Json:
        """What is as from the beginning only in runs that have such."""
        lead_in = {} if self.lead_in is None else {"lead_in": _words(self.lead_in)}
        variables = {symbol: value.hex() for symbol, value in self.variables}
        return lead_in | ({"variables": variables} if variables else {})

    def _put(self) -> dict[str, str]:
        return {path.name: _hash(path) for path in self.put}


def _words(lead_in: LeadIn) -> Json:
    """What determines a lead-in."""
    return {"script": lead_in.script, "phases": lead_in.phases}


def _hash(path: Path) -> str:
    return hashlib.sha256(resources.read_bytes(path, "what goes into the guest")).hexdigest()


def _functions(session: Session) -> bytes:
    """The profile of a session, as `FUNCTIONS` has it."""
    with tempfile.TemporaryDirectory(prefix="loiter-") as directory:
        path = Path(directory) / "profile.callgrind"
        session.write_profile(path, "")
        with path.open() as lines:
            found = profiles.functions(lines)
    return (json.dumps([dataclasses.asdict(each) for each in found]) + "\n").encode()


def _run_archive(session: Session, script: str, put: Sequence[Path], progress: Progress) -> bytes:
    """The agent runs a script and is given files."""
    with execute.archive(script, list(put), None) as archive:
        execute.begin(session, archive)
        return _run(session, progress)


def _run(session: Session, progress: Progress) -> bytes:
    """Runs up to the end of the plan. Returns what was said until then."""
    meter, watch, said = Meter(session), Watch(), bytearray()
    while True:
        status = session.step(_STEP_SECONDS)
        console = session.take_output(prepared.SERIAL)
        said += console
        for port in (agent.OUT, agent.ERR, agent.TALK):
            said += session.take_output(port)
        watch.hear(console)
        end = ending.of_guest(status, watch, session)
        if end is not None:
            break
        meter.tell(progress)
    if end.how is not How.PHASES:
        tail = said.decode(errors="replace").rstrip().splitlines()[-_LINES:]
        raise RunFault("\n".join([f"{end.message}, before the last phase did", *(f"  | {line}" for line in tail)]))
    missed = session.missed_phase()
    if missed is not None:
        raise UserFault(missed)
    return bytes(said)
