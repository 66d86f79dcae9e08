"""Programs: the guests that come with loiter by name, any ELF by path, and the placement of their tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loiter import resources
from loiter.engine import Engine
from loiter.errors import UserFault, unknown
from loiter.machines import Machine


@dataclass(frozen=True)
class Program:
    """An ELF and the tasks it has."""

    name: str
    path: Path
    elf: bytes
    hash: str
    tasks: tuple[str, ...]


def names() -> list[str]:
    """The guests that come with loiter."""
    return sorted(path.stem for path in resources.GUESTS.glob("*.elf"))


def load(engine: Engine, name: str) -> Program:
    """A guest by its name or an ELF by its path; a file of that name comes first."""
    path = Path(name)
    if not path.is_file():
        path = _guest(name)
    elf = resources.read_bytes(path, "the program")
    facts = engine.inspect_program(str(path), elf)
    return Program(path.stem, path, elf, str(facts["hash"]), tuple(sorted(facts["tasks"])))


def _guest(name: str) -> Path:
    known = names()
    if name in known:
        return resources.GUESTS / f"{name}.elf"
    if Path(name).is_dir():
        raise UserFault(f"{name}: a directory, not a program. Give the ELF file itself, or the name of a guest.")
    if "/" in name or name.endswith(".elf"):
        raise UserFault(f"{name}: no such file. Guests that come with loiter go by their names: {', '.join(known)}.")
    if not known:
        raise UserFault(f'unknown program "{name}": no guest is built. In a checkout, `make setup` builds them.')
    raise unknown("program", name, known, advice="An ELF of your own is given by its path.")


@dataclass(frozen=True)
class Placement:
    """Which task runs on which contexts, in the order they were given."""

    tasks: tuple[tuple[str, tuple[int, ...]], ...]

    def words(self) -> list[str]:
        """As the guest's command line has it. Hart numbers are context numbers."""
        return [f"task.{task}={','.join(str(context) for context in contexts)}" for task, contexts in self.tasks]


def place(requests: Sequence[str], program: Program, machine: Machine) -> Placement:
    """Reads `task=context[,context...]`, a context being a number over the machine or `core.context`.

    A program with one task that is not placed has it on context 0.
    """
    if program.tasks and not requests:
        if len(program.tasks) > 1:
            raise UserFault(
                f"{program.name} has several tasks and none is placed. Place one with --place TASK=CONTEXT; "
                f'its tasks: {", ".join(program.tasks)}. "loiter programs {program.path.stem}" says more.'
            )
        requests = [f"{program.tasks[0]}=0"]
    taken: dict[int, str] = {}
    placed: dict[str, list[int]] = {}
    for request in requests:
        task, equals, contexts = request.partition("=")
        if not equals or not contexts:
            raise UserFault(
                f'--place {request}: a placement is written task=context, as in "--place add=0" or "--place add=1.2" '
                "(core 1, context 2); several contexts are separated by commas."
            )
        if task not in program.tasks:
            raise unknown(f"task of {program.name}", task, program.tasks)
        for text in contexts.split(","):
            context = _context(text, machine, request)
            if context in taken:
                raise UserFault(
                    f"--place {request}: context {context} already runs {taken[context]}; a context runs one task."
                )
            taken[context] = task
            placed.setdefault(task, []).append(context)
    return Placement(tuple((task, tuple(contexts)) for task, contexts in placed.items()))


def arguments(words: Sequence[str]) -> list[str]:
    """Checks the words after `--`: `key=value` each, for the program's tasks."""
    for word in words:
        key, equals, _ = word.partition("=")
        if not equals or not key or any(space in word for space in " \t\n"):
            raise UserFault(f'argument "{word}": arguments of a program are written key=value, without spaces.')
        if key.startswith("task."):
            raise UserFault(f'argument "{word}": tasks are placed by --place {key.removeprefix("task.")}=CONTEXT.')
    return list(words)


def _context(text: str, machine: Machine, request: str) -> int:
    cores, total = machine.core_contexts, machine.contexts
    core, dot, inner = text.partition(".")
    if not core.isascii() or not core.isdigit() or (dot and not (inner.isascii() and inner.isdigit())):
        raise UserFault(f'--place {request}: "{text}" is neither a context number nor core.context.')
    per_core = machine.contexts_per_core
    of_core = cores[int(core)] if dot and int(core) < len(cores) else per_core
    if dot and int(inner) >= of_core:
        raise UserFault(
            f"--place {request}: {machine.name} has contexts 0 to {of_core - 1} in each core; there is no {text}."
        )
    context = (sum(cores[: int(core)]) + int(inner) if int(core) < len(cores) else total) if dot else int(core)
    if context >= total:
        count = len(cores)
        raise UserFault(
            f"--place {request}: {machine.name} has {count} core{'s' if count > 1 else ''} of {per_core} "
            f"context{'s' if per_core > 1 else ''} here, numbered 0 to {total - 1}; there is no {text}. "
            f'"--set system.cores={int(core) + 1 if dot else context // per_core + 1}" would make room.'
        )
    return context
