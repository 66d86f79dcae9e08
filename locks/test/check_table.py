#!/usr/bin/env python3
"""Count what an uncontended acquire and release take, and compare it with README.md and the headers.

    check_table.py LOITER GUEST COMPILER [--write]

Runs test/uncontended.c on loiter's `virt` and counts the instructions between its marks in the trace: all, and
atomics (each read-modify-write; a pair of lr and sc is one). The table in README.md must be just that, and each header
must name the same number of atomics. Another compiler gives other instructions, so these are compared if it is the one
that the table names. --write puts the table into README.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
README = HERE.parent / "README.md"
HEADERS = HERE.parent / "include" / "loiter"
BEGIN, END = "lui zero,0x7b", "lui zero,0x7e"
HEAD = [
    "| Lock | Bytes a lock | and a node of the machine, or place | and a thread | Atomics | Instructions |",
    "|---|---|---|---|---|---|",
]
# What has no header of its own.
NO_HEADER = {"hidden_mcs", "delay_between"}


class Wrong(Exception):
    """Something is not as it is said to be; the text names it."""


@dataclasses.dataclass(frozen=True)
class Cost:
    """A line of the table."""

    name: str
    lock_bytes: int
    each_bytes: int
    thread_bytes: int
    atomics: int
    instructions: int

    def line(self) -> str:
        values = [str(value or "") for value in dataclasses.astuple(self)[1:]]
        return f"| `{self.name}` | " + " | ".join(values) + " |"


def between_marks(trace: str) -> list[list[str]]:
    """The instructions between each pair of marks, in order."""
    regions: list[list[str]] = []
    inside = False
    for line in trace.splitlines():
        # "cycle retired mode pc symbol  text": two spaces before the text, and before what it wrote.
        parts = line.split("  ")
        text = parts[1] if len(parts) > 1 else ""
        if text == BEGIN:
            regions.append([])
            inside = True
        elif text == END:
            inside = False
        elif inside:
            regions[-1].append(text)
    return regions


def is_atomic(text: str) -> bool:
    return text.startswith(("amo", "sc."))


def measure(loiter: str, guest: str) -> list[Cost]:
    with tempfile.TemporaryDirectory() as directory:
        trace = pathlib.Path(directory, "trace")
        command = [loiter, "run", "-m", "virt", guest, "--trace", str(trace)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            raise Wrong(f"{' '.join(command)} failed:\n{run.stdout}{run.stderr}")
        regions = between_marks(trace.read_text())
    printed = re.findall(r"^(\w+) (\d+) (\d+) (\d+)$", run.stdout, re.MULTILINE)
    if len(printed) != len(regions) or not printed or printed[0][0] != "nothing":
        raise Wrong(f"the guest printed {len(printed)} locks and marked {len(regions)}")
    call = len(regions[0])
    return [
        Cost(
            name,
            int(lock),
            int(each),
            int(thread),
            sum(map(is_atomic, region)),
            len(region) - call,
        )
        for (name, lock, each, thread), region in zip(printed[1:], regions[1:], strict=True)
    ]


def check_headers(costs: list[Cost]) -> None:
    """That the atomics in each header's table are those that were counted, and that no header was left out."""
    shared = {cost.name.removesuffix("_shared"): cost for cost in costs if cost.name.endswith("_shared")}
    seen = set()
    for cost in costs:
        if cost.name in NO_HEADER or cost.name.endswith("_shared"):
            continue
        text = (HEADERS / f"{cost.name}.h").read_text()
        row = re.search(r"^// \| uncontended +\| (\d+) atomics?(?: a writer, (\d+) a reader)?", text, re.MULTILINE)
        if not row:
            raise Wrong(f"{cost.name}.h has no row of atomics on the uncontended path")
        claimed = [int(value) for value in row.groups() if value]
        counted = [cost.atomics] + ([shared[cost.name].atomics] if cost.name in shared else [])
        if claimed != counted:
            raise Wrong(f"{cost.name}.h says {claimed} atomics on the uncontended path, {counted} were executed")
        seen.add(f"{cost.name}.h")
    forgotten = {path.name for path in HEADERS.glob("*.h") if "| uncontended" in path.read_text()} - seen
    if forgotten:
        raise Wrong(f"test/uncontended.c does not know {', '.join(sorted(forgotten))}")


def table_of(readme: str) -> tuple[int, int, list[str]]:
    """Where the table is, and its lines."""
    lines = readme.splitlines()
    if HEAD[0] not in lines:
        raise Wrong(f"README.md has no table that begins with {HEAD[0]!r}")
    begin = end = lines.index(HEAD[0])
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    return begin, end, lines[begin:end]


def check_readme(costs: list[Cost], compiler: str, write: bool) -> None:
    readme = README.read_text()
    begin, end, written = table_of(readme)
    named = re.search(r"GCC (\d+)", readme)
    if not named:
        raise Wrong("README.md does not name the compiler of its table, as GCC and a number")
    expected = HEAD + [cost.line() for cost in costs]
    if write:
        lines = readme.splitlines()
        README.write_text("\n".join(lines[:begin] + expected + lines[end:]) + "\n")
        return
    if named.group(1) != compiler:
        print(f"another compiler than README.md's (GCC {named.group(1)}): instructions are not compared")
        written, expected = ([line.rsplit("|", 2)[0] for line in lines] for lines in (written, expected))
    for is_, should_be in zip(written, expected, strict=False):
        if is_ != should_be:
            raise Wrong(f"README.md says\n  {is_}\nmeasured is\n  {should_be}\nmake -C locks table  writes it anew")
    if len(written) != len(expected):
        raise Wrong("README.md's table has more or fewer locks than were measured: make -C locks table")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loiter")
    parser.add_argument("guest")
    parser.add_argument("compiler", help="major version of the cross compiler")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    try:
        costs = measure(arguments.loiter, arguments.guest)
        check_headers(costs)
        check_readme(costs, arguments.compiler, arguments.write)
    except (Wrong, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{len(costs)} locks cost what the table says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
