"""`loiter locks`: one lock under contention, by lock and number of threads."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from loiter import contention
from loiter import engine as engines
from loiter.cli import complete
from loiter.cli.options import (
    JsonOption,
    MachineOption,
    SetOption,
    check_directory,
    err,
    load_machine,
    out,
    print_json,
    warn,
)
from loiter.errors import RunFault, UserFault, unknown
from loiter.native import contention as native
from loiter.native import host, topology
from loiter.report.table import headed
from loiter.sweeps import grid

if TYPE_CHECKING:
    import pandas as pd

    from loiter.machines import Machine

_ALL = "all"
_PAGE = "locks.html"


def locks(
    machine: MachineOption,
    chosen: Annotated[
        str,
        typer.Option(
            "--locks",
            metavar="A,B,...|all",
            help="Which locks; [bold]loiter programs[/] lists them as tasks of the program locks.",
            autocompletion=complete.locks,
        ),
    ] = "test_and_set,ticket,mcs",
    threads: Annotated[
        str | None,
        typer.Option(
            metavar="1,2,4|1..8|1..64*2", help="Numbers of threads. Default: powers of two up to all contexts."
        ),
    ] = None,
    hold: Annotated[int, typer.Option(metavar="CYCLES", help="Work in the section, of a hart that is alone.")] = 100,
    think: Annotated[int, typer.Option(metavar="CYCLES", help="Work outside, from none to twice as much.")] = 500,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME[:STEPS]",
            help=f"How threads wait: {', '.join(contention.METHODS)}; on [bold]native[/] also yield, park.",
        ),
    ] = "pause",
    patience: Annotated[
        int,
        typer.Option(
            metavar="LOOKS",
            help="On [bold]native[/]: after so many looks a waiter also yields. Default: it never does.",
        ),
    ] = 0,
    metric: Annotated[
        str, typer.Option(metavar="NAME", help=f"What the table shows: {', '.join(contention.METRICS)}.")
    ] = "throughput",
    against: Annotated[
        str | None,
        typer.Option(
            metavar="LOCK", help="Show ratios to this lock's values, seed by seed: the median, the least and the most."
        ),
    ] = None,
    lines: Annotated[int, typer.Option(metavar="COUNT", help="Lines that the section writes.")] = 1,
    cycles: Annotated[
        int | None,
        typer.Option(
            metavar="CYCLES",
            help="After so many cycles a thread acquires no more. Default: 200,000; on [bold]native[/] 200 million.",
        ),
    ] = None,
    fill: Annotated[
        str,
        typer.Option(
            "--fill",
            "--pin",
            metavar="cores|siblings|across|unpinned",
            help="Which contexts come first: one of each core, all of one, or nodes in turn. Only on [bold]native[/]: "
            "unpinned, whichever the scheduler gives.",
        ),
    ] = "cores",
    seeds: Annotated[
        int, typer.Option(metavar="COUNT", help="Runs of each point, which differ in the work outside.")
    ] = 3,
    workers: Annotated[
        int | None, typer.Option(metavar="COUNT", min=1, help="Runs side by side. Default: one a processor.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="On [bold]native[/]: measure again what has been measured before.")
    ] = False,
    sets: SetOption = None,
    out_directory: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where the table (Parquet, CSV) and plots go. Default: nowhere."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare locks: harts acquire one, work in its section, release it and work outside, again and again.

    Runs that have been carried out are kept, so a call that was interrupted goes on where it was.

    Example: [bold]loiter locks -m opteron48 --locks ticket,mcs,clh --threads 1..48*2[/]

    Example: [bold]loiter locks -m knl --locks qspinlock,catnap --policy nap --metric energy --out results/knl[/]

    Example: [bold]loiter locks -m native --locks ticket,ck_ticket,pthread_mutex --threads 1,2,4 --patience 1000[/]
    """
    if metric not in contention.METRICS:
        raise unknown("metric", metric, contention.METRICS)
    check_directory(out_directory)
    method, steps = contention.method_and_steps(policy)
    is_native = machine == native.NAME
    window = cycles if cycles is not None else native.WINDOW_CYCLES if is_native else 200_000
    asked = contention.Contention(method, steps, hold, think, lines, window, fill, seeds, patience)
    kind = (
        _Native(sets, fresh) if is_native else _Simulated(load_machine(engines.load(), machine, sets), workers, fresh)
    )
    names = kind.names() if chosen == _ALL else [name for name in chosen.split(",") if name]
    if not names:
        raise UserFault("--locks: name one at least.")
    if against is not None and against not in names:
        raise unknown("lock", against, names, "--against names one of --locks.")
    counts = _counts(kind.contexts(), threads)
    frame = kind.measure(names, counts, asked, metric, quiet=as_json)
    written = []
    if out_directory is not None:
        written = _write(kind, frame, asked, names, counts, out_directory)
    if as_json:
        print_json({"machine": kind.name, "hash": kind.hash, "points": _plain(frame)})
    else:
        console = out()
        console.print(
            Text.assemble(
                (kind.name, "bold"),
                f": {contention.METRICS[metric][1]}; section {hold} cycles, outside {think}, {policy}{kind.said}",
            )
        )
        column = contention.METRICS[metric][0]
        if against is not None:
            console.print(f"as multiples of {against}'s: median over seeds (least to most)", style="dim")
            console.print(_table(frame, names, counts, lambda row, base: _ratio(row, base, column), against))
        else:
            if seeds > 1:
                console.print("± half of the range over seeds", style="dim")
            console.print(_table(frame, names, counts, lambda row, base: _cell(row, column), names[0]))
        if written:
            console.print(f"wrote {', '.join(sorted(written))} to {out_directory}", highlight=False, soft_wrap=True)
    _tell_failures(frame)


