"""Machines: presets by name, a user's own by path, each with its overrides and where every value comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import tomlkit
from tomlkit.items import Table

from loiter import resources
from loiter.engine import Engine
from loiter.errors import UserFault, unknown

Value = int | str | bool | float
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

    def count(self, key: str, default: int) -> int:
        """A parameter that is a number of things."""
        value = self.value(key)
        return value if isinstance(value, int) else default

    @property
    def contexts_per_core(self) -> int:
        return self.count("core.contexts", 1)

    @property
    def contexts(self) -> int:
        """Contexts of the whole machine; they are numbered from 0, core by core."""
        return self.count("system.cores", 1) * self.contexts_per_core

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
    for each in overrides:
        if "=" not in each.strip("="):
            raise UserFault(f'--set {each}: an override is written key=value, as in "--set core.contexts=8".')
    path = _path(name)
    toml = _with_base(path, ())
    facts = engine.describe_machine(path.stem, toml, overrides)
    return Machine(
        name=str(facts["name"]),
        toml=toml,
        sets=tuple(overrides),
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


def _with_base(path: Path, below: tuple[Path, ...]) -> str:
    """The text of a machine file, with what it does not say itself from the machine its `base` names.

    Comments stay with their values, for they are the values' sources; a value that replaces another has only its own.
    """
    text = resources.read_text(path, "the machine file")
    try:
        own = tomlkit.parse(text)
    except tomlkit.exceptions.ParseError as error:
        raise UserFault(f"{path}: this is no TOML: {error}.") from None
    base = own.pop("base", None)
    if base is None:
        return text
    if not isinstance(base, str):
        raise UserFault(f'{path}: base must be the name or the file of a machine, as in base = "t1".')
    base_path = path.parent / base if is_file(base) else _path(base)
    if base_path.resolve() in (each.resolve() for each in (path, *below)):
        raise UserFault(f"{path}: base {base} leads back to the machine itself.")
    merged = tomlkit.parse(_with_base(base_path, (path, *below)))
    for section, values in own.items():
        replaced = merged.get(section)
        if isinstance(replaced, Table) and isinstance(values, Table):
            _overlay(replaced, values)
        else:
            merged[section] = values
    return tomlkit.dumps(merged)


def _overlay(section: Table, own: Table) -> None:
    """Puts a file's own values into a section of its base."""
    # The body has the items as they are written; the mapping gives a boolean without its comment.
    for key, item in own.value.body:
        if key is None:
            continue
        comment = item.trivia.comment
        section[key.key] = item
        # tomlkit lends an item without a comment that of the one it replaces, which says nothing about the new value.
        item.trivia.comment = comment
