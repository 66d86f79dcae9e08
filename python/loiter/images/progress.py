"""What a person sees while an image is built: a live bar in a terminal, a line for each step elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from loiter.runs.progress import Estimate, duration

# A share is shown at most so often.
_SECONDS_BETWEEN = 0.1


@dataclass(frozen=True)
class Step:
    """A step of a build, with what it took where it was measured: two processors, a fast network."""

    name: str
    seconds: float


class Steps:
    """Shows the steps of one build. Without a console it is silent."""

    def __init__(self, console: Console | None, title: str, steps: Sequence[Step]) -> None:
        self._console = console
        self._title = title
        self._left = list(steps)
        self._count = len(self._left)
        self._estimate = Estimate(total=sum(step.seconds for step in steps), workers=1)
        self._current: tuple[Step, float] | None = None
        self._detail = self._now = ""
        self.facts = ""
        self._shown = 0.0
        self._live: Progress | None = None
        self._bar: TaskID | None = None
        self._began = time.monotonic()

    def __enter__(self) -> Steps:
        if self._console is not None and self._console.is_terminal:
            self._live = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[facts]}"),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            self._live.start()
            self._bar = self._live.add_task(f"[bold]{self._title}", total=1.0, facts="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """A remark."""
        if self._console is not None:
            self._console.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """One step, from its beginning to its end. Steps come in the order in which they were announced."""
        step = self._left.pop(0)
        assert step.name == name, f"step {name}, but {step.name} was announced"
        begun = time.monotonic()
        self._current, self._detail, self._now = (step, begun), "", ""
        self._refresh(0.0)
        yield
        seconds = time.monotonic() - begun
        self._estimate.add(step.seconds, seconds)
        self._current = None
        number = self._count - len(self._left)
        detail = f", {self._detail}" if self._detail else ""
        self.say(f"{self._title}: {number}/{self._count} {name}{detail} ({duration(seconds)})")

    def share(self, share: float, what: str = "") -> None:
        """How much of the step under way is done, from 0 to 1, and what is being done."""
        self._now = what
        now = time.monotonic()
        if now - self._shown >= _SECONDS_BETWEEN:
            self._shown = now
            self._refresh(share)

    def detail(self, text: str) -> None:
        """A few words on the step under way, which its line ends with."""
        self._detail = text
        self._refresh(0.0)

    def _refresh(self, share: float) -> None:
        if self._current is None:
            return
        step, begun = self._current
        # What the step itself knows, or else the clock against what it took where it was measured.
        seconds = share * step.seconds or time.monotonic() - begun
        running = {step.name: (step.seconds, seconds)}
        left = self._estimate.seconds_left(running)
        if left is None:
            left = max(0.0, self._estimate.total - seconds)
        words = " ".join(filter(None, [step.name, self._detail, self._now]))
        self.facts = f"{words}, about {duration(left)} left"
        done = (self._estimate.finished + min(0.95 * step.seconds, seconds)) / max(self._estimate.total, 1e-9)
        if self._live is not None and self._bar is not None:
            self._live.update(self._bar, completed=done, facts=self.facts)
