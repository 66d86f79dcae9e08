"""Tables of waiting code: which functions and ranges of a program or a kernel wait.

A table is TOML. The simulator reads it, and checks it against the symbols and the code of what runs; here it is only
chosen: by path, by the name of one that comes with loiter, or by the release of the kernel that an image has.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tomlkit
from tomlkit.exceptions import ParseError

from loiter import resources
from loiter.engine import Json
from loiter.errors import UserFault, unknown

OFF = "off"
"""Asks for no table."""


@dataclass(frozen=True)
class Table:
    """A table: what it is called in messages, and its text."""

    name: str
    text: str

    def native(self) -> Json:
        """The table as the simulator reads it."""
        return {"path": self.name, "text": self.text}

    def identity(self) -> Json:
        """What a result records of it."""
        return {"name": Path(self.name).name, "sha256": hashlib.sha256(self.text.encode()).hexdigest()}


def _kept() -> Iterator[Path]:
    """The tables that come with loiter."""
    return iter(sorted((resources.LINUX / "waiting").glob("*.toml")))


def _read(path: Path) -> Table:
    return Table(str(path), resources.read_text(path, "the table of waiting functions"))


def of_kernel(release: str) -> Table | None:
    """The table for a release of Linux, if there is one."""
    for path in _kept():
        table = _read(path)
        if any(fnmatch.fnmatchcase(release, pattern) for pattern in _releases(table)):
            return Table(path.stem, table.text)
    return None


@functools.cache
def _releases(table: Table) -> tuple[str, ...]:
    """The patterns of the releases that a table is of. Every point of a sweep asks, and to parse it takes 10 ms."""
    try:
        return tuple(tomlkit.parse(table.text).unwrap().get("releases", []))
    except ParseError as error:
        raise UserFault(f"{table.name}: {error}") from None


def named(text: str) -> Table | None:
    """The table that a person named; None for `off`."""
    if text == OFF:
        return None
    for path in _kept():
        if text == path.stem:
            return Table(text, _read(path).text)
    path = Path(text)
    if path.suffix == ".toml" or path.exists():
        return _read(path)
    known = [OFF, *(each.stem for each in _kept())]
    raise unknown("table of waiting functions", text, known, "A table of yours is named by its path.")
