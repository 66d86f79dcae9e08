"""Commands of `loiter`, as a user types them, in this process."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from loiter import cli


@dataclass(frozen=True)
class Said:
    """What a command left."""

    status: int
    out: str
    err: str


Command = Callable[..., Said]


def run(*arguments: str) -> Said:
    """Runs a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
        cli.main(list(arguments))
    code = end.value.code
    return Said(0 if code is None else int(code), out.getvalue(), err.getvalue())
