"""What a person sees while runs last: live bars in a terminal, a line now and then elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from loiter.engine import Json
from loiter.errors import Fault

if TYPE_CHECKING:
    from loiter.runs.worker import Done, Job

_MOST_CONTEXTS = 8
"""Contexts whose instructions a cycle are shown one by one."""


@dataclass
class Estimate:
    """Remaining time over all runs, from the cost of those that are done.

    Weights are guesses made before anything ran; the finished runs tell what a unit of weight costs on this host.
    """

    total: float
    workers: int
    finished: float = 0.0
    busy_seconds: float = 0.0

    def add(self, weight: float, seconds: float) -> None:
        """Counts a finished run."""
        self.finished += weight
        self.busy_seconds += seconds

    def share(self, running: dict[str, tuple[float, float]]) -> float:
        """Part of the work that is done. `running` has weight and seconds so far of each run that has begun."""
        if self.total <= 0:
            return 1.0
        return min(1.0, (self.finished + self._begun(running)) / self.total)

    def seconds_left(self, running: dict[str, tuple[float, float]]) -> float | None:
        """Seconds until the end, or None while nothing is known."""
        if self.finished <= 0:
            return None
        left = self.total - self.finished - self._begun(running)
        return max(0.0, left) * self.busy_seconds / self.finished / self.workers

    def _begun(self, running: dict[str, tuple[float, float]]) -> float:
        if self.finished <= 0 or self.busy_seconds <= 0:
            return 0.0
        # A run that takes longer than expected is almost done, never done.
        per_second = self.finished / self.busy_seconds
        return sum(min(0.95 * weight, seconds * per_second) for weight, seconds in running.values())


@dataclass
class Display:
    """Shows the runs on a console; also the pool's observer."""

    console: Console
    jobs: int
    reused: int
    estimate: Estimate
    title: str = "runs"
    _done: int = 0
    _shown: int = 0
    _running: dict[str, tuple[float, float]] = field(default_factory=dict)
    _lines: dict[str, TaskID] = field(default_factory=dict)
    _live: Progress | None = None
    _bar: TaskID | None = None
    _told: set[str] = field(default_factory=set)

    def __enter__(self) -> Display:
        if self.reused:
            self.console.print(f"{self.reused} of {self.reused + self.jobs} runs are there already", style="dim")
        if self.console.is_terminal and self.jobs:
            self._live = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[facts]}"),
                TimeElapsedColumn(),
                console=self.console,
                transient=True,
            )
            self._live.start()
            self._bar = self._live.add_task(f"[bold]{self.title}", total=1.0, facts="")
        self._refresh()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def started(self, job: Job) -> None:
        """A worker took the job."""
        self._running[job.label] = (job.weight, 0.0)
        if self._live is not None:
            if job.label in self._lines:
                # It is begun again: the worker that had it died.
                self._live.remove_task(self._lines.pop(job.label))
            self._lines[job.label] = self._live.add_task(f"  {job.label}", total=None, facts="")
        self._refresh()

    def progress(self, job: Job, facts: Json) -> None:
        """The run continues."""
        seconds = float(facts["host_seconds"])
        self._running[job.label] = (job.weight, seconds)
        if self._live is not None:
            self._live.update(self._lines[job.label], facts=describe_progress(facts))
        self._refresh()

    def finished(self, job: Job, done: Done) -> None:
        """The run is on the disk."""
        self.estimate.add(job.weight, done.finished.host_seconds)
        self._end(job)

    def failed(self, job: Job, fault: Fault) -> None:
        """The run failed; the others go on. What many fail with is told once."""
        reason = str(fault)
        told = "failed likewise" if reason in self._told else f"failed: {reason}"
        self._told.add(reason)
        self.console.print(f"{job.label} {told}", style="red", markup=False, highlight=False)
        self._end(job)

    def _end(self, job: Job) -> None:
        self._done += 1
        self._running.pop(job.label, None)
        if self._live is not None:
            self._live.remove_task(self._lines.pop(job.label))
        self._refresh()

    def _refresh(self) -> None:
        share = self.estimate.share(self._running)
        left = self.estimate.seconds_left(self._running)
        facts = f"{self._done}/{self.jobs} runs, {duration(left)} left"
        if self._live is not None and self._bar is not None:
            self._live.update(self._bar, completed=share, facts=facts)
        elif self._done and self._done * 10 // self.jobs > self._shown:
            self._shown = self._done * 10 // self.jobs
            self.console.print(f"{self.title}: {facts}", highlight=False)


def describe_progress(facts: Json) -> str:
    """One line on a run that has begun: simulated and host time, speed, and, where cores are timed, IPC."""
    seconds = float(facts["host_seconds"])
    rate = facts["instructions"] / seconds / 1e6 if seconds > 0 else 0.0
    times = f"{simulated(facts['simulated_seconds'])} simulated, {duration(seconds)} host"
    work = _ipc(facts) if facts["phase"] == "timing" else f"{facts['phase']} engine"
    return f"{times}, {rate:.1f} M instr/s, {work}"


def _ipc(facts: Json) -> str:
    """Instructions a cycle since the last report: in total, and of each context that does anything."""
    busy = [(context, ipc) for context, ipc in enumerate(facts["ipc_by_context"]) if ipc > 0]
    if len(busy) <= _MOST_CONTEXTS:
        each = ", ".join(f"{context}: {ipc:.2f}" for context, ipc in busy)
    else:
        least, most = min(ipc for _, ipc in busy), max(ipc for _, ipc in busy)
        each = f"{len(busy)} contexts: {least:.2f} to {most:.2f}"
    return f"IPC {facts['ipc']:.2f}" + (f" ({each})" if busy else "")


def simulated(seconds: float) -> str:
    """Simulated time in a unit that leaves something before the point."""
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:,.3f} {unit}"
    return f"{seconds * 1e6:,.1f} µs"


def duration(seconds: float | None) -> str:
    """Minutes and seconds; dashes while nothing is known."""
    if seconds is None:
        return "--:--"
    whole = round(seconds)
    return (
        f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}" if whole >= 3600 else f"{whole // 60}:{whole % 60:02}"
    )
