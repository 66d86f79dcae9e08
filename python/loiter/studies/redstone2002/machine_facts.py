"""Table 2.1 and its text beside the presets: each fact of the machine with the parameter that it is here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loiter import engine as engines
from loiter import machines
from loiter.engine import Engine
from loiter.errors import InternalFault
from loiter.machines import Machine
from loiter.runs.worker import Job
from loiter.studies.base import Exhibit, Grid, Number, Point
from loiter.studies.redstone2002.common import SOURCE, Part, Runs, Spec

_TABLE = f"{SOURCE}, Table 2.1"
_SMT, _SUPERSCALAR = "smt8", "superscalar"
_BITS = 8


def _number(machine: Machine, key: str) -> Number:
    value = machine.value(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InternalFault(f"{machine.name} has no number {key}, with which Table 2.1 is compared")
    return value


Ours = Callable[[Machine], Number]


@dataclass(frozen=True)
class _Fact:
    """A fact by its key in the reference file, and what a preset has for it."""

    key: str
    ours: Ours
    how: str
    unit: str = ""
    preset: str = _SMT

    @property
    def spec(self) -> Spec:
        return Spec(f"machine.smt.{self.key}", self.unit, _TABLE, None, f"{self.preset}: {self.how}")


def _is(key: str, parameter: str, unit: str = "") -> _Fact:
    return _Fact(key, lambda machine: _number(machine, parameter), parameter, unit)


def _least(key: str, *parameters: str) -> _Fact:
    """A fact that several parameters stand for: the one that agrees least would be seen."""

    def ours(machine: Machine) -> Number:
        values = {_number(machine, each) for each in parameters}
        return values.pop() if len(values) == 1 else min(values)

    return _Fact(key, ours, ", ".join(parameters))


def _stages(machine: Machine) -> Number:
    """Up to the queues, the queue, register read, execution, and as long for register write as for the read."""
    return _number(machine, "core.front_cycles") + 2 + 2 * _number(machine, "core.register_read_cycles")


_STAGES = "core.front_cycles, queue, execution, twice core.register_read_cycles (register write is as long)"


def _l2_latency(machine: Machine) -> Number:
    keys = ("l2.request_cycles", "l2.reply_cycles")
    return _number(machine, "l2.hit_latency_cycles") - sum(_number(machine, key) for key in keys)


def _memory_latency(machine: Machine) -> Number:
    """Beyond a hit: the memory bus there and back, memory itself, and the line."""
    beyond = _number(machine, "l2.miss_latency_cycles") - _number(machine, "l2.hit_latency_cycles")
    return beyond - _number(machine, "memory.line_transfer_cycles") - 2 * _BUS_LATENCY


_BUS_LATENCY = 4


def _bus_bits(line: str, cycles: str) -> Ours:
    return lambda machine: _BITS * _number(machine, line) // _number(machine, cycles)


FACTS = (
    _Fact("pipeline_stages.smt", _stages, _STAGES, "stages"),
    _Fact("pipeline_stages.superscalar", _stages, _STAGES, "stages", _SUPERSCALAR),
    _is("functional_units.integer", "units.integer"),
    _is("functional_units.of_which_load_store", "units.load_store"),
    _is("functional_units.of_which_synchronisation", "units.synchronisation"),
    _is("functional_units.floating_point", "units.floating_point"),
    _is("queues.integer", "core.integer_queue_entries", "instructions"),
    _is("queues.floating_point", "core.fp_queue_entries", "instructions"),
    _is("renaming_registers.integer", "core.integer_registers"),
    _is("renaming_registers.floating_point", "core.fp_registers"),
    _is("retire_per_cycle", "core.retire_width", "instructions"),
    _is("itlb_entries", "itlb.entries"),
    _is("dtlb_entries", "dtlb.entries"),
    _is("branch.local_history", "branch.local_history_entries"),
    _is("branch.local_table", "branch.local_prediction_entries"),
    _is("branch.global_table", "branch.global_entries"),
    _is("branch.choice_table", "branch.choice_entries"),
    _is("btb.entries", "btb.entries"),
    _is("btb.ways", "btb.ways"),
    _least("mshr.l1", "l1i.mshrs", "l1d.mshrs"),
    _Fact(
        "mshr.l2",
        lambda machine: _number(machine, "l2.mshrs_per_bank") * _number(machine, "l2.banks"),
        "l2.mshrs_per_bank, l2.banks",
    ),
    _is("store_buffer", "core.store_buffer_entries"),
    _least("line_bytes", "l1i.line_bytes", "l1d.line_bytes", "l2.line_bytes"),
    _is("l1i.kib", "l1i.size_kib"),
    _is("l1i.ways", "l1i.ways"),
    _is("l1i.fill_cycles", "bus.line_cycles", "cycles"),
    _is("l1d.kib", "l1d.size_kib"),
    _is("l1d.ways", "l1d.ways"),
    _is("l1d.ports", "units.data_ports"),
    _is("l1d.fill_cycles", "bus.line_cycles", "cycles"),
    _Fact("l2.mib", lambda machine: _number(machine, "l2.size_kib") // 1024, "l2.size_kib"),
    _is("l2.ways", "l2.ways"),
    _Fact(
        "l2.latency_cycles",
        _l2_latency,
        "l2.hit_latency_cycles without l2.request_cycles and l2.reply_cycles",
        "cycles",
    ),
    _Fact(
        "l2.accesses_per_cycle",
        lambda machine: _number(machine, "l2.banks") / _number(machine, "l2.bank_busy_cycles"),
        "l2.banks, l2.bank_busy_cycles",
    ),
    _Fact("l1_l2_bus.bits", _bus_bits("l1d.line_bytes", "bus.line_cycles"), "l1d.line_bytes, bus.line_cycles"),
    _is("l1_l2_bus.latency_cycles", "l2.request_cycles", "cycles"),
    _Fact("memory_bus.bits", _bus_bits("l2.line_bytes", "memory.line_transfer_cycles"), "memory.line_transfer_cycles"),
    _Fact(
        "memory.latency_cycles",
        _memory_latency,
        "l2.miss_latency_cycles without l2.hit_latency_cycles, the line's transfer and the bus of 4 there and back",
        "cycles",
    ),
    _is("max_issue_integer_programs", "units.integer", "instructions"),
)


class MachineFacts:
    """See `loiter.studies.redstone2002.common.Measures`."""

    exhibit = Exhibit("table_2_1", "Table 2.1: the machine, by the parameters of the presets")

    def plan(self, engine: Engine, scale: str) -> list[Job]:
        """Nothing runs."""
        return []

    def evaluate(self, runs: Runs, scale: str) -> Part:
        """Every fact beside the presets as they are."""
        presets = {name: machines.load(engines.load(), name) for name in (_SMT, _SUPERSCALAR)}
        points = points_of(presets)
        rows = tuple(
            (point.id.removeprefix("machine.smt."), str(point.published), str(point.ours), point.note)
            for point in points
        )
        caption = "Facts that no parameter states are in the study's list of notes."
        columns = ("fact", "published", "preset", "from")
        return Part(points=points, grids=[Grid(self.exhibit.id, self.exhibit.title, caption, columns, rows)])

    def unmeasured(self, note: str) -> Part:
        """Without the presets."""
        return Part(points=[fact.spec.point(None, note) for fact in FACTS])


def points_of(presets: Mapping[str, Machine]) -> list[Point]:
    """Every fact beside what the presets have."""
    return [fact.spec.point(fact.ours(presets[fact.preset])) for fact in FACTS]
