"""The three scales: how much work one repetition is, and what a run is expected to cost.

The only table to edit when runs are too long or too short. Footprints that exceed a cache exceed it at every scale.
Repetitions are the same work with and without spinners, because both read this table.
"""

from __future__ import annotations

from dataclasses import dataclass

from loiter.studies.cakarevic2008.grid import EXHIBITS, MACHINES, Cell

MIB = 1024


@dataclass(frozen=True)
class Scale:
    """What is run, how large the matrices are, and which column of `ITERATIONS` holds."""

    description: str
    column: int
    mbv_int_kib: int
    mbv_fp_kib: int
    ram_mib: int
    machines: tuple[str, ...] = MACHINES
    exhibits: tuple[str, ...] = tuple(exhibit.id for exhibit in EXHIBITS)


ITERATIONS = {
    #          quick  default  full
    "add":     (60,    200,    2000),
    "mulx":    (20,     60,     600),
    "baa":     (40,    100,    1000),
    "l1_hit":  (40,    100,    1000),
    "l2_hit":  (52,    104,    1040),
    "hash":    (1000, 4000,   40000),
    "sort":    (1,       1,       4),
    "mbv_int": (16,     16,      32),
    "mbv_fp":  (2,       8,      32),
}  # fmt: skip
"""Work of one repetition; what an iteration is, the program's own documentation says."""

SCALES = {
    "quick": Scale(
        "T1 with one and with three spinners in the same core; short repetitions",
        column=0,
        mbv_int_kib=16 * MIB,
        mbv_fp_kib=16 * MIB,
        ram_mib=128,
        machines=("t1",),
        exhibits=("table_1", "table_2", "figure_4", "figure_5", "figure_6"),
    ),
    "default": Scale(
        "everything; the matrices are 64 MiB, which exceeds every cache",
        column=1,
        mbv_int_kib=64 * MIB,
        mbv_fp_kib=64 * MIB,
        ram_mib=256,
    ),
    "full": Scale(
        "everything; the footprints of the paper, repetitions ten times as long",
        column=2,
        mbv_int_kib=800 * MIB,
        mbv_fp_kib=400 * MIB,
        ram_mib=1024,
    ),
}

L2_HIT_KIB = {"t1": 1536, "t2": 2048}
HOLD_CYCLES = 10_000

CYCLES_PER_ITERATION = {
    "add": 515, "mulx": 5400, "baa": 2600, "l1_hit": 1550, "l2_hit": 11500,
    "hash": 250, "sort": 900_000, "mbv_int": 55_000, "mbv_fp": 250_000, "hold": 1,
}  # fmt: skip
"""Rough, for the remaining time and the order of runs only; nothing measured depends on it."""


def sets(scale: Scale) -> list[str]:
    """Overrides of the machine: the two cores that the paper's logical domain had, and room for the matrices."""
    return ["system.cores=2", f"system.ram_mib={scale.ram_mib}"]


def arguments(cell: Cell, scale: Scale) -> list[str]:
    """The words of the program's command line."""
    if cell.is_loop_alone:
        return [f"iterations={HOLD_CYCLES}"]
    words = [f"iterations={ITERATIONS[cell.benchmark][scale.column]}"]
    footprint = {
        "l2_hit": L2_HIT_KIB[cell.machine],
        "mbv_int": scale.mbv_int_kib,
        "mbv_fp": scale.mbv_fp_kib,
    }.get(cell.benchmark)
    return words if footprint is None else [*words, f"footprint_kib={footprint}"]


def weight(cell: Cell, scale: Scale) -> float:
    """Expected cost of a run in million simulated context-cycles."""
    iterations = HOLD_CYCLES if cell.is_loop_alone else ITERATIONS[cell.benchmark][scale.column]
    repetitions = 7
    return iterations * CYCLES_PER_ITERATION[cell.benchmark] * repetitions * (1 + cell.spinners) / 1e6
