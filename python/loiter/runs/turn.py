"""In which order runs are handed out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loiter.engine import Engine
from loiter.runs.worker import Job


class Waiting:
    """Runs that have not begun. What takes longest comes first, but none that could only wait for another one, and what
    is there is used before more is made."""

    def __init__(self, jobs: Sequence[Job], engine: Engine) -> None:
        self._jobs = sorted(jobs, key=lambda job: -job.weight)
        self._shares = {job.label: frozenset(job.request.shares(engine)) for job in jobs}
        self._made: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def next(self, active: Iterable[Job]) -> Job:
        """Whose turn it is beside those that run. First come runs that need what is there, so that little has to be
        kept; then those that need not wait for what one makes for all; then all."""
        being_made = {name for job in active for name in self._shares[job.label]} - self._made
        uses = (at for at, job in enumerate(self._jobs) if (needs := self._shares[job.label]) and needs <= self._made)
        free = (at for at, job in enumerate(self._jobs) if not being_made & self._shares[job.label])
        return self._jobs.pop(next(uses, next(free, 0)))

    def again(self, job: Job) -> None:
        """One whose worker has died begins once more, after all others."""
        self._jobs.append(job)

    def ended(self, job: Job) -> None:
        """What a run needs that others need, too, is there."""
        self._made |= self._shares[job.label]
