#!/usr/bin/env python3
"""Which check catches which fault of a lock: makes each mutant of mutants.toml and runs all checks on it.

    mutants.py --check      every mutant still fits its header, and the table in docs/lock-mutants.md is of this list
    mutants.py [NAME...]    all, or these; writes their rows of the table
    mutants.py --only explorer [NAME...]    one check

Checks, of which each mutant has those that know its lock:

    threads       test/hosted.c and test/use.c: 4 threads on this machine
    sanitizer     the same under ThreadSanitizer
    explorer      guests/explore/lock.c under RVWMO: 2 harts, 1 acquisition each; if nothing fails, 2 each, and 3 harts
    machines      the guest `locks` on t1 and smt8: 8 harts

A check that fails or hangs has caught it. One that ends in no verdict (the explorer's time is over) has not.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tomllib

LOCKS = Path(__file__).resolve().parents[1]
ROOT = LOCKS.parent
sys.path.insert(0, str(ROOT / "guests" / "explore"))
import explored  # noqa: E402

LIST = LOCKS / "test" / "mutants.toml"
TABLE = ROOT / "docs" / "lock-mutants.md"
LOITER = ROOT / ".venv" / "bin" / "loiter"
CROSS = os.environ.get("CROSS", "riscv64-linux-gnu-")

CHECKS = ("threads", "sanitizer", "explorer", "machines")
MACHINES = ("t1", "smt8")
SETTINGS = (
    "hold=40 think=200 cycles=30000 lines=2",
    *(f"hold=5 think=1000 cycles=300000 place_harts={n - 1} seed={n}" for n in (1, 2, 3)),
)
EXPLORED = ((2, 1), (2, 2), (3, 1))
"""Harts, and acquisitions of each."""
BARE = ["-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany", "-ffreestanding", "-fno-pic", "-nostdlib", "-static"]
SECONDS = {"threads": 15, "sanitizer": 40, "explorer": 120, "machines": 60}
"""After so many, threads and machines hang; the explorer has no verdict."""

CAUGHT, PASSES, NONE, UNKNOWN = "caught", "passes", "", "no verdict"

HEAD = """# Mutants of the locks

Each row is a change that makes a lock wrong, and what the checks of the locks say to it. `make -C locks mutants` runs
them all and writes this table; the list is [`locks/test/mutants.toml`](../locks/test/mutants.toml).

- threads: 4 threads on 2 processors of an x86 machine ([`hosted.c`](../locks/test/hosted.c)), and locks held at once,
  in signal handlers and used wrongly ([`use.c`](../locks/test/use.c))
- sanitizer: the same under ThreadSanitizer
- explorer: every execution that RVWMO allows to 2 harts with 1 or 2 acquisitions each, and to 3 harts with 1
  ([explore.md](explore.md)); no verdict means that its time was over, or that a hart leaves its memory
- machines: 8 harts on `t1` and `smt8` ([locks.md](locks.md))

What threads and machines catch of a fault of order is chance, and may differ from run to run; what the explorer says
does not.

