"""From classes of a profile to cases that are calibrated: who contends, for how long, how often."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from loiter import api, contention
from loiter.advise import calibrate, demand, holds
from loiter.advise.calibrate import Calibration
from loiter.advise.demand import Demand, Observed
from loiter.advise.policies import Policy
from loiter.advise.profile import LockClass, Profile
from loiter.engine import Engine
from loiter.errors import UserFault, unknown
from loiter.machines import Machine

_SEEDS = 2
"""Of each step of a calibration."""
_SPIN_KINDS = ("", "spinlock", "mutex-spin")
_HOLD = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|cycles)")
_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6}


@dataclass(frozen=True)
class Wish:
    """What a person says of the contention beside the profile."""

    threads: int | None = None
    hold: str | None = None
    """`TIME`, or `TIME..TIME` between which it is."""
    match: str | None = None
    """One of `calibrate.MATCHES`."""
    arrivals: str = "exponential"
    lines: int = 1
    fill: str = "cores"
    profiled_clock_mhz: float | None = None
    """Of the machine that was profiled, whose cycles are kept; None: its times are."""
    most_cycles: int | None = None
    """Of a run."""

    def check(self) -> None:
        """Raises `UserFault` where something is out of its range."""
        if self.match is not None and self.match not in calibrate.MATCHES:
            raise unknown("--match", self.match, calibrate.MATCHES)
        if self.arrivals not in demand.ARRIVALS:
            raise unknown("--arrivals", self.arrivals, demand.ARRIVALS)
        contention.Contention(fill=self.fill, lines=self.lines).check()


@dataclass(frozen=True)
class Case:
    """One class of locks, held as long as it says, and the contention that is like it."""

    of: LockClass
    name: str
    calibration: Calibration
    threads_from: str
    """Who says how many there are."""

    @property
    def threads(self) -> int:
        return len(self.calibration.demand.contexts)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to keep in mind of it."""
        found = []
        if self.of.sums:
            found.append("may be several locks that are counted together; they are taken for one")
        if self.of.kind not in _SPIN_KINDS:
            found.append(
                f"is of kind {self.of.kind}: its waiters may sleep or share, and here each spins for a lock alone"
            )
        elif self.of.name.endswith(("-R", "-W")):
            found.append("is acquired by readers and writers, and here nobody shares")
        if not self.calibration.matches:
            residuals = self.calibration.residuals
            what = ("hold", self.calibration.target.match)
            told = ", ".join(f"{name} {100 * (residuals[name] or 0):+.0f} %" for name in what)
            found.append(f"synthetic contention is not like the profile ({told}): what is predicted is of another load")
        return tuple(f"{self.name} {each}" for each in found)


def holds_of(of: LockClass, wish: Wish, clock_mhz: float) -> list[tuple[str, holds.Lengths]]:
    """The names of cases and the lengths of their sections: one, or two where a person gives bounds."""
    if wish.hold is not None:
        ends = wish.hold.split("..")
        if len(ends) > 2:
            raise UserFault(f"--hold {wish.hold}: a time, or two with .. between them, as in 500ns..3us.")
        cycles = [_cycles(each, wish.hold, clock_mhz) for each in ends]
        if len(cycles) == 2 and cycles[0] >= cycles[1]:
            raise UserFault(f"--hold {wish.hold}: the first is to be the shorter one.")
        if len(cycles) == 1:
            return [(of.name, ((cycles[0], holds.ODDS),))]
        return [(f"{of.name}, held {end}", ((each, holds.ODDS),)) for end, each in zip(ends, cycles, strict=True)]
    if of.holds is None or not of.holds.count:
        raise UserFault(
            f"how long {of.name} is held is not in the profile; say it, or between what it is: --hold 1.2us, --hold "
            "500ns..3us, --hold 800cycles."
        )
    return [(of.name, holds.of(of.holds))]


def _cycles(text: str, whole: str, clock_mhz: float) -> float:
    match = _HOLD.fullmatch(text)
    value = float(match[1]) if match else 0.0
    if match is None or value <= 0:
        raise UserFault(f"--hold {whole}: {text!r} is no time; write 1.2us, 300ns, 2ms or 800cycles.")
    return value if match[2] == "cycles" else value * _NS[match[2]] * clock_mhz / 1000


def contexts_of(of: LockClass, wish: Wish, machine: Machine) -> tuple[tuple[int, ...], str]:
    """Where threads are, and who says so."""
    order = contention.contexts(machine, wish.fill)
    if wish.threads is not None:
        if not 2 <= wish.threads <= len(order):
            raise UserFault(f"--threads {wish.threads}: {machine.name} has room for 2 to {len(order)} that contend.")
        return tuple(order[: wish.threads]), "--threads"
    if not of.contexts:
        raise UserFault(
            f"how many threads contend for {of.name} is not in the profile; say it: --threads N, of 2 to {len(order)} "
            f"on {machine.name}."
        )
    if len(of.contexts) < 2:
        raise UserFault(f"{of.name} is acquired by one hart only; to see it with more, take --threads N.")
    if max(of.contexts) < machine.contexts:
        return of.contexts, "profile"
    if len(of.contexts) > len(order):
        raise UserFault(
            f"{len(of.contexts)} harts acquire {of.name}; {machine.name} has {len(order)}. Take --threads N."
        )
    return tuple(order[: len(of.contexts)]), "profile"


def cases(
    engine: Engine,
    machine: Machine,
    profile: Profile,
    classes: Sequence[LockClass],
    wish: Wish,
    current: Policy,
    workers: int,
    console: Console,
) -> list[Case]:
    """The cases of classes that are in cycles, calibrated with the current policy."""
    clock_mhz = clock(machine, wish)
    wanted = [
        (of, name, lengths, *contexts_of(of, wish, machine))
        for of in classes
        for name, lengths in holds_of(of, wish, clock_mhz)
    ]
    targets = [calibrate.target(of, holds.mean(lengths), profile.duration, wish.match) for of, _, lengths, *_ in wanted]
    for (of, name, *_), target in zip(wanted, targets, strict=True):
        said = {"share": target.share, "wait": target.wait_cycles, "rate": target.rate_per_cycle}[target.match]
        if said is None:
            raise UserFault(f"--match {target.match}: the profile does not say it of {name or of.name}.")
    found = []
    with console.status("") as status:
        for at, ((of, name, lengths, contexts, source), target) in enumerate(zip(wanted, targets, strict=True), 1):
            done = 0
            if not console.is_terminal:
                console.print(f"calibrating {name} ({at} of {len(wanted)})", highlight=False, soft_wrap=True)

            def run(each: Demand, at: int = at, name: str = name) -> Observed:
                nonlocal done
                done += 1
                most = calibrate.MOST_RUNS
                status.update(f"calibrating {name} ({at} of {len(wanted)}), run {done} of at most {most}")
                seeds = range(1, _SEEDS + 1)
                requests = {f"seed {seed}": each.request(engine, machine, current, seed) for seed in seeds}
                return demand.observed(list(api.results(requests, workers=workers, quiet=True).values()))

            start = Demand(contexts, lengths, 0.0, wish.arrivals, wish.lines, most_cycles=wish.most_cycles)
            found.append(Case(of, name, calibrate.calibrate(target, lengths, start, run), source))
    return found


def clock(machine: Machine, wish: Wish) -> float:
    """By which times of a profile become cycles."""
    return wish.profiled_clock_mhz or float(str(machine.value("system.clock_mhz")))
