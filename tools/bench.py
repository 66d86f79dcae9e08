#!/usr/bin/env python3
"""Speed of the simulator on one host core: prints a table and writes it as JSON.

    tools/bench.py OUTPUT.json [--repeats N] [--only WORD]

Every case runs N times; the median counts. Simulated results are the same each time, and checked to be. The cases with
Linux need the image `debian` (built when it is missing) and QEMU.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from loiter import engine as engines
from loiter import machines, programs
from loiter.engine import Engine, Json
from loiter.report.table import headed
from loiter.runs.request import Request

SPEED = "million instructions/s"
CYCLES = "million context-cycles/s"
SECONDS = "s"
RATIO = "of its speed"
TIMES = "times as long"

QEMU = "qemu-system-riscv64"
# Rounds of the integer mix, so that QEMU's start does not count: its time is that of the difference.
QEMU_ROUNDS = (1_000, 21_000)
HARTS = 8
INIT_SAYS = "loiter: init"
GUESTS_RUN_SECONDS = 5


@dataclass(frozen=True)
class Row:
    """A measured figure. `target` is the least for a speed or a ratio, the most for a time or a ratio of times.

    `ipc` is that of the simulated machine, of runs of a single program.
    """

    name: str
    values: tuple[float, ...]
    unit: str
    detail: str = ""
    target: float | None = None
    ipc: float = 0

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    @property
    def reached(self) -> bool:
        assert self.target is not None
        return self.value <= self.target if self.is_time else self.value >= self.target

    @property
    def is_time(self) -> bool:
        return self.unit in {SECONDS, TIMES}


@dataclass(frozen=True)
class Case:
    """A bare-metal run to time. `target` is the speed asked for."""

    name: str
    machine: str
    program: str
    places: tuple[str, ...]
    arguments: tuple[str, ...]
    target: float | None = None
    fast_forward: bool = False


INTEGER_MIX = Case("reference engine, integer mix", "virt", "coremix", ("intmix=0",), ("iterations=4000",), target=300)
CASES = (
    INTEGER_MIX,
    Case("t1, integer mix on 4 contexts", "t1", "coremix", ("intmix=0,1,2,3",), ("iterations=30",), target=20),
    Case("t1, integer mix on 1 context", "t1", "coremix", ("intmix=0",), ("iterations=60",)),
    Case("t2, integer mix on 8 contexts", "t2", "coremix", ("intmix=0,1,2,3,4,5,6,7",), ("iterations=15",)),
    Case("superscalar, integer mix", "superscalar", "coremix", ("intmix=0",), ("iterations=20",), target=3),
    Case(
        "smt8, integer mix on 8 contexts",
        "smt8",
        "coremix",
        ("intmix=0,1,2,3,4,5,6,7",),
        ("iterations=3",),
        target=2.5,
    ),
    Case("t1, sort with 3 spinners", "t1", "spinloops", ("sort=0", "spin_default=1,2,3"), (), fast_forward=True),
    Case("t1, mbv_fp alone", "t1", "spinloops", ("mbv_fp=0",), ("iterations=4",), fast_forward=True),
)
# The seven sleep in wrs.nto from the beginning of the measurement to its end.
NAPPING = Case(
    "smt8, integer mix on 1 context while 7 nap",
    "smt8",
    "spinloops",
    ("intmix=0", "spin_wrs_nto=1,2,3,4,5,6,7"),
    ("iterations=4",),
    fast_forward=True,
)
ALONE = Case(
    "superscalar, the same program on its 1 context",
    "superscalar",
    "spinloops",
    ("intmix=0",),
    ("iterations=4",),
    fast_forward=True,
)


@dataclass(frozen=True)
class Busy:
    """The first contexts of a machine at work, for so many cycles. What comes before is not counted."""

    machine: str
    contexts: int
    cycles: int
    target: float | None = None

    @property
    def name(self) -> str:
        return f"{self.machine}, integer mix on {self.contexts} contexts"

    def plan(self, cycles: int) -> str:
        """All contexts have begun, and caches are warm, when timing begins."""
        return f"reference until probe:roi_begin, reference warm for 8M instructions, timing for {cycles} cycles"


T2_BUSY = Busy("t2", 64, 700_000, target=15)
# Host time is to be linear in contexts, so that of one cycle of one context is to be the same.
KNL_BUSY = (
    Busy("knl", 1, 2_000_000),
    Busy("knl", 4, 1_000_000),
    Busy("knl", 16, 400_000),
    Busy("knl", 64, 150_000),
    Busy("knl", 256, 60_000, target=3),
)


# Two contexts of two cores work, and all others of the machine wait for a lock.
WAITING_PLACES = (0, 4)
WAITING_CONTEXTS = 256
WAITING_CYCLES = (400_000, 2_400_000)
WAITING_TARGET = 100


def request_of(engine: Engine, case: Case) -> Request:
    """The run of a case."""
    machine = machines.load(engine, case.machine, ["system.ram_mib=256"])
    program = programs.load(engine, case.program)
    places = programs.place(case.places, program, machine)
    return Request(machine, program, places, case.arguments, case.fast_forward)


def bare_metal(engine: Engine, case: Case, repeats: int) -> Row:
    """Times a bare-metal run."""
    request = request_of(engine, case)
    results = [engine.run(request.native(), request.program.elf) for _ in range(repeats)]
    outcomes = {(each["cycles"], each["instructions"]) for each in results}
    if len(outcomes) != 1 or any(each["exit"]["code"] != 0 for each in results):
        raise SystemExit(f"{case.name}: runs differ or failed: {[each['exit'] for each in results]}, {outcomes}")
    cycles, instructions = outcomes.pop()
    speeds = tuple(instructions / float(each["host_seconds"]) / 1e6 for each in results)
    detail = f"{instructions:,} instructions, IPC {instructions / cycles:.2f}"
    return Row(case.name, speeds, SPEED, detail, case.target, instructions / cycles)


def _bare_metal_rows(engine: Engine, case: Case, repeats: int) -> list[Row]:
    return [bare_metal(engine, case, repeats)]


def _processor_seconds(engine: Engine, request: Request) -> tuple[Json, float]:
    """A run, and the processor time that it took, which other programs on the host change less than its wall time."""
    began = time.process_time()
    result = engine.run(request.native(), request.program.elf)
    return result, time.process_time() - began


def busy(engine: Engine, case: Busy, repeats: int) -> tuple[Row, tuple[float, ...]]:
    """Times contexts at work: the row of their speed, and the host's nanoseconds for a cycle of a context."""
    places = "intmix=" + ",".join(map(str, range(case.contexts)))
    request = request_of(engine, Case(case.name, case.machine, "coremix", (places,), ("iterations=1000",)))
    plans = [replace(request, phases=case.plan(cycles)) for cycles in (case.cycles // 10, case.cycles)]
    speeds, nanoseconds, counted = [], [], set()
    for _ in range(repeats):
        (few, few_seconds), (many, many_seconds) = (_processor_seconds(engine, plan) for plan in plans)
        instructions = many["timing_instructions"] - few["timing_instructions"]
        seconds = many_seconds - few_seconds
        counted.add(instructions)
        speeds.append(instructions / seconds / 1e6)
        nanoseconds.append(seconds * 1e9 / (case.contexts * (case.cycles - case.cycles // 10)))
    if len(counted) != 1:
        raise SystemExit(f"{case.name}: runs differ: {counted}")
    detail = f"{statistics.median(nanoseconds):.0f} ns of host time a context-cycle"
    return Row(case.name, tuple(speeds), SPEED, detail, case.target), tuple(nanoseconds)


def by_contexts(engine: Engine, repeats: int) -> list[Row]:
    """Host time against busy contexts, from one to all of `knl`."""
    measured = [busy(engine, case, repeats) for case in KNL_BUSY]
    most = measured[-1][1]
    rows = [row for row, _ in measured]
    for case, (_, fewer) in zip(KNL_BUSY[:-1], measured[:-1], strict=True):
        name = f"knl, a context-cycle, {KNL_BUSY[-1].contexts} busy against {case.contexts}"
        rows.append(Row(name, tuple(a / b for a, b in zip(most, fewer, strict=True)), TIMES, target=1))
    return rows


def waiting(engine: Engine, loop: str, repeats: int) -> list[Row]:
    """Cycles of contexts in a second of processor time, where two work and 254 wait in `loop`."""
    waiters = ",".join(str(n) for n in range(WAITING_CONTEXTS) if n not in WAITING_PLACES)
    places = (f"intmix={','.join(map(str, WAITING_PLACES))}", f"{loop}={waiters}")
    name = f"knl, 2 contexts work and 254 wait in {loop}"
    request = request_of(engine, Case(name, "knl", "spinloops", places, ("iterations=1000",)))
    few, many = WAITING_CYCLES
    plans = [replace(request, phases=f"reference until probe:roi_begin, timing for {n} cycles") for n in (few, many)]
    speeds, counted = [], set()
    for _ in range(repeats):
        (begun, before), (result, after) = (_processor_seconds(engine, plan) for plan in plans)
        counted.add(result["timing_instructions"] - begun["timing_instructions"])
        speeds.append(WAITING_CONTEXTS * (many - few) / (after - before) / 1e6)
    if len(counted) != 1:
        raise SystemExit(f"{name}: runs differ: {counted}")
    detail = f"{counted.pop():,} instructions in {many - few:,} cycles"
    return [Row(name, tuple(speeds), CYCLES, detail, WAITING_TARGET)]


def against_superscalar(engine: Engine, repeats: int) -> list[Row]:
    """The speed of a core whose other contexts nap against that of the one with a single context, in turn.

    smt8 has two stages more, so the same program takes it more cycles: napping contexts cost nothing if as many cycles
    are simulated in a second.
    """
    pairs = [(bare_metal(engine, NAPPING, 1), bare_metal(engine, ALONE, 1)) for _ in range(repeats)]
    rows = [replace(each[0], values=tuple(row.value for row in each)) for each in zip(*pairs, strict=True)]
    by_instructions = tuple(napping.value / alone.value for napping, alone in pairs)
    by_cycles = tuple(each * rows[1].ipc / rows[0].ipc for each in by_instructions)
    return [
        *rows,
        Row("smt8 napping against superscalar, cycles/s", by_cycles, RATIO, target=1),
        Row("smt8 napping against superscalar, instructions/s", by_instructions, RATIO),
    ]


def against_qemu(engine: Engine, repeats: int) -> Row:
    """The integer mix here against the same ELF on QEMU's translator, in turn."""
    request = request_of(engine, INTEGER_MIX)
    rounds = int(INTEGER_MIX.arguments[0].partition("=")[2])
    ratios = []
    for _ in range(repeats):
        result = engine.run(request.native(), request.program.elf)
        a_round = result["instructions"] / rounds
        ours = result["instructions"] / float(result["host_seconds"])
        few, many = (_qemu_seconds(request, each) for each in QEMU_ROUNDS)
        theirs = a_round * (QEMU_ROUNDS[1] - QEMU_ROUNDS[0]) / (many - few)
        ratios.append(ours / theirs)
    return Row("reference engine against QEMU (TCG), integer mix", tuple(ratios), "of QEMU's speed", "", target=1 / 6)


def _qemu_seconds(request: Request, rounds: int) -> float:
    words = f"task.intmix=0 iterations={rounds}"
    command = [QEMU, "-machine", "virt", "-cpu", "rv64,zba=true,zbb=true,zbs=true", "-nographic", "-bios", "none"]
    began = time.perf_counter()
    subprocess.run(
        [*command, "-kernel", str(request.program.path), "-append", words],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - began


def boot(repeats: int) -> Iterator[Row]:
    """Times the boot of Debian's kernel from power-on to init."""
    command = [_loiter(), "boot", "--image", "debian", "--harts", str(HARTS), "--until", INIT_SAYS, "--json"]
    results = [json.loads(_output(command)) for _ in range(repeats)]
    if len({each["cycles"] for each in results}) != 1:
        raise SystemExit(f"the boots differ: {[each['cycles'] for each in results]} cycles")
    instructions = results[0]["instructions"]
    detail = f"{instructions:,} instructions"
    name = f"Debian's kernel, {HARTS} harts, power-on to init"
    seconds = tuple(float(each["host_seconds"]) for each in results)
    yield Row(name, seconds, SECONDS, detail, target=12)
    yield Row("the same, speed", tuple(instructions / each / 1e6 for each in seconds), SPEED, detail, target=150)


def exec_true(repeats: int) -> Row:
    """Times a program on a booted system, restored from its snapshot."""
    command = [_loiter(), "exec", "--", "/bin/true"]
    _output(command)
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        _output(command)
        seconds.append(time.perf_counter() - began)
    return Row("loiter exec -- /bin/true, from the snapshot", tuple(seconds), SECONDS, "wall time", target=1.5)


def two_guests() -> Row:
    """Times a host of two guests, once: it takes minutes. Both always work."""
    cpus = ",".join(map(str, range(HARTS)))
    guests = (
        ("work", f"task.ticket={cpus} acquisitions=1000000000 think=80000 yield_after=16"),
        ("rival", f"task.rival={cpus}"),
    )
    text = f"[host]\ncpus = {HARTS}\nmemory_mib = 128\nrun_us = {GUESTS_RUN_SECONDS * 1_000_000}\nturn_cycles = 1000\n"
    text += '[helping]\npolicy = "published"\n'
    for name, words in guests:
        text += f'[[guests]]\nname = "{name}"\nprogram = "virtual"\narguments = "{words}"\n'
        text += f"harts = {HARTS}\nmemory_mib = 64\n"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "two-guests.toml")
        file.write_text(text)
        result = json.loads(_output([_loiter(), "vm", str(file), "--json"]))
    executed = [each["instructions"] for each in result["guests"]]
    if result["cycles"] < GUESTS_RUN_SECONDS * 1e9 or not all(executed):
        raise SystemExit(f"two guests: {result['cycles']} cycles and {executed} instructions")
    name = f"two guests of {HARTS} virtual CPUs on {HARTS} CPUs, {GUESTS_RUN_SECONDS} simulated seconds"
    seconds = float(result["host_seconds"])
    return Row(name, (seconds,), SECONDS, f"{sum(executed):,} instructions", target=360)


def _loiter() -> str:
    beside = Path(sys.executable).with_name("loiter")
    return str(beside) if beside.exists() else "loiter"


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout


def show(rows: list[Row]) -> Table:
    """The rows for a person."""
    table = headed()
    table.add_column("case")
    for column in ("median", "target"):
        table.add_column(column, justify="right")
    table.add_column("")
    table.add_column("unit")
    table.add_column("of")
    for row in rows:
        target, verdict = "", ""
        if row.target is not None:
            target = f"{'at most' if row.is_time else 'at least'} {_figure(row.target)}"
            verdict = "[green]met[/]" if row.reached else "[bold red]missed[/]"
        table.add_row(row.name, _figure(row.value), target, verdict, row.unit, row.detail)
    return table


def _figure(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}"


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 150)


def report(rows: list[Row], output: Path) -> None:
    """Prints the rows and writes them as JSON."""
    console = _console()
    console.print(show(rows))
    output.parent.mkdir(parents=True, exist_ok=True)
    values = {
        row.name: {"value": row.value, "unit": row.unit}
        | ({} if row.target is None else {"target": row.target, "met": row.reached})
        for row in rows
    }
    output.write_text(json.dumps(values, indent=2) + "\n")
    console.print(f"wrote {output}", highlight=False)


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", metavar="WORD", default="", help="only cases with this in their name")
    options = parser.parse_args()
    engine = engines.load()
    repeats: int = options.repeats
    cases: list[tuple[str, Callable[[], list[Row]]]] = [
        (case.name, functools.partial(_bare_metal_rows, engine, case, repeats)) for case in CASES
    ]
    cases.append((T2_BUSY.name, lambda: [busy(engine, T2_BUSY, repeats)[0]]))
    cases.append(("knl by busy contexts", lambda: by_contexts(engine, repeats)))
    for loop in ("spin_default", "spin_retry", "spin_wrs_nto"):
        cases.append((f"knl waiting in {loop}", functools.partial(waiting, engine, loop, repeats)))
    cases.append(("smt8 napping against superscalar", lambda: against_superscalar(engine, repeats)))
    if shutil.which(QEMU):
        cases.append(("reference engine against QEMU", lambda: [against_qemu(engine, repeats)]))
    cases.append(("Debian's kernel", lambda: list(boot(repeats))))
    cases.append(("loiter exec", lambda: [exec_true(repeats)]))
    cases.append(("two guests", lambda: [two_guests()]))
    console = _console()
    rows: list[Row] = []
    with console.status("") as status:
        for name, measure in cases:
            if options.only in name:
                status.update(name)
                rows.extend(measure())
    if not rows:
        raise SystemExit(f'no case has "{options.only}" in its name')
    report(rows, options.output)


if __name__ == "__main__":
    main()
