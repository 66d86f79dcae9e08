"""Machines: presets by name, a user's own by path, each with its overrides and where every value comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loiter import engine as engines
from loiter import resources
from loiter.engine import Engine
from loiter.errors import UserFault, unknown

Value = int | str | bool | float
UNTIMED = "reference"
"""The kind of core that has no timing."""
NO_SOURCE = "no source given"
"""Stands where a source would, for a value without a comment in its file."""
_TAG = re.compile(r"\[([A-Za-z][\w-]*)\]")


@dataclass(frozen=True)
class Parameter:
    """One value of a machine: declared in the simulator, set in the machine's file or by --set."""

    key: str
    value: Value
    unit: str
    type: str
    description: str
    source: str
    changed: bool


@dataclass(frozen=True)
class Machine:
    """A machine after its overrides. `toml` is the text the simulator reads."""

    name: str
    toml: str
    sets: tuple[str, ...]
    description: str
    hash: str
    parameters: tuple[Parameter, ...]
    sources: tuple[tuple[str, str], ...]
    """What the tags in the parameters' sources stand for."""

    def value(self, key: str) -> Value | None:
        """The value of a parameter, or None where this kind of machine has no such key."""
        return next((each.value for each in self.parameters if each.key == key), None)

    def has_extension(self, name: str) -> bool:
        """Whether its harts have an extension whose name has several letters, such as "zawrs"."""
        return name in str(self.value("hart.isa")).split("_")

    def count(self, key: str, default: int) -> int:
        """A parameter that is a number of things."""
        value = self.value(key)
        return value if isinstance(value, int) else default

    def set(self, *changes: str | Mapping[str, Value]) -> Machine:
        """The same machine with other values: `"core.contexts=4"`, or `{"core.contexts": 4}`, one or more of them.

        Raises `UserFault` for a key or a value that there cannot be, and names the nearest key.
        """
        words: list[str] = []
        for each in changes:
            words += [each] if isinstance(each, str) else [f"{key}={_text(value)}" for key, value in each.items()]
        _check_overrides(words, "")
        return changed(engines.load(), self, [*self.sets, *words])

    @property
    def is_timed(self) -> bool:
        """Whether its cores have timing."""
        return self.value("core.kind") != UNTIMED

    @property
    def contexts_per_core(self) -> int:
        """Contexts of a core; where there are two kinds of cores, of one of the first kind."""
        return self.count("core.contexts", 1)

    @property
    def core_contexts(self) -> list[int]:
        """Contexts of each core, those of section `little` last."""
        big = [self.contexts_per_core] * self.count("system.cores", 1)
        return big + [self.count("little.core.contexts", 1)] * self.count("little.cores", 0)

    @property
    def cores(self) -> int:
        """Cores of the machine."""
        return len(self.core_contexts)

    @property
    def contexts(self) -> int:
        """Contexts of the whole machine; they are numbered from 0, core by core."""
        return sum(self.core_contexts)

    def undefined_tags(self) -> dict[str, list[str]]:
        """Tags in the parameters' sources that nothing defines, each with the keys it stands at."""
        found: dict[str, list[str]] = {}
        for each in self.parameters:
            for tag in dict.fromkeys(_TAG.findall(each.source)):
                found.setdefault(tag, []).append(each.key)
        return {tag: keys for tag, keys in found.items() if tag not in dict(self.sources)}


def names() -> list[str]:
    """The presets."""
    return sorted(path.stem for path in resources.MACHINES.glob("*.toml"))


def load(engine: Engine, name: str, sets: list[str] | None = None) -> Machine:
    """A preset by its name, or a machine file by its path, with overrides `key=value`."""
    overrides = list(sets or [])
    _check_overrides(overrides, "--set ")
    path = _path(name)
    toml = engine.machine_text(name, path, resources.MACHINES)
    # The simulator calls a machine without a name as its file is called in messages, which is a path.
    return _describe(engine, name, path.stem, toml, overrides)


def _check_overrides(overrides: Iterable[str], option: str) -> None:
    for each in overrides:
        if "=" not in each.strip("="):
            raise UserFault(f'{option}{each}: an override is written key=value, as in "{option}core.contexts=8".')


def _text(value: Value) -> str:
    """A value as TOML has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def overridden(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Overrides: those of `before` but for what `after` says otherwise, and `after`."""
    keys = {_key(each) for each in after}
    return [*(each for each in before if _key(each) not in keys), *after]


def _key(override: str) -> str:
    return override.partition("=")[0].strip()


def changed(engine: Engine, machine: Machine, sets: list[str]) -> Machine:
    """The same machine with other overrides."""
    return parse(engine, machine.name, machine.toml, sets)


def parse(engine: Engine, name: str, toml: str, sets: list[str]) -> Machine:
    """A machine from its text, as results and snapshots keep it."""
    return _describe(engine, name, name, toml, sets)


def _describe(engine: Engine, shown: str, stem: str, toml: str, sets: list[str]) -> Machine:
    facts = engine.describe_machine(shown, toml, sets)
    return Machine(
        name=stem if facts["name"] == shown else str(facts["name"]),
        toml=toml,
        sets=tuple(sets),
        description=str(facts["description"]),
        hash=str(facts["hash"]),
        parameters=tuple(
            Parameter(
                key=each["key"],
                value=each["value"],
                unit=each["unit"],
                type=each["type"],
                description=each["description"],
                source=each["source"] or NO_SOURCE,
                changed=each["changed"],
            )
            for each in facts["parameters"]
        ),
        sources=tuple((tag, citation) for tag, citation in facts["sources"]),
    )


def is_file(name: str) -> bool:
    """Does this name a machine file of the user's own, not a preset?"""
    return "/" in name or name.endswith(".toml")


def _path(name: str) -> Path:
    if is_file(name):
        return Path(name)
    known = names()
    if name not in known:
        raise unknown("machine", name, known, advice=f"A file of your own is given by its path: -m ./{name}.toml")
    return resources.MACHINES / f"{name}.toml"
