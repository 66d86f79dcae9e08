"""What functions cost, read from a profile in Callgrind's format."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_PLACE = re.compile(r"(c?)fn=\((\d+)\)(?: (.*))?")
"""Of a function, or with the c of one that is called. A name stands where its number is first."""


@dataclass(frozen=True)
class Function:
    """What a function cost, without what it called."""

    name: str
    instructions: int
    cycles: int


def functions(lines: Iterable[str]) -> list[Function]:
    """The functions of a profile, the most cycles first. Functions of one name are one."""
    names: dict[str, str] = {}
    costs: dict[str, tuple[int, int]] = {}
    here, of_call = "", False
    for line in lines:
        if place := _PLACE.match(line):
            called, number, name = place.groups()
            if name:
                names[number] = name.strip()
            if not called:
                here = names[number]
        elif line.startswith("calls="):
            # The costs that follow are of what was called.
            of_call = True
        elif line.startswith("0 "):
            if not of_call:
                _, instructions, cycles = map(int, line.split())
                so_far = costs.get(here, (0, 0))
                costs[here] = (so_far[0] + instructions, so_far[1] + cycles)
            of_call = False
    found = [Function(name, *cost) for name, cost in costs.items()]
    return sorted(found, key=lambda each: (-each.cycles, each.name))
