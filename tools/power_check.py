#!/usr/bin/env python3
"""Power beside published figures: chips of T1 and T2 with all contexts busy, and waiting cores of p-core.

    tools/power_check.py

Prints ours with its range beside each published figure: "within" if the figure lies in the range, else "miss". No
coefficient is taken from a figure that is compared here. Of Sun's chip power, I/O is among the coefficients, and
McPAT's leakage, which is not Sun's; of Rome, the power of a core in C1 and that of awake packages, not the two here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import loiter
from loiter import energy
from loiter.energy import Energy, Value

_SPIN, _WORK = "spin_pause", "add"


def run(machine: loiter.Machine, place: Mapping[str, Sequence[int]]) -> Energy:
    """The energy of a run of tasks of the spinloops program."""
    arguments = ["reps_min=3", "reps_max=3"]
    result = loiter.run(machine, "spinloops", place=dict(place), arguments=arguments, fast_forward=True)
    found = energy.of(result)
    assert found is not None, "these machines have coefficients"
    return found


def line(name: str, published: float, ours: Value) -> bool:
    """Prints one comparison. Returns whether the published figure lies within the range."""
    within = ours.low <= published <= ours.high
    word = "within" if within else "miss"
    numbers = f"{published:9.3f} {ours.value:9.3f} {ours.low:9.3f} to {ours.high:8.3f}"
    print(f"{name:<48}{numbers}  {word:<7} {ours.moved_by}")
    return within


def main() -> int:
    print(f"{'watt':<48}{'published':>9} {'ours':>9} {'least':>9}    {'greatest':>8}          moved most by")
    all_within = True
    for name, published in (("t1", 63.0), ("t2", 84.0)):
        machine = loiter.machine(name)
        busy = run(machine, {"intmix": range(machine.contexts)})
        all_within &= line(f"{name}: chip, all contexts busy (Sun)", published, busy.chip_watts)
    # Two cores, of which the second is in C2 as soon as it sleeps, as in the measurements.
    rome = ["system.cores=2", "system.clock_mhz=2500", "idle.governor=request", "idle.state2_residency_cycles=3150000"]
    machine = loiter.machine("p-core").set(*rome)
    alone = run(machine, {_WORK: [0]})
    one, both = (run(machine, {_WORK: [0], _SPIN: seats}) for seats in ([2], [2, 3]))
    core, thread = energy.difference(one, alone), energy.difference(both, one)
    all_within &= line("p-core: a core that loops over pause (Rome)", 0.332, core)
    all_within &= line("p-core: its second thread, likewise (Rome)", 0.052, thread)
    # Of one core in 64; what its caches beyond the first take is not the core's.
    machine = loiter.machine("rv-many").set("system.clock_mhz=1000")
    alone, busy = (run(machine, {"intmix": seats}) for seats in ([0], [0, 1]))
    core = energy.difference(_core_dynamic(busy), _core_dynamic(alone))
    all_within &= line("rv-many: a busy core at 1 GHz, dynamic (C910)", 0.100, core)
    return 0 if all_within else 1


def _core_dynamic(found: Energy) -> Energy:
    """What cores take of events and clocks."""
    beyond = ("l2_fj", "l3_fj", "directory_fj", "hop_fj", "dram_fj")
    uses = {use: count for use, count in found.uses.items() if use[1].endswith("_fj") and use[1] not in beyond}
    return replace(found, uses=uses)


if __name__ == "__main__":
    raise SystemExit(main())
