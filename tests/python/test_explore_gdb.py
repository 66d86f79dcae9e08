"""`loiter explore --gdb`: a real GDB goes through a failing execution, forwards and backwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from explore_programs import DEADLOCK, MESSAGE_PASSING, program_of

pytestmark = pytest.mark.simulator

COMMAND = [sys.executable, "-c", "from loiter.cli import main; main()", "explore"]
SECONDS = 60
CHECKED = """
static unsigned char counts[2];

void thread(unsigned long hart) { counts[hart] = (unsigned char)(hart + 1); }

void check(unsigned long harts) { EXPLORE_ASSERT(counts[0] == harts); }
"""


class Replay:
    """A `loiter explore` that waits for GDB, or has been left by it."""

    def __init__(self, program: Path) -> None:
        self.program = program
        command = [*COMMAND, str(program), "--gdb", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        waits = self.process.stderr.readline()
        assert "target remote" in waits, waits + self.process.stderr.read()
        self.address = waits.rsplit(" ", 1)[-1].strip().strip("'")

    def gdb(self, *commands: str) -> list[str]:
        """What GDB prints after each of the commands, up to one that fails."""
        words = ["set pagination off", "set confirm off", f"target remote {self.address}"]
        for command in commands:
            words += ["echo ----\\n", command]
        given = [argument for word in words for argument in ("-ex", word)]
        done = subprocess.run(
            ["gdb-multiarch", "-nx", "-batch", *given, str(self.program)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        return done.stdout.split("----\n")[1:]

    def end(self) -> tuple[int, str]:
        """The exit status and what else it told the user."""
        _, told = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, told


@pytest.fixture
def replay(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Replay]:
    replay = Replay(program_of(tmp_path, request.param))
    yield replay
    replay.process.kill()
    replay.process.communicate()


@pytest.mark.parametrize("replay", [MESSAGE_PASSING], indirect=True)
def test_gdb_goes_to_the_failure_and_back(replay: Replay) -> None:
    fails, pc, data, flag, early, harts, begin, before, again, memory, register, unchanged, _ = replay.gdb(
        "continue",
        "x/i $pc",
        "output data",
        "output flag",
        "thread apply 1 -q -s output flag",
        "info threads",
        "reverse-continue",
        "output flag",
        "continue",
        "set var data = 3",
        "set var $a0 = 3",
        "output data",
        "detach",
    )
    assert "Thread 2 received signal SIGTRAP" in fails
    assert "ebreak" in pc
    assert (data.strip(), flag.strip()) == ("0", "1")
    assert early.strip() == "0", "the hart that writes early does not see it yet"
    assert "its write of 0x1 to flag is visible early" in harts
    assert "(hart 1, fails)" in harts
    assert "No more reverse-execution history" in begin
    assert "thread (hart=0)" in begin
    assert before.strip() == "0"
    assert "Thread 2 received signal SIGTRAP" in again
    assert "Cannot access memory" in memory
    assert "Could not write register" in register
    assert unchanged.strip() == "0"
    status, told = replay.end()
    assert status == 1
    assert "memory and registers cannot be changed" in told
    assert "hart 1 fails an assertion" in told


@pytest.mark.parametrize("replay", [MESSAGE_PASSING], indirect=True)
def test_steps_follow_the_execution(replay: Replay) -> None:
    forward = ["stepi"] * 30
    backward = ["reverse-stepi"] * 30
    steps = replay.gdb(*forward, "x/i $pc", *backward, "x/i $pc", "detach")
    there, here = steps[: len(forward)], steps[len(forward)]
    assert "Thread 2 stopped." in "".join(there), "hart 1 goes on where hart 0 is waited for"
    assert "Thread 1 stopped." in "".join(there), "its early write is a step"
    moves = [text for text in there if "No more" not in text]
    assert 9 < len(moves) < 30, "every instruction is one"
    assert "ebreak" in here
    back, beginning = steps[len(forward) + 1 : -2], steps[-2]
    assert len([text for text in back if "No more" not in text]) in (len(moves), len(moves) - 1)
    assert "<thread>" in beginning
    assert replay.end()[0] == 1


@pytest.mark.parametrize("replay", [MESSAGE_PASSING], indirect=True)
def test_breakpoints_and_lines(replay: Replay) -> None:
    _, hit, value, line, back, *_ = replay.gdb(
        "break thread if hart == 1", "continue", "output hart", "next", "reverse-continue", "kill"
    )
    assert "Thread 2 hit Breakpoint 1" in hit
    assert value.strip() == "1"
    assert "__atomic_load_n(&flag" in line
    assert "Breakpoint 1" in back
    assert replay.end()[0] == 1


@pytest.mark.parametrize("replay", [DEADLOCK], indirect=True)
def test_a_deadlock_ends_where_harts_wait(replay: Replay) -> None:
    end, harts, *_ = replay.gdb("continue", "info threads", "detach")
    assert "No more reverse-execution history" in end
    assert harts.count("does nothing more") == 2
    assert "deadlock" in replay.end()[1]


@pytest.mark.parametrize("replay", [CHECKED], indirect=True)
def test_a_failing_check_is_one_more_thread(replay: Replay) -> None:
    fails, counts, harts, *_ = replay.gdb("continue", "output/d counts", "info threads", "detach")
    assert "Thread 3 received signal SIGTRAP" in fails
    assert counts.strip() == "{1, 2}"
    assert harts.count("has ended") == 2
    assert "check() fails" in replay.end()[1]


def test_where_nothing_fails_there_is_nothing_to_replay(tmp_path: Path) -> None:
    program = program_of(tmp_path, MESSAGE_PASSING)
    command = [*COMMAND, str(program), "--model", "sc", "--gdb", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    assert "nothing to replay" in done.stderr


def test_an_address_that_is_none_is_told_first(tmp_path: Path) -> None:
    program = program_of(tmp_path, MESSAGE_PASSING)
    for address, message in (("70000", "65535"), ("nowhere.invalid:1", "cannot listen")):
        done = subprocess.run(
            [*COMMAND, str(program), "--gdb", address], capture_output=True, text=True, timeout=SECONDS
        )
        assert done.returncode == 2, done.stderr
        assert message in done.stderr
        assert not done.stdout
