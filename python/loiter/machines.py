"""Machines: presets by name, a user's own by path, each with its overrides and where every value comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import tomlkit
from tomlkit import TOMLDocument
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
    toml = _with_base(path, name, ())
    # The simulator calls a machine without a name as its file is called in messages, which is a path.
    return _describe(engine, name, path.stem, toml, overrides)


def changed(engine: Engine, machine: Machine, sets: list[str]) -> Machine:
    """The same machine with other overrides."""
    return _describe(engine, machine.name, machine.name, machine.toml, sets)


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


def _with_base(path: Path, shown: str, below: tuple[Path, ...]) -> str:
    """The text of a machine file, with what it does not say itself from the machine its `base` names.

    Comments stay with their values, for they are the values' sources; a value that replaces another has only its own.
    `shown` is what messages call the file; `below` are the files that lead here.
    """
    text = resources.read_text(path, "the machine file")
    try:
        own = tomlkit.parse(text)
    except tomlkit.exceptions.TOMLKitError as error:
        raise UserFault(f"{shown}: this is no TOML: {str(error).rstrip('.')}.") from None
    base = own.pop("base", None)
    _refuse_base_in_section(own, shown)
    if base is None:
        return text
    if not isinstance(base, str):
        raise UserFault(f'{shown}: base must be the name or the file of a machine, as in base = "t1".')
    if not is_file(base) and base not in names():
        advice = f'A file of your own is given by its path: base = "./{base}.toml"'
        raise UserFault(f"{shown}: base: {unknown('machine', base, names(), advice)}")
    base_path = path.parent / base if is_file(base) else _path(base)
    if base_path.resolve() in (each.resolve() for each in (path, *below)):
        raise UserFault(f"{shown}: base {base} leads back to the machine itself.")
    merged = tomlkit.parse(_with_base(base_path, str(base_path), (path, *below)))
    for section, values in own.items():
        replaced = merged.get(section)
        if replaced is None:
            merged[section] = values
        elif isinstance(replaced, Table) and isinstance(values, Table):
            _overlay(replaced, values)
        else:
            raise UserFault(f"{shown}: {section} must be written as a section: [{section}], and its values below it.")
    return tomlkit.dumps(merged)


def _refuse_base_in_section(own: TOMLDocument, shown: str) -> None:
    """A `base` below a section's header belongs to that section, where nothing looks for it."""
    for section, values in own.items():
        if not isinstance(values, Table) or "base" not in values:
            continue
        # A source may have the tag "base"; then a citation follows, not the name of a machine.
        if section != "sources" or values["base"] in names():
            raise UserFault(
                f"{shown}: base stands in [{section}]; it must stand at the top of the file, before any section."
            )


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
