"""What a person sees while an image is built: a live bar in a terminal, a line for each step elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from loiter.runs.progress import Estimate, duration


@dataclass(frozen=True)
class Step:
    """A step of a build, with what it took where it was measured: two processors, a fast network."""

    name: str
    seconds: float


class _Bars(Progress):
    """Asks for the state of things whenever it draws, which it does by itself several times a second."""

    def __init__(self, before: Callable[[], None], console: Console) -> None:
        self._before = before
        super().__init__(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        self._before()
        return super().get_renderables()


class Steps:
    """Shows the steps of one build. Without a console it is silent."""

    def __init__(self, console: Console | None, title: str, steps: Sequence[Step]) -> None:
        self._console = console
        self._title = title
        self._left = list(steps)
        self._count = len(self._left)
        self._estimate = Estimate(total=sum(step.seconds for step in steps), workers=1)
        self._current: Step | None = None
        self._begun = 0.0
        self._share = 0.0
        self._detail = self._now = ""
        self._bars: _Bars | None = None
        self._bar: TaskID | None = None

    def __enter__(self) -> Steps:
        self.say(f"building image {self._title}: about {duration(self._estimate.total)} on a host of two processors")
        if self._console is not None and self._console.is_terminal:
            self._bars = _Bars(self._refresh, self._console)
            self._bar = self._bars.add_task(f"[bold]{self._title}", total=1.0, facts="")
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def say(self, text: str) -> None:
        """A remark."""
        if self._console is not None:
            self._console.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """One step, from its beginning to its end. Steps come in the order in which they were announced."""
        step = self._left.pop(0)
        assert step.name == name, f"step {name}, but {step.name} was announced"
        self._begun, self._share, self._detail, self._now = time.monotonic(), 0.0, "", ""
        self._current = step
        yield
        seconds = time.monotonic() - self._begun
        self._current = None
        self._estimate.add(step.seconds, seconds)
        number = self._count - len(self._left)
        detail = f", {self._detail}" if self._detail else ""
        self.say(f"{self._title}: {number}/{self._count} {name}{detail} ({duration(seconds)})")

    def share(self, share: float, what: str = "") -> None:
        """How much of the present step is done, from 0 to 1, and what is being done."""
        self._share, self._now = share, what

    def detail(self, text: str) -> None:
        """A few words on the present step, which its line ends with."""
        self._detail = text

    def state(self) -> tuple[float, str]:
        """Part of all that is done, and words on what is being done and how long the rest will take."""
        step = self._current
        if step is None:
            return self._estimate.share({}), ""
        seconds = time.monotonic() - self._begun
        if self._share > 0:
            # What the step itself knows, as time that such a share should have taken.
            rate = self._estimate.busy_seconds / self._estimate.finished if self._estimate.finished > 0 else 1.0
            seconds = self._share * step.seconds * rate
        running = {step.name: (step.seconds, seconds)}
        left = self._estimate.seconds_left(running)
        if left is None:
            left = max(0.0, self._estimate.total - seconds)
        words = " ".join(filter(None, [step.name, self._detail, self._now]))
        return self._estimate.share(running), f"{words}, about {duration(left)} left"

    def _refresh(self) -> None:
        if self._bars is not None and self._bar is not None:
            share, facts = self.state()
            self._bars.update(self._bar, completed=share, facts=facts)
