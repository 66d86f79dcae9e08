"""The terminal of an interactive console: raw while it is used, as it was before on every way out; the escape key.

Without a terminal, input is what standard input holds, unchanged, up to its end.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import time
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

from loiter.errors import Fault
from loiter.systems import output

ESCAPE = 0x01
"""Ctrl-A, as in QEMU."""
_CHUNK_BYTES = 1024


class Ended(Fault):
    """A signal that ends the process."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_status = 128 + number


@dataclass(frozen=True)
class Command:
    """A key that was typed after the escape key."""

    key: str


class EscapeKey:
    """Splits what is typed into input for the guest and commands for loiter."""

    def __init__(self) -> None:
        self._escaped = False

    def split(self, data: bytes) -> list[bytes | Command]:
        """What was typed, in order; the escape key twice, or then `a`, is the key itself."""
        found: list[bytes | Command] = []
        plain = bytearray()
        for byte in data:
            if not self._escaped and byte == ESCAPE:
                self._escaped = True
            elif not self._escaped:
                plain.append(byte)
            else:
                self._escaped = False
                if byte in (ESCAPE, ord("a")):
                    plain.append(ESCAPE)
                    continue
                if plain:
                    found.append(bytes(plain))
                    plain.clear()
                found.append(Command(chr(byte)))
        if plain:
            found.append(bytes(plain))
        return found


class Terminal:
    """Where a person, or another program, types and reads."""

    def __init__(self, source: int = 0, sink: int = 1) -> None:
        self._source = source
        self._sink = sink
        self._open = _readable(source)
        self.interactive = self._open and os.isatty(source)
        self._escape = EscapeKey()
        self._before: list[Any] | None = None
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Terminal:
        if self.interactive:
            self._before = termios.tcgetattr(self._source)
            for number in (signal.SIGTERM, signal.SIGHUP):
                self._handlers[number] = signal.signal(number, _end)
            # The shell makes the terminal its own while we are stopped.
            self._handlers[signal.SIGCONT] = signal.signal(signal.SIGCONT, self._resume)
            self._make_raw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is None:
            return
        # A terminal that has hung up cannot be restored and need not be.
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._source, termios.TCSADRAIN, self._before)
        self._before = None
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    @property
    def open(self) -> bool:
        """Whether there may be more input."""
        return self._open

    def read(self, seconds: float | None) -> list[bytes | Command]:
        """What is typed, after waiting for it at most so long; None waits until something is."""
        if not self._open:
            time.sleep(seconds or 0.0)
            return []
        ready, _, _ = select.select([self._source], [], [], seconds)
        if not ready:
            return []
        try:
            data = os.read(self._source, _CHUNK_BYTES)
        except OSError:
            # The terminal has hung up.
            data = b""
        if not data:
            self._open = False
            return []
        return self._escape.split(data) if self.interactive else [data]

    def write(self, data: bytes) -> None:
        """Shows what the guest says, unchanged."""
        output.write(self._sink, data)

    def say(self, text: str) -> None:
        """A word of our own, on standard error."""
        end = "\r\n" if self._before is not None else "\n"
        sys.stderr.write(text.replace("\n", end) + end)
        sys.stderr.flush()

    def _make_raw(self) -> None:
        """Every key goes to the guest, Ctrl-C too, and what it says comes as it says it."""
        mode = termios.tcgetattr(self._source)
        mode[0] &= ~(
            termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP | termios.INLCR | termios.IGNCR
            | termios.ICRNL | termios.IXON
        )  # fmt: skip
        mode[1] &= ~termios.OPOST
        mode[3] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._source, termios.TCSADRAIN, mode)

    def _resume(self, number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(termios.error):
            self._make_raw()


def _readable(source: int) -> bool:
    """Whether anything can be read: not where it is closed, or is the terminal of another job."""
    try:
        os.fstat(source)
        return not os.isatty(source) or os.tcgetpgrp(source) == os.getpgrp()
    except OSError:
        return False


def _end(number: int, frame: FrameType | None) -> None:
    raise Ended(number)
