"""Curves, tables, points and statements of programs on Linux."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from loiter import reference
from loiter.studies.base import Curves, Grid, Limit, Point, Side, Statement, Tolerance
from loiter.studies.catnap2020 import linux, mixes
from loiter.studies.catnap2020.findings import ALIKE
from loiter.studies.catnap2020.grid import CLOCK_MHZ, PAPER
from loiter.studies.catnap2020.mixes import FIGURE_3, FIGURE_11, MIXES, TABLES_2_3, Mixed
from loiter.studies.catnap2020.torture import ALL, AUTOMATIC, LIST, NONE

Judgement = tuple[bool | None, str]
NAPS = (ALL, LIST, AUTOMATIC)
THRESHOLD_US = float(reference.lookup(PAPER, "locktorture.harmless_catnap_threshold_us"))
LISTED = 20
"""Locks in either table of the paper."""


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _told(values: dict[str, float], digits: int = 3) -> str:
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in values.items())


def curves(found: Mixed, exhibits: Sequence[str]) -> list[Curves]:
    """What is a curve."""
    out = [_figure_3(found)] if FIGURE_3 in exhibits else []
    return out + (_figure_11(found) if FIGURE_11 in exhibits else [])


def grids(found: Mixed, exhibits: Sequence[str]) -> list[Grid]:
    """What is a table."""
    out = _tables_2_3(found) if TABLES_2_3 in exhibits else []
    return out + ([_table(found)] if FIGURE_11 in exhibits else [])


def _figure_3(found: Mixed) -> Curves:
    """The share of waits by threads."""
    return Curves(
        FIGURE_3,
        "Figure 3: time spent waiting for locks, without naps",
        "Of the time of CPUs that do not sleep: waits for spin locks, and for mutexes whose owner runs.",
        "threads",
        "%",
        {
            mix: [(float(n), 100 * found.spinning(mix, NONE, n)) for n in found.scale.threads]
            for mix in found.scale.mixes
        },
        runs={(mix, float(n)): found.scale.cell(mix, NONE, n).label for mix, n in found.scale.cases},
    )


def _figure_11(found: Mixed) -> list[Curves]:
    """Time and energy by threads, a figure for each mix."""
    figures = []
    for what, of, each_of in _KINDS:
        for mix in found.scale.mixes:
            threads = found.scale.threads
            parts = {each: [each_of(found, mix, each, n) for n in threads] for each in NAPS}
            figures.append(
                Curves(
                    f"{FIGURE_11}_{what}_{mix}",
                    f"Figure 11: {what} of {mix}",
                    "For the same work, over that without naps. Bars: from the least to the greatest part of a window.",
                    "threads",
                    f"{what} over that without naps",
                    {each: [(float(n), of(found, mix, each, n)) for n in threads] for each in NAPS},
                    runs={(each, float(n)): found.scale.cell(mix, each, n).label for each in NAPS for n in threads},
                    spans={each: [(min(ratios), max(ratios)) for ratios in parts[each]] for each in NAPS},
                )
            )
    return figures


def _table(found: Mixed) -> Grid:
    """Time and energy of each mix, with the ranges of parts of a window."""
    rows = []
    for mix, n in found.scale.cases:
        cells = [f"{100 * found.spinning(mix, NONE, n):.1f}"]
        for _, of, each_of in _KINDS:
            cells += [_ranged(of(found, mix, each, n), each_of(found, mix, each, n)) for each in NAPS]
        rows.append((f"{mix}, {n}", *cells))
    heads = (
        *("mix, threads", "waits, %"),
        *(f"time, {each}" for each in NAPS),
        *(f"energy, {each}" for each in NAPS),
    )
    caption = (
        f"For the same work, over that without naps; {found.scale.harts} CPUs of {found.scale.cores} cores. Work is "
        "instructions of programs and of the kernel, but for those that take locks or wait, in a window of "
        f"{found.scale.cycles:,} cycles, which begins {found.scale.learning_cycles:,} after naps do. "
        + _run_in(found.scale)
        + "Waits: share of the time of CPUs that do not sleep, without naps."
    )
    return Grid(FIGURE_11, "Programs with naps by selection", caption, heads, tuple(rows))


def _ranged(value: float, parts: Sequence[float]) -> str:
    if len(parts) == 1:
        return f"{value:.3f}"
    return f"{value:.3f} ({min(parts):.3f} to {max(parts):.3f})"


def _run_in(scale: mixes.Scale) -> str:
    """How mixes with long waits are run."""
    if not scale.long_waits:
        return ""
    long = mixes.LONG_WAITS
    return (
        f"{' and '.join(scale.long_waits)} run on timed cores for {long.run_in_cycles:,} cycles a thread before naps "
        f"begin, and their window is of {long.cycles:,}: from the least to the greatest of its {long.parts} parts. "
    )


Lock = dict[str, Any]


def contended(found: Mixed) -> list[Lock]:
    """Classes of locks that anybody waited for, of each mix, those first on which one waits longest."""
    out = []
    for mix in found.scale.mixes:
        rows = found.locks(mix).to_dict("records")
        acquisitions = sum(row["acquisitions"] for row in rows)
        for row in rows:
            if not row["contentions"] or not row["acquisitions"]:
                continue
            out.append(
                {
                    "mix": mix,
                    "lock": row["class"],
                    "acquisitions": row["acquisitions"],
                    "contentions": row["contentions"],
                    "share_of_acquisitions_percent": 100 * row["acquisitions"] / acquisitions,
                    "contended_percent": 100 * row["contentions"] / row["acquisitions"],
                    "hold_mean_us": row["holdtime-avg"] / CLOCK_MHZ,
                    "wait_mean_us": row["contendedtime-avg"] / CLOCK_MHZ,
                    "wait_total_us": row["contendedtime-total"] / CLOCK_MHZ,
                }
            )
    return sorted(out, key=lambda row: (-row["wait_mean_us"], row["mix"], row["lock"]))


def _tables_2_3(found: Mixed) -> list[Grid]:
    """The locks with the longest waits, and those with the shortest holds."""
    known = contended(found)
    kinds = (
        ("table_2", "Table 2: the longest waits", known),
        ("table_3", "Table 3: the shortest holds", sorted(known, key=lambda row: row["hold_mean_us"])),
    )
    columns = (
        *("lock", "mix", "of acquisitions, %", "held, us", "contended, %"),
        *("waited, us", "waited in all, us"),
    )
    longer = sum(row["hold_mean_us"] > THRESHOLD_US for row in known)
    caption = (
        f"Without naps, {max(found.scale.threads)} threads. In parentheses: the function that acquires a lock without "
        f"a name. A wait is one for a lock that another has. Of {len(known)} classes, {longer} are held longer than "
        f"{THRESHOLD_US:g} us in the mean. Mutexes and semaphores are among them."
    )
    tables = [Grid(name, title, caption, columns, tuple(map(_row, rows[:LISTED])), 2) for name, title, rows in kinds]
    return [*tables, _waiting(found)]


def _waiting(found: Mixed) -> Grid:
    """Waits that neither table has, since they do not end in the window."""
    known = [(mix, row) for mix in found.scale.mixes for row in found.locks(mix).to_dict("records") if row["waiting"]]
    known.sort(key=lambda each: (-each[1]["waitingtime-total"], each[0], each[1]["class"]))
    rows = [
        (
            row["class"],
            mix,
            f"{row['waiting']:,}",
            f"{row['waitingtime-avg'] / CLOCK_MHZ:,.1f}",
            f"{row['waitingtime-max'] / CLOCK_MHZ:,.1f}",
        )
        for mix, row in known
    ]
    caption = (
        f"Without naps, {max(found.scale.threads)} threads. Who waits when the window ends, and for how long by then, "
        "since the acquire began; tables 2 and 3 have waits that have ended. Those with most time first."
    )
    columns = ("lock", "mix", "wait", "so far, us", "longest, us")
    return Grid("waiting", "Waits that go on when the window ends", caption, columns, tuple(rows[:LISTED]), 2)


def _row(lock: Lock) -> tuple[str, ...]:
    return (
        lock["lock"],
        lock["mix"],
        f"{lock['share_of_acquisitions_percent']:.1f}",
        f"{lock['hold_mean_us']:.2f}",
        f"{lock['contended_percent']:.1f}",
        f"{lock['wait_mean_us']:.1f}",
        f"{lock['wait_total_us']:,.0f}",
    )


_KINDS = (("time", Mixed.time, Mixed.times), ("energy", Mixed.energy, Mixed.energies))


def _saved(found: Mixed, of: Callable[[Mixed, str, str, int], float], selection: str) -> dict[tuple[str, int], float]:
    """Percent that naps save, by mix and threads."""
    return {(mix, n): 100 * (1 - of(found, mix, selection, n)) for mix, n in found.scale.cases}


def _saved_with(found: Mixed, of: Callable[[Mixed, str, str, int], float], selection: str, threads: int) -> float:
    """The mean of all mixes."""
    saved = _saved(found, of, selection)
    return _mean([saved[mix, threads] for mix in found.scale.mixes])


def _counts(scale: mixes.Scale) -> dict[str, int]:
    """By the paper's threads, on 256 contexts, ours that have as many a core."""
    ours = (*(each * scale.cores for each in range(1, mixes.CONTEXTS)), scale.most)
    return dict(zip(("64", "128", "192", "255"), ours, strict=True))