"""


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", choices=CHECKS, help="this check only; what the table has of the others stays")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    mutants: list[dict[str, Any]] = tomllib.loads(LIST.read_text())["mutant"]
    faults = fits(mutants)
    rows = table()
    if asked.check:
        names = [mutant["name"] for mutant in mutants]
        if list(rows) != names:
            faults.append(
                f"{TABLE.name} is not of this list: run locks/test/mutants.py {' '.join(set(names) ^ set(rows))}"
            )
        faults += [f"{name}: no check catches it" for name, found in rows.items() if CAUGHT not in found.values()]
    if faults or asked.check:
        print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
        return 1 if faults else 0
    known = {mutant["name"]: mutant for mutant in mutants}
    for name in asked.names:
        if name not in known:
            print(f"no mutant is called {name}; {LIST.name} has them all", file=sys.stderr)
            return 2
    chosen = [known[name] for name in asked.names] or mutants
    with ThreadPoolExecutor(asked.jobs) as pool:
        checks = (asked.only,) if asked.only else CHECKS
        for mutant, found in zip(chosen, pool.map(lambda mutant: run(mutant, checks), chosen), strict=True):
            rows[mutant["name"]] = rows.get(mutant["name"], dict.fromkeys(CHECKS, NONE)) | found
            print(
                f"{mutant['name']:34}",
                ", ".join(f"{check} {word}" for check, word in found.items() if word),
                flush=True,
            )
            write(mutants, rows)
    return 0 if all(CAUGHT in rows[mutant["name"]].values() for mutant in chosen) else 1


def fits(mutants: list[dict[str, Any]]) -> list[str]:
    """What is wrong with the list."""
    faults = []
    for mutant in mutants:
        text = (LOCKS / "include" / "loiter" / f"{mutant['header']}.h").read_text()
        if text.count(mutant["was"]) != 1:
            faults.append(f"{mutant['name']}: {mutant['header']}.h has its text {text.count(mutant['was'])} times")
    return faults


def table() -> dict[str, dict[str, str]]:
    """Rows of the table that there is: by mutant, by check."""
    if not TABLE.is_file():
        return {}
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in TABLE.read_text().splitlines()]
    rows = [row for row in cells if row and row[0].startswith("`")]
    return {row[0].strip("`"): dict(zip(CHECKS, row[3:], strict=True)) for row in rows}


def write(mutants: list[dict[str, Any]], rows: dict[str, dict[str, str]]) -> None:
    """Writes the table."""
    known = [mutant for mutant in mutants if mutant["name"] in rows]
    lines = [f"| Mutant | Header | Fault | {' | '.join(CHECKS)} |", "|---|---|---|" + "---|" * len(CHECKS)]
    for mutant in known:
        cells = " | ".join(rows[mutant["name"]][check] for check in CHECKS)
        lines.append(f"| `{mutant['name']}` | {mutant['header']} | {mutant['fault']} | {cells} |")
    caught = sum(CAUGHT in rows[mutant["name"]].values() for mutant in known)
    each = ", ".join(f"{check} {sum(rows[mutant['name']][check] == CAUGHT for mutant in known)}" for check in CHECKS)
    text = f"{HEAD}{caught} of {len(known)} are caught: by {each}.\n\n" + "\n".join(lines) + "\n"
    TABLE.write_text(text)


def run(mutant: dict[str, Any], checks: Sequence[str]) -> dict[str, str]:
    """What these checks say."""
    with tempfile.TemporaryDirectory(prefix="lock-mutant-") as name:
        folder = Path(name)
        headers = folder / "include"
        shutil.copytree(LOCKS / "include", headers)
        path = headers / "loiter" / f"{mutant['header']}.h"
        path.write_text(path.read_text().replace(mutant["was"], mutant["becomes"]))
        does: dict[str, Callable[[], str]] = {
            "threads": lambda: threads(folder, headers, mutant["hosted"], "threads", []),
            "sanitizer": lambda: threads(folder, headers, mutant["hosted"], "sanitizer", ["-fsanitize=thread"]),
            "explorer": lambda: explorer(folder, headers, mutant["explored"]),
            "machines": lambda: machines(folder, headers, mutant["simulated"]),
        }
        return {check: does[check]() for check in checks}


def threads(folder: Path, headers: Path, lock: str, check: str, options: list[str]) -> str:
    """By threads of this machine."""
    common = ["gcc", "-std=c11", "-O2", "-g", "-pthread", *options, f"-I{headers}"]
    for source, words in (("hosted", [lock]), ("use", [])):
        program = folder / f"{check}-{source}"
        build([*common, "-o", program, LOCKS / "test" / f"{source}.c", LOCKS / "test" / "kinds.c"])
        if ran([program, *words], SECONDS[check], hangs=CAUGHT) == CAUGHT:
            return CAUGHT
    return PASSES


def explorer(folder: Path, headers: Path, locks: list[str]) -> str:
    """By every execution, until one of the locks fails."""
    words = [NONE]
    for lock in locks:
        for harts, times in EXPLORED:
            program = explored.build(lock, times, folder / f"{lock}-{times}.elf", headers=headers)
            command: list[str | Path] = [LOITER, "explore", program, "--harts", str(harts)]
            words.append(ran(command, SECONDS["explorer"], hangs=UNKNOWN, refuses=UNKNOWN))
            if words[-1] != PASSES:
                break
        if words[-1] == CAUGHT:
            return CAUGHT
    return UNKNOWN if UNKNOWN in words else words[-1]


def machines(folder: Path, headers: Path, locks: list[str]) -> str:
    """On timing machines, until one run fails."""
    if not locks:
        return NONE
    program = folder / "locks.elf"
    runtime = ROOT / "guests" / "runtime"
    sources = [ROOT / "guests" / "programs" / "locks" / "locks.c", *runtime.glob("*.c"), *runtime.glob("*.S")]
    link = [f"-Wl,-T,{runtime / 'link.ld'}", "-Wl,--build-id=none", "-Wl,-z,max-page-size=4096"]
    options = ["-fno-stack-protector", "-fno-common", "-fno-tree-loop-distribute-patterns", "-O2"]
    options += [f"-I{runtime}", f"-I{headers}"]
    build([f"{CROSS}gcc", *BARE, "-no-pie", "-std=c11", *options, *link, "-o", program, *sources])
    for lock, machine, arguments in itertools.product(locks, MACHINES, SETTINGS):
        words: list[str | Path] = [LOITER, "run", "-m", machine, program, "--phases"]
        words += ["reference until probe:work_begin, timing", "--place", f"{lock}=0,1,2,3,4,5,6,7"]
        words += ["--max-cycles", "40000000", "--json", "--", *arguments.split()]
        done = subprocess.run(list(map(str, words)), capture_output=True, timeout=SECONDS["machines"])
        # Who waits for ever is not asleep: the run then ends as it was asked to, after so many cycles.
        if done.returncode or json.loads(done.stdout)["exit"]["reason"] != "finisher":
            return CAUGHT
    return PASSES


def build(command: list[str | Path]) -> None:
    """Compiles; a mutant that does not compile is none."""
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)


def ran(command: list[str | Path], seconds: int, hangs: str, refuses: str = CAUGHT) -> str:
    """Whether it passes; status 2 is that of a command that refuses what it is asked."""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return hangs
    return {0: PASSES, 2: refuses}.get(done.returncode, CAUGHT)


if __name__ == "__main__":
    sys.exit(main())
