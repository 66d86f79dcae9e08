"""loiter from Python. What the command line and the studies do, they do by these functions too.

    import loiter

    smt8 = loiter.machine("smt8").set("core.contexts=4")
    result = loiter.run(smt8, "spinloops", place={"add": 0, "spin_default": [1, 2]})
    result.metrics.loc["ipc", "all"]

A finished run is kept in a store (`loiter.store_path()`), by a hash of all that determines it, and is not carried out
again. Faults are `loiter.Fault`: `UserFault` for what was asked wrongly, `RunFault` for a run that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loiter import engine as engines
from loiter import machines, programs, store
from loiter import waiting as tables
from loiter.engine import Json
from loiter.errors import RunFault, UserFault, unknown
from loiter.images import cache
from loiter.machines import Machine
from loiter.results import Result
from loiter.runs.request import Request

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client
    from typing_extensions import Unpack

    from loiter.runs.command import CommandRun
    from loiter.studies.runner import Outcome
    from loiter.sweeps.words import Words
    from loiter.systems.roi import Roi

Place = Mapping[str, int | str | Iterable[int | str]] | Sequence[str] | str
"""Tasks and their contexts, a context being a number over the machine or "core.context": `{"add": 0}`, `["add=0"]`."""

Arguments = Mapping[str, object] | Sequence[str]
"""Arguments of a program: `{"iterations": 100}`, `["iterations=100"]`."""

Progress = Callable[[Json], bool]
"""Is told how far a run is, some times a second; returns whether it is to go on."""


def machine(name: str | Path, *changes: str | Mapping[str, machines.Value]) -> Machine:
    """A machine that comes with loiter by its name, or your own by its file; `changes` as of `Machine.set`."""
    found = machines.load(engines.load(), str(name))
    return found.set(*changes) if changes else found


def request(
    machine: str | Path | Machine,
    program: str | Path,
    *,
    place: Place | None = None,
    arguments: Arguments | None = None,
    fast_forward: bool = False,
    phases: str | None = None,
    max_cycles: int | None = None,
    waiting: str | Path | None = None,
    lock_stats: bool = False,
) -> Request:
    """The checked request of a run: `run` carries it out, and each point of a sweep is one.

    `place` may be left out where the program has one task or none. `phases` says which engine runs it until when
    (docs/phases.md), `waiting` names a table of waiting code (docs/who-waits.md), `max_cycles` bounds the run,
    `lock_stats` counts locks by the symbols of their functions (docs/locks.md).
    """
    engine = engines.load()
    table = None if waiting is None else tables.named(str(waiting))
    plan = None if phases is None else str(engine.describe_phases(phases)["plan"])
    on = machine if isinstance(machine, Machine) else machines.load(engine, str(machine))
    what = programs.load(engine, str(program))
    placement = programs.place(places(place), what, on)
    words = tuple(programs.arguments(_words(arguments)))
    return Request(on, what, placement, words, fast_forward, max_cycles, plan, table, lock_stats)


def run(
    machine: str | Path | Machine,
    program: str | Path,
    *,
    place: Place | None = None,
    arguments: Arguments | None = None,
    fast_forward: bool = False,
    phases: str | None = None,
    max_cycles: int | None = None,
    waiting: str | Path | None = None,
    lock_stats: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Runs a bare-metal program on a machine, or finds that it has been run. See `request` for what can be said of it.

    Raises `RunFault` where the program fails.
    """
    asked = request(
        machine,
        program,
        place=place,
        arguments=arguments,
        fast_forward=fast_forward,
        phases=phases,
        max_cycles=max_cycles,
        waiting=waiting,
        lock_stats=lock_stats,
    )
    return carry_out(asked, progress)


def carry_out(asked: Request, progress: Progress | None = None) -> Result:
    """Carries a request out, or finds that it has been."""
    engine = engines.load()
    return _found_or_run(
        asked.program.name,
        asked.key(engine),
        lambda path: asked.carry_out(engine, progress or (lambda facts: True), path),
    )


def results(requests: Mapping[str, Request], *, workers: int | None = None, quiet: bool = False) -> dict[str, Result]:
    """Carries requests out side by side, or finds that they have been; results by the same labels.

    Raises the fault of the first that failed.
    """
    from rich.console import Console

    from loiter.runs import pool
    from loiter.runs.progress import Display, Estimate
    from loiter.runs.worker import Job

    engine, kept = engines.load(), store.SharedStore(store_path())
    missing = [Job(label, each) for label, each in requests.items() if kept.find(label, each.key(engine)) is None]
    most = max(1, min(workers or pool.cpus(), len(missing)))
    if missing:
        console = Console(stderr=True, quiet=quiet)
        with Display(console, len(missing), len(requests) - len(missing), Estimate(len(missing), most)) as display:
            ledger = pool.execute(missing, kept, engine, display, most)
        for failure in ledger.failures:
            raise type(failure.fault)(f"{failure.label}: {failure.fault}")
    return {label: _found(kept, label, each.key(engine)) for label, each in requests.items()}


