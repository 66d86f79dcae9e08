"""Help for tests that boot Linux: the command, a console on a pseudo-terminal, and how long things may take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pexpect

# A boot takes seconds on a quiet host, and may take minutes on one that is busy.
LIMIT_SECONDS = 300

LOITER = [sys.executable, "-c", "from loiter.cli import main; main()"]


def loiter_(
    *arguments: str | Path,
    stdin: bytes | None = b"",
    cwd: Path | None = None,
    environment: dict[str, str] | None = None,
    limit_seconds: float = LIMIT_SECONDS,
) -> subprocess.CompletedProcess[bytes]:
    """Runs the command to its end. Input None is a pipe that stays open."""
    return subprocess.run(
        [*LOITER, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=os.environ | (environment or {}),
        timeout=limit_seconds,
    )


def message(done: subprocess.CompletedProcess[bytes]) -> str:
    """The error of a command that failed, which is its last words, said once."""
    said = done.stderr.decode()
    assert said.count("error: ") == 1, said
    assert "Traceback" not in said
    return said[said.index("error: ") :]


class Console(pexpect.spawn):
    """`loiter boot` on a terminal of its own."""

    def __init__(self, *arguments: str | Path, cwd: Path | None = None) -> None:
        super().__init__(
            LOITER[0], [*LOITER[1:], "boot", *map(str, arguments)], cwd=cwd, timeout=LIMIT_SECONDS, dimensions=(40, 120)
        )

    def processor_seconds(self) -> float:
        """Time the process has had on processors."""
        with open(f"/proc/{self.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> int:
        """Waits for the end; the exit status."""
        self.expect(pexpect.EOF)
        self.close()
        assert self.signalstatus is None
        return int(self.exitstatus)