def points(found: Mixed, exhibits: Sequence[str], source: str) -> list[Point]:
    """What the paper gives as numbers."""
    out: list[Point] = []
    counts, _point = _counts(found.scale), partial(_point_of, found.scale)
    if FIGURE_11 in exhibits:
        for what, of, _ in _KINDS:
            name = f"all_catnap_{what}_reduction_average_percent"
            for key in reference.lookup(PAPER, f"application.{name}"):
                if counts[key] in found.scale.threads:
                    out.append(_point(f"{name}.{key}", _saved_with(found, of, ALL, counts[key]), source))
        for selection, name in ((ALL, "all_catnap"), (LIST, "selective_catnap")):
            for what, of, _ in _KINDS:
                saved = list(_saved(found, of, selection).values())
                out.append(_point(f"{name}.{what}_average_percent", _mean(saved), source))
                out.append(_point(f"{name}.{what}_max_percent", max(saved), source))
        for what, of, _ in _KINDS:
            of_vips = _saved(found, of, ALL).get((mixes.VIPS.name, found.scale.cores))
            out.append(_point(f"vips_64_threads.{what}_reduction_percent", of_vips, source))
        of_files = _saved(found, Mixed.time, ALL)[mixes.FSERVER.name, found.scale.most]
        out.append(_point("fserver_255_threads.all_catnap_time_reduction_percent", of_files, source))
    if FIGURE_3 in exhibits:
        shares = {(mix, n): 100 * found.spinning(mix, NONE, n) for mix, n in found.scale.cases}
        out.append(_point("fserver_255_spin_share_percent", shares[mixes.FSERVER.name, found.scale.most], source))
        out.append(_point("spin_share_of_cycles_max_percent", max(shares.values()), source, Side.AT_MOST))
        few = max(share for (mix, n), share in shares.items() if n == found.scale.cores and mix != mixes.VIPS.name)
        out.append(_point("spin_share_of_cycles_63_threads_max_percent", few, source, Side.AT_MOST))
    return out


