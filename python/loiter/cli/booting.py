"""What a person sees while a system boots for later use: a live line in a terminal, one line elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.status import Status

from loiter.cli.options import err
from loiter.engine import Session

_SECONDS_BETWEEN_LINES = 10.0


def _expected_millions(harts: int) -> int:
    """Instructions of a boot of Debian to the agent, in between those measured: 3,305 to 3,540 with 1 to 8 harts, some
    7,500 with 64, some 30,000 with 224."""
    return round((3400 + 40 * harts + 0.37 * harts**2) / 100) * 100


class Booting:
    """Shows a boot once it turns out to be needed."""

    def __init__(self, title: str, harts: int) -> None:
        self._title = title
        self._expected_millions = _expected_millions(harts)
        self._console = err()
        self._status: Status | None = None
        self._began: float | None = None
        self._told = 0.0

    def __enter__(self) -> Booting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def waiting(self) -> None:
        """Another process boots the same."""
        self._console.print("another loiter is booting the same system; waiting for it", style="dim", highlight=False)

    def progress(self, session: Session) -> None:
        """The boot continues."""
        now = time.monotonic()
        if self._began is None:
            self._began = self._told = now
            if self._console.is_terminal:
                self._status = self._console.status(self._title)
                self._status.start()
            else:
                self._say(f"{self._title}, once; it is kept for later calls")
        millions = f"{session.instructions / 1e6:,.0f} of some {self._expected_millions:,} M"
        done = f"{session.seconds:.1f} s simulated, {millions}"
        if self._status is None and now - self._told > _SECONDS_BETWEEN_LINES:
            self._told = now
            self._say(f"{self._title}: {done} instructions")
        if self._status is not None:
            rate = session.instructions / max(now - self._began, 1e-3) / 1e6
            self._status.update(f"{self._title}, once; it is kept for later calls: {done} instructions, {rate:.0f} M/s")

    def _say(self, text: str) -> None:
        self._console.print(text, style="dim", highlight=False)
