"""What a person sees while a system boots for later use: a live line in a terminal, one line elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.status import Status

from loiter.cli.options import err
from loiter.engine import Session


class Booting:
    """Shows a boot once it turns out to be needed."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._console = err()
        self._status: Status | None = None
        self._began: float | None = None

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
        """The boot goes on."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
            if self._console.is_terminal:
                self._status = self._console.status(self._title)
                self._status.start()
            else:
                self._console.print(f"{self._title}, once; it is kept for later calls", style="dim", highlight=False)
        if self._status is not None:
            rate = session.instructions / max(now - self._began, 1e-3) / 1e6
            self._status.update(
                f"{self._title}, once; it is kept for later calls: {session.seconds:.1f} s simulated, "
                f"{session.instructions / 1e6:,.0f} M instructions, {rate:.0f} M/s"
            )
