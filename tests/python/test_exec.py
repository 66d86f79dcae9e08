"""`loiter exec` with Debian's own programs and the user's: output, exit status and files, exactly.

The first test boots Debian where no snapshot of this build is kept yet.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from debian_programs import HELLO, PROGRAMS, Program
from linux_guest import LIMIT_SECONDS, LOITER, loiter_, message
from loiter import images, store
from loiter.cli import EXEC_FAILED
from loiter.cli.options import err
from loiter.systems import prepared

pytestmark = pytest.mark.simulator


@pytest.fixture(scope="module", autouse=True)
def booted() -> None:
    images.ensure("debian", err())
    done = loiter_("exec", "-n", "--", "/bin/true")
    assert done.returncode == 0, done.stderr


def out(*arguments: str | Path, stdin: bytes | None = b"", cwd: Path | None = None) -> str:
    """What a command that succeeds prints."""
    done = loiter_("exec", *arguments, stdin=stdin, cwd=cwd)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    return done.stdout.decode()


def test_a_kept_snapshot_makes_it_quick() -> None:
    done = loiter_("exec", "-n", "--stats", "--", "/bin/true")
    assert (done.returncode, done.stdout) == (0, b"")
    instructions = re.match(rb"([\d,]+) instructions, ", done.stderr)
    assert instructions, done.stderr
    # A boot takes about a thousand million. Seconds depend on the host: `make bench` holds them against what is asked.
    assert 1_000_000 < int(instructions[1].replace(b",", b"")) < 40_000_000


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_programs_of_debian(program: Program, tmp_path: Path) -> None:
    assert program.check(tmp_path).stderr.decode() == program.stderr


def test_a_program_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "hello.c").write_text(HELLO)
    compiler = os.environ.get("CROSS", "riscv64-linux-gnu-") + "gcc"
    subprocess.run([compiler, "-O2", "-o", "hello", "hello.c"], cwd=tmp_path, check=True)
    (tmp_path / "below").mkdir()
    done = loiter_("exec", "-n", "--", "../hello", "--put", "-x", cwd=tmp_path / "below")
    # What follows the program is the program's.
    assert (done.stdout, done.stderr, done.returncode) == (b"1 --put\n2 -x\n", b"done\n", 3)


def test_a_script_with_files_and_a_directory(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("#!/bin/sh\npwd; cat data/deep/file; echo $COLOUR; ls\n")
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "data/deep").mkdir(parents=True)
    (tmp_path / "data/deep/file").write_text("deep\n")
    said = out("-n", "--put", "data", "--env", "COLOUR=dark blue", "--", "./run", cwd=tmp_path)
    assert said == "/put\ndeep\ndark blue\ndata\nrun\n"


def test_bytes_are_unchanged() -> None:
    data = bytes(range(256)) * 4096
    done = loiter_("exec", "--", "sh", "-c", "tee /dev/stderr", stdin=data)
    assert done.returncode == 0
    assert done.stdout == data
    assert done.stderr == data


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit 0", 0),
        ("exit 1", 1),
        ("exit 255", 255),
        ("kill -SEGV $$", 139),
        ("kill -TERM $$", 143),
        ("nonsense", 127),
    ],
)
def test_the_exit_status_is_the_programs(script: str, status: int) -> None:
    assert loiter_("exec", "-n", "--", "sh", "-c", script).returncode == status


def test_standard_input_is_what_it_is() -> None:
    assert out("--", "wc", "-c", stdin=b"12345") == "5\n"
    assert out("--", "wc", "-c", stdin=b"") == "0\n"
    assert out("-n", "--", "wc", "-c", stdin=b"12345") == "0\n"


@pytest.mark.slow
def test_a_full_file_system_is_the_guests_affair() -> None:
    done = loiter_("exec", "-n", "--", "dd", "if=/dev/zero", "of=/root/full", "bs=1M")
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr
    assert b"error: " not in done.stderr.replace(b"error writing", b"")


def test_several_harts() -> None:
    # The first of its kind may have to boot, and says so.
    assert loiter_("exec", "-n", "--harts", "3", "--", "nproc").stdout == b"3\n"
    assert out("-n", "--harts", "3", "--", "nproc") == "3\n"


@pytest.mark.slow
def test_several_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    """With a cache of their own that has the image and no snapshot: one boots, the other waits for it."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "images").symlink_to(images.root() / "images")
    command = [*LOITER, "exec", "-n", "--memory", "300M", "--", "sh", "-c", "echo $((6 * 7))"]
    environment = os.environ | {"LOITER_CACHE": str(cache)}
    runs = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)
    ]
    said = [run.communicate(timeout=LIMIT_SECONDS) for run in runs]
    assert [(run.returncode, streams[0]) for run, streams in zip(runs, said, strict=True)] == [(0, b"42\n")] * 2
    errors = b"".join(streams[1] for streams in said)
    assert errors.count(b"booting debian on virt, once") == 1, errors
    [path] = (cache / "snapshots").iterdir()
    # A damaged one is made anew.
    path.write_bytes(path.read_bytes()[:-100])
    again = subprocess.run(command, env=environment, capture_output=True, timeout=LIMIT_SECONDS)
    assert (again.returncode, again.stdout) == (0, b"42\n"), again.stderr
    assert b"booting debian on virt, once" in again.stderr


