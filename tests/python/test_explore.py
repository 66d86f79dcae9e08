"""`loiter explore`: the locks as compiled, under each memory model; what fails, and what cannot be explored."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import explored
import pytest

from commands import Said, run
from explore_programs import DEADLOCK, MESSAGE_PASSING, program_of

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
# Harts and acquisitions of each; LONG are those that take more than a second.
LONG = {("anderson", 2, 2), ("qspinlock", 2, 2), ("hclh", 2, 2)} | {
    (lock, 3, 1)
    for lock in ("k42", "qspinlock", "malthusian", "cna", "hmcs", "hclh", "c_bo_mcs", "c_mcs_tkt", "spin_then_park")
} | {("phase_fair_queue", 3, 1)}  # fmt: skip
QUICK = {(lock, harts, times) for lock in explored.LOCKS for harts, times in ((2, 1), (2, 2), (3, 1))} - LONG
TRIED = {lock for lock in explored.LOCKS if not lock.endswith("_shared")} - explored.WITHOUT_TRY


def built(tmp_path: Path, lock: str, times: int, *options: str, headers: Path = explored.HEADERS) -> Path:
    return explored.build(lock, times, tmp_path / "program.elf", options, headers)


def loiter(*arguments: str | Path) -> Said:
    return run("explore", *map(str, arguments))


@pytest.mark.parametrize(("lock", "harts", "times"), sorted(QUICK))
def test_a_lock_excludes_and_orders(lock: str, harts: int, times: int, tmp_path: Path) -> None:
    done = loiter(built(tmp_path, lock, times), "--harts", str(harts), "--json")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert found["failure"] is None
    assert found["ends"] >= 1
    assert found["states"] > 30 * times, "each hart takes six steps at least, and waits in between"


@pytest.mark.parametrize("lock", sorted(TRIED))
def test_an_attempt_excludes_and_orders(lock: str, tmp_path: Path) -> None:
    done = loiter(built(tmp_path, lock, 1, "-DTRIED"), "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["ends"] > 1, "with the attempt in vain, and without"


@pytest.mark.long
@pytest.mark.parametrize(("lock", "harts", "times"), sorted(LONG))
def test_a_lock_with_more(lock: str, harts: int, times: int, tmp_path: Path) -> None:
    done = loiter(built(tmp_path, lock, times), "--harts", str(harts))
    assert done.status == 0, done.err
    assert "nothing fails" in done.out


@dataclass(frozen=True)
class Mutant:
    """A change of a lock that fails under RVWMO. Under TSO it does not, but where that is said."""

    lock: str
    header: str
    old: str
    new: str
    under_tso: bool = False


WAIT = "address, __ATOMIC_ACQUIRE)) & ~LOITER_PARKED", "address, __ATOMIC_RELAXED)) & ~LOITER_PARKED"
END_WAIT = "value, __ATOMIC_RELEASE);\n        return", "value, __ATOMIC_RELAXED);\n        return"
MCS_LINK = "LOITER_STORE(&before->next, node, __ATOMIC_RELEASE);\n"
MCS_WAIT = "        (void)loiter_wait_while(policy, &node->waiting, 1);\n"
MUTANTS = [
    Mutant("ticket", "ticket", "(serving + 1) & LOITER_TICKET_MASK, __ATOMIC_RELEASE", "serving + 1, __ATOMIC_RELAXED"),
    Mutant("ticket", "ticket", "__ATOMIC_ACQUIRE)) != ticket", "__ATOMIC_RELAXED)) != ticket"),
    Mutant("test_and_set", "test_and_set", "__ATOMIC_RELEASE", "__ATOMIC_RELAXED"),
    Mutant("test_and_set", "test_and_set", "__ATOMIC_ACQUIRE", "__ATOMIC_RELAXED"),
    Mutant("test_and_test_and_set", "test_and_test_and_set", "__ATOMIC_RELEASE", "__ATOMIC_RELAXED"),
    Mutant("test_and_test_and_set", "test_and_test_and_set", "__ATOMIC_ACQUIRE", "__ATOMIC_RELAXED"),
    # As it was in DPDK's MCS lock.
    Mutant("mcs", "wait", *END_WAIT),
    Mutant("mcs", "mcs", "NULL, __ATOMIC_RELEASE, __ATOMIC_RELAXED", "NULL, __ATOMIC_RELAXED, __ATOMIC_RELAXED"),
    Mutant("mcs", "mcs", "node, __ATOMIC_ACQ_REL)", "node, __ATOMIC_RELEASE)"),
    Mutant("mcs", "mcs", MCS_LINK + MCS_WAIT, MCS_LINK, under_tso=True),
    Mutant("mcs", "mcs", "    LOITER_STORE(&node->waiting, 1, __ATOMIC_RELAXED);\n", "", under_tso=True),
    Mutant("mcs", "wait", *WAIT),
    Mutant("clh", "wait", *WAIT),
    Mutant("clh", "wait", *END_WAIT),
    Mutant("clh", "clh", "__ATOMIC_ACQ_REL", "__ATOMIC_ACQUIRE"),
    Mutant("anderson", "wait", *WAIT),
    Mutant("anderson", "wait", *END_WAIT),
    Mutant("graunke_thakkar", "wait", *WAIT),
    Mutant("graunke_thakkar", "wait", *END_WAIT),
    Mutant(
        "qspinlock",
        "qspinlock",
        "LOITER_QSPINLOCK_LOCKED, __ATOMIC_RELEASE",
        "LOITER_QSPINLOCK_LOCKED, __ATOMIC_RELAXED",
    ),
    Mutant("qspinlock", "qspinlock", "LOCKED, __ATOMIC_ACQUIRE", "LOCKED, __ATOMIC_RELAXED"),
    Mutant("qspinlock", "qspinlock", "__ATOMIC_ACQUIRE)) & bits", "__ATOMIC_RELAXED)) & bits"),
    Mutant("k42", "k42", "queue, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED", "queue, __ATOMIC_RELAXED, __ATOMIC_RELAXED"),
    Mutant("k42", "k42", "NULL, __ATOMIC_RELEASE, __ATOMIC_RELAXED", "NULL, __ATOMIC_RELAXED, __ATOMIC_RELAXED"),
    Mutant("k42", "wait", *END_WAIT),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.lock} {mutant.header} {mutant.new[:30]}")
def test_a_weakened_lock_fails(mutant: Mutant, tmp_path: Path) -> None:
    headers = tmp_path / "include"
    shutil.copytree(explored.HEADERS, headers)
    path = headers / "loiter" / f"{mutant.header}.h"
    text = path.read_text()
    assert mutant.old in text
    path.write_text(text.replace(mutant.old, mutant.new))
    program = built(tmp_path, mutant.lock, 1, headers=headers)
    done = loiter(program, "--json")
    assert done.status == 1, done.err
    assert json.loads(done.out)["failure"]["kind"] == "assertion"
    under_tso = loiter(program, "--model", "tso", "--json")
    assert under_tso.status == (1 if mutant.under_tso else 0), under_tso.err


def test_a_node_that_is_reused_too_early_is_a_deadlock(tmp_path: Path) -> None:
    headers = tmp_path / "include"
    shutil.copytree(explored.HEADERS, headers)
    path = headers / "loiter" / "clh.h"
    text = path.read_text()
    taken_over = "    thread->own = thread->before;\n"
    assert taken_over in text
    path.write_text(text.replace(taken_over, ""))
    program = built(tmp_path, "clh", 2, headers=headers)
    done = loiter(program, "--model", "sc")
    assert done.status == 1, done.err
    assert "deadlock" in done.err


def test_the_failing_execution_is_a_table(tmp_path: Path) -> None:
    program = program_of(tmp_path, MESSAGE_PASSING)
    assert loiter(program, "--model", "sc").status == 0
    assert loiter(program, "--model", "tso").status == 0
    done = loiter(program, "--model", "rvwmo")
    assert done.status == 1
    assert "hart 1 fails an assertion" in done.err
    assert "program.c:9" in done.out, done.out
    rows = [line.split() for line in done.out.splitlines() if line.strip()[:1].isdigit()]
    accesses = {(row[1], row[2]) for row in rows}
    assert {("0", "flag"), ("1", "data")} <= accesses, done.out
    facts = json.loads(loiter(program, "--json").out)
    steps = facts["failure"]["steps"]
    assert len(steps) == 3, "one store, two loads: the shortest"
    read = next(step for step in steps if step["symbol"] == "flag" and step["read"] == 1)
    assert steps[read["from"] - 1]["wrote"] == 1


def test_harts_that_wait_for_one_another_are_a_deadlock(tmp_path: Path) -> None:
    done = loiter(program_of(tmp_path, DEADLOCK))
    assert done.status == 1
    assert "deadlock" in done.err
    assert "hart 0 is at" in done.out
    assert "hart 1 is at" in done.out


def test_an_await_that_somebody_ends_is_none(tmp_path: Path) -> None:
    text = """
    static int flag;
    void thread(unsigned long hart) {
        if (hart) {
            __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
        } else {
            while (!__atomic_load_n(&flag, __ATOMIC_ACQUIRE)) {}
        }
    }
    """
    done = loiter(program_of(tmp_path, text))
    assert done.status == 0, done.err


WAITS = """
static int data, flag, other;
void thread(unsigned long hart) {
    if (hart == 0) {
        (void)__atomic_load_n(&other, __ATOMIC_RELAXED);
        __atomic_store_n(&data, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&data, 2, __ATOMIC_RELAXED);
        __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
        return;
    }
    BEFORE
    while (!__atomic_load_n(&flag, __ATOMIC_RELAXED)) {}
    BETWEEN
    EXPLORE_ASSERT(__atomic_load_n(&data, __ATOMIC_RELAXED) != OLD);
}
"""


@pytest.mark.parametrize(
    "before",
    [
        "",
        "__atomic_store_n(&other, 1, __ATOMIC_RELAXED); __atomic_thread_fence(__ATOMIC_SEQ_CST);",
        "if (!__atomic_load_n(&flag, __ATOMIC_RELAXED)) __atomic_thread_fence(__ATOMIC_SEQ_CST);",
    ],
)
@pytest.mark.parametrize("old", [0, 1])
@pytest.mark.parametrize(
    ("between", "status"),
    [
        ("", 1),
        ("__atomic_thread_fence(__ATOMIC_ACQUIRE);", 0),
        ("int first = __atomic_load_n(&data, __ATOMIC_RELAXED); __atomic_thread_fence(__ATOMIC_ACQUIRE);"
         "EXPLORE_ASSERT(first != OLD);", 1),
        ('__asm__ volatile("fence w, rw");', 1),
    ],
)  # fmt: skip
def test_a_wait_orders_what_a_fence_behind_it_orders(
    between: str, status: int, old: int, before: str, tmp_path: Path
) -> None:
    text = WAITS.replace("BEFORE", before).replace("BETWEEN", between).replace("OLD", str(old))
    program = program_of(tmp_path, text)
    done = loiter(program, "--json")
    assert done.status == status, done.err
    if status:
        assert json.loads(done.out)["failure"]["kind"] == "assertion"


def test_an_atomic_that_others_can_change_may_avoid_a_wait(tmp_path: Path) -> None:
    text = """
    static int data, turn, flag;
    void thread(unsigned long hart) {
        if (hart == 0) {
            __atomic_store_n(&data, 1, __ATOMIC_RELAXED);
            __atomic_store_n(&turn, 1, __ATOMIC_RELEASE);
            __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
            return;
        }
        if (__atomic_exchange_n(&turn, 1, __ATOMIC_RELAXED) == 0) {
            while (!__atomic_load_n(&flag, __ATOMIC_RELAXED)) {}
            __atomic_thread_fence(__ATOMIC_ACQUIRE);
        }
        EXPLORE_ASSERT(__atomic_load_n(&data, __ATOMIC_RELAXED));
    }
    """
    done = loiter(program_of(tmp_path, text), "--json")
    assert done.status == 1, done.err
    assert json.loads(done.out)["failure"]["kind"] == "assertion"
    acquires = text.replace("&turn, 1, __ATOMIC_RELAXED", "&turn, 1, __ATOMIC_ACQUIRE")
    assert acquires != text
    done = loiter(program_of(tmp_path, acquires))
    assert done.status == 0, done.err


def test_setup_comes_first_and_check_last(tmp_path: Path) -> None:
    text = """
    #include <stdint.h>
    static unsigned char counts[8];
    void setup(unsigned long harts) { counts[7] = (unsigned char)harts; }
    void thread(unsigned long hart) { counts[hart] = (unsigned char)(counts[7] + hart); }
    void check(unsigned long harts) { EXPLORE_ASSERT(*(uint64_t *)counts == WANTED && harts == 3); }
    """
    right = "#define WANTED 0x0300000000050403\n" + text
    assert loiter(program_of(tmp_path, right), "--harts", "3").status == 0
    done = loiter(program_of(tmp_path, "#define WANTED 1\n" + text), "--harts", "3")
    assert done.status == 1
    assert "check() fails" in done.err


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("*(volatile char *)0x10000000 = 'a';", "there are no devices"),
        ('__asm__ volatile("ecall");', "`ecall` cannot be explored"),
        ('for (;;) __asm__ volatile("");', None),
        ("for (volatile unsigned long n = 1;; n++) {}", "may never end"),
        ("static unsigned long n; for (;;) __atomic_fetch_add(&n, 1, __ATOMIC_RELAXED);", "may never end"),
    ],
)
def test_what_cannot_be_explored_says_why(body: str, message: str | None, tmp_path: Path) -> None:
    program = program_of(tmp_path, f"void thread(unsigned long hart) {{ (void)hart; {body} }}")
    done = loiter(program, "--states", "2000")
    if message is None:
        # A hart that jumps to itself has parked: it is at its end.
        assert done.status == 0, done.err
        return
    assert done.status == 2, done.out + done.err
    assert message in " ".join(done.err.split())


def test_what_the_command_line_gets_wrong(tmp_path: Path) -> None:
    program = program_of(tmp_path, MESSAGE_PASSING)
    for arguments, message in (
        ([program, "--model", "tos"], "tso"),
        ([program, "--harts", "9"], "8"),
        ([tmp_path / "none.elf"], "no such file"),
        ([Path(__file__)], "ELF"),
    ):
        done = loiter(*arguments)
        assert done.status == 2, done.err
        assert message in done.err
