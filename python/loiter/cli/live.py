"""The live line: how far a long simulation is, at the bottom of a terminal and nowhere else.

It comes when nothing has been seen for two seconds, and goes before anything else is written.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from loiter.cli.options import err
from loiter.engine import Session
from loiter.runs.progress import describe_progress
from loiter.systems.facts import Meter

SILENCE_SECONDS = 2.0
_REFRESH_SECONDS = 0.2
_COLUMNS = 80
"""Of a terminal that does not say."""
_ERASE = "\r\x1b[K"
_FULL_SCREEN = (b"\x1b[?1049h", b"\x1b[?1049l")
"""What programs that use the whole screen send when they begin and when they end."""
_Line = TypeVar("_Line", bound="LiveLine")


class LiveLine:
    """One line on standard error. Where that is no terminal, or the line is not wanted, nothing is ever written."""

    def __init__(self, title: str = "", *, wanted: bool = True) -> None:
        console = err()
        self._title = f"{title}: " if title else ""
        self._shown = wanted and console.is_terminal and not console.is_dumb_terminal
        self._drawn = False
        self._last_sign = time.monotonic()
        self._last_drawn = 0.0
        self._at_line_start = True
        self._full_screen = False

    def __enter__(self: _Line) -> _Line:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def update(self, text: Callable[[], str]) -> None:
        """Shows what `text` says now, if it is time to; it is not asked otherwise."""
        now = time.monotonic()
        if not self._shown or self._full_screen or not self._at_line_start:
            return
        if now - self._last_sign < SILENCE_SECONDS or now - self._last_drawn < _REFRESH_SECONDS:
            return
        self._last_drawn = now
        # One column is left free: some terminals go on to the next line when the last one is written.
        line = f"{self._title}{text()}"[: max(0, _columns() - 1)]
        # First, as Ctrl-C may come between the two.
        self._drawn = True
        self._write(f"{_ERASE}{line}")

    def clear(self) -> None:
        """Takes the line away."""
        if self._drawn:
            self._write(_ERASE)
            self._drawn = False

    def before(self, output: bytes) -> None:
        """Makes room for what somebody else is about to write to the same terminal."""
        if not self._shown or not output:
            return
        self.clear()
        self._last_sign = time.monotonic()
        self._at_line_start = output.endswith(b"\n")
        begun, ended = (output.rfind(each) for each in _FULL_SCREEN)
        if begun != ended:
            self._full_screen = begun > ended

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _columns() -> int:
    """The width of the terminal now, whatever an environment that was inherited says."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
    except (OSError, ValueError):
        return _COLUMNS


class SystemLine(LiveLine):
    """The live line of a booted system. Only where cores are timed: the reference engine keeps nobody waiting."""

    def __init__(self, session: Session, *, wanted: bool = True) -> None:
        super().__init__(wanted=wanted and session.timed)
        self._meter = Meter(session)

    def tell(self) -> None:
        """The system computes."""
        self.update(lambda: describe_progress(self._meter.progress()))
