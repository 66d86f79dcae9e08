"""Energy of a run: events that were counted and cycles that were accounted for, times what the machine says each costs.

A machine's section `energy` has the coefficients, each with a range. A result is linear in each of them, so its least
and greatest values are those with all coefficients at their ends; with it comes the coefficient whose range moves it
most.
docs/energy.md has the model.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from loiter import sampling
from loiter.engine import Json
from loiter.results import Result

SECTION = "energy."
ASLEEP = ("napping", "blocked", "idle", "vacant")
"""Activities in which a context's clock stands."""
WAITING = ("spinning", "pausing", "napping", "blocked")
"""Activities of a hart that waits for a lock."""

_CAPACITANCE, _VOLT, _REFERENCE, _STATIC = "capacitance_percent", "volt_mv", "reference_mv", "static_mv"
_OFF_CHIP = ("dram_fj",)
_STATES = ("state1", "state2", "state3")
_FEMTO, _MICRO = 1e-15, 1e-6
_CORE = re.compile(r"core(\d+)(?:\.(\w+))?")
_NUMBER = re.compile(r"^(core|cluster|home|dram)\d+")
_ESTIMATE = re.compile(r"([\d_]+)(?: in ([\d_]+)\.\.([\d_]+))?")

Use = tuple[str, str]
"""An activity and a coefficient."""


@dataclass(frozen=True)
class Value:
    """A result: with the likely coefficients, and with the least and the greatest of all."""

    value: float
    low: float
    high: float
    moved_by: str
    """The coefficient whose range moves it most; empty if none does."""

    def scaled(self, factor: float) -> Value:
        """The same in another unit, or by something else."""
        return Value(self.value * factor, self.low * factor, self.high * factor, self.moved_by)

    def columns(self, name: str) -> dict[str, float | str]:
        """As columns of a table; `name` ends in its unit."""
        stem, _, unit = name.rpartition("_")
        return {
            name: self.value,
            f"{stem}_low_{unit}": self.low,
            f"{stem}_high_{unit}": self.high,
            f"{stem}_moved_by": self.moved_by,
        }


class Coefficients:
    """What a machine says that events and seconds cost."""

    def __init__(self, parameters: Mapping[str, object]) -> None:
        given = {key.removeprefix(SECTION): value for key, value in parameters.items() if key.startswith(SECTION)}
        volts = {key: int(str(given.pop(key, 0))) for key in (_VOLT, _REFERENCE, _STATIC)}
        self._ranges = {key: _parts(str(text)) for key, text in given.items()}
        self._dynamic = (volts[_VOLT] / volts[_REFERENCE]) ** 2 if volts[_VOLT] and volts[_REFERENCE] else 1.0
        self._static = volts[_VOLT] / volts[_STATIC] if volts[_VOLT] and volts[_STATIC] else 1.0

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __contains__(self, key: str) -> bool:
        return key in self._ranges

    def value(self, uses: Mapping[str, float]) -> Value:
        """Joules of events, and of seconds of powers, by their coefficients. A difference has negative uses, which are
        least where their coefficient is greatest."""
        least, likely, greatest = {}, {}, {}
        for key, (low, value, high) in self._ranges.items():
            likely[key] = value
            least[key], greatest[key] = (low, high) if uses.get(key, 0) >= 0 else (high, low)
        low_capacitance, _, high_capacitance = self._ranges.get(_CAPACITANCE, (100, 100, 100))
        ends = [{_CAPACITANCE: low_capacitance}, {_CAPACITANCE: high_capacitance}]
        return Value(
            self._joules(uses, likely),
            min(self._joules(uses, least | end) for end in ends),
            max(self._joules(uses, greatest | end) for end in ends),
            self._mover(uses),
        )

    def _mover(self, uses: Mapping[str, float]) -> str:
        likely = {key: parts[1] for key, parts in self._ranges.items()}
        moves = {}
        for key, (low, _, high) in self._ranges.items():
            by_ends = (self._joules(uses, likely | {key: end}) for end in (low, high))
            moves[key] = abs(next(by_ends) - next(by_ends))
        most = max(moves, key=lambda key: (moves[key], key), default="")
        return most if most and moves[most] > 0 else ""

    def _joules(self, uses: Mapping[str, float], of: Mapping[str, float]) -> float:
        capacitance = of.get(_CAPACITANCE, 100) / 100
        total = 0.0
        for key, count in uses.items():
            if key.endswith("_uw"):
                total += of.get(key, 0) * _MICRO * self._static * count
            elif key in _OFF_CHIP:
                total += of.get(key, 0) * _FEMTO * count
            else:
                total += of.get(key, 0) * _FEMTO * capacitance * self._dynamic * count
        return total


