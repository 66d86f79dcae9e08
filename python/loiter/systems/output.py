"""Bytes to standard output and standard error, unchanged and at once."""

from __future__ import annotations

import os
import select
import signal

from loiter.errors import StoreFault

_NAMES = {1: "standard output", 2: "standard error"}


def write(sink: int, data: bytes) -> None:
    """Writes all of it to a file descriptor. Ends the process, as others end, when nobody reads any more."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(sink, view) :]
        except BlockingIOError:
            # Who shares the terminal with us has made it non-blocking.
            select.select([], [sink], [])
        except BrokenPipeError:
            raise SystemExit(128 + signal.SIGPIPE) from None
        except OSError as error:
            raise StoreFault(f"cannot write to {_NAMES.get(sink, sink)}: {error.strerror}.") from None
