"""Samples of a long run: what they were, and how sure it is what they say of the rest.

A plan that repeats ("repeat (reference warm for 990k instructions, timing for 10k instructions)") times a sample each
time around; all metrics are of the samples together then. How far they may be from those of the whole run follows from
how the samples differ, by the jackknife: each metric is worked out again without one group of samples after the other.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loiter.counts import TABLES
from loiter.engine import Json

if TYPE_CHECKING:
    import pandas as pd

    from loiter.results import Result

TABLE = "samples"
CONFIDENCE = 0.95
"""Of the intervals: that of so many of a hundred, the truth lies in it."""

LEAST = 30
"""Fewer samples have no interval: it goes by the normal distribution, which means of fewer need not have."""

_GROUPS = 100
"""Samples are left out in so many groups at most, so that many samples do not take long."""

_SEED = 20020528
_QUANTILE = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)

_COUNTED = (("counters", "value"), ("activities", "cycles"), ("activities", "instructions"), ("histograms", "cycles"))
"""What the counts of a sample are of, in their order: columns of tables, row by row."""


@dataclass(frozen=True)
class Samples:
    """The samples of a run, and the tables at its end, whose rows their counts follow."""

    samples: Sequence[Json]
    tables: Mapping[str, Sequence[Json]]

    def together(self) -> Mapping[str, Sequence[Json]]:
        """The tables of all samples together."""
        return self._tables(_sum([each["counts"] for each in self.samples]))

    def each(self) -> list[Mapping[str, Sequence[Json]]]:
        """The tables of each sample."""
        return [self._tables(one["counts"]) for one in self.samples]

    def half_widths(self, measure: Callable[[Mapping[str, Sequence[Json]]], Mapping[str, float]]) -> dict[str, float]:
        """Half of the interval of each value that `measure` finds in tables; none of those that are not always there,
        or of fewer than `LEAST` samples."""
        if len(self.samples) < LEAST:
            return {}
        whole = _sum([each["counts"] for each in self.samples])
        measured = []
        for group in _groups(len(self.samples)):
            left_out = _sum([self.samples[number]["counts"] for number in group])
            measured.append(measure(self._tables([a - b for a, b in zip(whole, left_out, strict=True)])))
        always = set(measured[0]).intersection(*measured)
        return {name: _half_width([each[name] for each in measured]) for name in measured[0] if name in always}

    def _tables(self, counts: Sequence[int]) -> dict[str, list[Json]]:
        tables = {name: [dict(row) for row in rows] for name, rows in self.tables.items()}
        places = ((row, column) for name, column in _COUNTED for row in tables[name])
        for (row, column), count in zip(places, counts, strict=True):
            row[column] = count
        return tables


def counted(result: Result) -> tuple[Mapping[str, Sequence[Json]], Samples | None]:
    """The tables of a result that metrics are worked out from; of its samples, if there are any."""
    tables = {name: result.rows(name) for name in TABLES}
    rows = result.rows(TABLE)
    if not rows:
        return tables, None
    samples = Samples(rows, tables)
    return samples.together(), samples


def ipc(samples: Sequence[Json]) -> tuple[float, float | None]:
    """Instructions a cycle of all harts over all samples, and half of its interval."""
    cycles, instructions = (sum(each[name] for each in samples) for name in ("cycles", "instructions"))
    if len(samples) < LEAST:
        return instructions / cycles, None
    rates = []
    for group in _groups(len(samples)):
        fewer = instructions - sum(samples[number]["instructions"] for number in group)
        rates.append(fewer / (cycles - sum(samples[number]["cycles"] for number in group)))
    return instructions / cycles, _half_width(rates)


def summary(samples: Sequence[Json]) -> Json:
    """How many samples there are, their mean length, their IPC and half of its interval."""
    rate, half_width = ipc(samples)
    mean = sum(each["instructions"] for each in samples) / len(samples)
    return {"number": len(samples), "mean_instructions": mean, "ipc": rate, "half_width": half_width}


def describe(found: Json) -> str:
    """A line on a summary for a person."""
    sure = f" ± {found['half_width']:.3f}" if found["half_width"] is not None else ""
    text = f"{found['number']:,} of {found['mean_instructions']:,.0f} instructions: {found['ipc']:.3f}{sure} a cycle"
    return f"{text} ({CONFIDENCE:.0%})" if sure else f"{text}; no interval of fewer than {LEAST}"


def frame(rows: Sequence[Json]) -> pd.DataFrame:
    """A row for each sample."""
    import pandas as pd

    columns = ["sample", "begin_cycle", "begin_instruction", "cycles", "instructions"]
    made: pd.DataFrame = pd.DataFrame([{name: row[name] for name in columns} for row in rows], columns=columns)
    made["ipc"] = made["instructions"] / made["cycles"]
    return made


def _groups(samples: int) -> list[list[int]]:
    """The samples, each in one group, by lot: neighbours are alike, and so would a group of neighbours be."""
    order = list(range(samples))
    random.Random(_SEED).shuffle(order)
    number = min(_GROUPS, samples)
    return [order[first::number] for first in range(number)]


def _half_width(left_out: Sequence[float]) -> float:
    """By the values without one of the groups each."""
    number, mean = len(left_out), statistics.fmean(left_out)
    variance = (number - 1) / number * sum((value - mean) ** 2 for value in left_out)
    return _QUANTILE * math.sqrt(variance)


def _sum(rows: Sequence[Sequence[int]]) -> list[int]:
    import numpy as np

    summed: list[int] = np.asarray(rows, dtype=np.int64).sum(axis=0).tolist()
    return summed
