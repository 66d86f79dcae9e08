"""The tables of a result: one Parquet file each, readable by pandas or DuckDB as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from loiter.engine import Json
from loiter.errors import InternalFault

SCHEMAS: dict[str, pa.Schema] = {
    "counters": pa.schema(
        [("component", pa.string()), ("name", pa.string()), ("unit", pa.string()), ("value", pa.uint64())]
    ),
    "accounts": pa.schema(
        [
            ("context", pa.uint32()),
            ("hart", pa.uint32()),
            ("activity", pa.string()),
            ("slot", pa.string()),
            ("cycles", pa.uint64()),
        ]
    ),
    "activities": pa.schema(
        [
            ("context", pa.uint32()),
            ("hart", pa.uint32()),
            ("activity", pa.string()),
            ("cycles", pa.uint64()),
            ("instructions", pa.uint64()),
        ]
    ),
    "histograms": pa.schema(
        [
            ("component", pa.string()),
            ("name", pa.string()),
            ("unit", pa.string()),
            ("value", pa.uint64()),
            ("cycles", pa.uint64()),
        ]
    ),
    "marks": pa.schema(
        [
            ("hart", pa.uint32()),
            ("kind", pa.string()),
            ("value", pa.uint64()),
            ("cycle", pa.uint64()),
            ("retired", pa.uint64()),
        ]
    ),
    "reports": pa.schema(
        [("hart", pa.uint32()), ("name", pa.string()), ("value", pa.uint64()), ("cycle", pa.uint64())]
    ),
    "lock_reads": pa.schema(
        [
            ("hart", pa.uint32()),
            ("lock", pa.uint64()),
            ("reads", pa.uint64()),
            ("intervals", pa.uint64()),
            ("interval_sum_cycles", pa.uint64()),
            ("interval_min_cycles", pa.uint64()),
            ("interval_max_cycles", pa.uint64()),
            ("log2_histogram", pa.list_(pa.uint64())),
        ]
    ),
}


def of(result: Json) -> dict[str, pa.Table]:
    """The tables of a native result. A column that only one side knows is an error: not left empty, not dropped."""
    return {name: _table(name, result[name], schema) for name, schema in SCHEMAS.items()}


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