def _point_of(scale: mixes.Scale, key: str, ours: float | None, source: str, side: Side | None = None) -> Point:
    key = f"application.{key}"
    published = reference.lookup(PAPER, key)
    note = ""
    if scale.harts != linux.MOST_HARTS:
        note = f"ours: {scale.harts} CPUs, as many threads a core"
    if ours is None:
        note = "not at this scale"
    if side is not None:
        return Point(key, "%", ours, published, source, note, limit=Limit(side, published))
    return Point(key, "%", ours, published, source, note, Tolerance(30, relative=True))


def _spin_grows(found: Mixed) -> Judgement:
    """In each mix that ever waits for more than 1 %, each number of threads has a greater share than the one before."""
    scale = found.scale
    shares = {mix: [100 * found.spinning(mix, NONE, n) for n in scale.threads] for mix in scale.mixes}
    waits = [each for each in shares.values() if max(each) > 1]
    told = "; ".join(f"{mix} " + ", ".join(f"{share:.1f}" for share in each) for mix, each in shares.items())
    grows = all(after > before for each in waits for before, after in pairwise(each))
    return bool(waits) and grows, f"percent with {', '.join(map(str, found.scale.threads))} threads: {told}"


def _no_gain_alone(found: Mixed) -> Judgement:
    """With a thread a core time and energy change by less than 2 %, but for vips."""
    others = [mix for mix in found.scale.mixes if mix != mixes.VIPS.name]
    values = {f"{mix} {what}": of(found, mix, ALL, found.scale.cores) for mix in others for what, of, _ in _KINDS}
    return all(abs(1 - value) < ALIKE for value in values.values()), _told(values)


