"""`loiter native wrap`: programs with our locks under their mutexes stay as right as they were; statistics are told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from loiter.errors import InternalFault, UserFault
from loiter.native import wrap
from loiter.native.wrap import Asked
from loiter.resources import LOCKS

PARTS = ["exclusion", "kinds", "conditions", "processes", "memory"]
ONE_OF_EACH_FORM = sorted({form: name for name, form in wrap.FORMS.items()}.values())


@dataclass(frozen=True)
class Said:
    """What a command left behind."""

    status: int
    out: bytes
    err: str


@pytest.fixture(scope="module", autouse=True)
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOITER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def command() -> Callable[..., Said]:
    def call(*words: str | Path) -> Said:
        begin = [sys.executable, "-c", "from loiter.cli import main; main()", "native", "wrap"]
        done = subprocess.run([*begin, *map(str, words)], capture_output=True, timeout=120, check=False)
        return Said(done.returncode, done.stdout, done.stderr.decode())

    return call


@pytest.fixture(scope="module")
def mutexes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that uses mutexes in all ways."""
    path = tmp_path_factory.mktemp("program") / "mutexes"
    words = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", path]
    subprocess.run([*words, LOCKS / "test" / "mutexes.c"], check=True)
    assert subprocess.run([path], capture_output=True, text=True, check=True).stdout.split() == PARTS
    return path


@pytest.mark.slow
@pytest.mark.parametrize("lock", ONE_OF_EACH_FORM)
def test_mutexes_of_all_kinds_keep_their_promises(lock: str, mutexes: Path, command: Callable[..., Said]) -> None:
    said = command("--lock", lock, "--no-statistics", "--", mutexes)
    assert (said.status, said.err) == (0, "")
    assert said.out.decode().split() == PARTS


