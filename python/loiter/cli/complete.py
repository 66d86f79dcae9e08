"""What a shell completes: machines, programs, tasks, keys of parameters, studies, images; nothing where it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import typer

from loiter import engine as engines
from loiter import machines as known
from loiter import programs as guests
from loiter.errors import Fault

_MACHINE, _PROGRAM = ("machine",), ("program", "name")


def machines(incomplete: str) -> list[str]:
    """Names of machines."""
    return _begins(known.names(), incomplete)


def programs(incomplete: str) -> list[str]:
    """Names of guests."""
    return _begins(guests.names(), incomplete)


def tasks(ctx: typer.Context, incomplete: str) -> list[str]:
    """`TASK=` of the program that is named, or of all."""
    if "=" in incomplete:
        return []
    named = [ctx.params[name] for name in _PROGRAM if ctx.params.get(name)]
    found = _quietly(
        lambda: {f"{t}=" for name in named or guests.names() for t in guests.load(engines.load(), name).tasks}
    )
    return _begins(found, incomplete)


def locks(incomplete: str) -> list[str]:
    """Names of locks, the last of a list."""
    from loiter import contention

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _begins(_quietly(contention.names), last)]


def keys(ctx: typer.Context, incomplete: str) -> list[str]:
    """`KEY=` of the machine that is named, or of all."""
    if "=" in incomplete:
        return []
    named = [str(ctx.params[name]) for name in _MACHINE if ctx.params.get(name)]
    found = _quietly(
        lambda: {
            f"{each.key}=" for name in named or known.names() for each in known.load(engines.load(), name).parameters
        }
    )
    return _begins(found, incomplete)


def axes(ctx: typer.Context, incomplete: str) -> list[str]:
    """`KEY=` of what a sweep can vary."""
    return [*keys(ctx, incomplete), *_begins(("machine=", "program=", "place=", "phases=", "argument."), incomplete)]


def studies(incomplete: str) -> list[str]:
    """Names of studies."""
    from loiter import studies

    return _begins(studies.NAMES, incomplete)


def images(incomplete: str) -> list[str]:
    """Names of images, built ones and those that can be."""
    from loiter.images import cache, kinds

    return _begins({*_quietly(cache.names), *kinds.NAMES}, incomplete)


def _begins(words: Iterable[str], incomplete: str) -> list[str]:
    return sorted(word for word in words if word.startswith(incomplete))


def _quietly(find: Callable[[], Iterable[str]]) -> Iterable[str]:
    """A fault while somebody types is not to be seen: the command itself will say it."""
    try:
        return find()
    except Fault:
        return ()