def exec(  # noqa: A001 - as the command is called
    machine: str | Path | Machine,
    command: Sequence[str] | str,
    *,
    harts: int | None = None,
    memory_mib: int | None = None,
    image: str | None = None,
    packages: Sequence[str] = (),
    put: Sequence[str | Path] = (),
    get: Sequence[str] = (),
    environment: Mapping[str, str] | Sequence[str] | None = None,
    stdin: str | bytes | None = None,
    roi: Roi | str | None = None,
    phases: str | None = None,
    waiting: str | Path | None = None,
    lock_stats: bool = False,
    append: str | None = None,
    network: bool = False,
    seed: int = 0,
    timeout_s: float | None = None,
) -> Result:
    """Runs a Linux program on a booted Debian, or finds that it has been run; its output is in the result.

    `command` is the program and its arguments, in one text as a shell has it or word by word; one that begins with ./
    is a file of yours, and so is each of `put`; what `get` names, files and directories of the guest, is in `files` of
    the result. On timed cores the program is timed from its first instruction to its end, unless `roi` ("process",
    "main", "all") or `phases` say something else. A status other than 0 is no fault: it is `exit_status`. `image`,
    `packages`, `append` (words for the kernel), `network`, `seed`: as on the command line.
    """
    asked = exec_request(
        machine,
        command,
        harts=harts,
        memory_mib=memory_mib,
        image=image,
        packages=packages,
        put=put,
        get=get,
        environment=environment,
        stdin=stdin,
        roi=roi,
        phases=phases,
        waiting=waiting,
        lock_stats=lock_stats,
        append=append,
        network=network,
        seed=seed,
        timeout_s=timeout_s,
    )
    engine = engines.load()
    return _found_or_run(
        asked.program.command[0],
        asked.key(engine),
        lambda path: asked.carry_out(engine, lambda facts: True, path),
    )


def exec_request(
    machine: str | Path | Machine,
    command: Sequence[str] | str,
    *,
    harts: int | None = None,
    memory_mib: int | None = None,
    image: str | None = None,
    packages: Sequence[str] = (),
    put: Sequence[str | Path] = (),
    get: Sequence[str] = (),
    environment: Mapping[str, str] | Sequence[str] | None = None,
    stdin: str | bytes | None = None,
    roi: Roi | str | None = None,
    phases: str | None = None,
    waiting: str | Path | None = None,
    lock_stats: bool = False,
    append: str | None = None,
    network: bool = False,
    seed: int = 0,
    timeout_s: float | None = None,
) -> CommandRun:
    """The checked request of `exec`, which carries it out; each point of a sweep over a Linux program is one."""
    import shlex

    from rich.console import Console

    from loiter.runs.command import CommandRun
    from loiter.systems import program as programs
    from loiter.systems.request import seat
    from loiter.systems.roi import Roi

    if roi is not None and roi not in list(Roi):
        raise unknown("region of interest", str(roi), [each.value for each in Roi])
    engine = engines.load()
    on = machine if isinstance(machine, Machine) else machines.load(engine, str(machine))
    wish = programs.Wish(
        shlex.split(command) if isinstance(command, str) else list(command),
        put=[Path(path) for path in put],
        get=list(get),
        environment=environment or {},
        append=append,
        network=network,
        seed=seed,
        roi=None if roi is None else Roi(roi),
        phases=phases,
        waiting=None if waiting is None else str(waiting),
        lock_stats=lock_stats,
    )
    machine, count = seat(engine, on, harts, memory_mib)
    found = programs.image(image, packages, count, Console(stderr=True))
    asked = programs.request(engine, machine, count, found, wish)
    return CommandRun(asked, stdin.encode() if isinstance(stdin, str) else stdin, timeout_s)


def study(
    name: str,
    *,
    scale: str = "default",
    figure: str | None = None,
    changes: Sequence[str] = (),
    arguments: Sequence[str] = (),
    append: Sequence[str] = (),
    out: str | Path | None = None,
    workers: int | None = None,
    quiet: bool = False,
) -> Outcome:
    """Runs a study: what is missing of its runs, its report in `out`, and what it found as frames.

    `changes` to its machines, `[MACHINE:]KEY=VALUE`, or hosts with guests, `vm:SECTION.KEY=VALUE`, `arguments` of its
    programs, and words for the kernels of what runs on Linux (`append`) make it an experiment. Where runs fail, the
    outcome has those that did not, and `failures`.
    """
    import shlex

    from rich.console import Console

    from loiter import studies
    from loiter.runs import pool
    from loiter.studies.changes import Changes
    from loiter.studies.runner import Order, carry_out

    found = studies.load(name)
    if scale not in found.scales:
        raise unknown("scale", scale, found.scales)
    changed = Changes(tuple(changes), tuple(arguments), tuple(append))
    directory = Path(out) if out is not None else Path("results") / changed.directory(f"{found.name}-{scale}")
    if directory.exists() and not directory.is_dir():
        raise UserFault(f"--out {directory}: a file of that name exists; name a directory.")
    command = ["loiter", "study", "run", found.name, "--scale", scale] + (["--figure", figure] if figure else [])
    command += changed.options()
    order = Order(found, scale, figure, workers or pool.cpus(), directory, shlex.join(command), changed)
    return carry_out(order, engines.load(), Console(stderr=True, quiet=quiet))


