"""The output of `perf lock contention`, as text and with -x (tools/perf/builtin-lock.c).

As text, a time is a number and its unit; with -x, separated fields and nanoseconds. Only acquires that contend are
counted, and how long locks are held is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from loiter.advise.profile import LockClass, Profile, Times, number
from loiter.errors import UserFault

_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
_HEADERS = {
    "contended": "contended",
    "total wait": "total",
    "max wait": "max",
    "min wait": "min",
    "avg wait": "avg",
}
_CSV = "# output:"
_NEEDED = ("contended", "total")
_OF_LOCKS = ("caller", "symbol")
_HEADER = re.compile("|".join(map(re.escape, sorted(_HEADERS, key=len, reverse=True))))
_TIME = re.compile(r"\s*(\S+)\s+(ns|us|ms|s|m|h)\s")
# A line of a call stack below an entry: an address and a symbol.
_FRAME = re.compile(r"\s+(0x)?[0-9a-f]{8,16}\s+\S+\s*$")


def is_one(text: str) -> bool:
    """Whether a line names the columns."""
    return any(_is_header(line) for line in text.splitlines())


def _is_header(line: str) -> bool:
    return line.startswith(_CSV) or ("contended" in line and "wait" in line and not re.search(r"\d", line))


def read(path: Path, text: str) -> Profile:
    """As a profile. What perf tells apart twice under one name has its number behind it."""
    numbered = list(enumerate(text.splitlines(), 1))
    begin = next(index for index, (_, line) in enumerate(numbered) if _is_header(line))
    header_at, header = numbered[begin]
    rows = numbered[begin + 1 :]
    classes = _csv(path, header_at, header, rows) if header.startswith(_CSV) else _text(path, header_at, header, rows)
    if not classes:
        raise UserFault(f"{path}: no line below the one that names the columns (line {header_at}).")
    return Profile(path, "perf lock contention", "ns", tuple(_told_apart(classes)))


def _told_apart(classes: Sequence[LockClass]) -> list[LockClass]:
    from dataclasses import replace

    seen: dict[str, int] = {}
    found = []
    for each in classes:
        seen[each.name] = seen.get(each.name, 0) + 1
        found.append(each if seen[each.name] == 1 else replace(each, name=f"{each.name} ({seen[each.name]})"))
    return found


def _check(path: Path, at: int, names: Sequence[str], last: Sequence[str]) -> None:
    if not set(last) & set(_OF_LOCKS):
        raise UserFault(
            f"{path}, line {at}: lines are by {' and '.join(last) or 'nothing'}, not by lock; run perf lock contention "
            "without -t, -o and -g."
        )
    for needed in _NEEDED:
        if needed not in names:
            raise UserFault(
                f"{path}, line {at}: no column of what is contended and of its total wait; perf lock contention "
                "without -F has both."
            )


def _text(path: Path, at: int, header: str, rows: Sequence[tuple[int, str]]) -> list[LockClass]:
    names = [_HEADERS[word] for word in _HEADER.findall(header)]
    last = header[[*_HEADER.finditer(header)][-1].end() :].split() if names else []
    _check(path, at, names, last)
    found = []
    for number_of_line, line in rows:
        if line.startswith(("===", "#")):
            break
        if not line.strip() or _FRAME.match(line):
            continue
        values, rest = {}, line
        for name in names:
            if name == "contended":
                word, _, rest = rest.strip().partition(" ")
                values[name] = number(path, number_of_line, name, word, int)
            elif match := _TIME.match(f"{rest} "):
                values[name] = number(path, number_of_line, f"{name} wait", match[1]) * _NS[match[2]]
                rest = rest[match.end() :]
            else:
                raise UserFault(
                    f"{path}, line {number_of_line}: {name} wait is no time with a unit ({', '.join(_NS)}): "
                    f"{rest.strip()[:40]!r}."
                )
        words = rest.split(None, max(0, len(last) - 1))
        if not words:
            raise UserFault(f"{path}, line {number_of_line}: it ends where {' and '.join(last) or 'a name'} should be.")
        found.append(_class(values, words, last))
    return found


def _csv(path: Path, at: int, header: str, rows: Sequence[tuple[int, str]]) -> list[LockClass]:
    line = header.removeprefix(_CSV).strip()
    separator = line[len("contended")] if line.startswith("contended") and len(line) > len("contended") else ""
    if not separator.strip():
        raise UserFault(f"{path}, line {at}: no separator behind contended; perf lock contention -x, has one.")
    columns = [word.strip() for word in line.split(separator)]
    names = [_HEADERS.get(word, word) for word in columns]
    times = [name for name in names if name in _HEADERS.values()]
    last = columns[len(times) :]
    _check(path, at, names, last)
    found = []
    for number_of_line, text in rows:
        if not text.strip() or text.startswith("#"):
            continue
        fields = [word.strip() for word in text.split(separator, len(columns) - 1)]
        if len(fields) != len(columns):
            raise UserFault(
                f"{path}, line {number_of_line}: {len(fields)} fields; line {at} names {len(columns)}: "
                f"{', '.join(columns)}."
            )
        values = {
            name: number(path, number_of_line, name if name == "contended" else f"{name} wait", word)
            for name, word in zip(times, fields, strict=False)
        }
        found.append(_class(values, fields[len(times) :], last))
    return found


def _class(values: dict[str, float], words: Sequence[str], columns: Sequence[str]) -> LockClass:
    facts = dict(zip(columns, words, strict=False))
    name = facts.get("caller") or facts.get("symbol") or ""
    kind = facts.get("type", "")
    if not kind and (match := re.fullmatch(r"(?P<name>.*\S)?\s*\((?P<kind>[\w:-]+)\)", name)):
        name, kind = match["name"] or facts.get("address", ""), match["kind"]
    waits = Times(int(values["contended"]), values["total"], values.get("min"), values.get("max"))
    return LockClass(name or facts.get("address", "?"), waits, kind=kind)
