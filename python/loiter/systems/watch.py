"""What is looked for in what a guest says on its console."""

from __future__ import annotations

import re

_PANIC = re.compile(rb"Kernel panic - not syncing: ([^\r\n]+)[\r\n]")
_PANIC_ENDS = b"---[ end Kernel panic"
# The report of a panic, registers and stack included, is within so many bytes of the end.
_KEPT_BYTES = 16384


class Watch:
    """Listens to a console. `until` is a text that is waited for."""

    def __init__(self, until: str | None = None) -> None:
        self._until = None if until is None else until.encode()
        self._heard = b""
        self.said = False
        """Whether the text that is waited for has been said."""

    def hear(self, data: bytes) -> None:
        """Takes what was said."""
        if self._until is not None and not self.said:
            # The text may have begun in what was said before.
            before = self._heard[-len(self._until) :] if self._heard else b""
            self.said = self._until in before + data
        self._heard = (self._heard + data)[-max(_KEPT_BYTES, len(self._until or b"")) :]

    @property
    def panic(self) -> str | None:
        """Why the kernel panicked, in its own words."""
        found = _PANIC.search(self._heard)
        return None if found is None else found[1].decode(errors="replace").strip()

    @property
    def halted(self) -> bool:
        """Whether the kernel has said that it will do nothing any more, after a panic."""
        return _PANIC_ENDS in self._heard and self.panic is not None