def _parts(text: str) -> tuple[float, float, float]:
    match = _ESTIMATE.fullmatch(text)
    assert match is not None, "the simulator has checked it"
    likely = float(match[1].replace("_", ""))
    if match[2] is None:
        return (likely, likely, likely)
    return (float(match[2].replace("_", "")), likely, float(match[3].replace("_", "")))


@dataclass(frozen=True)
class Acquisitions:
    """Waits for locks, as probes tell them."""

    count: int
    wait_cycles: int
    """Between the probe that says that a hart waits and the one that says that it has the lock."""
    longest_cycles: int
    joules: Value
    """Of all of them: what harts took that waited."""


@dataclass(frozen=True)
class Energy:
    """What a run took."""

    seconds: float
    cores: int
    uses: Mapping[Use, float]
    coefficients: Coefficients
    acquisitions: Acquisitions | None

    @property
    def total(self) -> Value:
        """Joules of the run, memory included."""
        return self.of(lambda use: True)

    @property
    def chip_watts(self) -> Value:
        """Average power without that of memory."""
        return self.of(lambda use: use[1] not in _OFF_CHIP).scaled(1 / self.seconds)

    @property
    def watts(self) -> Value:
        """Average power."""
        return self.total.scaled(1 / self.seconds)

    def of(self, which: Callable[[Use], bool]) -> Value:
        """Joules of some of the uses."""
        sums: defaultdict[str, float] = defaultdict(float)
        for use, count in self.uses.items():
            if which(use):
                sums[use[1]] += count
        return self.coefficients.value(sums)

    def by_activity(self) -> dict[str, Value]:
        """Joules of each activity."""
        return self._by(0)

    def by_unit(self) -> dict[str, Value]:
        """Joules by coefficient."""
        return self._by(1)

    def _by(self, part: int) -> dict[str, Value]:
        def of(name: str) -> Value:
            return self.of(lambda use: use[part] == name)

        return {name: of(name) for name in dict.fromkeys(use[part] for use in self.uses)}


def of(result: Result, tables: Mapping[str, Sequence[Json]] | None = None) -> Energy | None:
    """The energy of a result directory, of its samples if there are any, or of what has these tables; None if its
    machine says nothing of energy, or nothing was timed."""
    parameters = result.manifest.get("machine", {}).get("parameters", {})
    coefficients = Coefficients(parameters)
    if not coefficients or not result.has_tables:
        return None
    if tables is None:
        tables, _ = sampling.counted(result)
    counted = _Counted(tables["counters"], tables["activities"], parameters)
    if counted.cycles == 0:
        return None
    seconds = counted.cycles / (float(result.manifest["clock_mhz"]) * 1e6)
    uses = _uses(counted, coefficients, seconds)
    waits = _waits(result.rows("marks"), int(result.manifest.get("timing_from_cycle", 0)))
    waiting: defaultdict[str, float] = defaultdict(float)
    for (activity, key), count in uses.items():
        if activity in WAITING:
            waiting[key] += count
    found = Acquisitions(len(waits), sum(waits), max(waits), coefficients.value(waiting)) if waits else None
    return Energy(seconds, counted.cores, uses, coefficients, found)


def difference(one: Energy, other: Energy) -> Value:
    """How much more power one run takes than another of the same machine."""
    sums: defaultdict[str, float] = defaultdict(float)
    for energy, sign in ((one, 1), (other, -1)):
        for (_, key), count in energy.uses.items():
            sums[key] += sign * count / energy.seconds
    return one.coefficients.value(sums)


def _waits(marks: Iterable[Json], since: int) -> list[int]:
    """Cycles of each wait for a lock that began while cores were timed."""
    begun: dict[int, int] = {}
    waits = []
    for mark in marks:
        if mark["kind"] == "acquire" and mark["cycle"] >= since:
            begun[mark["hart"]] = mark["cycle"]
        elif mark["kind"] == "acquired" and mark["hart"] in begun:
            waits.append(mark["cycle"] - begun.pop(mark["hart"]))
    return waits


