"""Sweeps as files: what `loiter sweep FILE.toml` reads.

machine = "smt8"
program = "spinloops"
place = { add = 0 }
arguments = { iterations = 100 }

[grid]
"core.contexts" = [1, 2, 4]
"l2.size_kib" = "1024..8192*2"
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import ParseError

from loiter import resources
from loiter.errors import UserFault, unknown

KEYS: dict[str, type | tuple[type, ...]] = {
    "machine": str,
    "program": str,
    "place": (dict, list),
    "arguments": (dict, list),
    "phases": str,
    "fast_forward": bool,
    "max_cycles": int,
    "waiting": str,
    "lock_stats": bool,
    "command": (str, list),
    "harts": int,
    "memory_mib": int,
    "image": str,
    "packages": list,
    "put": list,
    "get": list,
    "environment": (dict, list),
    "stdin": str,
    "append": str,
    "network": bool,
    "seed": int,
    "roi": str,
    "timeout_s": (int, float),
    "grid": dict,
}
"""What a file may say, as `loiter.sweep` takes it."""


def read(path: Path) -> dict[str, Any]:
    """The words of a sweep's file. A machine or a table of waiting code given by a path is found beside the file."""
    text = resources.read_text(path, "the sweep")
    try:
        words: dict[str, Any] = tomlkit.parse(text).unwrap()
    except ParseError as error:
        raise UserFault(f"{path}: {error}") from None
    for key, value in words.items():
        if key not in KEYS:
            raise UserFault(f"{path}: {unknown('key', key, KEYS)}")
        if not isinstance(value, KEYS[key]) or (KEYS[key] is int and isinstance(value, bool)):
            raise UserFault(f"{path}: {key} = {value!r}: not what is expected there; docs/sweeps.md has an example.")
    for key in ("machine", "program", "waiting"):
        beside = path.parent / str(words.get(key, ""))
        if key in words and "/" in words[key] and beside.is_file():
            words[key] = str(beside)
    return words
