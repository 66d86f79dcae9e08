"""The three scales: how much work one repetition is, and what a run is expected to cost.

The only table to edit when runs are too long or too short. Footprints that exceed a cache exceed it at every scale;
with the smaller matrices of `quick`, CPI alone on the T1 is within 3 % of that with the paper's.
Repetitions are the same work with and without spinners, because both read this table.
"""

from __future__ import annotations

from dataclasses import dataclass

from loiter import reference
from loiter.studies.cakarevic2008.grid import EXHIBITS, MACHINES, PAPER, Cell

MIB = 1024
MBV_INT_KIB = reference.lookup(PAPER, "active.mbv_int_footprint_mib") * MIB
MBV_FP_KIB = reference.lookup(PAPER, "active.mbv_fp_footprint_mib") * MIB


@dataclass(frozen=True)
class Scale:
    """What is run, how large the matrices are, and which column of `ITERATIONS` holds."""

    description: str
    column: int
    mbv_int_kib: int
    mbv_fp_kib: int
    machines: tuple[str, ...] = MACHINES
    exhibits: tuple[str, ...] = tuple(exhibit.id for exhibit in EXHIBITS)


ITERATIONS = {
    #          quick  default  full
    "add":     (200,    200,   2000),
    "mulx":    (60,      60,    600),
    "baa":     (100,    100,   1000),
    "l1_hit":  (100,    100,   1000),
    "l2_hit":  (104,    104,   1040),
    "hash":    (1000,  4000,  40000),
    "mbv_int": (16,      16,     64),
    "mbv_fp":  (2,        8,     64),
}  # fmt: skip
"""Work of one repetition; what an iteration is, the program's own documentation says. `sort` sorts once."""

SECONDS = {
    #          quick  default  full
    "add":     (0.05,  0.05,   0.5),
    "mulx":    (0.02,  0.02,   0.2),
    "baa":     (0.03,  0.03,   0.3),
    "l1_hit":  (0.03,  0.03,   0.3),
    "l2_hit":  (0.05,  0.05,   0.5),
    "hash":    (0.25,  0.60,   5.0),
    "sort":    (0.55,  0.55,   0.6),
    "mbv_int": (0.30,  1.80,   7.0),
    "mbv_fp":  (0.10,  0.35,   2.5),
}  # fmt: skip
"""Rough host seconds of a run alone: for the remaining time and the order of runs; no result depends on them."""

SCALES = {
    "quick": Scale(
        "T1 with one and with three spinners in the same core; smaller matrices, short repetitions",
        column=0,
        mbv_int_kib=32 * MIB,
        mbv_fp_kib=16 * MIB,
        machines=("t1",),
        exhibits=("table_1", "table_2", "figure_4", "figure_5", "figure_6"),
    ),
    "default": Scale(
        "everything; the footprints of the paper",
        column=1,
        mbv_int_kib=MBV_INT_KIB,
        mbv_fp_kib=MBV_FP_KIB,
    ),
    "full": Scale(
        "everything; the footprints of the paper, repetitions about ten times as long",
        column=2,
        mbv_int_kib=MBV_INT_KIB,
        mbv_fp_kib=MBV_FP_KIB,
    ),
}

L2_HIT_KIB = {
    machine: int(reference.lookup(PAPER, f"active.l2_hit_footprint_mib.{machine}") * MIB) for machine in MACHINES
}
HOLD_CYCLES = 100_000


SETS = ("system.cores=2",)
"""What is changed of both machines: the paper's logical domain had two cores."""


def arguments(cell: Cell, scale: Scale) -> list[str]:
    """The words of the program's command line."""
    if cell.is_loop_alone:
        return [f"iterations={HOLD_CYCLES}"]
    words = []
    if cell.benchmark in ITERATIONS:
        words.append(f"iterations={ITERATIONS[cell.benchmark][scale.column]}")
    footprint = {
        "l2_hit": L2_HIT_KIB[cell.machine],
        "mbv_int": scale.mbv_int_kib,
        "mbv_fp": scale.mbv_fp_kib,
    }.get(cell.benchmark)
    if footprint is not None:
        words.append(f"footprint_kib={footprint}")
    return words


def weight(cell: Cell, scale: Scale) -> float:
    """Expected cost of a run, roughly in host seconds. Spinners that hardly wait cost most."""
    if cell.is_loop_alone:
        return 0.05
    each = 0.9 if cell.loop == "default" else 0.25
    return SECONDS[cell.benchmark][scale.column] * (1 + each * cell.spinners)
