"""What the locks of an unmodified kernel cost, beside what a program is known to do and what a trace shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from linux_guest import loiter_, message
from loiter import images, store
from loiter.cli import EXEC_FAILED
from loiter.cli.options import err
from loiter.images.image import FIRMWARE_HARTS

pytestmark = pytest.mark.simulator

THREADS, ROUNDS = 4, 300
# Closing a file and duplicating another both take the spin lock of the process's table of files.
PROGRAM = f"""
#include <pthread.h>
#include <unistd.h>
static pthread_barrier_t together;
static void *work(void *argument) {{
    pthread_barrier_wait(&together);
    for (int n = 0; n < {ROUNDS}; n++) close(dup(0));
    return argument;
}}
int main(void) {{
    pthread_t threads[{THREADS}];
    pthread_barrier_init(&together, NULL, {THREADS});
    for (int n = 0; n < {THREADS}; n++) pthread_create(&threads[n], NULL, work, NULL);
    for (int n = 0; n < {THREADS}; n++) pthread_join(threads[n], NULL);
}}
"""
# Its names are those by which a trace has the first instruction of a function.
ACQUIRES = re.compile(
    r" (_raw_(spin|read|write)_lock(_irq|_irqsave|_bh)?|mutex_lock|down_read|down_write"
    r"|(mutex_lock|down_read|down_write)_(killable|interruptible))\+0x0 "
)
TRIES = re.compile(r" (_raw_(spin|read|write)_trylock(_bh)?|mutex_trylock|down_(read|write)_trylock)\+0x0 ")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    images.ensure("debian", err())
    directory = tmp_path_factory.mktemp("program")
    (directory / "files.c").write_text(PROGRAM)
    compiler = os.environ.get("CROSS", "riscv64-linux-gnu-") + "gcc"
    subprocess.run([compiler, "-O2", "-static", "-pthread", "-o", "files", "files.c"], cwd=directory, check=True)
    return directory


def run(directory: Path, name: str, *options: str | Path) -> store.Result:
    done = loiter_("exec", "-n", "--harts", "4", "--out", name, *options, "--", "./files", cwd=directory)
    assert done.returncode == 0, done.stderr
    return store.read(directory / name)


def by_function(rows: list[dict[str, Any]], name: str) -> dict[str, int]:
    """A count, by the function that acquires."""
    found: dict[str, int] = {}
    for row in rows:
        function = row["site_symbol"].partition("+")[0]
        found[function] = found.get(function, 0) + row[name]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["virt", "t1"])
def test_as_often_as_the_program_says(program: Path, machine: str) -> None:
    rows = run(program, machine, "-m", machine, "--lock-stats").rows("locks")
    # On the reference engine all that runs counts, the beginning and the end of the system included.
    most = THREADS * ROUNDS + (0 if machine == "t1" else 1000)
    for function in ("alloc_fd", "file_close_fd"):
        acquisitions, holds = (by_function(rows, name)[function] for name in ("acquisitions", "holds"))
        assert THREADS * ROUNDS <= acquisitions <= most, function
        assert holds == acquisitions, "releases, which are inline in Debian's kernel, are seen"
    if machine == "t1":
        [lock] = {row["lock"] for row in rows if row["site_symbol"].startswith("alloc_fd+")}
        assert by_function([row for row in rows if row["lock"] == lock], "contentions")["alloc_fd"] > 0
        assert len({row["hart"] for row in rows if row["lock"] == lock}) > 1
    assert any(row["lock_symbol"] for row in rows), "static locks have names"


@pytest.mark.long
def test_as_often_as_the_program_says_on_the_small_kernel(program: Path) -> None:
    image = images.default(FIRMWARE_HARTS + 1, err())
    rows = run(program, "small", "-m", "t1", "--image", image.name, "--lock-stats").rows("locks")
    for function in ("alloc_fd", "file_close_fd"):
        counts = [by_function(rows, name)[function] for name in ("acquisitions", "holds")]
        assert counts == [THREADS * ROUNDS] * 2, function


@pytest.mark.slow
def test_as_often_as_a_trace_says_and_nothing_else_changes(program: Path) -> None:
    plain = run(program, "plain", "-m", "t1")
    traced = run(program, "traced", "-m", "t1", "--lock-stats", "--trace", "trace")
    tables = [{**result.manifest["tables"]} for result in (plain, traced)]
    assert tables[0].pop("locks") != tables[1].pop("locks")
    assert tables[0] == tables[1]
    assert plain.manifest["cycles"] == traced.manifest["cycles"]
    lines = (program / "trace").read_text().splitlines()
    calls, tries = (sum(bool(pattern.search(line)) for line in lines) for pattern in (ACQUIRES, TRIES))
    assert calls > 2 * THREADS * ROUNDS
    acquisitions = sum(row["acquisitions"] for row in traced.rows("locks"))
    # Calls of tasks that begin or end outside of what is timed; attempts that fail.
    assert calls - 2 * THREADS <= acquisitions <= calls + tries + 2 * THREADS


def test_the_table_says_which_and_where(program: Path) -> None:
    run(program, "shown", "-m", "t1", "--lock-stats")
    done = loiter_("lock-stats", "shown", "--json", cwd=program)
    assert done.returncode == 0, done.stderr
    classes = {row["class"]: row for row in json.loads(done.stdout)}
    assert classes["(alloc_fd)"]["acquisitions"] >= THREADS * ROUNDS
    assert classes["(alloc_fd)"]["waittime-min"] > 0
    done = loiter_("lock-stats", "shown", "--by", "lock,site", "--top", "3", cwd=program)
    said = done.stdout.decode()
    assert "acquisitions" in said
    assert "0xffff" in said
    assert "more rows" in said


def test_what_cannot_be_counted_is_a_users_mistake(program: Path) -> None:
    done = loiter_("exec", "-n", "--lock-stats", "--", "true", cwd=program)
    assert done.returncode == EXEC_FAILED
    assert "--out" in message(done)
    done = loiter_("run", "-m", "virt", "hello", "--lock-stats", "--out", "hello", cwd=program)
    assert done.returncode == 2
    assert "_raw_spin_lock" in message(done)
    done = loiter_("run", "-m", "virt", "hello", "--out", "hello", cwd=program)
    assert done.returncode == 0
    done = loiter_("lock-stats", "hello", cwd=program)
    assert done.returncode == 2
    assert "--lock-stats" in message(done)
    done = loiter_("lock-stats", "hello", "--by", "sit", cwd=program)
    assert "site" in message(done)
