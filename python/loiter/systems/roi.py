"""The region of interest of a run on a system: what of it is timed, where a person does not say so by phases."""

from __future__ import annotations

from enum import Enum

from loiter.errors import UserFault
from loiter.machines import Machine

UNTIL_PROGRAM = "reference warm until program, timing until probe:program_end, reference"
FROM_USER = "reference until user, timing"


class Roi(str, Enum):
    """What is timed."""

    PROCESS = "process"
    """The program: from its first instruction in user mode to its end, and that of all its threads."""
    MAIN = "main"
    """The same from its function `main`: without its dynamic linker and what runs before `main`."""
    ALL = "all"
    """Everything from the beginning of the run."""

    @property
    def plan(self) -> str | None:
        """The phases of a run of one program; none: timed from the beginning."""
        return None if self is Roi.ALL else UNTIL_PROGRAM

    @property
    def launch(self) -> str:
        """How the guest's launcher starts the program (guests/linux/launcher)."""
        return "run" if self is Roi.ALL else self.value


def of_boot(machine: Machine, said: Roi | None, phases: str | None, gdb: str | None) -> str | None:
    """The phases of a boot, if it has any: by default it is timed from its first instruction in user mode on."""
    if said is Roi.MAIN:
        raise UserFault('--roi main: a boot is no program; "process" times it from the first instruction in user mode.')
    return phases if of_program(machine, said, phases, gdb) is Roi.ALL else FROM_USER


def of_program(machine: Machine, said: Roi | None, phases: str | None, gdb: str | None) -> Roi:
    """What of a run of one program is timed. Plans of phases and debuggers need all of it."""
    if said is not None and phases is not None:
        raise UserFault("--roi and --phases contradict each other: both say what is timed; give one.")
    if said not in (None, Roi.ALL) and gdb is not None:
        raise UserFault(
            f"--gdb and --roi {said.value} contradict each other: a debugger sees the run from its beginning, in one "
            "engine. Leave --roi away."
        )
    if not machine.is_timed:
        if said is not None:
            raise UserFault(
                f"--roi {said.value}: machine {machine.name} has no cores with timing; take one that has, such as t1."
            )
        return Roi.ALL
    if phases is not None or gdb is not None:
        return Roi.ALL
    return said or Roi.PROCESS
