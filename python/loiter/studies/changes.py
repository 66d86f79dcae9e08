"""What a person changes of a study's runs: overrides of its machines and hosts, and words on the command lines of its
programs and kernels.

Such runs are experiments: they show what a rule or a workload does to the figures, and are not the study's figures.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from loiter import machines, vms
from loiter.engine import Engine
from loiter.errors import UserFault, unknown
from loiter.machines import Machine
from loiter.runs.host import HostRequest
from loiter.runs.linux import LinuxRequest
from loiter.runs.request import Request
from loiter.runs.worker import Job

_ONE_MACHINE = re.compile(r"([A-Za-z0-9_-]+):(.*)", re.DOTALL)
_LONGEST_NAME = 100
HOST = "vm"
"""Named like a machine: what is changed is the file of a host with guests."""


@dataclass(frozen=True)
class Changes:
    """`sets` are KEY=VALUE, of one machine only as MACHINE:KEY=VALUE, and of hosts with guests as
    vm:SECTION.KEY=VALUE; `arguments` are words of bare-metal programs, and `appended` ones of the kernels of what runs
    on Linux, where the last word on something counts."""

    sets: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    appended: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sets or self.arguments or self.appended)

    def options(self) -> list[str]:
        """As the command line has them."""
        named = (("--set", self.sets), ("--argument", self.arguments), ("--append", self.appended))
        return [word for option, words in named for each in words for word in (option, each)]

    def directory(self, name: str) -> str:
        """Name of a directory for the runs of a study, apart from those without changes."""
        if not self:
            return name
        words = re.sub(r"[^\w.,:=@-]", "-", ",".join([*self.sets, *self.arguments, *self.appended]))
        if len(words) > _LONGEST_NAME:
            words = hashlib.sha256(words.encode()).hexdigest()[:16]
        return f"{name}+{words}"

    def warning(self) -> str:
        """For whoever reads the results."""
        return f"changed by {' '.join(self.options())}: these are not the figures of the study"

    def apply(self, engine: Engine, jobs: Sequence[Job]) -> list[Job]:
        """The same jobs with the changes. Each change of a machine must concern one of them."""
        hosts = {HOST for job in jobs if isinstance(job.request, HostRequest)}
        known = sorted(hosts.union(job.request.machine.name for job in jobs))
        for each in self.sets:
            name, _ = _split(each)
            if name is not None and name not in known:
                raise unknown("machine of this study", name, known)
        if self.appended and not any(isinstance(job.request, LinuxRequest) for job in jobs):
            raise UserFault(f"--append {self.appended[0]}: nothing that is to run here runs on Linux.")
        changed: dict[str, Machine] = {}
        return [self._changed(engine, job, changed) for job in jobs]

    def check(self, engine: Engine) -> None:
        """Whether the keys exist: on the machine that is named, or on some preset. A cheap look before any run."""
        for each in self.sets:
            name, override = _split(each)
            if name == HOST:
                vms.change(override)
                continue
            if name is not None:
                machines.load(engine, name, [override])
                continue
            faults = [fault for preset in machines.names() if (fault := _fault(engine, preset, override)) is not None]
            if len(faults) == len(machines.names()):
                raise faults[0]
        self.check_words()

    def check_words(self) -> None:
        """Whether words are what they are to be: before anything is planned, which may build images."""
        for each in self.arguments:
            if not re.fullmatch(r"\w+=\S+", each):
                raise UserFault(f"--argument {each}: an argument of a program is written key=value.")
        for each in self.appended:
            if not re.fullmatch(r"\S+", each):
                raise UserFault(f"--append {each!r}: one word for the kernel; give the option once for each.")

    def _changed(self, engine: Engine, job: Job, known: dict[str, Machine]) -> Job:
        request, before = job.request, job.request.machine
        sets = [override for name, override in map(_split, self.sets) if name in (None, before.name)]
        if sets:
            if before.hash not in known:
                known[before.hash] = machines.changed(engine, before, machines.overridden(before.sets, sets))
            machine = known[before.hash]
            if (machine.contexts, machine.contexts_per_core) != (before.contexts, before.contexts_per_core):
                raise UserFault(
                    f"--set {' --set '.join(sets)}: the study places its programs on {before.contexts} contexts, "
                    f"{before.contexts_per_core} a core; that cannot be changed."
                )
            request = request.on(machine)
        of_host = [override for name, override in map(_split, self.sets) if name == HOST]
        if of_host and isinstance(request, HostRequest):
            request = replace(request, file=vms.changed(engine, request.file, of_host))
        if self.arguments:
            if not isinstance(request, Request):
                raise UserFault(f"--argument: {job.label} runs on Linux; its programs take no such words.")
            request = replace(request, arguments=(*request.arguments, *self.arguments))
        if self.appended and isinstance(request, LinuxRequest):
            words = " ".join([request.boot.bootargs, *self.appended])
            request = replace(request, boot=replace(request.boot, bootargs=words))
        return replace(job, request=request)


NONE = Changes()
"""The study as it is."""


def _split(word: str) -> tuple[str | None, str]:
    found = _ONE_MACHINE.fullmatch(word)
    return (found[1], found[2]) if found else (None, word)


def _fault(engine: Engine, preset: str, override: str) -> UserFault | None:
    try:
        machines.load(engine, preset, [override])
    except UserFault as fault:
        return fault
    return None
