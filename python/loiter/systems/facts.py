"""What a run on a booted system took."""

from __future__ import annotations

import time
from collections.abc import Callable

from loiter import sampling
from loiter.engine import Json, Progress, Session
from loiter.errors import Interrupted

_TOLD_SECONDS = 0.2


class Meter:
    """How far a system is, as a run tells it: since the beginning, and since last asked."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._began = time.monotonic()
        self._first = session.instructions
        self._cycle = session.cycle
        self._retired = session.instructions_by_hart
        self._told = self._began

    def tell(self, progress: Progress) -> None:
        """Reports it, some times a second however often it is called. Raises `Interrupted` where the run is to stop."""
        now = time.monotonic()
        if now - self._told < _TOLD_SECONDS:
            return
        self._told = now
        if not progress(self.progress()):
            raise Interrupted("interrupted")

    def progress(self) -> Json:
        """What a report of progress says."""
        session = self._session
        retired = session.instructions_by_hart
        cycles = max(1, session.cycle - self._cycle)
        ipc = [(now - last) / cycles for now, last in zip(retired, self._retired, strict=True)]
        self._cycle, self._retired = session.cycle, retired
        return {
            "cycle": session.cycle,
            "simulated_seconds": session.seconds,
            "instructions": sum(retired) - self._first,
            "host_seconds": time.monotonic() - self._began,
            "ipc": sum(ipc),
            "ipc_by_context": ipc,
            "phase": "timing" if session.timed else "reference",
        }


def booting(progress: Progress) -> Callable[[Session], None]:
    """Reports a boot, whose session is known when it has begun."""
    meters: list[Meter] = []

    def tell(session: Session) -> None:
        if not meters:
            meters.append(Meter(session))
        meters[0].tell(progress)

    return tell


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


def region_of(session: Session) -> Json:
    """Time and instructions of what was timed, if anything was."""
    if not session.was_timed:
        return {}
    statistics = session.statistics()
    cycles, instructions, mhz = (statistics[name] for name in ("timing_cycles", "timing_instructions", "clock_mhz"))
    region: Json = {"cycles": cycles, "instructions": instructions, "us": cycles / mhz if mhz else None}
    if samples := statistics[sampling.TABLE]:
        region["samples"] = sampling.summary(samples)
    return {"region": region}


def describe(found: Json) -> str:
    """One line for people, and one for what was timed."""
    text = _describe_run(found)
    if "region" not in found:
        return text
    region = found["region"]
    cycles, instructions = region["cycles"], region["instructions"]
    time = "" if region["us"] is None else f" ({region['us']:,.1f} µs)"
    rate = instructions / cycles if cycles else 0.0
    samples = f"\nsamples: {sampling.describe(region['samples'])}" if "samples" in region else ""
    return f"timed: {cycles:,} cycles{time}, {instructions:,} instructions, {rate:.3f} a cycle{samples}\n{text}"


def _describe_run(found: Json) -> str:
    seconds = found["host_seconds"]
    rate = found["instructions"] / seconds / 1e6 if seconds > 0 else 0.0
    checked = f" ({found['checked_instructions']:,} checked)" if "checked_instructions" in found else ""
    return (
        f"{found['instructions']:,} instructions{checked}, {found['seconds']:.3f} s simulated since power-on, "
        f"{seconds:.2f} s host, {rate:.1f} M instructions/s"
    )
