#!/usr/bin/env python3
"""Times of spin locks between the moments at which the kernel takes them for /proc/lock_stat, from a trace.

    loiter exec -m t1 --harts 5 --image debian-lock-stat --set system.timebase_hz=1000000000 \\
        --lock-stats --out DIR --trace TRACE -- ./lock_stat 4 40
    tools/lock_stat_trace.py DIR TRACE FUNCTION...

Of the locks that these functions acquire by `_raw_spin_lock` in the region of interest. What differs between these
times and those of `--lock-stats` is due to the moments alone, which for loiter are calls and returns.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lock_stat import Lock, of_row

from loiter import store

# From which function the kernel tells lockdep of a spin lock.
_TOLD_BY = {
    "lock_acquire": "_raw_spin_lock",
    "lock_contended": "_raw_spin_lock",
    "lock_acquired": "_raw_spin_lock",
    "lock_release": "_raw_spin_unlock",
}
_READS_CLOCK = ",time,"
_RETURNS = ("sret", "mret")


@dataclass
class _Acquire:
    function: str
    contended_cycle: int | None = None
    held_cycle: int = 0


@dataclass
class _Hart:
    last: tuple[str, str] = ("", "")
    """Symbol and instruction."""
    told: str = ""
    """What lockdep has been told of and has not read its clock for."""
    interrupted: list[str] = field(default_factory=list)
    """The same of what traps came in between."""
    begun: list[_Acquire] = field(default_factory=list)
    held: list[_Acquire] = field(default_factory=list)


def of_trace(lines: Iterable[str], functions: Container[str], region: range) -> Lock:
    """Waits and holds of the spin locks that these functions acquire by `_raw_spin_lock`: between the moments at which
    the kernel reads its clock for them, those that end in a region of cycles."""
    found = Lock()
    harts: dict[str, _Hart] = {}
    for line in lines:
        number, cycle, _, _, symbol, instruction = line.split(maxsplit=5)
        hart = harts.setdefault(number, _Hart())
        (caller, _), hart.last = hart.last, (symbol, instruction)
        name, _, offset = symbol.partition("+")
        by = caller.partition("+")[0]
        if instruction.startswith("--"):
            hart.interrupted.append(hart.told)
            hart.told = ""
        elif instruction.startswith(_RETURNS):
            hart.told = hart.interrupted.pop() if hart.interrupted else ""
        elif name == "_raw_spin_lock" and offset == "0x0":
            hart.begun.append(_Acquire(by))
        elif offset == "0x0" and by == _TOLD_BY.get(name, " ") and (hart.begun or name == "lock_release"):
            hart.told = name
            if name == "lock_acquired" and hart.begun[-1].contended_cycle is None:
                # It reads no clock.
                hart.told = ""
                hart.held.append(hart.begun.pop())
        elif hart.told and _READS_CLOCK in instruction:
            _read(found if int(cycle) in region else Lock(), hart, int(cycle), functions)
    return found


def _read(found: Lock, hart: _Hart, cycle: int, functions: Container[str]) -> None:
    told, hart.told = hart.told, ""
    if told == "lock_acquire":
        hart.begun[-1].held_cycle = cycle
    elif told == "lock_contended":
        hart.begun[-1].contended_cycle = cycle
    elif told == "lock_acquired":
        acquire = hart.begun.pop()
        assert acquire.contended_cycle is not None
        acquire.held_cycle = cycle
        hart.held.append(acquire)
        if acquire.function in functions:
            waited = cycle - acquire.contended_cycle
            found.waits.add(1, waited, waited, waited)
    elif hart.held:
        acquire = hart.held.pop()
        if acquire.function in functions:
            held = cycle - acquire.held_cycle
            found.acquisitions += 1
            found.holds.add(1, held, held, held)


def main(words: Sequence[str]) -> int:
    directory, path, *functions = words
    found = store.read(Path(directory))
    [region] = found.regions.to_dict("records")
    with open(path, encoding="utf-8") as lines:
        lock = of_trace(lines, functions, range(region["begin_cycle"], region["end_cycle"]))
    sites = [row for row in found.rows("locks") if row["site_symbol"].partition("+")[0] in functions]
    ours = Lock()
    for row in sites:
        ours.add(of_row(row))
    for who, each in (("loiter", ours), ("trace", lock)):
        waits, holds = (
            f"{times.count:,} of {times.least:,.0f} to {times.most:,.0f} cycles, mean {times.mean:,.0f}"
            for times in (each.waits, each.holds)
        )
        print(f"{who}: waits {waits}; holds {holds}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