@pytest.mark.slow
def test_no_signal_is_lost_however_late_a_wait_begins(
    mutexes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow_wait.so"
    version = f"-Wl,--version-script={LOCKS / 'test' / 'slow_wait.map'}"
    words = ["cc", "-O2", "-shared", "-fPIC", version, "-o", slow, LOCKS / "test" / "slow_wait.c", "-ldl"]
    subprocess.run(words, check=True)
    monkeypatch.setenv("LD_PRELOAD", str(slow))
    assert wrap.run([str(mutexes)], Asked("mcs", statistics=False)).status == 0


@pytest.mark.slow
def test_statistics_count_what_was_done(mutexes: Path) -> None:
    found = wrap.run([str(mutexes)], Asked("mcs"))
    assert found.status == 0
    assert found.lost == 0
    # The program and its two children.
    assert found.processes == 3
    frame = found.table()
    # Four threads take the recursive and the adaptive mutex 2000 times each; a second acquire by its owner is none.
    left = frame[frame["is_left"] & (frame["acquisitions"] == 8000)]
    assert len(left) == 1
    ours = frame[~frame["is_left"] & (frame["acquisitions"] == 8000)]
    assert len(ours) == 1
    assert (frame["acq-bounces"] <= frame["acquisitions"]).all()
    assert (frame["waittime-min"] <= frame["waittime-avg"]).all()
    assert (frame["waittime-avg"] <= frame["waittime-max"]).all()
    # Each section has ended, but that of a thread that dies with the mutex.
    assert sum(row["acquisitions"] - row["holds"] for row in found.rows) <= 3
    assert {row["process"] for row in found.rows} == {str(mutexes)}
    assert frame["name"].str.startswith("mutexes+0x").all()
    many = frame[frame["mutexes"] >= 1000]
    assert len(many) == 1, "mutexes of one place are one class"


def test_pigz_writes_what_it_writes_without(command: Callable[..., Said], tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"".join(b"%d times %d\n" % (n, n * n) for n in range(300_000)))
    plain = subprocess.run(["pigz", "-p", "4", "-c", data], capture_output=True, check=True).stdout
    said = command("--lock", "mcs", "--out", tmp_path / "out", "--", "pigz", "-p", "4", "-c", data)
    assert said.status == 0, said.err
    assert said.out == plain
    assert subprocess.run(["pigz", "-d"], input=said.out, capture_output=True, check=True).stdout == data.read_bytes()
    assert "mutexes by place, mcs, pause" in said.err
    assert "pigz+0x" in said.err
    table = pd.read_parquet(tmp_path / "out" / "mutexes.parquet")
    columns = {"name", "process", "acquisitions", "contentions", "acq-bounces", "waittime-total", "holdtime-avg"}
    assert columns <= set(table.columns)
    assert table["acquisitions"].sum() > 50
    rows = pd.read_parquet(tmp_path / "out" / "locks.parquet")
    assert rows["acquisitions"].sum() == table["acquisitions"].sum()
    assert (tmp_path / "out" / "mutexes.csv").exists()


def test_stress_ng_runs_to_its_end(tmp_path: Path) -> None:
    # For a time: with few operations it gives up, wrapped or not, when they are done before all its threads are there.
    # Its threads have real-time priorities, so that a waiter may be more important than the holder.
    words = ["stress-ng", "--mutex", "2", "--mutex-procs", "2", "--timeout", "1", "--verify", "--temp-path", tmp_path]
    found = wrap.run(["timeout", "60", *map(str, words), "--quiet"], Asked("ticket"))
    assert found.status == 0
    stressors = [row for row in found.rows if "stress-ng-mutex" in row["name"]]
    assert len({row["pid"] for row in stressors}) == 2
    assert sum(row["acquisitions"] for row in stressors) >= 100


def test_a_process_that_ends_while_it_begins_has_no_statistics(tmp_path: Path) -> None:
    path = tmp_path / "1-1.stats"
    path.write_bytes(b"")
    assert wrap._read(path) == ([], 0)
    path.write_bytes(bytes(1 << 20))
    assert wrap._read(path) == ([], 0)
    path.write_bytes(b"1" * (1 << 20))
    with pytest.raises(InternalFault, match="another library"):
        wrap._read(path)


def test_the_program_says_how_it_ended(command: Callable[..., Said]) -> None:
    assert command("--lock", "mcs", "--", "sh", "-c", "exit 7").status == 7
    assert command("--lock", "mcs", "--", "sh", "-c", "kill -9 $$").status == 128 + 9
    said = command("--lock", "mcs", "--", "echo", "--lock", "x")
    assert said.out == b"--lock x\n"
    assert "no process of it took a private mutex" in said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--lock", "mc", "--", "true"), 'did you mean "mcs"'),
        (("--lock", "clh", "--", "true"), "needs something of its callers"),
        (("--lock", "mcs", "--policy", "paus", "--", "true"), 'did you mean "pause"'),
        (("--lock", "ticket", "--policy", "park", "--", "true"), "waiters of ticket cannot park"),
        (("--lock", "mcs", "--patience", "-1", "--", "true"), "patience = -1"),
        (("--lock", "mcs", "--", "no-such-program"), "no-such-program: no such program"),
        (("--lock", "mcs", "--no-statistics", "--out", "somewhere", "--", "true"), "nothing to write"),
        (("--", "true"), "Missing option"),
    ],
)
def test_what_cannot_be_wrapped_is_refused(command: Callable[..., Said], words: tuple[str, ...], said: str) -> None:
    found = command(*words)
    assert found.status == 2
    assert said in found.err.replace("\n", " ")


def test_a_lock_that_no_mutex_can_be_is_a_lock_elsewhere() -> None:
    assert {"clh", "hmcs", "anderson"} <= set(wrap.locks_elsewhere())
    assert not {"wait", "base", "mcs"} & set(wrap.locks_elsewhere())
    with pytest.raises(UserFault, match="did you mean"):
        wrap.library(Asked("tickets"))
