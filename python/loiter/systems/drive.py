"""Runs a booted system with somebody at its console, up to its end.

An interactive guest's clock goes with the host's while the guest waits, and later than it while the guest computes; the
host sleeps as long as the guest does. Without pace, time in which nothing happens is skipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from loiter.engine import Json, Session
from loiter.systems import ending
from loiter.systems.ending import End, How
from loiter.systems.rest import Rest
from loiter.systems.terminal import Command, Terminal
from loiter.systems.watch import Watch

SERIAL = 0
"""The port of the console."""
_STEP_SECONDS = 0.02
# A guest that has computed may catch up with so much of the host's time while it waits: short waits cost nothing then,
# and nobody sees it.
_CATCH_UP_SECONDS = 0.1
# How long, of its time, a guest may rest once nobody can type any more. What sleeps longer is cut off (assumed).
_REST_SECONDS = 3600.0


class Live(Protocol):
    """A line that shows how far the system is."""

    def tell(self) -> None:
        """The system computes."""

    def clear(self) -> None:
        """It waits, or something else is to be shown."""

    def before(self, output: bytes) -> None:
        """The guest's output is about to be shown."""


@dataclass
class Driver:
    """One run. `command` gets keys typed after the escape key that the driver has no use for."""

    session: Session
    terminal: Terminal
    watch: Watch
    pace: bool
    command: Callable[[str], None]
    show: bool = True
    instructions: int | None = None
    cycle: int | None = None
    timeout_s: float | None = None
    console: bytearray | None = None
    live: Live | None = None
    began: float = field(default_factory=time.monotonic)
    # Whether the guest has ever waited for input. A driver that starts would throw away what comes before.
    _is_read: bool = False

    def run(self) -> End:
        """Runs to the end."""
        lag_s = 0.0
        rest = Rest(self.session)
        while True:
            host, guest = time.monotonic(), self.session.seconds
            # A text or a limit is looked for after each turn of the guest, so that the run ends at the same one always.
            status = self.session.step(
                _STEP_SECONDS,
                cycle=self.cycle,
                instructions=self.instructions,
                output=True,
                sleep=self.pace,
            )
            self._pass_output()
            end = self._end(status) or self._typed(0.0)
            rest.look()
            if end is None and not self.terminal.open and rest.seconds > _REST_SECONDS:
                end = End(How.RESTED, "standard input is at its end, and the guest has done nothing for an hour")
            if end is not None:
                return end
            lag_s += time.monotonic() - host - (self.session.seconds - guest)
            lag_s = min(max(lag_s, 0.0), _CATCH_UP_SECONDS)
            if self.live is not None and status["state"] == "running":
                self.live.tell()
            if status["state"] == "asleep":
                timer_s = status["timer_s"]
                host = time.monotonic()
                if timer_s is None or timer_s > lag_s:
                    self._is_read = True
                    if self.live is not None:
                        self.live.clear()
                    end = self._typed(None if timer_s is None else timer_s - lag_s)
                    if end is not None:
                        return end
                slept = time.monotonic() - host + lag_s
                # With no timer set, nothing in the guest sees the clock until somebody types.
                dozed = slept if timer_s is None else min(slept, timer_s)
                self.session.doze(dozed)
                lag_s = max(0.0, slept - dozed)

    def _pass_output(self) -> None:
        data = self.session.take_output(SERIAL)
        if not data:
            return
        if self.show:
            if self.live is not None:
                self.live.before(data)
            self.terminal.write(data)
        if self.console is not None:
            self.console += data
        self.watch.hear(data)

    def _typed(self, seconds: float | None) -> End | None:
        """Passes on what is typed within so long. An end, if the user wants one."""
        seconds = self._at_most(seconds)
        self._is_read = self._is_read or self.terminal.interactive or self.session.serial_is_read
        if not self._is_read:
            return None
        for each in self.terminal.read(seconds):
            if not isinstance(each, Command):
                self.session.push_input(SERIAL, each)
            elif each.key == "x":
                return End(How.LEFT, "ended by the escape key")
            else:
                if self.live is not None:
                    self.live.clear()
                self.command(each.key)
        return None

    def _at_most(self, seconds: float | None) -> float | None:
        if self.timeout_s is None:
            return seconds
        left = max(0.0, self.began + self.timeout_s - time.monotonic())
        return left if seconds is None else min(seconds, left)

    def _end(self, status: Json) -> End | None:
        if status["state"] != "asleep" or not self.terminal.open:
            end = ending.of_guest(status, self.watch, self.session)
            if end is not None:
                return end
        if self.watch.said:
            return End(How.SAID, "the console said what was waited for")
        if status["state"] == "reached":
            return End(How.LIMIT, "the limit is reached")
        if self.watch.halted and not self.terminal.interactive:
            return ending.panic(str(self.watch.panic))
        if self.timeout_s is not None and time.monotonic() - self.began > self.timeout_s:
            return End(How.TIMEOUT, f"not ended after {self.timeout_s:g} s")
        return None
