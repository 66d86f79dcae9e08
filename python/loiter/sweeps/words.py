"""The words of `loiter.sweep` that are those of `loiter.run` or of `loiter.exec`, for who reads or checks types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from loiter.api import Place
    from loiter.systems.roi import Roi


class Words(TypedDict, total=False):
    """Of both, of a bare-metal program, of a command on Linux."""

    phases: str | None
    waiting: str | Path | None
    lock_stats: bool

    place: Place | None
    fast_forward: bool
    max_cycles: int | None

    harts: int | None
    memory_mib: int | None
    image: str | None
    packages: Sequence[str]
    put: Sequence[str | Path]
    get: Sequence[str]
    environment: Mapping[str, str] | Sequence[str] | None
    stdin: str | bytes | None
    roi: Roi | str | None
    append: str | None
    network: bool
    seed: int
    timeout_s: float | None
