"""Who waits on Linux: waiting functions of the kernel, beside what a trace of the same run has of their loops."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from linux_guest import loiter_, message
from loiter import images, store, waiting
from loiter.cli import EXEC_FAILED
from loiter.cli.options import err

pytestmark = pytest.mark.simulator

# Closing a file and duplicating another both take a spin lock of the process's table of files.
CONTENDED = """
#include <pthread.h>
#include <sys/personality.h>
#include <unistd.h>
#define THREADS 8
static pthread_barrier_t together;
static void *work(void *argument) {
    pthread_barrier_wait(&together);
    for (int n = 0; n < 500; n++) close(dup(0));
    return argument;
}
int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, NULL, THREADS + 1);
    for (int n = 0; n < THREADS; n++) pthread_create(&threads[n], NULL, work, NULL);
    // Nobody else calls these: the trace begins at one, what is timed at the other.
    getsid(0);
    personality(0xffffffff);
    pthread_barrier_wait(&together);
    for (int n = 0; n < THREADS; n++) pthread_join(threads[n], NULL);
}
"""
TRACE, BEGIN = "__riscv_sys_getsid", "__riscv_sys_personality"
INSTRUCTIONS = 400_000
# What is traced beyond what is timed: the way from one call to the other, and some of what follows.
BESIDE = 100_000
# Ticket locks take their ticket by an amoadd; the instruction by which a round of their loop is known, by ISA, and how
# many instructions a round has at least and at most. With Zawrs it is nop, lr, xor, bnez, perhaps wrs.nto, lw, two
# shifts, an extension and bne; without, lw, two shifts, an extension, beq, j, pause and j, of which the last round ends
# behind beq, as does the first look of one that then waits.
ROUNDS = {"zawrs": (r"\blr\.w ", 9, 10), "-zawrs": (r"\bpause$", 8, 8 + 5)}
LOCK = re.compile(r" _raw_spin_lock(_irq|_irqsave|_bh)?\+")
# Routines that take a spin lock, wherever they are in them.
ROUTINE = re.compile(r" _raw_spin_(lock(_irq|_irqsave|_bh)?|trylock(_bh)?)\+")


@pytest.fixture
def contended(tmp_path: Path) -> Path:
    (tmp_path / "contended.c").write_text(CONTENDED)
    compiler = os.environ.get("CROSS", "riscv64-linux-gnu-") + "gcc"
    command = [compiler, "-O2", "-static", "-pthread", "-o", "contended", "contended.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    return tmp_path


def activities(directory: Path) -> tuple[Counter[str], Counter[str]]:
    """Context-cycles and instructions by activity."""
    cycles: Counter[str] = Counter()
    instructions: Counter[str] = Counter()
    for row in store.read(directory).rows("activities"):
        cycles[row["activity"]] += row["cycles"]
        instructions[row["activity"]] += row["instructions"]
    return cycles, instructions


def timed_lines(directory: Path, trace: Path) -> list[str]:
    """The trace's lines of the instructions that were timed. Other harts retire some before the first of the hart at
    whose call timing begins, and the trace continues when it has ended."""
    reached = store.read(directory).manifest["phases"]
    begin = next(phase["begin_cycle"] for phase in reached if phase["phase"].startswith("timing"))
    by_context: Counter[str] = Counter()
    for row in store.read(directory).rows("activities"):
        by_context[str(row["hart"])] += row["instructions"]
    lines = [line for line in trace.read_text().splitlines() if "  -- " not in line]
    timed = [line for line in lines if int(line.split()[1]) > begin][: sum(by_context.values())]
    assert Counter(line.split()[0] for line in timed) == +by_context
    return timed


def run(where: Path, *options: str) -> None:
    plan = f"reference until symbol:{BEGIN}, timing for {INSTRUCTIONS} instructions, reference"
    words = ("exec", "-n", "-m", "smt8", "--harts", "8", "--phases", plan, *options, "--", "./contended")
    done = loiter_(*words, cwd=where)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("isa", ["zawrs", pytest.param("-zawrs", marks=pytest.mark.long)])
def test_instructions_that_spin_are_those_that_a_trace_has_in_the_loops(isa: str, contended: Path) -> None:
    sets = ("--set", "hart.isa=-zawrs") if isa == "-zawrs" else ()
    trace = ("--trace", "trace", "--trace-from", TRACE, "--trace-count", str(INSTRUCTIONS + BESIDE))
    run(contended, *sets, *trace, "--out", "on")
    cycles, instructions = activities(contended / "on")
    pattern, least, most = ROUNDS[isa]
    said = timed_lines(contended / "on", contended / "trace")
    rounds = sum(bool(LOCK.search(line)) and bool(re.search(pattern, line.split("  ", 1)[-1])) for line in said)
    assert rounds > 50, "they wait for each other"
    # A few more wait for something else: for a mutex, or for another hart to leave a task.
    assert least * rounds <= instructions["spinning"] <= 1.1 * most * rounds
    assert cycles["spinning"] > instructions["spinning"] / 8, "at most eight retire in a cycle"
    # What else is executed in a routine that takes a lock takes it.
    inside = sum(bool(ROUTINE.search(line)) for line in said)
    assert inside - instructions["spinning"] <= instructions["acquiring"] <= inside - least * rounds
    assert instructions["acquiring"] > 0
    assert (cycles["napping"] > 0) == (isa == "zawrs")
    assert 0 < instructions["interrupt"] < instructions["kernel"]
    manifest = store.read(contended / "on").manifest
    assert manifest["request"]["waiting"]["name"] == "linux-6.12"

    # Without a table, the same run has the same cycles; the kernel's waiting is kernel.
    run(contended, *sets, "--waiting", "off", "--out", "off")
    without, retired = activities(contended / "off")
    assert "spinning" not in without
    assert "acquiring" not in without
    assert sum(without.values()) == sum(cycles.values())
    assert sum(retired.values()) == sum(instructions.values())
    for same in ("user", "machine", "idle", "napping"):
        assert retired[same] == instructions[same]


def test_an_idle_kernel_that_polls_is_idle_polling(tmp_path: Path) -> None:
    # Where idle code begins, and with it cpu_idle_poll, which the first hart comes to while the second still works.
    begin, count = "__cpuidle_text_start", 20_000
    plan = f"reference until symbol:{begin}, timing for {count} instructions"
    words = ("boot", "-m", "smt4", "--harts", "2", "--append", "nohlt", "--phases", plan, "--out", "idle")
    done = loiter_(*words, "--trace", "trace", "--trace-from", begin, "--trace-count", str(count), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    cycles, instructions = activities(tmp_path / "idle")
    polled = sum(f" {begin}+" in line for line in (tmp_path / "trace").read_text().splitlines())
    assert polled > count / 4
    assert instructions["idle_polling"] == pytest.approx(polled, abs=16), "but for where the two end"
    assert cycles["idle_polling"] > instructions["idle_polling"] / 8
    assert "idle" not in cycles, "nobody sleeps in wfi"


def test_a_table_that_does_not_fit_is_a_users_mistake(tmp_path: Path) -> None:
    table = tmp_path / "mine.toml"

    def refused(text: str, *words: str) -> str:
        table.write_text(text)
        done = loiter_("exec", "-n", "-m", "smt8", "--harts", "8", "--waiting", table, "--", "true", cwd=tmp_path)
        assert done.returncode == EXEC_FAILED, done.stderr
        said = " ".join(message(done).split())
        for word in words:
            assert word in said
        return said

    refused("[[function]]\nname = '_raw_spin_look'\nkind = 'lock'", "mine.toml", "_raw_spin_look", "_raw_spin_lock")
    refused("[[function]]\nname = 'kfree'\nkind = 'lock'\nloops_with = ['wrs']", "kfree: no loop in it has wrs")
    refused("functions = 1", "unknown field", "function")
    done = loiter_("run", "-m", "t1", "hello", "--waiting", "linux-6.13", cwd=tmp_path)
    assert done.returncode == 2
    assert "linux-6.12" in message(done)


def test_a_marked_function_of_a_bare_metal_program_waits(tmp_path: Path) -> None:
    """A loop of `spinloops` waits between probes that stand around it: what a table says of it they say too."""
    (tmp_path / "spin.toml").write_text("[[function]]\nname = 'spin_default'\nkind = 'idle'\n")
    found = {}
    for name, options in (("probes", ()), ("table", ("--waiting", "spin.toml"))):
        places = ("--place", "add=0", "--place", "spin_default=1,2,3")
        words = ("run", "-m", "t1", "spinloops", *places, *options, "--out", name, "--", "iterations=5")
        done = loiter_(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        found[name] = activities(tmp_path / name)[1]
    assert found["probes"]["spinning"] > 10_000
    assert found["table"]["idle_polling"] > 0.99 * found["probes"]["spinning"], "but for what stands around the loop"
    assert found["table"]["idle_polling"] + found["table"]["spinning"] == found["probes"]["spinning"]
    assert found["table"]["machine"] == found["probes"]["machine"]


def test_the_kernel_of_the_image_has_a_table() -> None:
    image = images.ensure("debian", err())
    table = waiting.of_kernel(image.manifest["kernel_release"])
    assert table is not None
    assert table.name == "linux-6.12"
    assert waiting.of_kernel("5.10.0") is None
    assert waiting.named("off") is None