class _Counted:
    """The counters and activities of a run, added up over its cores."""

    def __init__(self, counters: Sequence[Json], activities: Sequence[Json], parameters: Mapping[str, object]) -> None:
        self._parameters = parameters
        self._sums: Counter[tuple[str, str]] = Counter()
        self.activity_cycles: Counter[str] = Counter()
        self.instructions: Counter[str] = Counter()
        cores, contexts = set(), set()
        for row in counters:
            match = _CORE.fullmatch(row["component"])
            if match is not None:
                cores.add(match[1])
            # Groups of modes repeat what their core counts.
            part = _NUMBER.sub(r"\1", row["component"])
            self._sums[part, row["name"]] += row["value"]
        for row in activities:
            contexts.add(row["context"])
            self.activity_cycles[row["activity"]] += row["cycles"]
            self.instructions[row["activity"]] += row["instructions"]
        self.cores = len(cores)
        self.contexts = len(contexts)
        self.cycles = sum(self.activity_cycles.values()) // max(1, self.contexts)

    def sum(self, *places: tuple[str, str]) -> int:
        """Counters of kinds of components, such as `core.l1d`."""
        return sum(self._sums[place] for place in places)

    def has(self, part: str, name: str) -> bool:
        return (part, name) in self._sums

    def shared(self, level: str) -> str:
        return str(self._parameters.get(f"{level}.shared_by", ""))


def _events(counted: _Counted) -> dict[str, float]:
    """How often each coefficient of an event applies."""
    total = counted.sum
    fetched = total(("core", "fetched" if counted.has("core", "fetched") else "issued"))
    issued = total(("core", "issued"))
    multiplies, divides, fp = (total(("core", name)) for name in ("multiplies", "divides", "fp_operations"))
    if counted.has("core.l1d", "stores"):
        data = total(("core.l1d", "accesses"), ("core.l1d", "stores"))
    else:
        data = total(("core.l1d", "accesses"), ("core", "stores"), ("core", "atomics"))
    clusters, homes = total(("cluster", "requests")), total(("home", "requests"))
    if counted.has("l2", "accesses"):
        second, third, looked_up = total(("l2", "accesses")), 0, 0
        hops, lines = 2 * second, total(("l2", "misses"), ("l2", "writebacks"))
    else:
        second = clusters if counted.shared("l2") == "cluster" else total(("core.l2", "accesses"))
        third = {"cluster": clusters, "homes": homes}.get(counted.shared("l3"), 0)
        looked_up, hops = clusters + homes, total(("network", "hops"))
        lines = total(("dram", "reads"), ("dram", "writes"))
    return {
        "fetch_fj": fetched,
        "l1i_fj": fetched,
        "rename_fj": fetched,
        "issue_fj": issued,
        "registers_fj": issued,
        "alu_fj": max(0, issued - multiplies - divides - fp),
        "mul_fj": multiplies,
        "div_fj": divides,
        "fp_fj": fp,
        "l1d_fj": data,
        "l2_fj": second,
        "l3_fj": third,
        "directory_fj": looked_up,
        "hop_fj": hops,
        "dram_fj": lines,
    }


# Of which purpose instructions are that retire in an activity; all others are useful.
_PURPOSES = {"spinning": "spinning", "idle_polling": "polling"}
# Events that are counted by purpose.
_BY_PURPOSE = {"fetch_fj": "fetched", "l1i_fj": "fetched", "rename_fj": "fetched", "l1d_fj": "load_lookups"}


def _shares(counted: _Counted, key: str) -> dict[str, float]:
    """The parts of an event's count that activities have: by purpose where it is counted so, else by the instructions
    that retired in each."""
    instructions = counted.instructions
    everything = sum(instructions.values())
    if everything == 0:
        return {name: counted.activity_cycles[name] / sum(counted.activity_cycles.values()) for name in instructions}
    name = _BY_PURPOSE.get(key, "")
    by_purpose = {purpose: counted.sum((f"core.{purpose}", name)) for purpose in ("useful", "spinning", "polling")}
    of_all = sum(by_purpose.values())
    if of_all == 0:
        return {each: count / everything for each, count in instructions.items()}
    retired: Counter[str] = Counter()
    for each, count in instructions.items():
        retired[_PURPOSES.get(each, "useful")] += count
    known = sum(by_purpose[purpose] for purpose in by_purpose if retired[purpose])
    shares = {}
    for each, count in instructions.items():
        purpose = _PURPOSES.get(each, "useful")
        shares[each] = by_purpose[purpose] / known * count / retired[purpose] if retired[purpose] and known else 0.0
    return shares


