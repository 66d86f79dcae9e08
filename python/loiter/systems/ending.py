"""How systems end."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from loiter.engine import Json, Session
from loiter.systems.watch import Watch


class How(enum.Enum):
    """How a run ended."""

    POWER_OFF = "power_off"
    FAILURE = "failure"
    RESET = "reset"
    PHASES = "phases"
    PANIC = "panic"
    STUCK = "stuck"
    # These are not the guest's doing.
    SAID = "said"
    LIMIT = "limit"
    TIMEOUT = "timeout"
    LEFT = "left"
    RESTED = "rested"


@dataclass(frozen=True)
class End:
    """How a run ended, for programs and for people."""

    how: How
    message: str


def of_guest(status: Json, watch: Watch, session: Session) -> End | None:
    """The end of a system after a step, if nothing more comes of it. `watch` has heard its console."""
    if status["state"] == "ended":
        reason, code, message = status["reason"], status["code"], status["message"]
        if watch.panic is not None and (reason == "reset" or code != 0):
            return panic(watch.panic)
        if reason == "phases":
            return End(How.PHASES, message)
        if reason == "reset":
            return End(How.RESET, "the guest asked for a reset")
        if code == 0:
            return End(How.POWER_OFF, "the guest powered off")
        return End(How.FAILURE, message)
    if status["state"] == "asleep" and status["timer_s"] is None:
        if watch.panic is not None:
            return panic(watch.panic)
        who = "\n".join(session.where_harts_stand())
        return End(
            How.STUCK, f"nothing can ever happen again: no hart executes, no timer is set, no input can come\n{who}"
        )
    return None


def panic(words: str) -> End:
    """The end of a kernel that panicked, which its own words tell."""
    return End(How.PANIC, f"the guest's kernel panicked: {words}")
