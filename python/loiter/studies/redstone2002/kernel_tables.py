"""A kernel-heavy program on all contexts, with acquires that fail for a while: spin locks, and locks in hardware."""

from __future__ import annotations

from typing import Any

from loiter import reference
from loiter.engine import Engine
from loiter.runs.worker import Job
from loiter.studies.base import Chart, Exhibit, Grid
from loiter.studies.redstone2002 import kernel_points, linux
from loiter.studies.redstone2002 import kernel_spin as kernel
from loiter.studies.redstone2002.common import (
    CONFIGURATIONS,
    PAPER,
    Part,
    Runs,
    deviation,
    gain_percent,
    repeated_bars,
    row,
)


class KernelSpin:
    """See `loiter.studies.redstone2002.common.Measures`."""

    exhibit = Exhibit(
        "kernel_spin", "Tables 4.3 to 4.5: spinning in the kernel, induced by acquires that fail; ways, machines"
    )

    def plan(self, engine: Engine, scale: str) -> list[Job]:
        """Every machine, constant, way and boot."""
        return [job(engine, scale, cell) for cell in kernel.cells(scale)]

    def evaluate(self, runs: Runs, scale: str) -> Part:
        """Share of spinning, useful IPC, and what removing the spinning gives."""
        part = Part()
        for cell in kernel.cells(scale):
            facts: dict[str, Any] = {"configuration": cell.configuration, "way": cell.way}
            facts |= {"fail_cycles": cell.fail_cycles, "boot": cell.boot}
            part.rows.append(row(runs[cell.label], cell.label, self.exhibit.id, **facts))
        part.points = kernel_points.measured(runs, scale)
        part.grids = [
            _constants_grid(runs, scale),
            kernel_points.pipeline_grid(runs),
            *_machines_grid(runs, scale),
            kernel_points.mix_grid(runs),
        ]
        part.charts = [_chart(runs, scale)]
        part.statements = kernel_points.statements(runs, scale)
        return part

    def unmeasured(self, note: str) -> Part:
        """Without a run."""
        return kernel_points.unmeasured(note)


def job(engine: Engine, scale: str, cell: kernel.Cell) -> Job:
    """The run of a cell: as many processes as the reference's web server has, so that hardly any context is idle."""
    machine = CONFIGURATIONS[cell.configuration].machine(engine)
    command = f"{linux.BENCH}/kernelmix {kernel.PROCESSES} forever apart"
    return Job(
        cell.label, linux.request(engine, machine, [command], linux.BOOTED_WINDOWS[scale], append=cell.append), 20.0
    )


def _work_gain(runs: Runs, cell: kernel.Cell, way: str) -> float:
    """The same of instructions of the program itself."""
    spin, other = (kernel.mean_of(runs, one, lambda run: run.ipc(activities=("user",))) for one in (cell, cell.by(way)))
    return gain_percent(spin, other)


def _constants_grid(runs: Runs, scale: str) -> Grid:
    rows = []
    for constant in kernel.constants(scale):
        for way in kernel.WAYS:
            cell = kernel.Cell(kernel.BASE, constant, way)
            shares = (kernel.spin_percent, kernel.routine_percent)
            rows.append(
                (
                    str(constant),
                    way,
                    *(f"{kernel.mean_of(runs, cell, share):.1f}" for share in shares),
                    f"{kernel.mean_of(runs, cell, kernel.useful_ipc):.2f}",
                    f"{kernel.gain(runs, cell.by(kernel.SPIN), way):.1f}",
                    f"{_work_gain(runs, cell.by(kernel.SPIN), way):.1f}",
                    f"{kernel.mean_of(runs, cell, kernel.metric('memory_bus_delay_cycles')):.2f}",
                )
            )
    heads = (
        "constant, cycles",
        "way",
        "waiting, %",
        "lock routines, %",
        "useful IPC",
        "gain, %",
        "work, %",
        "bus, cycles",
    )
    caption = (
        "kernelmix on all contexts of smt8. Waiting: of all instructions, those of loops that wait, and of "
        "acquires that "
        "are made to fail. Lock routines: all that is executed in routines that take a spin lock, successes "
        "included, as "
        "the reference counts. Gain: of useful IPC over bare spinning. Work: of instructions in user mode, of "
        "which every "
        "round has as many, however the kernel waits. Bus: what a line waits for the memory bus. With wrs, an "
        "acquire that "
        "is made to fail lasts for the time-out of wrs.sto at least."
    )
    return Grid("kernel_spin", "Spinning in the kernel", caption, heads, tuple(rows), words=2)


def _machines_grid(runs: Runs, scale: str) -> list[Grid]:
    rows = []
    for name, cell in kernel.compared(scale).items():
        useful = (
            kernel.mean_of(runs, cell, kernel.useful_ipc),
            kernel.mean_of(runs, cell.by(kernel.HARDWARE), kernel.useful_ipc),
        )
        keys = (f"table_4_5.{key}.{kernel.SHORT[name]}" for key in ("useful_ipc_spin", "useful_ipc_smt_lock"))
        values = (
            kernel.mean_of(runs, cell, kernel.routine_percent),
            *useful,
            *(reference.lookup(PAPER, key) for key in keys),
            kernel.gain(runs, cell),
            deviation(kernel.gains(runs, cell)),
            reference.lookup(PAPER, f"table_4_5.removal_gain_percent.{kernel.SHORT[name]}"),
            *(
                kernel.mean_of(runs, one, kernel.metric("useful_issue_percent"))
                for one in (cell, cell.by(kernel.HARDWARE))
            ),
        )
        rows.append((name, str(cell.fail_cycles), *(f"{value:.2f}" for value in values)))
    useful_heads = ("useful IPC, spin", "smt_lock", "published, spin", "smt_lock")
    units = ("units in use, spin, %", "smt_lock, %")
    heads = ("machine", "constant, cycles", "lock routines, %", *useful_heads, "gain, %", "±", "published, %", *units)
    caption = (
        f"On 8 contexts the constant with which about half of all instructions spin, {kernel.COMPARED_CYCLES} "
        "cycles (in the "
        "reference: 300); on 4 and 12 as many times more or less as in the reference. Means of several boots; ± is one "
        "standard deviation of the gain over boots, which lay out memory differently. Units in use: by "
        "instructions that "
        "do not wait, of what integer units can begin."
    )
    return [Grid("kernel_spin_machines", "Table 4.5", caption, heads, tuple(rows), words=1)]


def _chart(runs: Runs, scale: str) -> Chart:
    title = "smt8: useful IPC of a kernel-heavy program by how long acquires fail, and waiting method"
    groups = {f"{constant} cycles": constant for constant in kernel.constants(scale)}
    note = "Means; error bars are one standard deviation, where a system was booted several times."

    def useful(runs: Runs, constant: int, way: str) -> list[float]:
        return kernel.each(runs, kernel.Cell(kernel.BASE, constant, way), kernel.useful_ipc)

    group = f"{kernel.COMPARED_CYCLES} cycles"
    published = {
        (group, kernel.SPIN): "table_4_5.useful_ipc_spin.8",
        (group, kernel.HARDWARE): "table_4_5.useful_ipc_smt_lock.8",
    }
    unit = "instructions a cycle"
    return repeated_bars("kernel_spin", title, unit, groups, kernel.WAYS, useful, note, runs, published)
