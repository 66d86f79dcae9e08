"""The counters, activities and histograms of a result, added up over its cores and contexts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from loiter.engine import Json

ALL, USER, KERNEL = GROUPS = ("all", "user", "kernel")
"""Modes: all of them; user mode; the modes of kernel and firmware."""

TABLES = ("counters", "activities", "histograms")
"""What metrics are worked out from."""

_COMPONENT = re.compile(r"(?P<core>core\d+)(\.(?P<group>user|kernel))?(\.(?P<part>\w+))?")
CORE = ""
"""The part that is a core itself."""

L2 = "l2"
"""The component of the second level."""


class Absent(Exception):
    """An input that is not there."""


class Counts:
    """The tables of a result, added up over cores and contexts."""

    def __init__(self, tables: Mapping[str, Sequence[Json]]) -> None:
        self._counters: Counter[tuple[str, str, str]] = Counter()
        self._cycles: Counter[str] = Counter()
        self._instructions: Counter[str] = Counter()
        self._histograms: dict[str, dict[str, dict[int, int]]] = {}
        cores, contexts = set(), set()
        for row in tables["counters"]:
            match = _COMPONENT.fullmatch(row["component"])
            if match is None:
                self._counters[ALL, row["component"], row["name"]] += row["value"]
                continue
            cores.add(match["core"])
            self._counters[match["group"] or ALL, match["part"] or CORE, row["name"]] += row["value"]
        for row in tables["activities"]:
            contexts.add(row["context"])
            self._cycles[row["activity"]] += row["cycles"]
            self._instructions[row["activity"]] += row["instructions"]
        for row in tables["histograms"]:
            histogram = self._histograms.setdefault(row["name"], {}).setdefault(row["component"], {})
            histogram[row["value"]] = row["cycles"]
        # Each context accounts for every cycle.
        self.cycles = sum(self._cycles.values()) // max(1, len(contexts))
        self.core_cycles = self.cycles * len(cores)

    def counter(self, name: str, part: str = CORE, group: str = ALL) -> int:
        """A counter of a part of the cores, or of another component."""
        return self.first(group, (part, name))

    def first(self, group: str, *places: tuple[str, str]) -> int:
        """The first counter, of a part and by its name, that there is: not every kind of core has the same."""
        for part, name in places:
            if (group, part, name) in self._counters:
                return self._counters[group, part, name]
        return self._none()

    def context_cycles(self, activities: Sequence[str]) -> int:
        """Context-cycles of activities."""
        return sum(self._cycles[each] for each in activities)

    def instructions(self, activities: Sequence[str] | None = None) -> int:
        """Instructions that retired in activities, or in all."""
        return sum(self._instructions.values() if activities is None else (self._instructions[a] for a in activities))

    def greatest(self, histogram: str) -> int:
        """Cycles in which a histogram's value was the greatest there is."""
        by_core = self._histograms.get(histogram)
        return self._none() if not by_core else sum(entries[max(entries)] for entries in by_core.values())

    def of_histogram(self, histogram: str, least: int, most: int) -> int:
        """Cycles in which a histogram's value was between these two."""
        by_core = self._histograms.get(histogram)
        if not by_core:
            return self._none()
        return sum(n for entries in by_core.values() for value, n in entries.items() if least <= value <= most)

    def top(self, histogram: str) -> int:
        """The greatest value that a histogram has an entry for."""
        by_core = self._histograms.get(histogram)
        return self._none() if not by_core else max(max(entries) for entries in by_core.values())

    @staticmethod
    def _none() -> int:
        raise Absent
