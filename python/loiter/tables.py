"""The tables of a result: one Parquet file each, readable by pandas or DuckDB as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from loiter.engine import Json
from loiter.errors import InternalFault

_ROW_UNIT = "column unit"


def _column(name: str, kind: pa.DataType, description: str, unit: str | None = None) -> pa.Field:
    metadata = {"description": description} | ({} if unit is None else {"unit": unit})
    return pa.field(name, kind, metadata=metadata)


# What is counted is signed, so that differences are. What a guest chose can be any 64 bits.
_COUNT, _GIVEN = pa.int64(), pa.uint64()
_CONTEXT = _column("context", _COUNT, "context, counted over the machine from 0")
_HART = _column("hart", _COUNT, "hart, as the guest numbers it")
_COMPONENT = _column("component", pa.string(), "part of the machine, such as core0.l1d")
_UNIT = _column("unit", pa.string(), "unit of `value`")
_ACTIVITY = _column("activity", pa.string(), "what the hart did")
_CYCLES = _column("cycles", _COUNT, "cycles of the cores' clock", "cycles")


def _durations(name: str, what: str) -> list[pa.Field]:
    return [
        _column(f"{name}_sum_cycles", _COUNT, f"sum of the times {what}", "cycles"),
        _column(f"{name}_min_cycles", _COUNT, "the shortest", "cycles"),
        _column(f"{name}_max_cycles", _COUNT, "the longest", "cycles"),
        _column(f"{name}_log2_histogram", pa.list_(_COUNT), "them by the logarithm of their length"),
    ]


SCHEMAS: dict[str, pa.Schema] = {
    "counters": pa.schema(
        [
            _COMPONENT,
            _column("name", pa.string(), "the counter's name"),
            _UNIT,
            _column("value", _COUNT, "what was counted", _ROW_UNIT),
        ]
    ),
    "accounts": pa.schema(
        [_CONTEXT, _HART, _ACTIVITY, _column("slot", pa.string(), "what the cycles are charged to"), _CYCLES]
    ),
    "activities": pa.schema(
        [
            _CONTEXT,
            _HART,
            _ACTIVITY,
            _CYCLES,
            _column("instructions", _COUNT, "instructions that retired in it", "instructions"),
        ]
    ),
    "histograms": pa.schema(
        [
            _COMPONENT,
            _column("name", pa.string(), "the histogram's name"),
            _UNIT,
            _column("value", _COUNT, "the value", _ROW_UNIT),
            _column("cycles", _COUNT, "cycles in which the value was this", "cycles"),
        ]
    ),
    "seats": pa.schema(
        [
            _HART,
            _CONTEXT,
            _column("core", _COUNT, "core of the context"),
            _column("from_cycle", _COUNT, "first cycle in which the hart sat there, from power-on", "cycles"),
            _column("until_cycle", _COUNT, "first cycle in which it did not any more, or the end", "cycles"),
        ]
    ),
    "samples": pa.schema(
        [
            _column("sample", _COUNT, "its number, from 0"),
            _column("begin_cycle", _COUNT, "when it began, from power-on", "cycles"),
            _column("begin_instruction", _COUNT, "instructions that all harts had retired before", "instructions"),
            _CYCLES,
            _column("instructions", _COUNT, "instructions that all harts retired in it", "instructions"),
            _column("counts", pa.list_(_COUNT), "what was counted in it, by the rows of the tables (docs/results.md)"),
        ]
    ),
    "marks": pa.schema(
        [
            _HART,
            _column("kind", pa.string(), "which mark"),
            _column("value", _GIVEN, "what the program gave with it"),
            _column("cycle", _COUNT, "when it retired, from power-on", "cycles"),
            _column("retired", _COUNT, "instructions that the hart had retired by then", "instructions"),
        ]
    ),
    "reports": pa.schema(
        [
            _HART,
            _column("name", pa.string(), "what the program calls it"),
            _column("value", _GIVEN, "what it reported"),
            _column("cycle", _COUNT, "when, from power-on", "cycles"),
        ]
    ),
    "lock_reads": pa.schema(
        [
            _HART,
            _column("lock", _GIVEN, "address of the lock"),
            _column("reads", _COUNT, "loads of it while the hart waited", "loads"),
            _column("intervals", _COUNT, "intervals between such loads", "intervals"),
            _column("interval_sum_cycles", _COUNT, "their sum", "cycles"),
            _column("interval_min_cycles", _COUNT, "the shortest", "cycles"),
            _column("interval_max_cycles", _COUNT, "the longest", "cycles"),
            _column("log2_histogram", pa.list_(_COUNT), "intervals by the logarithm of their length", "intervals"),
        ]
    ),
    "locks": pa.schema(
        [
            _column("lock", _GIVEN, "address of the lock"),
            _column("lock_symbol", pa.string(), "its symbol and the offset in it, if it has a symbol"),
            _column("site", _GIVEN, "address of the probe that begins it, or where the lock function returns to"),
            _column("site_symbol", pa.string(), "its symbol likewise"),
            _HART,
            _column("acquisitions", _COUNT, "acquires that ended", "acquires"),
            _column(
                "contentions",
                _COUNT,
                "acquires that somebody who would not share held up: at the beginning, or meanwhile",
                "acquires",
            ),
            _column("bounces", _COUNT, "acquires of a lock that another hart had acquired last", "acquires"),
            *_durations("wait", "from the beginning of an acquire to its end"),
            *_durations("contended", "from the beginning to the end of an acquire that counts in contentions"),
            _column("holds", _COUNT, "releases", "releases"),
            *_durations("hold", "from the end of an acquire to the release"),
            _column("handovers", _COUNT, "acquires by a hart that waited at the release before", "acquires"),
            *_durations("handover", "from a release to the end of the acquire of a hart that waited by then"),
            _column("waiting", _COUNT, "acquires that contend and have not ended at the end of the run", "acquires"),
            _column("waiting_sum_cycles", _COUNT, "from their beginning until then, the sum", "cycles"),
            _column("waiting_max_cycles", _COUNT, "the longest", "cycles"),
        ]
    ),
}


def units(name: str) -> dict[str, str]:
    """The units of a table's columns; where a column `unit` says it row by row, that is said."""
    fields = [field for field in SCHEMAS[name] if b"unit" in field.metadata]
    return {field.name: field.metadata[b"unit"].decode() for field in fields}


def of(result: Json, names: Iterable[str] = SCHEMAS) -> dict[str, pa.Table]:
    """Tables of a native result. A column that only one side knows is an error: not left empty, not dropped."""
    return {name: _table(name, result[name], SCHEMAS[name]) for name in names}


def _table(name: str, rows: Sequence[Json], schema: pa.Schema) -> pa.Table:
    columns = set(schema.names)
    for row in rows:
        if row.keys() != columns:
            raise InternalFault(f"table {name}: only one side knows {', '.join(sorted(row.keys() ^ columns))}")
    return pa.Table.from_pylist(rows, schema=schema)


def of_rows(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """A table of rows that need not all have the same columns."""
    columns = dict.fromkeys(key for row in rows for key in row)
    return pa.Table.from_pylist([{column: row.get(column) for column in columns} for row in rows])


def encode(table: pa.Table) -> bytes:
    """The table as the bytes of a Parquet file; the same table gives the same bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data: bytes = sink.getvalue().to_pybytes()
    return data
