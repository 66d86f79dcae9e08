"""What differs between results, or between machines."""

from __future__ import annotations

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

if TYPE_CHECKING:
    import pandas as pd

_KEY = 24
"""As much of a directory's name as is shown: results in the store are called by their keys, of 64 characters."""

CHANGE = "change"
"""Column of what the last has otherwise than the first: percent of the first, or points of what is in percent."""


@dataclass(frozen=True)
class Comparison:
    """What differs, a frame each; columns are the things compared, by their names.

    `parameters`: those of the machines that are not the same. `metrics`: all that any of the results has, with `unit`
    and `change`; of means of samples also half of the 95 % interval, as `± NAME`. `accounts`: where the context-cycles
    went, in percent, by activity and slot, with `change` in points; the greatest change first. The last two are None
    where not all are results with tables.
    """

    names: tuple[str, ...]
    parameters: pd.DataFrame
    metrics: pd.DataFrame | None
    accounts: pd.DataFrame | None


def compare(*things: str | Path | Machine | Result) -> Comparison:
    """Compares two or more: results, directories of results, machines, or names and files of machines."""
    if len(things) < 2:
        raise UserFault("there is nothing to compare it with: name two or more.")
    found = [_open(thing) for thing in things]
    names = _names(found)
    results = [each for each in found if isinstance(each, Result) and each.has_tables]
    measured = len(results) == len(found)
    return Comparison(
        names,
        _parameters(found, names),
        _metrics(results, names) if measured else None,
        _accounts(results, names) if measured else None,
    )


def _open(thing: str | Path | Machine | Result) -> Machine | Result:
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
    return machines.load(engines.load(), str(thing))


def _names(found: Sequence[Machine | Result]) -> tuple[str, ...]:
    """A name of its own for each: of machines with what is changed of them, of results the directory or its key."""
    short = [each.path.name[:_KEY] if isinstance(each, Result) else " ".join([each.name, *each.sets]) for each in found]
    whole = [
        each.path.as_posix() if isinstance(each, Result) else name for each, name in zip(found, short, strict=True)
    ]
    seen: Counter[str] = Counter()
    names = []
    for name in short if len(set(short)) == len(short) else whole:
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(names)


def _parameters(found: Sequence[Machine | Result], names: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    values = [_values(each) for each in found]
    keys = dict.fromkeys(key for each in values for key in each)
    rows = {key: [each.get(key) for each in values] for key in keys}
    differing = {key: row for key, row in rows.items() if any(value != row[0] for value in row)}
    frame: pd.DataFrame = pd.DataFrame.from_dict(differing, orient="index", columns=list(names), dtype=object)
    frame.index.name = "parameter"
    return frame


def _values(thing: Machine | Result) -> dict[str, Any]:
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
    rows = {}
    for metric in metrics.METRICS:
        for group in metric.groups:
            name = metrics.column(metric, group)
            row = [each.get(name) for each in values]
            if any(value is not None for value in row):
                around = [each.get(name) for _, each in sampled]
                rows[name] = [*row, *around, _change(row[0], row[-1], metric.unit), metric.unit]
    numbers = [*names, *(column for column, _ in sampled), CHANGE]
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
