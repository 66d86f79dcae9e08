"""What differs between results, machines or snapshots."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loiter import engine as engines
from loiter import machines, store
from loiter.errors import UserFault
from loiter.machines import Machine, Parameter
from loiter.results import Result
from loiter.runs.request import digest

if TYPE_CHECKING:
    import pandas as pd

_HASH = 16
"""As much of a hash as is shown."""

_KEY = 24
"""As much of a directory's name as is shown: results in the store are called by their keys, of 64 characters."""

CHANGE = "change"
"""Column of what the last has otherwise than the first: percent of the first, or points of what is in percent."""

SHARES_UNIT = "% of context-cycles"

_MOST_SHARES = 10
"""What cycles went into, in a chart; the rest is one share."""

# Contexts without work would dwarf all that is to be seen.
_NOTHING_TO_DO = ("idle", "vacant")

CHANGE_HALF_WIDTH = f"± {CHANGE}"
"""Column of half of the 95 % interval of the change, where one of the two is a mean of samples."""


@dataclass(frozen=True)
class Snapshot:
    """A snapshot as it is compared: the machine that it was saved on, and what it holds, by name."""

    path: Path
    machine: Machine | None
    """None of a system that loiter did not boot itself."""
    state: dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """What differs, a frame each; columns are the things compared, by their names.

    `parameters`: those of the machines that are not the same. `metrics`: all that any of the results has, with `unit`
    and `change`; of means of samples also half of the 95 % interval, as `± NAME` and `± change`. `accounts`: where the
    context-cycles went, in percent, by activity and slot, with `change` in points; the greatest change first. These two
    are None where not all are results with tables. `state`: what snapshots hold otherwise; None where not all are
    snapshots.
    """

    names: tuple[str, ...]
    parameters: pd.DataFrame
    metrics: pd.DataFrame | None
    accounts: pd.DataFrame | None
    state: pd.DataFrame | None = None

    def shares(self) -> list[tuple[str, dict[str, float]]]:
        """Where the cycles went, as a chart has it: the greatest shares by name, and all others as one.

        In percent of context-cycles, for each of the things compared. Without accounts there are none.
        """
        if self.accounts is None:
            return []
        frame = self.accounts.drop(columns=CHANGE).drop(index=list(_NOTHING_TO_DO), level="activity", errors="ignore")
        greatest = frame.loc[frame.max(axis=1).sort_values(ascending=False, kind="stable").index]
        shares = [
            (f"{activity}: {slot}", row.to_dict()) for (activity, slot), row in greatest.head(_MOST_SHARES).iterrows()
        ]
        rest = greatest.iloc[_MOST_SHARES:]
        return shares + ([("all else", rest.sum().to_dict())] if len(rest) else [])


Thing = Machine | Result | Snapshot


def compare(*things: str | Path | Machine | Result) -> Comparison:
    """Compares two or more: results or their directories, files of snapshots, machines or their names or files."""
    if len(things) < 2:
        raise UserFault("there is nothing to compare it with: name two or more.")
    found = [_open(thing) for thing in things]
    names = _names(found)
    results = [each for each in found if isinstance(each, Result) and each.has_tables]
    snapshots = [each for each in found if isinstance(each, Snapshot)]
    measured = len(results) == len(found)
    return Comparison(
        names,
        _parameters(found, names),
        _metrics(results, names) if measured else None,
        _accounts(results, names) if measured else None,
        _differing([each.state for each in snapshots], names, "state") if len(snapshots) == len(found) else None,
    )


def _open(thing: str | Path | Machine | Result) -> Thing:
    if isinstance(thing, Machine | Result):
        return thing
    path = Path(thing)
    if (path / store.MANIFEST).is_file():
        try:
            return store.read(path)
        except store.Corrupt as error:
            raise UserFault(f"{path}: not a whole result: {error}. Run it again.") from None
    if path.is_dir():
        raise UserFault(f"{path}: a directory, but no result; `loiter run`, `exec` and `boot` write one with --out.")
    if path.is_file() and path.suffix != ".toml":
        return _snapshot(path)
    return machines.load(engines.load(), str(thing))


def _snapshot(path: Path) -> Snapshot:
    engine = engines.load()
    found = engine.show_snapshot(path)
    header, request = found["header"], found["request"]
    state = {"machine": header["machine"], "machine hash": header["machine_hash"][:_HASH]}
    state |= {key.replace("_", " "): value for key, value in header["hardware"].items()}
    state |= {"cycle": header["cycle"], "instructions": header["instructions"], "state": header["state_hash"][:_HASH]}
    for each in [*header["booted"], *header["disks"]]:
        state[each["role"]] = f"{each['name']} {each['hash'].partition(':')[2][:_HASH]}".strip()
    for name, sections in _parts(found["sections"]):
        state[f"{name}, contents"] = digest([each["xxh3"] for each in sections])[:_HASH]
    if request is None:
        return Snapshot(path, None, state)
    state["command line"] = request["bootargs"]
    machine = machines.parse(engine, request["machine_name"], request["machine_toml"], request["set"])
    return Snapshot(path, machine, state)


