"""What a page of the documentation runs: its commands, its Python, and the files that it shows."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

_BLOCK = re.compile(r"^```(?P<kind>\w+)(?: title=\"(?P<file>[^\"]+)\")?\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)
_PROMPT = "$ "


def of_page(text: str, home: Path, python: str = sys.executable) -> Iterator[list[str]]:
    """The commands of a page, in their order; files with a title are written to `home` when their turn comes."""
    for block in _BLOCK.finditer(text):
        if block["file"]:
            (home / block["file"]).write_text(block["text"], encoding="utf-8")
        elif block["kind"] == "python":
            yield [python, "-c", block["text"]]
        else:
            lines = [line.removeprefix(_PROMPT) for line in block["text"].splitlines() if line.startswith(_PROMPT)]
            assert lines, f"a block that nothing runs: {block['text'][:60]}"
            yield from (["/bin/sh", "-c", line] for line in lines)
