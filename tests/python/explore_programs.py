"""Programs that both tests of `loiter explore` explore, and how they are compiled."""

from __future__ import annotations

import re
from pathlib import Path

import explored

_INCLUDE = '#include "explore.h"\n'
_PAGE = Path(__file__).parents[2] / "docs" / "explore.md"


def program_of(tmp_path: Path, text: str) -> Path:
    """Compiles a program; `text` begins with its second line."""
    source = tmp_path / "program.c"
    source.write_text(_INCLUDE + text)
    program = tmp_path / "program.elf"
    explored.compile_guest([source], program)
    return program


def _of_page() -> str:
    """The program of docs/explore.md."""
    [listing] = re.findall(r"^```c\n(.*?)^```$", _PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    text = listing.removeprefix(_INCLUDE)
    assert text != listing
    return text


MESSAGE_PASSING = _of_page()
DEADLOCK = """
static int flags[2];

void thread(unsigned long hart) {
    while (!__atomic_load_n(&flags[1 - hart], __ATOMIC_ACQUIRE)) {}
    __atomic_store_n(&flags[hart], 1, __ATOMIC_RELEASE);
}
"""
