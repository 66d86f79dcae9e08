"""Runs what the compiler is to know of the simulator: which way its branches go, what is called often.

For `make setup PGO=1`, in which maturin calls this on an instrumented build, in an environment of its own. Short runs
of each kind of core and memory: busy contexts, waiting ones, and the reference engine.
"""

from __future__ import annotations

import os
import tempfile

# Machine, program, where its tasks are, arguments, phases.
RUNS: tuple[tuple[str, str, str, str, str | None], ...] = (
    ("virt", "coremix", "intmix=0", "iterations=20", None),
    ("t1", "coremix", "intmix=0,1,2,3", "iterations=1", None),
    ("t1", "spinloops", "sort=0 spin_default=1,2,3", "iterations=2", None),
    ("t2", "coremix", f"intmix={','.join(map(str, range(16)))}", "iterations=1", None),
    ("superscalar", "coremix", "intmix=0", "iterations=1", None),
    ("smt8", "coremix", "intmix=0,1,2,3", "iterations=1", None),
    (
        *("knl", "coremix", f"intmix={','.join(map(str, range(0, 64, 4)))}", "iterations=100"),
        "reference until probe:roi_begin, timing for 50k cycles",
    ),
    ("opteron48", "locks", "mcs=0,1,2,3,4,5,6,7", "cycles=20000", None),
)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["LOITER_CACHE"] = scratch
        import loiter

        for machine, program, place, arguments, phases in RUNS:
            loiter.run(machine, program, place=place.split(), arguments=arguments.split(), phases=phases)


if __name__ == "__main__":
    main()
