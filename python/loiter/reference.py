"""Published figures: one TOML file a paper, read by key path."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import tomlkit

from loiter import resources


@functools.cache
def load(name: str) -> dict[str, Any]:
    """The published figures of a paper."""
    path = resources.REFERENCE / f"{name}.toml"
    return tomlkit.parse(resources.read_text(path, "the published figures")).unwrap()


def lookup(name: str, path: str) -> Any:
    """The published value at a key path such as `result.t1_default_1_spinner_add`; of a list, `spin.useful_ipc.8.0`."""
    value: Any = load(name)
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every key path under one, with its value; a list is one value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    else:
        yield path, value