def _superlinear(found: Mixed) -> Judgement:
    """From one number of threads to the next the mean saving of time grows by more than the threads do."""
    saved = {n: _saved_with(found, Mixed.time, ALL, n) for n in found.scale.threads if n > found.scale.cores}
    told = ", ".join(f"{n} threads {value:.1f} %" for n, value in saved.items())
    pairs = list(pairwise(saved.items()))
    if not pairs:
        return None, "not measured: this scale has one number of threads above one a core"
    return all(after / m > before / n > 0 for (n, before), (m, after) in pairs), told


def _energy_more(found: Mixed) -> Judgement:
    """In the mean of mixes energy falls by more than time, with each number of threads above one a core."""
    holds, told = True, []
    for selection in (ALL, LIST):
        for n in [each for each in found.scale.threads if each > found.scale.cores]:
            time, joules = (_saved_with(found, of, selection, n) for _, of, _ in _KINDS)
            holds &= joules > time
            told.append(f"{selection}, {n} threads: time {time:.1f} %, energy {joules:.1f} %")
    return holds, "; ".join(told)


def _few_dominate(found: Mixed) -> Judgement:
    """In each mix the three locks most waited for have nine tenths of the waiting, in fserver one has half."""
    shares, first = {}, 1.0
    for mix in found.scale.mixes:
        waits = sorted((float(row["wait_total_us"]) for row in contended(found) if row["mix"] == mix), reverse=True)
        shares[mix] = sum(waits[:3]) / sum(waits) if waits else 1.0
        if mix == mixes.FSERVER.name and waits:
            first = waits[0] / sum(waits)
    holds = min(shares.values()) >= 0.9 and first >= 0.5
    return holds, f"three locks: {_told(shares, 2)}; the first of fserver {first:.2f}"


def _files_gain_most(found: Mixed) -> Judgement:
    """Of all mixes and threads, naps of all save most time in fserver with the most threads."""
    saved = _saved(found, Mixed.time, ALL)
    best = max(saved, key=lambda key: saved[key])
    files = (mixes.FSERVER.name, max(found.scale.threads))
    told = f"fserver {saved[files]:.1f} %; most: {best[0]} with {best[1]} threads, {saved[best]:.1f} %"
    return best == files, told


def _list_beats_all(found: Mixed) -> Judgement:
    """The list saves more than naps of all in mean and maximum, of time and of energy."""
    holds, told = True, []
    for what, of, _ in _KINDS:
        ours, everybody = (list(_saved(found, of, each).values()) for each in (LIST, ALL))
        holds &= _mean(ours) > _mean(everybody) and max(ours) > max(everybody)
        told.append(
            f"{what}: list {_mean(ours):.1f} % and at most {max(ours):.1f} %, all {_mean(everybody):.1f} % and "
            f"{max(everybody):.1f} %"
        )
    return holds, "; ".join(told)


def _raytrace_same(found: Mixed) -> Judgement:
    """Time and energy of raytrace change by less than 2 %, whoever naps."""
    if mixes.RAYTRACE.name not in found.scale.mixes:
        return None, _not_there(mixes.RAYTRACE.name)
    values = {
        f"{each}, {n} threads, {what}": of(found, mixes.RAYTRACE.name, each, n)
        for each in (ALL, LIST)
        for n in found.scale.threads
        for what, of, _ in _KINDS
    }
    return all(abs(1 - value) < ALIKE for value in values.values()), _told(values)