class _Simulated:
    """Locks on a simulated machine."""

    said, how = "", "Simulated"

    def __init__(self, machine: Machine, workers: int | None, fresh: bool) -> None:
        if fresh:
            raise UserFault("--fresh: a simulated machine gives the same again; only native measures.")
        self._machine, self._workers = machine, workers
        self.name, self.hash = machine.name, machine.hash

    def names(self) -> list[str]:
        return list(contention.names())

    def contexts(self) -> int:
        return self._machine.contexts

    def measure(
        self, names: list[str], counts: list[int], asked: contention.Contention, metric: str, *, quiet: bool
    ) -> pd.DataFrame:
        if (asked.method == "nap" or "catnap" in names) and not self._machine.has_extension("zawrs"):
            warn(f"harts of {self.name} have no Zawrs (hart.isa): who would nap pauses instead")
        return contention.measure(self._machine, names, counts, asked, workers=self._workers, quiet=quiet)


class _Native:
    """Locks on this machine."""

    name, hash, how = native.NAME, None, "Measured on this machine"

    def __init__(self, sets: list[str] | None, fresh: bool) -> None:
        if sets:
            raise UserFault(f"--set {sets[0]}: this machine has no parameters to set.")
        self._fresh, self.said = fresh, ""

    def names(self) -> list[str]:
        return native.names()

    def contexts(self) -> int:
        return len(topology.find().cpus)

    def measure(
        self, names: list[str], counts: list[int], asked: contention.Contention, metric: str, *, quiet: bool
    ) -> pd.DataFrame:
        if metric == "energy" and (refused := host.energy_refused()):
            raise UserFault(f"--metric energy: {refused}.")
        with native.shown(err()) as progress:
            found = native.measure(names, counts, asked, fresh=self._fresh, progress=progress)
        for remark in found.remarks:
            warn(remark)
        self.said = f"; cycles of {found.tick_rate_mhz:,.0f} MHz"
        return found.frame


def _counts(contexts: int, text: str | None) -> list[int]:
    if text is None:
        powers = [2**n for n in range(contexts.bit_length()) if 2**n < contexts]
        return [*powers, contexts]
    values = grid.axis("threads", text).values
    for value in values:
        if not isinstance(value, int):
            raise UserFault(f"--threads {text}: {value} is no number; write 1,2,4 or 1..8 or 1..64*2.")
    return list(dict.fromkeys(values))


