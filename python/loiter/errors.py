"""Faults that a person reads, each with the exit status it ends the command with.

A fault says what is wrong, where, and what to do. Anything else that escapes a command is ours (exit status 3).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class Fault(Exception):
    """Base of every fault that is reported without a traceback."""

    exit_status = 3


class UserFault(Fault):
    """The user's mistake: a wrong name, key, file or value."""

    exit_status = 2


class RunFault(Fault):
    """A run failed: the guest ended with an error, or its result could not be kept."""

    exit_status = 1


class StoreFault(RunFault):
    """A result could not be written; what was finished before is kept."""


class Interrupted(Fault):
    """The user pressed Ctrl-C (128 + SIGINT, as shells have it)."""

    exit_status = 130


class InternalFault(Fault):
    """Ours: a panic in the native module or a worker that ended without a word."""

    exit_status = 3


def nearest(word: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known names closest to a mistyped one, best first; upper and lower case are one."""

    def likeness(name: str) -> float:
        return difflib.SequenceMatcher(None, name.casefold(), word.casefold()).ratio()

    close = [(-likeness(name), name) for name in known if likeness(name) >= 0.5]
    return [name for _, name in sorted(close)[:count]]


def unknown(kind: str, word: str, known: Iterable[str], advice: str = "") -> UserFault:
    """The fault for a name that is not in a list: names the nearest ones, else all."""
    names = sorted(known)
    close = nearest(word, names)
    if close:
        text = f'unknown {kind} "{word}"; did you mean {_either(close)}? Known: {_listed(names)}.'
    elif names:
        text = f'unknown {kind} "{word}"; known: {_listed(names)}.'
    else:
        text = f'unknown {kind} "{word}"; none is known here.'
    return UserFault(f"{text} {advice}".rstrip())


def _either(names: list[str]) -> str:
    return " or ".join(f'"{name}"' for name in names)


def _listed(names: list[str], most: int = 30) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown}, and {len(names) - most} more"
