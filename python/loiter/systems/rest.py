"""When a system has come to rest: its harts execute next to nothing, whatever their timers do."""

from __future__ import annotations

from loiter.engine import Session

# Assumed: idle harts of Debian's kernel execute for 0.2 % at most in every such window of the eight seconds that follow
# the boot, on one to eight harts.
WINDOW_SECONDS = 0.25
_SHARE = 0.002


class Rest:
    """Looks at a session window after window of simulated time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._began, self._instructions = session.seconds, session.instructions
        self.seconds = 0.0
        """For how long it has rested without a break."""

    def look(self) -> None:
        """Takes note of the window, once it is over."""
        session = self._session
        passed = session.seconds - self._began
        if passed < WINDOW_SECONDS:
            return
        # The untimed engine takes a cycle for each instruction; timed cores retire several at most.
        cycles = session.cycle / session.seconds * passed * len(session.instructions_by_hart)
        executed = session.instructions - self._instructions
        self.seconds = self.seconds + passed if executed < _SHARE * cycles else 0.0
        self._began, self._instructions = session.seconds, session.instructions
