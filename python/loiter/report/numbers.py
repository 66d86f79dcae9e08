"""How numbers are written."""

from __future__ import annotations


def fixed(value: float, digits: int = 1) -> str:
    """With so many decimals; what rounds to zero has no sign."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def counted(count: int, what: str) -> str:
    """A number of things: "1 waiter", "2 waiters"."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
