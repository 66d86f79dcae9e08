"""Runs of the guest program `sections`: so many sections of one lock by all CPUs together, as the papers on spin locks
measure them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loiter import contention, programs
from loiter.engine import Engine
from loiter.errors import RunFault
from loiter.machines import Machine
from loiter.programs import Program
from loiter.results import Result
from loiter.runs.request import Request
from loiter.runs.worker import Job

PROGRAM = "sections"

MOST_CYCLES = 20_000_000_000
"""A run that takes longer has come to a stop."""


@dataclass(frozen=True, order=True)
class Cell:
    """A lock, a task of the program, on so many CPUs of a machine; the rest are arguments of the program."""

    lock: str
    cpus: int
    acquisitions: int
    hold: int
    think: int
    lines: int
    checks: int = 1
    repeat: int = 1
    limit: int = 1024
    slot: int = 0
    threads: int = 1
    slice: int = 1000
    place_harts: int = 0

    @property
    def label(self) -> str:
        """Its name, for people and for the result directory."""
        words = [f"{self.lock}.{self.cpus}"]
        words += [f"slot{self.slot}" if self.slot else f"limit{self.limit}"] if "delay" in self.lock else []
        words += [f"threads{self.threads}", f"slice{self.slice}"] if self.threads > 1 else []
        return "-".join([*words, f"hold{self.hold}", f"think{self.think}"])

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words of the program's command line."""
        names = ["acquisitions", "hold", "think", "lines", "checks", "repeat", "limit", "slot", "threads", "slice"]
        names += ["place_harts"] if self.place_harts else []
        return tuple(f"{name}={getattr(self, name)}" for name in names)


def jobs(engine: Engine, machine: Machine, cells: Sequence[Cell], *, spread: bool) -> list[Job]:
    """A run for each cell. CPUs are the first ones, or are spread evenly over the machine: the slots of few are then
    those of any few."""
    program = programs.load(engine, PROGRAM)
    plan = str(engine.describe_phases(contention.PHASES)["plan"])
    return [_job(machine, program, plan, cell, spread) for cell in dict.fromkeys(cells)]


def _job(machine: Machine, program: Program, plan: str, cell: Cell, spread: bool) -> Job:
    harts = [n * machine.contexts // cell.cpus if spread else n for n in range(cell.cpus)]
    placement = programs.place([f"{cell.lock}={','.join(map(str, harts))}"], program, machine)
    request = Request(machine, program, placement, cell.arguments, max_cycles=MOST_CYCLES, phases=plan)
    return Job(cell.label, request, weight=cell.cpus * cell.acquisitions * cell.threads**3)


class Measurements:
    """What the runs say, by cell."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        self._results = results

    def cycles(self, cell: Cell) -> float:
        """Elapsed time from the first acquire of any CPU to the end of the last work, for each acquisition."""
        reports = self._results[cell.label].rows("reports")
        acquired = sum(row["value"] for row in reports if row["name"] == "acquisitions")
        if acquired != cell.acquisitions:
            raise RunFault(f"{cell.label}: {acquired} acquisitions, not {cell.acquisitions}")
        return float(max(row["value"] for row in reports if row["name"] == "cycles") / acquired)

    def throughput(self, cell: Cell) -> float:
        """Acquisitions in 1000 cycles: the sum of what each CPU has reached until its share was done. CPUs whose work
        outside happened to be short are done early, which does not count as time without work here."""
        rows = self._results[cell.label].rows("reports")
        acquired = {row["hart"]: row["value"] for row in rows if row["name"] == "acquisitions"}
        return float(sum(1000 * acquired[row["hart"]] / row["value"] for row in rows if row["name"] == "cycles"))

    def seconds(self, cell: Cell, acquisitions: int) -> float:
        """What so many acquisitions take at this rate."""
        clock_mhz = float(self._results[cell.label].manifest["clock_mhz"])
        return self.cycles(cell) * acquisitions / clock_mhz / 1e6

    def switches(self, cell: Cell) -> int:
        """How often timers gave a CPU to its other thread."""
        return sum(int(row["value"]) for row in self._results[cell.label].rows("reports") if row["name"] == "switches")

    def hold(self, cell: Cell) -> float:
        """Mean length of a section, from the end of an acquire to the beginning of the release."""
        rows = self._results[cell.label].rows("locks")
        return float(sum(row["hold_sum_cycles"] for row in rows) / sum(row["holds"] for row in rows))

    def acquire(self, cell: Cell) -> float:
        """Mean time from the beginning of an acquire to its end."""
        rows = self._results[cell.label].rows("locks")
        return float(sum(row["wait_sum_cycles"] for row in rows) / sum(row["acquisitions"] for row in rows))

    def handover(self, cell: Cell) -> float:
        """Mean time from a release to the end of the acquire of a CPU that was waiting; 0 where none was."""
        rows = self._results[cell.label].rows("locks")
        count = sum(row["handovers"] for row in rows)
        return float(sum(row["handover_sum_cycles"] for row in rows) / count) if count else 0.0

    def row(self, cell: Cell) -> dict[str, float]:
        """One line of a study's own table: locks' statistics only where each hart has one thread."""
        found = {"cycles_per_acquisition": self.cycles(cell), "switches": float(self.switches(cell))}
        if cell.threads == 1:
            found |= {"hold_mean_cycles": self.hold(cell), "acquire_mean_cycles": self.acquire(cell)}
            found["handover_mean_cycles"] = self.handover(cell)
        return found

    def per_acquisition(self, cell: Cell, component: str, counter: str) -> float:
        """A counter of the memory system, for each acquisition."""
        rows = self._results[cell.label].rows("counters")
        found = [row["value"] for row in rows if (row["component"], row["name"]) == (component, counter)]
        if not found:
            raise RunFault(f"{cell.label}: {component} has no counter {counter}")
        return float(sum(found) / cell.acquisitions)