def sweep(
    grid: Mapping[str, Any] | Iterable[str],
    machine: str | Path | Machine | None = None,
    program: str | Path | None = None,
    *,
    command: Sequence[str] | str | None = None,
    arguments: Arguments | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    cluster: str | Client | None = None,
    quiet: bool = False,
    **words: Unpack[Words],
) -> pd.DataFrame:
    """Runs a program at every point of a grid; returns a row for each, a run that failed with its `error`.

    It is a bare-metal `program`, with further `words` as of `run`, or a Linux `command`, with words as of `exec`; in
    the command, `{NAME}` stands for an argument.

    The grid has values by key, a sequence or a text such as "1024..8192*2": `{"core.contexts": [1, 2, 4]}`. A key is a
    parameter of the machine, `argument.NAME`, or another word of this call: `machine`, `program`, `command`, `place`.
    Columns are the keys, cycles, instructions, every metric (of modes as `ipc.user`), of a command its `exit_status`,
    `key`, `error` and `result`, the directory of the run. Runs that are in the store are not carried out again. With
    `out` the table is written there too (`points.parquet`, `points.csv`), and a page that shows it (`report.html`).
    `workers` processes run side by side, one for each processor unless said otherwise; on a `cluster` of Dask's they
    are its own: "local", "slurm", "pbs", "htcondor", a scheduler's address, or a client.
    """
    from rich.console import Console

    from loiter.runs import cluster as clusters
    from loiter.runs import pool
    from loiter.runs.progress import Display, Estimate
    from loiter.runs.worker import Job
    from loiter.sweeps import carry, table
    from loiter.sweeps import grid as grids
    from loiter.sweeps import sweep as sweeps

    fixed = dict(word.split("=", 1) for word in programs.arguments(_words(arguments)))
    given = {"machine": machine, "program": program, "command": command, "arguments": fixed, **words}
    plan = sweeps.plan(grids.of(grid), given)
    engine, kept = engines.load(), store.SharedStore(store_path())

    def execute(jobs: Sequence[Job], reused: int) -> pool.Ledger:
        console, most = Console(stderr=True, quiet=quiet), max(1, min(workers or pool.cpus(), len(jobs)))
        if cluster is None:
            with Display(console, len(jobs), reused, Estimate(len(jobs), most)) as display:
                return pool.execute(jobs, kept, engine, display, most, keep_going=True)
        kept.root.mkdir(parents=True, exist_ok=True)
        with (
            clusters.connected(cluster, workers) as client,
            Display(
                console, len(jobs), reused, Estimate(len(jobs), sum(client.nthreads().values()) or most)
            ) as display,
        ):
            return clusters.execute(jobs, kept, engine, display, client, keep_going=True)

    if out is None:
        return carry.carry_out(plan, engine, kept, execute, {})
    directory = Path(out)
    with store.claimed(directory):
        frame = carry.carry_out(plan, engine, kept, execute, table.load(directory))
        if table.save(directory, frame) or not (directory / table.PAGE).is_file():
            # Imported here: who asks for a sweep that is complete does not wait for it.
            from loiter.report import page

            axes = [axis.key for axis in plan.grid.axes]
            text = page.of_sweep(frame, axes, f"Sweep over {' and '.join(axes)}", plan.command())
            store.save_text(directory / table.PAGE, text)
    return frame


def _found_or_run(label: str, key: str, carry_out: Callable[[Path], object]) -> Result:
    """The stored result of a key, which `carry_out` writes at the path it is given where there is none."""
    kept = store.SharedStore(store_path())
    if kept.find(label, key) is None:
        carry_out(kept.path(label, key))
    return _found(kept, label, key)


def _found(kept: store.Store, label: str, key: str) -> Result:
    found = kept.find(label, key)
    if found is None:
        raise RunFault(f"{kept.root}: the result was removed by someone else; run it again.")
    return found


def store_path() -> Path:
    """Where finished runs are kept: `runs` in the cache directory, which the variable LOITER_CACHE names."""
    return cache.root() / "runs"


def places(place: Place | None) -> list[str]:
    """A placement as the command line has it, a word for each task."""
    if not isinstance(place, Mapping):
        return [place] if isinstance(place, str) else list(place or [])
    words = []
    for task, contexts in place.items():
        each = [contexts] if isinstance(contexts, int | str) else contexts
        words.append(f"{task}={','.join(str(context) for context in each)}")
    return words


def _words(arguments: Arguments | None) -> list[str]:
    if isinstance(arguments, Mapping):
        return [f"{key}={value}" for key, value in arguments.items()]
    return list(arguments or [])
