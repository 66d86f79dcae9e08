"""Runs a bare-metal ELF on rvsim and prints what came of it as JSON. Runs in the environment that rvsim is in.

rvsim_run.py PROGRAM.elf fast|width8
"""

import json
import sys
import time

from rvsim import Config, Simulator, presets

CONFIGURATIONS = {"fast": presets.fast, "width8": lambda: Config(width=8)}


def main() -> None:
    """One run, timed without the start of the interpreter and the loading of the program."""
    program, configuration = sys.argv[1:]
    simulator = Simulator(CONFIGURATIONS[configuration](), binary=program)
    began = time.perf_counter()
    code = simulator.run()
    seconds = time.perf_counter() - began
    found = {"instructions": simulator.instructions_retired, "cycles": simulator.cycle}
    # The guest's console goes to standard output too, before this line.
    print(json.dumps({"code": code, "host_seconds": seconds, **found}))


if __name__ == "__main__":
    main()
