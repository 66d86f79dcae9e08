#!/usr/bin/env python3
"""Speed beside other simulators of out-of-order cores: prints a table and writes it as JSON.

    tools/bench_peers.py PROGRAM.elf PYTHON OUTPUT.json [--repeats N]

PROGRAM is a bare-metal ELF that both run as it is, PYTHON the interpreter of an environment with rvsim. The two run in
turn, so that what else the host does meets both; the ratio is that of neighbours.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

from bench import SPEED, Row, report

from loiter import engine as engines
from loiter import machines
from loiter.engine import Engine, Json

MACHINE = "superscalar"
# The eight-wide out-of-order configurations of rvsim: its preset, and its default core made wider.
CONFIGURATIONS = {"fast": "preset fast", "width8": "Config(width=8)"}
RATIO = 5


def ours(engine: Engine, program: Path) -> Json:
    """A run on the superscalar."""
    machine = machines.load(engine, MACHINE, ["system.ram_mib=256"])
    request = {
        "machine_name": machine.name,
        "machine_toml": machine.toml,
        "set": list(machine.sets),
        "program": str(program),
        "bootargs": "",
        "fast_forward": False,
        "max_cycles": None,
    }
    result = engine.run(request, program.read_bytes())
    return {"code": result["exit"]["code"], "console": result["console"], **result}


def theirs(python: Path, program: Path, configuration: str) -> Json:
    """A run on rvsim."""
    script = Path(__file__).with_name("rvsim_run.py")
    command = [str(python), str(script), str(program), configuration]
    done = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    *console, answer = done.stdout.splitlines(keepends=True)
    result: Json = {**json.loads(answer), "console": "".join(console)}
    return result


def speed(result: Json) -> float:
    """Million instructions in a second of the host."""
    return float(result["instructions"]) / float(result["host_seconds"]) / 1e6


def check(pair: tuple[Json, Json], name: str) -> None:
    """The same program has run to its end on both and found the same; probes are instructions there and not here."""
    found = [str(each["console"]).rpartition("checksum ")[2] for each in pair]
    if any(each["code"] != 0 for each in pair) or not found[0] or found[0] != found[1]:
        raise SystemExit(f"{name}: the runs failed or differ: {[(each['code'], each['console']) for each in pair]}")


def compare(engine: Engine, python: Path, program: Path, configuration: str, repeats: int) -> list[Row]:
    """Pairs of runs on both."""
    pairs = [(ours(engine, program), theirs(python, program, configuration)) for _ in range(repeats)]
    name = f"rvsim, {CONFIGURATIONS[configuration]}"
    for pair in pairs:
        check(pair, name)
    details = [
        f"{each['instructions']:,} instructions, IPC {each['instructions'] / each['cycles']:.2f}" for each in pairs[0]
    ]
    ratios = tuple(speed(here) / speed(there) for here, there in pairs)
    return [
        Row(f"{MACHINE}, beside {name}", tuple(speed(here) for here, _ in pairs), SPEED, details[0]),
        Row(name, tuple(speed(there) for _, there in pairs), SPEED, details[1]),
        Row(f"{MACHINE} against {name}", ratios, "times its speed", target=RATIO),
    ]


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("python", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    engine = engines.load()
    rows = [
        row
        for configuration in CONFIGURATIONS
        for row in compare(engine, options.python, options.program, configuration, options.repeats)
    ]
    report(rows, options.output)


if __name__ == "__main__":
    main()
