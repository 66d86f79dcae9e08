"""From the tables of a run to throughput, power and waits."""

from __future__ import annotations

import re
from collections.abc import Mapping

from loiter import energy
from loiter.errors import RunFault
from loiter.results import Result
from loiter.studies.catnap2020.grid import CLOCK_MHZ, Cell

_HOME = re.compile(r"home\d+")


class Measurements:
    """What the runs say, by cell; each is read once."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        self._results = results
        self._power: dict[Cell, energy.Value] = {}
        self._throughput: dict[Cell, float] = {}

    def throughput(self, cell: Cell) -> float:
        """Acquisitions in a microsecond, of all threads."""
        if cell not in self._throughput:
            reports = self._results[cell.label].rows("reports")
            acquired = sum(row["value"] for row in reports if row["name"] == "acquisitions")
            cycles = max(row["value"] for row in reports if row["name"] == "cycles")
            self._throughput[cell] = acquired * CLOCK_MHZ / cycles
        return self._throughput[cell]

    def watts(self, cell: Cell) -> energy.Value:
        """Mean power of the chip."""
        if cell not in self._power:
            found = energy.of(self._results[cell.label])
            if found is None:
                raise RunFault(f"{cell.label}: its machine says nothing of energy")
            self._power[cell] = found.chip_watts
        return self._power[cell]

    def acquisitions(self, cell: Cell) -> int:
        """Of all threads."""
        return sum(int(row["acquisitions"]) for row in self._locks(cell))

    def hold(self, cell: Cell) -> float:
        """Mean time in the section, cycles."""
        rows = self._locks(cell)
        return float(sum(row["hold_sum_cycles"] for row in rows) / sum(row["holds"] for row in rows))

    def handover(self, cell: Cell) -> float:
        """Mean time from a release to the end of the acquire of who waited, cycles."""
        rows = self._locks(cell)
        return float(sum(row["handover_sum_cycles"] for row in rows) / sum(row["handovers"] for row in rows))

    def waits(self, cell: Cell) -> int:
        """The sum of all acquires, cycles."""
        return sum(int(row["wait_sum_cycles"]) for row in self._locks(cell))

    def requests(self, cell: Cell) -> float:
        """Requests to homes, which are accesses that leave their tile, an acquisition."""
        rows = self._results[cell.label].rows("counters")
        found = [row["value"] for row in rows if row["name"] == "requests" and _HOME.fullmatch(row["component"])]
        if not found:
            raise RunFault(f"{cell.label}: no home has a counter of requests")
        return float(sum(found) / self.acquisitions(cell))

    def acquire(self, cell: Cell) -> float:
        """Mean time of an acquire, cycles."""
        return self.waits(cell) / self.acquisitions(cell)

    def _locks(self, cell: Cell) -> list[dict[str, float]]:
        return self._results[cell.label].rows("locks")