def test_the_same_run_has_the_same_result(tmp_path: Path) -> None:
    for name in ("a", "b"):
        done = loiter_("exec", "-n", "--out", name, "--stats", "--", "python3", "-c", "print(6 * 7)", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert b"M instructions/s" in done.stderr
    manifest = json.loads((tmp_path / "a" / store.MANIFEST).read_text())
    assert manifest["exit_status"] == 0
    assert {package["name"] for package in manifest["image"]["packages"]} >= {"apache2", "gcc", "perl", "python3"}
    assert all(len(package["sha256"]) == 64 for package in manifest["image"]["packages"])
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["console.txt", "host.json", "manifest.json", "stderr", "stdout"]
    assert (tmp_path / "a" / "stdout").read_bytes() == b"42\n"
    for name in set(names) - {store.HOST}:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_statistics_of_timed_cores_are_kept_with_it(tmp_path: Path) -> None:
    done = loiter_("exec", "-n", "-m", "smt2", "--roi", "all", "--out", "timed", "--", "/bin/true", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = store.read(tmp_path / "timed")
    manifest = result.manifest
    assert manifest["instructions"] == manifest["timing_instructions"] > 0
    assert manifest["cycles"] == manifest["timing_from_cycle"] + manifest["timing_cycles"]
    assert sum(row["cycles"] for row in result.rows("accounts")) == 2 * manifest["timing_cycles"]
    retired = {row["component"]: row["value"] for row in result.rows("counters") if row["name"] == "retired"}
    assert retired["core0"] == manifest["timing_instructions"]
    assert 0 < retired["core0.user"] < retired["core0.kernel"], "there is little of /bin/true in it"
    done = loiter_("metrics", "timed", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = {each["name"]: each for each in json.loads(done.stdout)}
    assert 50 < found["kernel_cycles_percent"]["all"] < 100
    ipc = found["ipc"]
    assert ipc["all"] == pytest.approx(ipc["user"] + ipc["kernel"])
    for name in ("ipc", "l1i_miss_percent", "dtlb_miss_percent", "branch_mispredict_percent", "squashed_percent"):
        assert {"all", "user", "kernel"} <= found[name].keys(), name
        assert found[name]["all"] > 0, name
    (tmp_path / "timed" / "stdout").write_bytes(b"something else")
    with pytest.raises(store.Corrupt, match="stdout does not match"):
        store.read(tmp_path / "timed")


def test_who_reads_no_more_ends_it() -> None:
    command = [*LOITER, "exec", "-n", "--", "yes"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert run.stdout.read(4) == b"y\ny\n"
        run.stdout.close()
        assert run.wait(LIMIT_SECONDS) == 128 + signal.SIGPIPE
        assert run.stderr.read() == b""


def test_a_full_disk_under_standard_output() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*LOITER, "exec", "-n", "--", "echo", "something"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=LIMIT_SECONDS,
        )
    assert done.returncode == EXEC_FAILED
    assert b"error: cannot write to standard output: No space left on device" in done.stderr


def test_ctrl_c() -> None:
    command = [*LOITER, "exec", "-n", "--", "sh", "-c", "echo started; while :; do :; done"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert run.stdout.read(8) == b"started\n"
        run.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert run.wait(LIMIT_SECONDS) == 130
        assert time.monotonic() - began < 5
        assert run.stderr.read() == b"error: interrupted\n"


def test_a_time_out() -> None:
    done = loiter_("exec", "-n", "--timeout", "1", "--", "sh", "-c", "while :; do :; done")
    assert done.returncode == EXEC_FAILED
    assert "not ended after 1 s" in message(done)


def test_a_guest_that_dies_on_the_way() -> None:
    done = loiter_("exec", "-n", "--", "sh", "-c", "echo before; echo c > /proc/sysrq-trigger")
    assert done.returncode == EXEC_FAILED
    assert done.stdout in (b"", b"before\n")
    said = message(done)
    assert "the guest's kernel panicked: sysrq triggered crash" in said
    assert "before the command ended" in said


def test_old_snapshots_go(tmp_path: Path) -> None:
    for n in range(40):
        path = tmp_path / f"{n}.snapshot"
        path.touch()
        os.utime(path, (n, n))
    newest = tmp_path / "39.snapshot"
    prepared.prune(newest)
    left = sorted(int(path.stem) for path in tmp_path.iterdir())
    assert left == list(range(40 - prepared.KEPT, 40))


def test_a_trace_and_a_profile_of_a_program(tmp_path: Path) -> None:
    options = ["--trace", "trace.txt", "--trace-count", "1000", "--profile", "profile.callgrind"]
    done = loiter_("exec", "-n", *options, "--", "echo", "42", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"42\n"), done.stderr
    assert len((tmp_path / "trace.txt").read_text().splitlines()) >= 1000
    assert "fn=" in (tmp_path / "profile.callgrind").read_text()


@pytest.mark.parametrize("option", ["--trace", "--profile"])
def test_what_a_program_said_is_kept_when_its_trace_cannot_be(option: str, tmp_path: Path) -> None:
    done = loiter_("exec", "-n", option, "/dev/full", "--out", "kept", "--", "echo", "42", cwd=tmp_path)
    assert done.returncode == EXEC_FAILED
    assert "/dev/full" in message(done)
    assert (tmp_path / "kept" / "stdout").read_bytes() == done.stdout == b"42\n"