def _parts(sections: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """The sections by what they are part of: RAM is many. What the command was is compared by its words."""
    parts: dict[str, list[Any]] = {}
    for each in sections:
        parts.setdefault(each["name"].partition(".")[0], []).append(each)
    return [(name, each) for name, each in parts.items() if name != "request"]


def _names(found: Sequence[Thing]) -> tuple[str, ...]:
    """A name of its own for each: of machines with what is changed of them, of results the directory or its key."""
    short = [
        " ".join([each.name, *each.sets]) if isinstance(each, Machine) else each.path.name[:_KEY] for each in found
    ]
    whole = [
        name if isinstance(each, Machine) else each.path.as_posix() for each, name in zip(found, short, strict=True)
    ]
    seen: Counter[str] = Counter()
    names = []
    for name in short if len(set(short)) == len(short) else whole:
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(names)


def _parameters(found: Sequence[Thing], names: Sequence[str]) -> pd.DataFrame:
    return _differing([_values(each) for each in found], names, "parameter")


def _differing(values: Sequence[dict[str, Any]], names: Sequence[str], of: str) -> pd.DataFrame:
    """The rows in which not all have the same value."""
    import pandas as pd

    keys = dict.fromkeys(key for each in values for key in each)
    rows = {key: [each.get(key) for each in values] for key in keys}
    differing = {key: row for key, row in rows.items() if any(value != row[0] for value in row)}
    frame: pd.DataFrame = pd.DataFrame.from_dict(differing, orient="index", columns=list(names), dtype=object)
    frame.index.name = of
    return frame


def _values(thing: Thing) -> dict[str, Any]:
    if isinstance(thing, Snapshot):
        return {} if thing.machine is None else _values(thing.machine)
    if isinstance(thing, Machine):
        parameters: Sequence[Parameter] = thing.parameters
        return {each.key: each.value for each in parameters}
    values: dict[str, Any] = thing.manifest.get("machine", {}).get("parameters", {})
    return values


def _metrics(results: Sequence[Result], names: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    from loiter import metrics

    found = [metrics.of(result) for result in results]
    values, sure = [metrics.columns(each) for each in found], [metrics.half_widths(each) for each in found]
    sampled = [(f"± {name}", each) for name, each in zip(names, sure, strict=True) if each]
    compares_samples = bool(sure[0] or sure[-1])
    rows = {}
    for metric in metrics.METRICS:
        for group in metric.groups:
            name = metrics.column(metric, group)
            row = [each.get(name) for each in values]
            if any(value is not None for value in row):
                around = [each.get(name) for _, each in sampled]
                ends = [sure[0].get(name), sure[-1].get(name)]
                change = [_change(row[0], row[-1], metric.unit)]
                if compares_samples:
                    change.append(_change_half_width(row[0], row[-1], ends, metric.unit))
                rows[name] = [*row, *around, *change, metric.unit]
    numbers = [*names, *(column for column, _ in sampled), CHANGE]
    if compares_samples:
        numbers.append(CHANGE_HALF_WIDTH)
    frame: pd.DataFrame = pd.DataFrame.from_dict(rows, orient="index", columns=[*numbers, "unit"])
    for column in numbers:
        frame[column] = frame[column].astype("float64")
    frame.index.name = "metric"
    return frame


def _change(first: float | None, last: float | None, unit: str) -> float | None:
    if first is None or last is None:
        return None
    if unit == "percent":
        return last - first
    return 100 * (last / first - 1) if first else None


def _change_half_width(
    first: float | None, last: float | None, half_widths: Sequence[float | None], unit: str
) -> float | None:
    """Half of the 95 % interval of `_change`, of means that do not depend on each other; a whole run has no spread."""
    if first is None or last is None or all(each is None for each in half_widths):
        return None
    around, near = (each or 0.0 for each in half_widths)
    if unit == "percent":
        return math.hypot(around, near)
    if not first:
        return None
    # Of a quotient, to the first order: what the spread of each of its terms moves it by.
    return 100 * math.hypot(near / first, last * around / first**2)


def _accounts(results: Sequence[Result], names: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    shares = []
    for result in results:
        cycles: Counter[tuple[str, str]] = Counter()
        for row in result.rows("accounts"):
            cycles[row["activity"], row["slot"]] += row["cycles"]
        whole = sum(cycles.values()) or 1
        shares.append({key: 100 * count / whole for key, count in cycles.items()})
    keys = dict.fromkeys(key for share in shares for key in share)
    rows = [[*key, *(share.get(key, 0.0) for share in shares)] for key in keys]
    frame: pd.DataFrame = pd.DataFrame(rows, columns=["activity", "slot", *names]).set_index(["activity", "slot"])
    frame[CHANGE] = frame[names[-1]] - frame[names[0]]
    ordered: pd.DataFrame = frame.sort_values(CHANGE, key=lambda column: -column.abs(), kind="stable")
    ordered.attrs["units"] = dict.fromkeys(names, "percent of context-cycles") | {CHANGE: "points"}
    return ordered