def _plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows without what is not a number."""
    rows = []
    for row in frame.to_dict("records"):
        rows.append(
            {str(key): None if isinstance(value, float) and math.isnan(value) else value for key, value in row.items()}
        )
    return rows


def _table(
    frame: pd.DataFrame,
    names: list[str],
    counts: list[int],
    cell: Callable[[dict[str, Any], dict[str, Any]], str],
    base: str,
) -> Table:
    table = headed()
    table.add_column("threads", no_wrap=True)
    for count in counts:
        table.add_column(str(count), justify="right")
    by_point = {(row["lock"], row["threads"]): row for row in _plain(frame)}
    for name in names:
        table.add_row(name, *(cell(by_point[name, count], by_point[base, count]) for count in counts))
    return table


def _ratio(row: dict[str, Any], base: dict[str, Any], column: str) -> str:
    if row.get("error") or base.get("error"):
        return "failed"
    pairs = zip(row.get(f"{column}_each") or (), base.get(f"{column}_each") or (), strict=True)
    ratios = [value / other for value, other in pairs if value is not None and other]
    if not ratios:
        return "-"
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _cell(row: dict[str, Any], column: str) -> str:
    if row.get("error"):
        return "failed"
    value, least, most = (row.get(f"{column}{end}") for end in ("", "_least", "_most"))
    if value is None or least is None or most is None:
        return "-"
    percent = 100 * (most - least) / 2 / value if value else 0.0
    return _short(value) if percent < 0.5 else f"{_short(value)} ±{percent:.0f}%"


def _short(value: float) -> str:
    """Three digits that count."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 3)}f}"


def _tell_failures(frame: pd.DataFrame) -> None:
    points: dict[str, list[str]] = {}
    for row in _plain(frame):
        if row.get("error"):
            points.setdefault(str(row["error"]), []).append(f"{row['lock']} with {row['threads']}")
    for error, names in points.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        err().print(f"{', '.join(names[:3])}{more}: {error}", highlight=False, soft_wrap=True)
    if failed := sum(map(len, points.values())):
        raise RunFault(f"{failed} of {len(frame)} points failed.")


def _write(
    kind: _Simulated | _Native,
    frame: pd.DataFrame,
    asked: contention.Contention,
    names: list[str],
    counts: list[int],
    directory: Path,
) -> list[str]:
    from loiter import plots

    directory.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(directory / "locks.parquet")
    frame.drop(columns=[name for name in map(str, frame) if name.endswith("_each")]).to_csv(
        directory / "locks.csv", index=False
    )
    written = ["locks.parquet", "locks.csv"]
    rows = [row for row in _plain(frame) if not row.get("error")]
    for metric, (column, meaning) in contention.METRICS.items():
        curves: dict[str, list[tuple[float, float]]] = {}
        spans: dict[str, list[tuple[float, float]]] = {}
        for row in rows:
            if row.get(column) is not None:  # energy may be left out
                curves.setdefault(row["lock"], []).append((row["threads"], row[column]))
                spans.setdefault(row["lock"], []).append((row[f"{column}_least"], row[f"{column}_most"]))
        for format_ in ("png", "svg") if curves else ():
            title = f"{kind.name}: {metric} of locks"
            drawn = plots.draw_curves(title, "threads", meaning, curves, False, format_, spans)
            (directory / f"{metric}.{format_}").write_bytes(drawn)
            written.append(f"{metric}.{format_}")
    (directory / _PAGE).write_text(_page(kind, frame, asked, names, counts), encoding="utf-8")
    return [*written, _PAGE]


def _page(
    kind: _Simulated | _Native,
    frame: pd.DataFrame,
    asked: contention.Contention,
    names: list[str],
    counts: list[int],
) -> str:
    """The table as a page: a measure of one's choice by threads, with its range over seeds."""
    from loiter.report import page
    from loiter.sweeps import table

    columns = [f"{column}{end}" for column, _ in contention.METRICS.values() for end in ("", "_least", "_most")]
    shown = frame[["threads", "lock", *(name for name in columns if name in frame)]].copy()
    shown[table.RESULT] = None
    shown[table.ERROR] = frame.get("error")
    shown.attrs["units"] = dict(contention.METRICS.values())
    words = ["loiter", "locks", "-m", kind.name, "--locks", ",".join(names), "--threads", ",".join(map(str, counts))]
    words += ["--policy", f"{asked.method}:{asked.repeat}", "--hold", str(asked.hold_cycles)]
    words += ["--think", str(asked.think_cycles), "--lines", str(asked.lines), "--cycles", str(asked.window_cycles)]
    words += ["--fill", asked.fill, "--seeds", str(asked.seeds)]
    words += ["--patience", str(asked.patience)] if asked.patience else []
    title = f"{kind.name}: locks under contention"
    command = shlex.join(words)
    return page.of_sweep(shown, ["threads", "lock"], title, command, how=kind.how, file="locks.parquet")
