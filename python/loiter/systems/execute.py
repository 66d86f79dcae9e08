"""Runs one command on a system that waits for it: files go in on a disk, output and exit status come out."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from loiter.engine import Json, Progress, Session
from loiter.errors import RunFault, StoreFault
from loiter.images import agent
from loiter.systems import ending, output, prepared
from loiter.systems.drive import Live
from loiter.systems.facts import Meter
from loiter.systems.watch import Watch

_STEP_SECONDS = 0.02
_STDOUT, _STDERR = 1, 2


@dataclass(frozen=True)
class Archive:
    """A file with what goes into the guest, and with what comes back. It has no name that could remain."""

    file: BinaryIO
    comes_back: bool
    written_bytes: int
    """What goes in; what comes back may be more."""

    def disk(self) -> Json:
        """The disk that the guest sees."""
        path = f"/proc/self/fd/{self.file.fileno()}"
        return {"path": path, "bytes": prepared.ARCHIVE_BYTES, "writable": self.comes_back}


@contextmanager
def archive(script: str, put: list[Path], stdin: BinaryIO | None, *, comes_back: bool = False) -> Iterator[Archive]:
    """An archive of a script, files and what the script reads. With `comes_back` the guest may write one over it."""
    try:
        with tempfile.TemporaryFile(prefix="loiter-") as file:
            agent.write_archive(file, script, put, stdin)
            written = file.tell()
            if written > prepared.ARCHIVE_BYTES:
                raise StoreFault(
                    f"what goes into the guest has {written:,} bytes; there is room for "
                    f"{prepared.ARCHIVE_BYTES:,}. Put large files on a disk and use `loiter boot --disk`."
                )
            if comes_back:
                file.truncate(prepared.ARCHIVE_BYTES)
            file.flush()
            yield Archive(file, comes_back, written)
    except OSError as error:
        raise StoreFault(f"{tempfile.gettempdir()}: cannot write what goes into the guest: {error.strerror}.") from None


@dataclass
class Done:
    """What came of a command. What was said is there if it was to be kept."""

    status: int = 0
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    console: bytearray = field(default_factory=bytearray)

    def files(self) -> dict[str, bytes]:
        """What was said, as a result keeps it."""
        return {"stdout": bytes(self.out), "stderr": bytes(self.err), "console.txt": bytes(self.console)}


def begin(session: Session, put: Archive) -> None:
    """Tells the agent to run what the archive holds."""
    session.replace_disk(prepared.ARCHIVE_DISK, put.disk())
    session.push_input(agent.TALK, agent.GO)


def run(
    session: Session,
    put: Archive,
    *,
    keep: bool = False,
    shown: bool = True,
    timeout_s: float | None = None,
    live: Live | None = None,
    progress: Progress | None = None,
) -> Done:
    """Runs what the archive holds. Its output is passed on as it comes, unchanged, if it is to be shown."""
    meter = Meter(session)
    begin(session, put)
    done, watch, talk, began = Done(), Watch(), b"", time.monotonic()
    while True:
        status = session.step(_STEP_SECONDS)
        out, err, console = (session.take_output(port) for port in (agent.OUT, agent.ERR, prepared.SERIAL))
        if keep:
            done.out += out
            done.err += err
            done.console += console
        if live is not None:
            # What does not go to the terminal does not meet the line there.
            live.before((out if os.isatty(_STDOUT) else b"") + (err if os.isatty(_STDERR) else b""))
        if shown:
            output.write(_STDOUT, out)
            output.write(_STDERR, err)
        watch.hear(console)
        talk += session.take_output(agent.TALK)
        end = ending.of_guest(status, watch, session)
        if end is not None:
            done.status = _status(talk, end)
            return done
        if live is not None:
            live.tell()
        if progress is not None:
            meter.tell(progress)
        if timeout_s is not None and time.monotonic() - began > timeout_s:
            raise RunFault(f"not ended after {timeout_s:g} s")


def _status(talk: bytes, end: ending.End) -> int:
    """The command's exit status, as the agent has told it before the end."""
    for line in prepared.lines(talk):
        ended = agent.ended(line)
        if ended is not None and ended.status is not None:
            return ended.status
        if ended is not None:
            raise RunFault(f"the agent in the guest failed: {ended.fault}")
    raise RunFault(f"{end.message}, before the command ended")
