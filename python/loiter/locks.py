"""What locks cost: the rows of `locks.parquet` put together by lock, by place of the program or by hart.

Columns are those of Linux's /proc/lock_stat where that has them, in cycles instead of microseconds, and beside them
hand-overs, percentiles, fairness and waits that had not ended (`waiting`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loiter.engine import Json
from loiter.errors import UserFault, unknown

if TYPE_CHECKING:
    import pandas as pd

    from loiter.results import Result

KEYS = ("lock", "lock_symbol", "class", "site", "site_symbol", "hart")
"""What rows can be put together by. A class is the symbol that a lock belongs to, or the function that acquires it."""

PERCENTILES = (50, 90, 99)
"""Of waits, sections and hand-overs, as upper bounds: a histogram has powers of two."""

# What counts them, by name.
_DURATIONS = {"wait": "acquisitions", "contended": "contentions", "hold": "holds", "handover": "handovers"}


@dataclass(frozen=True)
class Fairness:
    """How evenly harts get a lock."""

    jain: float
    """Jain's index of acquisitions by hart: 1 where all have as many, 1/n where one of n has all."""
    busier_half: float
    """Share of the acquisitions that the busier half of the harts have: 0.5 where all have as many."""
    longest_wait_cycles: int
    """The longest that a hart has waited."""


def fairness(rows: Iterable[Mapping[str, Any]]) -> Fairness:
    """Fairness of one lock, over the harts that have acquired it."""
    by_hart: dict[int, int] = {}
    longest = 0
    for row in rows:
        by_hart[row["hart"]] = by_hart.get(row["hart"], 0) + row["acquisitions"]
        longest = max(longest, row["wait_max_cycles"])
    counts = sorted(by_hart.values(), reverse=True)
    total, squares = sum(counts), sum(count * count for count in counts)
    if not total:
        raise UserFault("fairness of a lock that nobody has acquired.")
    half = len(counts) / 2
    whole = int(half)
    # Of an odd number of harts, half of the one in the middle belongs to the busier half.
    busier = sum(counts[:whole]) + (half - whole) * (counts[whole] if whole < len(counts) else 0)
    return Fairness(total * total / (len(counts) * squares), busier / total, longest)


def percentile(histogram: Sequence[int], percent: float) -> int:
    """The least power of two below which at least `percent` of the durations are. 0 where there are none."""
    needed = sum(histogram) * percent / 100
    seen = 0
    for exponent, count in enumerate(histogram):
        seen += count
        if count and seen >= needed:
            return int(2 ** (exponent + 1))
    return 0


def of_directory(directory: Path) -> tuple[Result, list[Json]]:
    """A result and the rows of its `locks.parquet`. Raises `UserFault` where there are none."""
    from loiter import store

    if not (directory / store.MANIFEST).is_file():
        raise UserFault(f"{directory}: no result directory; `loiter run`, `exec` and `boot` write one with --out.")
    try:
        result = store.read(directory)
    except store.Corrupt as error:
        raise UserFault(f"{directory}: not a whole result: {error}. Run it again with --out.") from None
    rows = result.rows("locks") if result.has_tables else []
    if not rows:
        raise UserFault(f"{directory}: no locks were counted; run it with --lock-stats, or give the program probes.")
    return result, rows


def table(rows: Sequence[Mapping[str, Any]], by: Sequence[str] = ("lock",)) -> pd.DataFrame:
    """A row for each lock, or for each of what `by` names (`KEYS`); those first on which most time was waited,
    with waits that had not ended."""
    import pandas as pd

    for key in by:
        if key not in KEYS:
            raise unknown("key", key, KEYS)
    groups: dict[tuple[int | str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(lock_class(row) if key == "class" else row[key] for key in by), []).append(row)
    found = [dict(zip(by, group, strict=True)) | _sums(members) for group, members in groups.items()]
    found.sort(key=lambda row: (-row["waittime-total"] - row.get("waitingtime-total", 0), *(row[key] for key in by)))
    frame: pd.DataFrame = pd.DataFrame(found)
    return frame


def lock_class(row: Mapping[str, Any]) -> str:
    """The symbol of a static lock. Of others, which have none, the function that acquires it stands for them, in
    parentheses."""
    lock, site = (str(row[name]).partition("+")[0] for name in ("lock_symbol", "site_symbol"))
    return lock or f"({site or hex(row['site'])})"


def _sums(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    def total(name: str) -> int:
        return sum(int(row[name]) for row in rows)

    out: dict[str, Any] = {
        "acq-bounces": total("bounces"),
        "acquisitions": total("acquisitions"),
        "contentions": total("contentions"),
        "handovers": total("handovers"),
    }
    for name, counted in _DURATIONS.items():
        # Native runs do not keep the waits of acquires that contend apart.
        if f"{name}_sum_cycles" not in rows[0]:
            continue
        count, cycles = total(counted), total(f"{name}_sum_cycles")
        some = [row for row in rows if row[counted]]
        histogram = added([row[f"{name}_log2_histogram"] for row in rows])
        out[f"{name}time-min"] = min((int(row[f"{name}_min_cycles"]) for row in some), default=0)
        out[f"{name}time-max"] = max((int(row[f"{name}_max_cycles"]) for row in some), default=0)
        out[f"{name}time-total"] = cycles
        out[f"{name}time-avg"] = cycles / count if count else 0.0
        out |= {f"{name}time-p{percent}": percentile(histogram, percent) for percent in PERCENTILES}
    # Native runs end when all have got what they wait for.
    if "waiting" in rows[0]:
        count, cycles = total("waiting"), total("waiting_sum_cycles")
        out["waiting"] = count
        out["waitingtime-max"] = max(int(row["waiting_max_cycles"]) for row in rows)
        out["waitingtime-total"] = cycles
        out["waitingtime-avg"] = cycles / count if count else 0.0
    if out["acquisitions"]:
        fair = fairness(rows)
        out |= {"jain": fair.jain, "busier-half": fair.busier_half}
    return out


def added(histograms: Sequence[Sequence[int]]) -> list[int]:
    """The sum of histograms of any length."""
    longest = max((len(each) for each in histograms), default=0)
    return [sum(each[at] for each in histograms if at < len(each)) for at in range(longest)]
