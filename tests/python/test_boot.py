"""`loiter boot` and `loiter snapshot` with Debian's kernel and a busybox shell: at a terminal, from a script, and when
something is wrong.

One boot to the shell is saved, and most tests go on from there.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import termios
import time
from pathlib import Path

import pexpect
import pytest

from linux_guest import LIMIT_SECONDS, LOITER, Console, loiter_, message
from loiter import images, store
from loiter.cli import EXEC_FAILED
from loiter.cli.options import err
from loiter.images import Image

pytestmark = pytest.mark.simulator

MEMORY = "256M"
PROMPT = "~ # "
CTRL_A = "\x01"


@pytest.fixture(scope="module")
def image() -> Image:
    return images.ensure("kernel", err())


@pytest.fixture(scope="module")
def shell(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot of a system whose shell waits for a command."""
    path = tmp_path_factory.mktemp("shell") / "shell.snapshot"
    done = loiter_("snapshot", "save", path, "--image", image.name, "--memory", MEMORY, "--at", PROMPT)
    assert done.returncode == 0, done.stderr
    assert b"Run /init as init process" in done.stdout
    assert f"{path} is written".encode() in done.stdout
    return path


def test_commands_come_from_a_pipe(shell: Path) -> None:
    done = loiter_("boot", "--snapshot", shell, stdin=b"echo $((6 * 7)); nproc; poweroff -f\n")
    assert done.returncode == 0, done.stderr
    assert b"\r\n42\r\n1\r\n" in done.stdout
    assert b"instructions" in done.stderr
    assert b"M instructions/s" in done.stderr


def test_a_script_waits_for_a_text(shell: Path) -> None:
    done = loiter_("boot", "--snapshot", shell, "--until", "6*7=42", stdin=b"echo 6*7=$((6 * 7)); echo la''ter\n")
    assert done.returncode == 0, done.stderr
    assert b"6*7=42" in done.stdout
    assert b"later" not in done.stdout


def test_a_text_that_never_comes(shell: Path) -> None:
    arguments = ("boot", "--snapshot", shell, "--until", "never said")
    done = loiter_(*arguments, stdin=b"poweroff -f\n")
    assert done.returncode == 1
    assert message(done) == 'error: the guest powered off; the console never said "never said"\n'
    done = loiter_(*arguments, "--max-instructions", "1")
    assert done.returncode == 1
    assert "limit" in message(done)


def test_a_limit_of_instructions_is_no_failure_and_the_same_always(image: Image) -> None:
    ends = []
    for _ in range(2):
        done = loiter_("boot", "--image", image.name, "--memory", MEMORY, "--max-instructions", "30000000", "--json")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["end"]["how"] == "limit"
        assert "OpenSBI" in result["console"]
        ends.append((result["cycles"], result["instructions"]))
    assert ends[0] == ends[1]
    assert 30_000_000 <= ends[0][1] < 30_100_000


def test_a_snapshot_continues_on_timed_cores_and_back(shell: Path) -> None:
    ends = ["reference warm for 100000 instructions", "timing for 1000000 instructions"]
    plan = ", ".join([*ends, "reference for 1000000 cycles", "timing for 300000 cycles", "reference"])
    for options in ([], ["-m", "smt2", "--phases", plan]):
        commands = b"for n in 1 2 3; do cat /proc/cpuinfo | grep -c zawrs; done; poweroff -f\n"
        done = loiter_("boot", "--snapshot", shell, *options, "--json", stdin=commands)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert "\r\n2\r\n2\r\n2\r\n" in said["console"]
        if options:
            assert [phase["phase"] for phase in said["phases"]] == plan.split(", ")
            assert [phase["ended"] for phase in said["phases"]] == [True] * 4 + [False]
            assert 1_000_000 <= said["phases"][1]["instructions"] < 1_001_000