SHORT_WAIT_US = 3
"""The longest mean wait in the paper's table of the shortest holds, but for one lock."""


def _short_short(found: Mixed) -> Judgement:
    """Of the locks with the shortest holds, all but a tenth are waited for as shortly as in the paper."""
    shortest = sorted(contended(found), key=lambda row: float(row["hold_mean_us"]))[:LISTED]
    few = sum(float(row["wait_mean_us"]) < SHORT_WAIT_US for row in shortest)
    return few >= 0.9 * LISTED, f"{few} of {len(shortest)} are waited for shorter than {SHORT_WAIT_US} us in the mean"


def _long_long(found: Mixed) -> Judgement:
    """Of the locks with the longest waits, as many as in the paper are held longer than the threshold."""
    longest = contended(found)[:LISTED]
    below = len(reference.lookup(PAPER, "lock_profile.longest_waits_below_threshold"))
    above = sum(float(row["hold_mean_us"]) > THRESHOLD_US for row in longest)
    return above >= LISTED - below, f"{above} of {len(longest)} are held longer than {THRESHOLD_US:g} us in the mean"


JUDGES: dict[str, tuple[str, Callable[[Mixed], Judgement]]] = {
    "spin_grows_with_threads": (FIGURE_3, _spin_grows),
    "no_gain_without_sharing": (FIGURE_11, _no_gain_alone),
    "superlinear": (FIGURE_11, _superlinear),
    "energy_more_than_time": (FIGURE_11, _energy_more),
    "few_locks_dominate": (TABLES_2_3, _few_dominate),
    "fserver_gains_most": (FIGURE_11, _files_gain_most),
    "selective_beats_all": (FIGURE_11, _list_beats_all),
    "raytrace_unchanged": (FIGURE_11, _raytrace_same),
    "short_hold_short_wait": (TABLES_2_3, _short_short),
    "long_wait_long_hold": (TABLES_2_3, _long_long),
}
"""By statement of the reference file: the exhibit that has the runs that it needs, and its rule."""

_BEST = "On Linux, automatic selection is within 2 % of the best of none, all and list in {}"
BEST = {mix: _BEST.format(mix) for mix in MIXES}
"""Statements of ours, by mix."""


def _automatic_is_best(mix: str, found: Mixed) -> Judgement:
    """Time for the same work, with each number of threads."""
    if mix not in found.scale.mixes:
        return None, _not_there(mix)
    over = {}
    for n in found.scale.threads:
        best = min(1.0, *(found.time(mix, each, n) for each in (ALL, LIST)))
        over[f"{n} threads"] = found.time(mix, AUTOMATIC, n) / best
    return max(over.values()) <= 1 + ALIKE, f"of the time of the best: {_told(over)}"


def _not_there(mix: str) -> str:
    return f"not measured: this scale has no {mix}"


def statements(found: Mixed | None, exhibits: Sequence[str], note: str) -> list[Statement]:
    """All that are of programs; those whose runs are not there are named with a note as not measured."""
    texts: dict[str, str] = reference.lookup(PAPER, "statements")
    rules = [(f"statements.{key}", texts[key], needs, rule) for key, (needs, rule) in JUDGES.items()]
    rules += [("", text, FIGURE_11, partial(_automatic_is_best, mix)) for mix, text in BEST.items()]
    out = []
    for key, text, needs, rule in rules:
        if found is None or needs not in exhibits:
            out.append(Statement(text, None, note, key))
        else:
            out.append(Statement(text, *rule(found), key))
    return out


def rows(found: Mixed, exhibits: Sequence[str]) -> list[dict[str, Any]]:
    """Of the table of runs."""
    out = []
    for cell in mixes.cells_of(found.scale, exhibits):
        one = found.measured(cell)
        facts = {"run": cell.label, "mix": cell.mix, "back_off": cell.selection, "threads": cell.threads}
        measured = {"work_per_us": one.work, "power_w": one.watts, "waiting_share": one.spinning}
        out.append(facts | {"window_cycles": cell.cycles} | measured)
    return out
