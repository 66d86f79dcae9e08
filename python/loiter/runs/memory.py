"""The host's memory."""

from __future__ import annotations

import psutil


def available_bytes() -> int:
    """Memory that programs may still take before the host swaps."""
    available: int = psutil.virtual_memory().available
    return available


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in use now; 0 once it is gone."""
    try:
        resident: int = psutil.Process(pid).memory_info().rss
    except psutil.NoSuchProcess:
        return 0
    return resident