def test_a_system_on_timed_cores_is_saved_and_goes_on_as_one_that_was_not(image: Image, tmp_path: Path) -> None:
    path = tmp_path / "timed.snapshot"
    booted = ("-m", "smt2", "--image", image.name, "--memory", MEMORY)
    until = 'reference until console:"NR_IRQS", timing for {} cycles'
    whole = loiter_("boot", *booted, "--phases", until.format(400_000), "--json")
    saved = loiter_("snapshot", "save", *booted, path, "--phases", until.format(150_000))
    rest = loiter_("boot", "--snapshot", path, "--phases", "timing for 250000 cycles", "--json")
    for done in (whole, saved, rest):
        assert done.returncode == 0, done.stderr
    unbroken, later = (json.loads(each.stdout) for each in (whole, rest))
    assert unbroken["cycles"] == later["cycles"]
    ends = [each["phases"][-1]["end_cycle"] for each in (unbroken, later)]
    assert ends[0] == ends[1] == unbroken["phases"][-1]["begin_cycle"] + 400_000
    assert unbroken["instructions"] > later["instructions"] > 10_000
    assert b"smt2 alone continues them" in loiter_("snapshot", "show", path).stdout
    # They leave the cores where a phase says so, and only then.
    left = loiter_("boot", "--snapshot", path, "--phases", "reference for 1000 instructions", "--json")
    assert left.returncode == 0, left.stderr
    other = loiter_("boot", "--snapshot", path, "--set", "l2.miss_latency_cycles=300")
    assert other.returncode == 2
    assert "it has work in flight in timing cores of smt2, and ours is other parameters of it" in message(other)
    never = loiter_("snapshot", "save", *booted, path, "--at-cycle", "5", "--phases", "timing for 5 cycles")
    assert never.returncode == 2
    assert "one of --at TEXT, --at-cycle N, --at-instructions N and --phases PLAN" in message(never)


def test_a_time_out_fails(shell: Path) -> None:
    done = loiter_("boot", "--snapshot", shell, "--timeout", "1", stdin=b"while :; do :; done\n")
    assert done.returncode == 1
    assert "not ended after 1 s" in message(done)


def test_the_end_of_input_does_not_spin(shell: Path) -> None:
    command = [*LOITER, "boot", "--snapshot", str(shell), "--pace", "--timeout", "18"]
    began = os.times()
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_SECONDS)
    ended = os.times()
    used = ended.children_user + ended.children_system - began.children_user - began.children_system
    # What the kernel still has to do behind the prompt takes five seconds on a slow host; eighteen would be the loop's.
    assert used < 13.0


def test_a_panic_is_one_message(image: Image) -> None:
    done = loiter_("boot", "--image", image.name, "--memory", MEMORY, "--append", "rdinit=/none root=/dev/none")
    assert done.returncode == 1
    said = message(done)
    assert said.startswith("error: the guest's kernel panicked: VFS: Unable to mount root fs"), said
    assert len(said.strip().splitlines()) == 1


def test_a_reset_is_said(shell: Path) -> None:
    done = loiter_("boot", "--snapshot", shell, stdin=b"reboot -f\n")
    assert done.returncode == 0
    assert b"the guest asked for a reset; it ends here" in done.stderr


