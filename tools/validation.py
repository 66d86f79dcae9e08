#!/usr/bin/env python3
"""Puts the figures of a study into docs/validation.md, between the marks that name the study.

    tools/validation.py STUDY RESULTS/points.md

The words around the table are written by people. A miss that they do not name is an error.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

DOCUMENT = Path(__file__).parent.parent / "docs" / "validation.md"


def misses(table: str) -> list[str]:
    """Names of the values that missed, as the table's first column has them."""
    return [row.split("`")[1] for row in table.splitlines() if "MISS" in row and "`" in row]


def main() -> int:
    """Rewrites the table; answers the exit code."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    study, table = sys.argv[1], Path(sys.argv[2]).read_text(encoding="utf-8").strip()
    text = DOCUMENT.read_text(encoding="utf-8")
    begin, end = f"<!-- figures of {study} -->", f"<!-- end of {study} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        print(f"{DOCUMENT}: no marks for the study {study}", file=sys.stderr)
        return 2
    DOCUMENT.write_text(pattern.sub(lambda _: f"{begin}\n{table}\n{end}", text), encoding="utf-8")
    prose = pattern.sub("", text)
    silent = [name for name in misses(table) if f"`{name}`" not in prose]
    for name in silent:
        print(f"{DOCUMENT}: nothing is said about the miss of {name}", file=sys.stderr)
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
