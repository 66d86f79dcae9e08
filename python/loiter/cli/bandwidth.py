"""What `loiter latency` shows of bandwidth, and of latency under load."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from loiter.bandwidth import Bandwidth, Loaded, gigabytes_per_second
from loiter.machines import Machine
from loiter.report.table import headed


def bandwidth_table(machine: Machine, found: Sequence[Bandwidth]) -> Table:
    """A row for each footprint: one core, and all."""
    table = headed("bandwidth of loads; each core reads so much over and over")
    table.add_column("footprint", justify="right", no_wrap=True)
    counts = sorted({each.cores for each in found})
    for cores in counts:
        name = "a core" if cores == 1 else f"{cores} cores"
        for unit in ("B/cycle", "GB/s"):
            table.add_column(f"{name}, a load a line, {unit}", justify="right")
        table.add_column(f"{name}, all words, B/cycle", justify="right")
    by_place = {(each.footprint_kib, each.cores): each for each in found}
    for kib in sorted({each.footprint_kib for each in found}):
        cells = []
        for cores in counts:
            here = by_place.get((kib, cores))
            if here is None:
                cells += ["", "", ""]
                continue
            lines = here.line_bytes_per_cycle
            speed = gigabytes_per_second(machine, lines)
            cells += [f"{lines:.1f}", f"{speed:.1f}", f"{here.word_bytes_per_cycle:.1f}"]
        table.add_row(_size(kib), *cells)
    return table


def loaded_table(machine: Machine, found: Sequence[Loaded]) -> Table:
    """A row for each load."""
    table = headed("latency of a load that memory supplies, while others read")
    for name in ("cores that read", "gap", "bytes/cycle", "GB/s", "latency, cycles", "ns"):
        table.add_column(name, justify="right")
    clock = machine.count("system.clock_mhz", 1)
    for each in found:
        speed = gigabytes_per_second(machine, each.bytes_per_cycle)
        latency = each.latency_cycles
        cells = [f"{each.bytes_per_cycle:.2f}", f"{speed:.1f}", f"{latency:.0f}", f"{latency * 1000 / clock:.1f}"]
        table.add_row(str(each.cores), str(each.gap), *cells)
    return table


def rows(machine: Machine, found: Sequence[Bandwidth | Loaded]) -> list[dict[str, Any]]:
    """What was measured, for `--json`, with the bandwidth also in 10^9 bytes per second."""
    result = []
    for each in found:
        row = dataclasses.asdict(each)
        for name, value in list(row.items()):
            if name.endswith("bytes_per_cycle"):
                row[name.replace("bytes_per_cycle", "gb_per_second")] = gigabytes_per_second(machine, value)
        result.append(row)
    return result


def draw(machine: Machine, measured: Sequence[Bandwidth], loaded: Sequence[Loaded], directory: Path) -> list[str]:
    """Writes the plots. Returns the names of the files."""
    from loiter import plots

    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in ("png", "svg"):
        if measured:
            curves: dict[str, list[tuple[float, float]]] = {}
            for each in measured:
                cores = "a core" if each.cores == 1 else f"{each.cores} cores"
                for loads, value in (
                    ("a load a line", each.line_bytes_per_cycle),
                    ("all words", each.word_bytes_per_cycle),
                ):
                    point = (each.footprint_kib, gigabytes_per_second(machine, value))
                    curves.setdefault(f"{cores}, {loads}", []).append(point)
            title = f"{machine.name}: bandwidth of loads"
            drawn = plots.draw_curves(title, "KiB that each core reads over and over", "GB/s", curves, True, kind)
            (directory / f"bandwidth.{kind}").write_bytes(drawn)
            written.append(f"bandwidth.{kind}")
        if loaded:
            points = sorted(
                (gigabytes_per_second(machine, each.bytes_per_cycle), each.latency_cycles) for each in loaded
            )
            title = f"{machine.name}: load that memory supplies, while other cores read"
            drawn = plots.draw_curves(title, "GB/s that they read", "cycles", {"latency": points}, False, kind)
            (directory / f"loaded.{kind}").write_bytes(drawn)
            written.append(f"loaded.{kind}")
    return written


def _size(kib: int) -> str:
    return f"{kib} KiB" if kib < 1024 else f"{kib // 1024} MiB"
