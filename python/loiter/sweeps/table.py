"""The table of a sweep: a row for each point, in the order of the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loiter import store
from loiter.engine import Json
from loiter.results import Result

if TYPE_CHECKING:
    import pandas as pd

POINTS, CSV, PAGE = "points.parquet", "points.csv", "report.html"
KEY, ERROR, ERROR_STATUS, RESULT = "key", "error", "error_status", "result"
LAST = (KEY, ERROR, ERROR_STATUS, RESULT)
_HALF_WIDTH = "half_width"
_UNITS = {"cycles": "cycles", "instructions": "instructions"}


def measured(result: Result) -> Json:
    """What a row says of a result: cycles, instructions, how a command ended, and every metric; of modes as `ipc.user`.
    Of a command on timed cores, cycles and instructions are those that were timed. Of means of samples also half of
    the interval, as `ipc.half_width`."""
    from loiter import metrics

    found = metrics.of(result) if result.has_tables else []
    around = {f"{name}.{_HALF_WIDTH}": value for name, value in metrics.half_widths(found).items()}
    took = {"cycles": result.cycles, "instructions": result.instructions}
    if "command" in result.manifest:
        if timed := result.manifest.get("timing_cycles"):
            took = {"cycles": timed, "instructions": result.manifest["timing_instructions"]}
        took["exit_status"] = result.manifest["exit_status"]
    return took | metrics.columns(found) | around


def units(columns: Sequence[str]) -> dict[str, str]:
    """The units of the columns that have one."""
    from loiter import metrics

    known = {metrics.column(each, group): each.unit for each in metrics.METRICS for group in each.groups} | _UNITS
    by_base = {column: column.removesuffix(f".{_HALF_WIDTH}") for column in columns}
    return {column: known[base] for column, base in by_base.items() if base in known}


def frame(rows: Sequence[Mapping[str, Any]], axes: Sequence[str]) -> pd.DataFrame:
    """The rows as a frame: axes first, then what was measured, then key, error, the exit status of such an error (1 the
    run failed, 2 the user's mistake, 3 a fault in loiter), and path of the result."""
    import pandas as pd

    between = dict.fromkeys(column for row in rows for column in row if column not in axes and column not in LAST)
    columns = [*axes, *between, *LAST]
    made: pd.DataFrame = pd.DataFrame(
        [{column: row.get(column) for column in columns} for row in rows], columns=columns
    )
    made[ERROR_STATUS] = made[ERROR_STATUS].astype("Int64")
    made.attrs["units"] = units(columns)
    return made


def save(directory: Path, made: pd.DataFrame) -> bool:
    """Writes the table as one Parquet file, whose fields carry the units, and as text. Returns whether it was another
    before."""
    import pyarrow as pa

    from loiter import tables

    table = pa.Table.from_pandas(_plain(made), preserve_index=False)
    of_columns = made.attrs["units"]
    fields = [
        field.with_metadata({"unit": of_columns[field.name]}) if field.name in of_columns else field
        for field in table.schema
    ]
    path = directory / POINTS
    data = tables.encode(table.cast(pa.schema(fields)))
    if path.is_file() and path.read_bytes() == data:
        return False
    store.save_text(directory / CSV, _plain(made).to_csv(index=False))
    store.save_bytes(path, data)
    return True


def load(directory: Path) -> dict[str, Json]:
    """The rows of an earlier sweep in this directory that have a result, by key. A damaged file has none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = directory / POINTS
    try:
        rows: list[Json] = pq.read_table(path).to_pylist() if path.is_file() else []
    except (OSError, pa.ArrowException):
        return {}
    return {row[KEY]: row for row in rows if row.get(KEY) and not row.get(ERROR)}


def _plain(made: pd.DataFrame) -> pd.DataFrame:
    """Columns of values of several kinds as text: Parquet has one kind a column."""
    plain: pd.DataFrame = made.copy()
    for column in plain.columns:
        kinds = {type(value) for value in plain[column] if value is not None}
        if (len(kinds - {int, float, bool}) and len(kinds) > 1) or kinds & {dict, list, tuple}:
            plain[column] = [None if value is None else str(value) for value in plain[column]]
    return plain
