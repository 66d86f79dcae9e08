"""What a run on a booted system took."""

from __future__ import annotations

from loiter.engine import Json, Session


def facts(session: Session, host_seconds: float, first_instruction: int = 0) -> Json:
    """Numbers for programs."""
    found: Json = {
        "instructions": session.instructions - first_instruction,
        "cycles": session.cycle,
        "seconds": session.seconds,
        "host_seconds": host_seconds,
    }
    checked = session.checked_instructions
    phases = session.phases()
    found |= {"phases": phases} if phases else {}
    return found | ({"checked_instructions": checked} if checked else {})


def describe(found: Json) -> str:
    """One line for people."""
    seconds = found["host_seconds"]
    rate = found["instructions"] / seconds / 1e6 if seconds > 0 else 0.0
    checked = f" ({found['checked_instructions']:,} checked)" if "checked_instructions" in found else ""
    return (
        f"{found['instructions']:,} instructions{checked}, {found['seconds']:.3f} s simulated since power-on, "
        f"{seconds:.2f} s host, {rate:.1f} M instructions/s"
    )
