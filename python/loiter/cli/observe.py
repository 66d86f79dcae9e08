"""Options by which a system is looked into: symbols, debugger, trace, profile, pipeline log, timeline, check."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from loiter.cli.options import COUNT_LIMIT, err
from loiter.engine import Json, Session
from loiter.errors import Fault, RunFault, UserFault

GdbOption = Annotated[
    str | None, typer.Option("--gdb", metavar="[HOST:]PORT", help="Wait for GDB there before anything executes.")
]
SymbolsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--symbols",
        metavar="FILE",
        help="Names of addresses: a System.map, a vmlinux, programs and libraries of the guest. May be repeated.",
    ),
]
TraceOption = Annotated[
    Path | None,
    typer.Option("--trace", metavar="FILE", help="Write each retired instruction; compressed if it ends in .zst."),
]
TraceFromOption = Annotated[
    str | None,
    typer.Option(
        "--trace-from",
        metavar="CYCLE|SYMBOL|timing",
        help='Begin the trace there; "timing": only what timed cores execute.',
    ),
]
TraceCountOption = Annotated[
    int | None,
    typer.Option(
        "--trace-count", metavar="N", min=1, max=COUNT_LIMIT, help="End the trace after so many instructions."
    ),
]
ProfileOption = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        help="Write what each function costs, with its callers: for pprof if the name ends in .pprof or .pb.gz, "
        "else for KCachegrind.",
    ),
]
ProfileFromOption = Annotated[
    str | None,
    typer.Option(
        "--profile-from",
        metavar="CYCLE|SYMBOL|timing",
        help='Begin the profile there; "timing": only what timed cores execute.',
    ),
]
PipelineOption = Annotated[
    Path | None,
    typer.Option(
        "--pipeline",
        metavar="FILE",
        help="Write each instruction's way through the pipeline, for Konata; compressed if it ends in .gz.",
    ),
]
_TIMING = "timing"
_LAST_PORT = 65535
_EDGE = "CYCLE|SYMBOL|probe:KIND[=VALUE]"
PipelineFromOption = Annotated[
    str | None, typer.Option("--pipeline-from", metavar=_EDGE, help="Begin the pipeline log there.")
]
PipelineToOption = Annotated[
    str | None,
    typer.Option("--pipeline-to", metavar=_EDGE, help="End the pipeline log with what is fetched before that."),
]
TimelineOption = Annotated[
    Path | None,
    typer.Option(
        "--timeline",
        metavar="FILE",
        help="Write what every context does over time, for ui.perfetto.dev; compressed if it ends in .gz.",
    ),
]
LockStatsOption = Annotated[
    bool,
    typer.Option(
        "--lock-stats",
        help="Count what the locks of the kernel cost, by the symbols of its lock functions; "
        "[bold]loiter lock-stats[/] shows it.",
    ),
]
CheckOption = Annotated[
    bool,
    typer.Option("--check", help="Check each instruction of timing cores against the reference engine."),
]
NoSkipOption = Annotated[
    bool,
    typer.Option("--no-skip", help="Go through every cycle of cores that only spin; slower, with the same results."),
]


@dataclass(frozen=True)
class Observation:
    """The logs and checks of a run. Its fields are the options."""

    gdb: GdbOption = None
    trace: TraceOption = None
    trace_from: TraceFromOption = None
    trace_count: TraceCountOption = None
    profile: ProfileOption = None
    profile_from: ProfileFromOption = None
    pipeline: PipelineOption = None
    pipeline_from: PipelineFromOption = None
    pipeline_to: PipelineToOption = None
    timeline: TimelineOption = None
    lock_stats: LockStatsOption = False
    check: CheckOption = False
    no_skip: NoSkipOption = False

    def __post_init__(self) -> None:
        for option, value, of, path in (
            ("--trace-from", self.trace_from, "trace", self.trace),
            ("--trace-count", self.trace_count, "trace", self.trace),
            ("--profile-from", self.profile_from, "profile", self.profile),
            ("--pipeline-from", self.pipeline_from, "pipeline log", self.pipeline),
            ("--pipeline-to", self.pipeline_to, "pipeline log", self.pipeline),
        ):
            if value is not None and path is None:
                file = f"--{of.split()[0]} FILE"
                raise UserFault(f"{option} {value}: there is no {of}; give it a file with {file}.")
        if self.gdb is not None:
            check_port(self.gdb)
        files: dict[Path, str] = {}
        for option, path in (
            ("--trace", self.trace),
            ("--profile", self.profile),
            ("--pipeline", self.pipeline),
            ("--timeline", self.timeline),
        ):
            if path is None:
                continue
            if not path.absolute().parent.is_dir():
                raise UserFault(f"{option} {path}: there is no directory {path.parent}.")
            other = files.setdefault(path.absolute(), option)
            if other != option:
                raise UserFault(f"{option} {path}: {other} goes there already; give each a file of its own.")

    def of_region(self, has_region: bool) -> Observation:
        """The same of a run that may have a region of interest: trace and profile are of that by default."""
        if not has_region:
            return self
        return replace(
            self,
            trace_from=self.trace_from or (_TIMING if self.trace is not None else None),
            profile_from=self.profile_from or (_TIMING if self.profile is not None else None),
        )

    @property
    def names_functions(self) -> bool:
        """Whether symbols are of use."""
        return any(each is not None for each in (self.gdb, self.trace, self.profile, self.pipeline))

    def check_kept(self, kept: bool) -> None:
        """Refuses statistics of locks that go nowhere."""
        if self.lock_stats and not kept:
            raise UserFault("--lock-stats: its table belongs to a result; name a directory for that with --out DIR.")

    def native(self) -> Json:
        """What is written down, as the simulator reads it."""
        return {
            "gdb": self.gdb,
            "trace": self._trace(),
            "profile": None if self.profile is None else {"path": str(self.profile), "from": self.profile_from},
            "pipeline": self._pipeline(),
            "timeline": None if self.timeline is None else str(self.timeline),
            "check": self.check,
            "no_skip": self.no_skip,
        }

    def _trace(self) -> Json | None:
        if self.trace is None:
            return None
        return {"path": str(self.trace), "from": self.trace_from, "count": self.trace_count}

    def _pipeline(self) -> Json | None:
        if self.pipeline is None:
            return None
        return {"path": str(self.pipeline), "from": self.pipeline_from, "to": self.pipeline_to}

    def _begin(self, session: Session) -> None:
        if self.check:
            session.begin_check()
        if self.no_skip:
            session.skip_nothing()
        trace, pipeline = self._trace(), self._pipeline()
        if pipeline is not None:
            session.begin_pipeline(pipeline)
        if self.timeline is not None:
            session.begin_timeline(self.timeline)
        if trace is not None:
            session.begin_trace(trace)
        if self.profile is not None:
            session.begin_profile(self.profile_from)
        if self.lock_stats:
            session.begin_lock_stats()
        if self.gdb is not None:
            err().print(f"waiting for GDB: target remote {session.listen_gdb(self.gdb)}", highlight=False)

    @contextlib.contextmanager
    def watching(self, session: Session, command: Sequence[str]) -> Iterator[list[Fault]]:
        """Observes a session while the context lasts. Yields a list of what could not be written, complete afterwards.

        A guest's results are not lost with its trace: whoever watches raises the fault when those are safe.
        """
        faults: list[Fault] = []
        self._begin(session)
        try:
            yield faults
        finally:
            faults += [RunFault(fault) for fault in session.end_logs()]
            if self.profile is not None:
                try:
                    session.write_profile(self.profile, " ".join(command))
                except Fault as error:
                    faults.append(RunFault(str(error)))


def check_port(address: str) -> None:
    """Refuses a port for --gdb that cannot be."""
    port = address.rpartition(":")[2]
    if port.isdigit() and int(port) > _LAST_PORT:
        raise UserFault(f"--gdb {address}: ports go up to {_LAST_PORT}; 0 takes a free one.")
