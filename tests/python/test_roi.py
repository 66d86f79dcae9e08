"""The region of interest of `loiter exec` and `boot`: what is timed of a run, and that it is the program."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

import pandas as pd
import pytest

import loiter
from linux_guest import loiter_, message
from loiter import images, store
from loiter.cli import EXEC_FAILED
from loiter.cli.options import err
from loiter.results import Result

pytestmark = pytest.mark.simulator

LOOPS = 200_000
# Two instructions a round, and a call of the kernel at the end.
COUNTS = f"""
    .globl _start
_start:
    li t0, {LOOPS}
1:  addi t0, t0, -1
    bnez t0, 1b
    li a0, 3
    li a7, 93
    ecall
"""
# `before` runs ahead of main, as constructors do.
BEFORE, IN_MAIN, THREADS = 300_000, 100_000, 3
FROM_MAIN = f"""
#include <pthread.h>
static void spin(long rounds) {{ while (rounds--) __asm__ volatile(""); }}
__attribute__((constructor)) static void before(void) {{ spin({BEFORE}); }}
static void *work(void *unused) {{ spin({IN_MAIN}); return unused; }}
int main(void) {{
    pthread_t threads[{THREADS}];
    for (int n = 0; n < {THREADS}; n++) pthread_create(&threads[n], 0, work, 0);
    pthread_exit(0);
}}
"""


def build(directory: Path, name: str, text: str, *options: str) -> None:
    compiler = os.environ.get("CROSS", "riscv64-linux-gnu-") + "gcc"
    command = [compiler, "-O1", *options, "-o", name.partition(".")[0], name]
    (directory / name).write_text(text)
    subprocess.run(command, cwd=directory, check=True)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    images.ensure("debian", err())
    directory = tmp_path_factory.mktemp("programs")
    build(directory, "counts.S", COUNTS, "-nostdlib", "-static")
    build(directory, "threads.c", FROM_MAIN, "-pthread")
    build(directory, "still.c", FROM_MAIN, "-pthread", "-static", "-s")
    return directory


def execute(directory: Path, *words: str, machine: str = "smt8", status: int = 0) -> Result:
    out = tempfile.mkdtemp(dir=directory)
    done = loiter_("exec", "-n", "-m", machine, "--out", out, *words, cwd=directory)
    assert done.returncode == status, done.stderr
    return store.read(Path(out))


def user_instructions(result: Result) -> int:
    by_kind = result.activities.groupby("activity")["instructions"].sum()
    assert by_kind.sum() == result.manifest["timing_instructions"]
    return int(by_kind.get("user", 0))


def test_what_is_timed_is_the_program_and_nothing_else(programs: Path) -> None:
    result = execute(programs, "--", "./counts", status=3)
    executed = 2 * LOOPS + 4
    # The launcher's way out of its wait, and no more: one program in a thousand instructions.
    assert executed <= user_instructions(result) <= executed * 1.001
    phases = result.manifest["phases"]
    assert [phase["phase"].split()[0] for phase in phases] == ["reference", "timing", "reference"]
    assert phases[1]["instructions"] == result.manifest["timing_instructions"]


@pytest.mark.slow
def test_a_program_of_debian_has_at_least_95_percent_of_the_timed_user_instructions(programs: Path) -> None:
    whole = execute(programs, "--roi", "all", "--", "/bin/true")
    own = execute(programs, "--", "/bin/true")
    again = execute(programs, "--", "/bin/true")
    assert user_instructions(own) == user_instructions(again)
    # What the launcher itself executes in user mode while the program is timed is all that is not the program's.
    launched = execute(programs, "--", "./counts", status=3)
    not_its_own = user_instructions(launched) - (2 * LOOPS + 4)
    assert 0 < not_its_own < 0.05 * user_instructions(own)
    assert user_instructions(own) < 0.1 * user_instructions(whole)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["threads", "still"])
def test_main_leaves_out_what_runs_before_it_and_has_all_threads(programs: Path, program: str) -> None:
    from_main = user_instructions(execute(programs, "--roi", "main", "--", f"./{program}"))
    whole = user_instructions(execute(programs, "--roi", "process", "--", f"./{program}"))
    # Rounds of two or three instructions.
    assert 2 * THREADS * IN_MAIN <= from_main < 4 * THREADS * IN_MAIN
    assert 2 * BEFORE <= whole - from_main < 4 * BEFORE


def test_a_script_and_the_status_of_a_signal(programs: Path) -> None:
    (programs / "script").write_text("exit 7\n")
    (programs / "script").chmod(0o755)
    execute(programs, "--", "./script", status=7)
    execute(programs, "--", "sh", "-c", "kill -TERM $$", status=143)


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (("--", "no-such"), 127, "no-such: not found in the guest"),
        (("-m", "t1", "--", "no-such"), 127, "no-such: not found in the guest"),
        (("--", "/no/such"), 127, "/no/such: no such file in the guest"),
        (("-m", "t1", "--", "/etc/passwd"), 126, "/etc/passwd: Permission denied"),
        (("--roi", "main", "--", "true"), EXEC_FAILED, "machine virt has no cores with timing"),
        (("-m", "t1", "--roi", "main", "--phases", "timing", "--", "true"), EXEC_FAILED, "--roi and --phases"),
        (("-m", "t1", "--roi", "main", "--gdb", "0", "--", "true"), EXEC_FAILED, "--gdb and --roi main"),
        (("-m", "t1", "--roi", "main", "--", "./counts"), EXEC_FAILED, "its function main is not found"),
    ],
)  # fmt: skip
def test_what_cannot_be(programs: Path, words: tuple[str, ...], status: int, text: str) -> None:
    done = loiter_("exec", "-n", *words, cwd=programs)
    assert (done.returncode, done.stdout) == (status, b"")
    assert text in done.stderr.decode()
    assert "/put/" not in done.stderr.decode()


@pytest.mark.slow
def test_a_boot_is_timed_from_its_first_instruction_in_user_mode(tmp_path: Path) -> None:
    words = ("boot", "-m", "t1", "--memory", "256M", "--until", "loiter: init", "--json", "--out", "kept")
    done = loiter_(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    phases = json.loads(done.stdout)["phases"]
    assert [phase["phase"] for phase in phases] == ["reference until user", "timing"]
    assert phases[0]["instructions"] > phases[1]["instructions"] > 0
    done = loiter_("boot", "-m", "t1", "--roi", "main")
    assert (done.returncode, "a boot is no program" in message(done)) == (2, True)


def test_files_come_back(tmp_path: Path) -> None:
    made = ("sh", "-c", "mkdir made; echo inner > made/file; echo outer > /root/other; exit 5")
    done = loiter_("exec", "-n", "--get", "made", "--get", "/root/other", "--", *made, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (5, b"")
    assert (tmp_path / "made/file").read_text() == "inner\n"
    assert (tmp_path / "other").read_text() == "outer\n"
    done = loiter_("exec", "-n", "--get", "nothing", "--", "true", cwd=tmp_path)
    assert done.returncode == EXEC_FAILED
    assert "--get nothing: not there when the program had ended" in done.stderr.decode()


def test_files_come_back_to_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loiter.api, "store_path", lambda: tmp_path / "runs")
    command = "sh -c 'mkdir -p out/deep; echo one > out/a; echo two > out/deep/b; echo three > c; echo four > d'"
    found = loiter.exec("virt", command, get=["out", "c"])
    assert {name: path.read_text() for name, path in found.files.items()} == {
        "c": "three\n",
        "out/a": "one\n",
        "out/deep/b": "two\n",
    }
    again = loiter.exec("virt", command, get=["out", "c"])
    assert again.path == found.path
    assert loiter.exec("virt", command).files == {}
    with pytest.raises(loiter.RunFault, match="get=nothing, nowhere: not there when the program had ended"):
        loiter.exec("virt", "true", get=["nothing", "nowhere"])


def test_a_trace_and_a_profile_are_of_the_region(programs: Path) -> None:
    logs = ("--trace", "trace", "--profile", "profile")
    result = execute(programs, *logs, "--", "./counts", status=3)
    lines = pd.Series((programs / "trace").read_text().splitlines())
    entered = lines.str.contains("  -- ").sum()
    assert len(lines) - entered == result.manifest["timing_instructions"]
    cost = sum(int(line.split()[1]) for line in (programs / "profile").read_text().splitlines() if line[:1].isdigit())
    assert cost >= result.manifest["timing_instructions"]


def test_from_python(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(programs)
    result = loiter.exec("t1", ["sh", "-c", "cat; echo wrong >&2; exit 4"], stdin="typed\n")
    assert (result.exit_status, result.stdout, result.stderr) == (4, "typed\n", "wrong\n")
    assert result.metrics.loc["ipc", "all"] > 0
    own = loiter.exec("smt8", "./counts", roi="process")
    assert user_instructions(own) == user_instructions(execute(programs, "--", "./counts", status=3))
    # Found, not run again.
    assert loiter.exec("smt8", "./counts").path == own.path
    with pytest.raises(loiter.UserFault, match="no cores with timing"):
        loiter.exec("virt", "true", roi="main")
    with pytest.raises(loiter.UserFault, match='did you mean "process"'):
        loiter.exec("smt8", "true", roi="proces")


def test_a_plan_can_name_the_program(tmp_path: Path) -> None:
    plan = (
        "reference until program, repeat (reference warm for 20k instructions, timing warm for 1k instructions, timing "
        "for 2k instructions) until probe:program_end, reference"
    )
    done = loiter_("exec", "-m", "t1", "--stats", "--phases", plan, "--out", "result", "--", "true", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    samples = store.read(tmp_path / "result").samples
    assert len(samples) > 3
    assert f"samples: {len(samples)} of 2,0" in done.stderr.decode()
