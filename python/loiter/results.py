"""What a run gave: a directory that was found whole, with its tables as pandas frames.

Frames carry units: a column `unit` where rows have units of their own, else `frame.attrs["units"]`, by column.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from loiter.engine import Json

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

HOST = "host.json"
FILES = "files"
"""Directory of what a Linux program brought back."""
HOST_FILE = "host.toml"
"""Of a host with guests: the file that `loiter vm` runs it by."""
_ROI, _WORK = "roi", "work"


def regions(marks: Iterable[Json], clock_mhz: int | None) -> list[Json]:
    """What marks are the begin and the end of, in the order of their ends."""
    found = []
    begun: dict[tuple[int, str, int], Json] = {}
    for mark in marks:
        kind, _, end = str(mark["kind"]).partition("_")
        if kind not in (_ROI, _WORK):
            continue
        number = int(mark["value"]) if kind == _WORK else 0
        if end == "begin":
            begun[mark["hart"], kind, number] = mark
        elif begin := begun.pop((mark["hart"], kind, number), None):
            cycles, instructions = mark["cycle"] - begin["cycle"], mark["retired"] - begin["retired"]
            found.append(
                {
                    "hart": mark["hart"],
                    "kind": kind,
                    "number": number,
                    "begin_cycle": begin["cycle"],
                    "end_cycle": mark["cycle"],
                    "cycles": cycles,
                    "instructions": instructions,
                    "ipc": instructions / cycles if cycles else math.nan,
                    "time_us": cycles / clock_mhz if clock_mhz else math.nan,
                }
            )
    return found


@dataclass(frozen=True)
class Result:
    """A result directory that was found whole."""

    path: Path
    manifest: Json

    @property
    def has_tables(self) -> bool:
        """Whether there are any: cores of a system that booted need not have been timed."""
        return "tables" in self.manifest

    def table(self, name: str) -> pa.Table:
        """One of its tables."""
        import pyarrow.parquet as pq

        return pq.read_table(self.path / f"{name}.parquet")

    def rows(self, name: str) -> list[Json]:
        """One of its tables as a list of rows."""
        rows: list[Json] = self.table(name).to_pylist()
        return rows

    def host(self) -> Json:
        """What depends on the host."""
        host: Json = json.loads((self.path / HOST).read_text())
        return host

    @property
    def cycles(self) -> int:
        """Cycles of the cores' clock from power-on to the end."""
        return int(self.manifest["cycles"])

    @property
    def instructions(self) -> int:
        """Instructions that all harts retired."""
        return int(self.manifest["instructions"])

    @property
    def console(self) -> str:
        """The end of what the program printed; of a Linux program, all that the system's console said."""
        tail = self.manifest.get("console_tail")
        return self._text("console.txt") if tail is None else str(tail)

    @property
    def exit_status(self) -> int:
        """Of a Linux program: its exit status."""
        return int(self.manifest["exit_status"])

    @property
    def stdout(self) -> str:
        """Of a Linux program: what it wrote to standard output."""
        return self._text("stdout")

    @property
    def stderr(self) -> str:
        """Of a Linux program: what it wrote to standard error."""
        return self._text("stderr")

    @property
    def files(self) -> dict[str, Path]:
        """Of a Linux program: the files that came back, by their names; of a directory as `d/name`."""
        came = self.path / FILES
        return {path.relative_to(came).as_posix(): path for path in sorted(came.rglob("*")) if path.is_file()}

    @functools.cached_property
    def metrics(self) -> pd.DataFrame:
        """Named metrics, one a row: values for all modes, of user mode and of the kernel, unit, definition. Where they
        are means of samples, `half_width` is half of the 95 % interval around `all`."""
        import pandas as pd

        from loiter import metrics
        from loiter.counts import ALL, GROUPS

        rows = [
            {"metric": each.metric.name}
            | {group: each.values.get(group) for group in GROUPS}
            | {"half_width": each.half_widths.get(ALL)}
            | {"unit": each.metric.unit, "definition": each.metric.definition}
            for each in (metrics.of(self) if self.has_tables else [])
        ]
        frame: pd.DataFrame = pd.DataFrame(rows, columns=["metric", *GROUPS, "half_width", "unit", "definition"])
        for column in [*GROUPS, "half_width"]:
            frame[column] = frame[column].astype("float64")
        by_name: pd.DataFrame = frame.set_index("metric")
        return by_name

    @functools.cached_property
    def energy(self) -> pd.DataFrame:
        """Energy and power, each with its range and what moves it most; empty where the machine says nothing of them
        (docs/energy.md)."""
        import pandas as pd

        from loiter import energy

        found = energy.of(self)
        columns = ["value", "low", "high", "unit", "moved_by", "definition"]
        rows = [] if found is None else energy.rows(found)
        frame = pd.DataFrame([row | {"value": row["all"]} for row in rows], columns=["name", *columns])
        by_name: pd.DataFrame = frame.set_index("name")
        return by_name

    @functools.cached_property
    def counters(self) -> pd.DataFrame:
        """Every counter of every component: component, name, unit, value."""
        return self._frame("counters")

    @functools.cached_property
    def accounts(self) -> pd.DataFrame:
        """Where the cycles of each context went: context, hart, activity, slot, cycles."""
        return self._frame("accounts")

    @functools.cached_property
    def activities(self) -> pd.DataFrame:
        """What harts did: context, hart, activity, cycles, instructions."""
        return self._frame("activities")

    @functools.cached_property
    def histograms(self) -> pd.DataFrame:
        """In how many cycles a value was such: component, name, unit, value, cycles."""
        return self._frame("histograms")

    @functools.cached_property
    def seats(self) -> pd.DataFrame:
        """Which hart sat where when: hart, context, core, from_cycle, until_cycle."""
        return self._frame("seats")

    @functools.cached_property
    def samples(self) -> pd.DataFrame:
        """What a plan that repeats has timed: sample, begin_cycle, begin_instruction, cycles, instructions, ipc."""
        from loiter import sampling, tables

        frame = sampling.frame(self.rows(sampling.TABLE) if self.has_tables else [])
        frame.attrs["units"] = tables.units(sampling.TABLE) | {"ipc": "instructions/cycle"}
        return frame

    @functools.cached_property
    def marks(self) -> pd.DataFrame:
        """Marks that the program set: hart, kind, value, cycle, and instructions the hart had retired by then."""
        return self._frame("marks")

    @functools.cached_property
    def reports(self) -> pd.DataFrame:
        """Values that the program reported: hart, name, value, cycle."""
        return self._frame("reports")

    @functools.cached_property
    def regions(self) -> pd.DataFrame:
        """What the program marked the begin and the end of: regions of interest, and repetitions by their number."""
        import pandas as pd

        columns = ["hart", "kind", "number", "begin_cycle", "end_cycle", "cycles", "instructions", "ipc", "time_us"]
        rows = regions(self.rows("marks") if self.has_tables else [], self.manifest["clock_mhz"])
        frame: pd.DataFrame = pd.DataFrame(rows, columns=columns)
        frame.attrs["units"] = {
            "begin_cycle": "cycles",
            "end_cycle": "cycles",
            "cycles": "cycles",
            "instructions": "instructions",
            "ipc": "instructions/cycle",
            "time_us": "microseconds",
        }
        return frame

    def _text(self, name: str) -> str:
        return (self.path / name).read_text(encoding="utf-8", errors="replace")

    def _frame(self, name: str) -> pd.DataFrame:
        from loiter import tables

        table = self.table(name)
        frame: pd.DataFrame = table.to_pandas()
        frame.attrs["units"] = tables.units(name)
        return frame
