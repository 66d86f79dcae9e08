"""The host's memory, as Linux says; where a host does not say, memory is no bound."""

from __future__ import annotations

import re
import sys
from pathlib import Path

_PROC = Path("/proc")
_KIB = 1024


def available_bytes() -> int:
    """Memory that programs may still take without others being thrown out."""
    return _field(_PROC / "meminfo", "MemAvailable") or sys.maxsize


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in use now; 0 once it is gone."""
    return _field(_PROC / str(pid) / "status", "VmRSS") or 0


def _field(path: Path, name: str) -> int | None:
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB$", path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * _KIB if found else None
