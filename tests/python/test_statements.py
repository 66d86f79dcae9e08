"""Every statement of Cakarevic et al. can hold, and can fail: judged in a world like the paper's, and in two others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from loiter import reference
from loiter.studies.cakarevic2008 import grid, statements
from loiter.studies.cakarevic2008.grid import OTHER_CORE, OTHER_PIPE, Cell
from loiter.studies.cakarevic2008.measurements import Measurements

CPI = reference.lookup(grid.PAPER, "active.cpi_alone")
PERIODS = {"default": 9, "idiv": 81, "casx": 48, "fdiv": 92, "l2miss": 110}


def by_unit(cell: Cell) -> float:
    """What a benchmark loses because its units are busy, in percent."""
    if cell.place == OTHER_CORE:
        return 0
    if cell.machine == "t1":
        hurt = {("idiv", "hash"): (6, 6), ("fdiv", "mbv_fp"): (45, 100)}.get((cell.loop, cell.benchmark), (0, 0))
        return hurt[cell.spinners > 1]
    if cell.benchmark not in statements.FP_UNIT_USERS or cell.loop not in ("idiv", "fdiv"):
        return 0
    most = (cell.loop, cell.benchmark) == ("fdiv", "mbv_fp")
    return (7 if most else 1.2) if cell.place == OTHER_PIPE else (12 if most else 2)


def by_fetch(cell: Cell) -> float:
    """Likewise because others fetch: the default loop does, from programs of low CPI."""
    if cell.loop != "default" or cell.place in (OTHER_CORE, OTHER_PIPE):
        return 0
    return (50 if cell.spinners == 1 else 200) / CPI[cell.machine][cell.benchmark]


def otherwise(cell: Cell) -> float:
    """The rest, for all benchmarks alike."""
    if cell.place == OTHER_CORE:
        return 0.1
    if cell.place == OTHER_PIPE:
        return {"default": 2.0, "idiv": 0.6, "casx": 0.4, "fdiv": 0.5, "l2miss": 0.3}[cell.loop]
    each = {"default": 0, "idiv": 1.2, "casx": 1.0, "fdiv": 1.3, "l2miss": 0.5 if cell.machine == "t1" else 0.2}
    return each[cell.loop] * cell.spinners


@dataclass
class World(Measurements):
    """Measurements by rule. `turn` makes another world of each number."""

    turn: Callable[[float], float]

    def slowdown(self, cell: Cell) -> Any:
        return SimpleNamespace(percent=self.turn(by_unit(cell) + by_fetch(cell) + otherwise(cell)))

    def lost_percent(self, cell: Cell, slot: str) -> float:
        return self.turn({statements.UNIT: by_unit, statements.FETCH: by_fetch}[slot](cell))

    def timing(self, cell: Cell) -> Any:
        return SimpleNamespace(cpi=CPI[cell.machine][cell.benchmark])

    def spinning(self, cell: Cell) -> Any:
        return SimpleNamespace(mean_cycles=self.turn(PERIODS[cell.loop]))

    def clock_mhz(self, machine: str) -> float:
        return 1000


PAPER, TURNED, LEVEL = World(lambda value: value), World(lambda value: 60 - value), World(lambda value: 5.0)


@pytest.mark.parametrize("name", list(statements.JUDGES))
def test_a_statement_holds_in_the_paper_s_world_and_not_in_every_one(name: str) -> None:
    judge = statements.JUDGES[name]
    holds, detail = judge(PAPER)
    assert holds, detail
    assert any(character.isdigit() for character in detail), "with its measured figures"
    assert not all(judge(world)[0] for world in (TURNED, LEVEL))