def test_a_result_directory(shell: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        done = loiter_("boot", "--snapshot", shell, "--out", name, stdin=b"echo kept; poweroff -f\n", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert b"\r\nkept\r\n" in (tmp_path / name / "console.txt").read_bytes()
    manifest = json.loads((tmp_path / "a" / store.MANIFEST).read_text())
    assert manifest["end"]["how"] == "power_off"
    assert manifest["instructions"] > 0
    assert manifest["snapshot"]["machine"] == "virt"


# --- at a terminal ---------------------------------------------------------------------------------------------------


def test_a_console(shell: Path, tmp_path: Path) -> None:
    console = Console("--snapshot", shell, cwd=tmp_path)
    console.expect("Ctrl-A x ends the simulation")
    console.send("\r")
    console.expect_exact(PROMPT)
    raw = termios.tcgetattr(console.child_fd)
    assert not raw[3] & (termios.ICANON | termios.ISIG | termios.ECHO)
    console.send("echo $((6 * 7))\r")
    console.expect_exact("\r\n42\r\n")
    # Ctrl-C is the guest's.
    console.send('sh -c \'trap "echo caught; exit" INT; echo rea""dy; while :; do sleep 1; done\'\r')
    console.expect_exact("ready\r\n")
    console.send("\x03")
    console.expect_exact("caught")
    console.expect_exact(PROMPT)
    console.send(CTRL_A + "h")
    console.expect_exact("where every hart stands")
    console.send(CTRL_A + "i")
    console.expect(r"hart 0 at 0x[0-9a-f]+.* (sleeps|executes)")
    console.send(CTRL_A + "?")
    console.expect_exact("no such command")
    # The escape key itself: Ctrl-A goes to the beginning of the line.
    console.send("two" + CTRL_A + "a" + "echo one\x06 \r")
    console.expect("o?ne")
    console.expect_exact(PROMPT)
    console.send(CTRL_A + "s")
    console.expect_exact("loiter-1.snapshot is written")
    assert (tmp_path / "loiter-1.snapshot").stat().st_size > 1_000_000
    console.send(CTRL_A + "x")
    assert console.end() == 0


def test_an_idle_console_costs_the_host_nothing_and_keeps_its_time(shell: Path) -> None:
    console = Console("--snapshot", shell)
    console.send("\r")
    console.expect_exact(PROMPT)
    # The kernel still has work of its own for a while.
    for _ in range(LIMIT_SECONDS):
        before = console.processor_seconds()
        time.sleep(1.0)
        if console.processor_seconds() - before < 0.1:
            break
    else:
        pytest.fail("the guest idles and the host does not")
    began = time.monotonic()
    console.send("sleep 3; echo wo''ken\r")
    console.expect_exact("woken\r\n")
    assert time.monotonic() - began > 2.5
    console.send("poweroff -f\r")
    assert console.end() == 0


WAYS = {
    "by its key": (CTRL_A + "x", 0),
    "by the guest": ("poweroff -f\r", 0),
    "by a signal": (signal.SIGTERM, 128 + signal.SIGTERM),
    "by the clock": (None, 1),
}


@pytest.mark.parametrize(("end", "status"), WAYS.values(), ids=WAYS)
def test_the_terminal_is_as_before_however_it_ends(
    shell: Path, tmp_path: Path, end: str | int | None, status: int
) -> None:
    command = shlex.join([*LOITER, "boot", "--snapshot", str(shell), "--timeout", "5" if end is None else "1000"])
    script = tmp_path / "script"
    script.write_text(f"stty -a > before\n{command}\necho status $?\nstty -a > after\n")
    # The script keeps the terminal open, so that it can be asked afterwards.
    outer = pexpect.spawn("/bin/bash", [str(script)], cwd=tmp_path, timeout=LIMIT_SECONDS)
    outer.expect("Ctrl-A x ends")
    assert not termios.tcgetattr(outer.child_fd)[3] & termios.ICANON
    outer.send("\r")
    outer.expect_exact(PROMPT)
    if isinstance(end, str):
        outer.send(end)
    elif end is not None:
        child = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()[0]
        os.kill(int(child), end)
    outer.expect(r"status (\d+)")
    assert int(outer.match[1]) == status
    outer.expect(pexpect.EOF)
    outer.close()
    assert "icanon" in (tmp_path / "before").read_text()
    assert (tmp_path / "after").read_bytes() == (tmp_path / "before").read_bytes()


@pytest.mark.parametrize("option", ["--harts", "--disk"])
def test_a_snapshot_has_its_own_system(shell: Path, option: str) -> None:
    done = loiter_("boot", "--snapshot", shell, option, "4")
    assert done.returncode == 2
    assert f"and {option} contradict each other" in message(done)


@pytest.mark.parametrize(("command", "status"), [(["boot"], 2), (["exec", "--", "true"], EXEC_FAILED)])
def test_more_harts_than_the_firmware_is_made_for(command: list[str], status: int) -> None:
    done = loiter_(command[0], "--image", "debian", "--harts", "129", *command[1:])
    assert done.returncode == status
    assert "image debian has, are made for at most 128 harts" in message(done)
    assert "--kernel small-kernel boots 256" in message(done)