def _uses(counted: _Counted, coefficients: Coefficients, seconds: float) -> dict[Use, float]:
    """What each activity uses of each coefficient: events, cycles, or seconds of a power."""
    uses: defaultdict[Use, float] = defaultdict(float)
    for key, count in _events(counted).items():
        if count and key in coefficients:
            for activity, share in _shares(counted, key).items():
                if share:
                    uses[activity, key] += count * share
    cycles = counted.activity_cycles
    for activity, count in cycles.items():
        if activity == "pausing":
            uses[activity, "pause_fj"] += count
        elif activity not in ASLEEP:
            uses[activity, "context_fj"] += count
    awake = {name: count for name, count in cycles.items() if name not in ASLEEP and count}
    asleep = {name: count for name, count in cycles.items() if name in ASLEEP and count}
    core_cycles = counted.cores * counted.cycles
    in_state = {state: counted.sum(("core.idle", f"{state}_cycles")) for state in _STATES}
    idle_cycles = counted.sum(("core.idle", "asleep_cycles")) + sum(in_state.values())
    _share_out(uses, "core_fj", core_cycles - idle_cycles, awake or cycles)
    second_per_cycle = seconds / counted.cycles
    for state, count in in_state.items():
        _share_out(uses, f"{state}_static_uw", count * second_per_cycle, asleep or cycles)
    up = (core_cycles - sum(in_state.values())) * second_per_cycle
    _share_out(uses, "core_static_uw", up, cycles)
    _share_out(uses, "chip_static_uw", seconds, cycles)
    return {use: count for use, count in uses.items() if count and use[1] in coefficients}


def _share_out(uses: defaultdict[Use, float], key: str, count: float, cycles: Mapping[str, int]) -> None:
    """What contexts have in common is theirs by their cycles."""
    everything = sum(cycles.values())
    for activity, of_these in cycles.items():
        if of_these:
            uses[activity, key] += count * of_these / everything


def rows(energy: Energy) -> list[Json]:
    """The energy as metrics are: named values with units and definitions, each with its range."""
    found = [
        _row("energy_uj", "µJ", "Energy of all that was timed, memory included.", energy.total.scaled(1e6)),
        _row("power_mw", "mW", "The same as an average over its time.", energy.watts.scaled(1e3)),
        _row("chip_power_mw", "mW", "The same without memory.", energy.chip_watts.scaled(1e3)),
    ]
    for activity, value in energy.by_activity().items():
        definition = f"Energy of contexts in activity {activity}, with their part of what contexts have in common."
        found.append(_row(f"energy_uj.{activity}", "µJ", definition, value.scaled(1e6)))
    for key, value in energy.by_unit().items():
        what = f"Energy by coefficient {SECTION}{key} of the machine."
        found.append(_row(f"energy_uj.{key.rpartition('_')[0]}", "µJ", what, value.scaled(1e6)))
    waits = energy.acquisitions
    if waits is not None:
        definition = (
            "Energy of contexts that wait for a lock (spinning, pausing, napping, blocked), of an acquisition that "
            "probes tell of."
        )
        each = waits.joules.scaled(1e9 / waits.count)
        found.append(_row("acquisition_nj", "nJ", definition, each))
        longest = waits.longest_cycles * waits.count / waits.wait_cycles if waits.wait_cycles else 0.0
        longest_definition = "The same of the longest wait, by its share of all cycles of waits."
        found.append(_row("longest_acquisition_nj", "nJ", longest_definition, each.scaled(longest)))
    return found


def _row(name: str, unit: str, definition: str, value: Value) -> Json:
    return {
        "name": name,
        "unit": unit,
        "definition": definition,
        "all": value.value,
        "low": value.low,
        "high": value.high,
        "moved_by": value.moved_by,
    }
