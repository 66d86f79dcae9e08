"""A virtual CPU that loses its CPU with a lock in hand, and waiters that yield theirs (Friebel, 2008)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from loiter.engine import Engine
from loiter.errors import UserFault
from loiter.results import Result
from loiter.runs import host
from loiter.runs.host import HostRequest
from loiter.runs.worker import Job
from loiter.studies.base import Curves, Findings, Grid, chosen
from loiter.studies.friebel2008 import build, findings, grid, statements
from loiter.studies.friebel2008.grid import SCALES, Case, Scale
from loiter.studies.friebel2008.measured import Measured
from loiter.studies.friebel2008.statements import Judge


class Friebel2008:
    """See `loiter.studies.base.Study`."""

    name = grid.PAPER
    title = "Lock-holder preemption, and waiters that yield their virtual CPU"
    citation = 'T. Friebel, "How to Deal with Lock-Holder Preemption", Xen Summit, 2008'
    method = (
        "A guest has as many virtual CPUs as the host has CPUs, beside a rival guest that always computes on each of "
        f"its own; Xen's credit scheduler with slices of {grid.SLICE_US // 1000} ms, {grid.CLOCK_MHZ} MHz, the "
        "reference engine. The guest builds a C program in tmpfs on Linux 6.12, whose spin locks are ticket or "
        "test-and-set locks; what it built is run and checked. Harts have no numbers of address spaces, as the "
        "published processors had none. Sweeps are of one lock on bare metal. A waiter that yields calls the host, "
        "which runs another virtual CPU of the guest in the published order. Native is a guest alone on a host that "
        "costs nothing. Builds as published are repeated, but the longest one: their guests rest before they work, so "
        "that they begin at other places of a slice. What is said of them is the mean, with the least and the greatest."
    )
    legend = (
        "The published machine runs at 2.2 GHz with shadow paging, which a guest here has not, and builds a kernel in "
        "half a minute: times are not compared, shares are. No parameter was fitted. What runs on Linux needs "
        f"images: {'; '.join(map(build.built_by, build.FRAGMENTS))}"
    )
    exhibits = grid.EXHIBITS
    scales: Mapping[str, str] = {name: scale.description for name, scale in SCALES.items()}

    def plan(self, engine: Engine, scale: str, exhibit: str | None) -> list[Job]:
        """One run for each case; those that exhibits share run once."""
        cases = _cases(scale, exhibit)
        if not cases:
            missing = [build.built_by(image) for image in build.FRAGMENTS if not build.is_there(image)]
            raise UserFault(
                f"figure {exhibit} is of runs on Linux alone. Build what they boot first: {'; '.join(missing)}"
            )
        for image in {case.image for case in cases if case.on_linux}:
            build.ensure(image)
        return [Job(case.label, _request(engine, case, SCALES[scale]), weight=_weight(case)) for case in cases]

    def evaluate(self, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
        """Histograms, tables, sweeps, and what they say of the statements."""
        found = Measured(results, SCALES[scale])
        judge = Judge(found, _loads()[-1], exhibit)
        return Findings(
            points=statements.points(judge, exhibit, self.citation),
            statements=statements.statements(judge, exhibit),
            grids=_grids(found, scale, exhibit),
            charts=[],
            rows=[found.row(case) for case in _cases(scale, exhibit)],
            warnings=[
                f"what needs the image {image} is not measured. To build it: {build.built_by(image)}"
                for image in build.FRAGMENTS
                if not build.is_there(image)
            ],
            curves=_curves(found, scale, exhibit),
        )


def _loads() -> list[str]:
    """What guests do: without the image nothing on Linux."""
    return [grid.SECTIONS, grid.BUILD] if build.is_there() else [grid.SECTIONS]


def _cases(scale: str, exhibit: str | None) -> list[Case]:
    wanted = chosen(grid.EXHIBITS, exhibit)
    found = dict.fromkeys(case for each in wanted for case in grid.cases(SCALES[scale], each, _loads()))
    return [case for case in found if not case.on_linux or build.is_there(case.image)]


def _request(engine: Engine, case: Case, scale: Scale) -> HostRequest:
    return host.request(engine, case.label, case.file(scale), case.begins_us(scale))


def _weight(case: Case) -> float:
    return 8.0 if case.on_linux else 1.0


def _grids(found: Measured, scale: str, exhibit: str | None) -> list[Grid]:
    drawn = {"waits": findings.waits, "results": findings.results, "efficiency": findings.efficiency}
    grids = [
        draw(found, load) for name, draw in drawn.items() if exhibit in (None, name) for load in reversed(_loads())
    ]
    of_image: dict[str, tuple[str, Callable[[Measured], Grid]]] = {
        "executed": (build.IMAGE, findings.executed),
        "window": (build.IMAGE, lambda each: findings.window(each, SCALES[scale])),
        "queued": (build.QUEUED_IMAGE, findings.queued),
        "fences": (build.IMAGE, findings.fences),
        "cpus": (build.IMAGE, lambda each: findings.more_cpus(each, SCALES[scale])),
        "contended": (build.IMAGE, findings.contended),
        "pairs": (build.IMAGE, findings.pairs),
    }
    grids += [
        draw_own(found)
        for name, (image, draw_own) in of_image.items()
        if exhibit in (None, name) and build.is_there(image)
    ]
    if exhibit in (None, "guests"):
        grids.append(findings.overcommitment(found, SCALES[scale]))
    return grids + ([findings.choice(found)] if exhibit in (None, "choice") else [])


def _curves(found: Measured, scale: str, exhibit: str | None) -> list[Curves]:
    curves = []
    if exhibit in (None, "waits"):
        curves += [each for load in reversed(_loads()) for each in findings.histograms(found, load)]
    if exhibit in (None, "threshold"):
        curves += findings.threshold(found, SCALES[scale])
    if exhibit in (None, "guests"):
        curves += findings.guests(found, SCALES[scale])
    return curves


STUDY = Friebel2008()
