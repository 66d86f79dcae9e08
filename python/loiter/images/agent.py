"""The host's side of the exec agent (guests/linux/root/agent): the archive it unpacks and the lines it speaks."""

from __future__ import annotations

import io
import os
import shlex
import stat
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from loiter import resources
from loiter.errors import InternalFault, UserFault
from loiter.images.initramfs import TIMESTAMP

# Ports of the machine: the UART is 0, and hvc0, hvc1, ... follow.
OUT, ERR, TALK = 1, 2, 3

READY = "ready"
GO = b"go\n"
# Where files and the command are in the guest.
DIRECTORY = "/put"

_OWN = ".loiter"
_LAUNCH = "launch"
_GOT = f"{_OWN}/got"


@dataclass(frozen=True)
class Ended:
    """How the agent ended: with the command's exit status, or with a fault of its own."""

    status: int | None
    fault: str = ""


def ended(line: str) -> Ended | None:
    """What a line of the agent says of the end; None if it says something else."""
    word, _, rest = line.strip().partition(" ")
    if word == "exit" and rest.isdigit():
        return Ended(int(rest))
    if word == "error":
        return Ended(None, rest)
    return None


def script(
    command: Sequence[str], environment: Mapping[str, str] | None = None, how: str = "run", get: Sequence[str] = ()
) -> str:
    """The script that runs one command. `how` is the first word of the launcher (guests/linux/launcher).

    Files to `get`, relative to the command's directory, come back on the disk that brought the archive.
    """
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted((environment or {}).items())]
    launch = f"{DIRECTORY}/{_OWN}/{_LAUNCH} {how} {shlex.join(command)}"
    if not get:
        return "\n".join([*lines, f"exec {launch}", ""])
    files = shlex.join(get)
    bring = f": > {_GOT}; tar --create --file /dev/vdb --absolute-names -- {_GOT} {files}"
    return "\n".join([*lines, launch, "status=$?", bring, "exit $status", ""])


def take(archive: BinaryIO, get: Sequence[str], to: Path) -> list[str]:
    """Puts the files that came back into a directory, each by its last name. Returns those that did not come."""
    names = {name.rstrip("/"): PurePosixPath(name).name for name in get}
    missing = dict.fromkeys(names)
    archive.seek(0)
    with tarfile.open(fileobj=archive, mode="r:") as found:
        first = found.next()
        if first is None or first.name != _GOT:
            return list(missing)
        for member in found:
            for name, last in names.items():
                if member.name == name or member.name.startswith(f"{name}/"):
                    missing.pop(name, None)
                    # What a guest wrote goes nowhere else: the filter refuses links and names that lead out.
                    found.extract(member.replace(name=last + member.name[len(name) :]), to, filter="data")
    return list(missing)


def write_archive(out: BinaryIO, script: str, put: Iterable[Path] = (), stdin: BinaryIO | None = None) -> None:
    """Writes the archive: a script, files and directories by their own names, and what the command reads."""
    # Fixed times and owners: the same files make the same run.
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        _add_bytes(archive, f"{_OWN}/command", script.encode())
        _add_bytes(archive, f"{_OWN}/{_LAUNCH}", _launcher(), 0o755)
        if stdin is not None:
            _add_file(archive, f"{_OWN}/stdin", stdin, 0o644)
        seen = {_OWN: Path(_OWN)}
        for path in put:
            name = path.absolute().name or path.resolve().name
            if name in seen:
                raise UserFault(f"put {path}: {seen[name]} has the same name in {DIRECTORY}; rename one.")
            seen[name] = path
            _add(archive, path, name)


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    try:
        # What the user named is followed, links below it are kept.
        facts = path.stat() if "/" not in name else path.lstat()
        member = tarfile.TarInfo(name)
        member.mtime, member.mode = TIMESTAMP, stat.S_IMODE(facts.st_mode)
        if stat.S_ISDIR(facts.st_mode):
            member.type = tarfile.DIRTYPE
            archive.addfile(member)
            for below in sorted(path.iterdir()):
                _add(archive, below, f"{name}/{below.name}")
        elif stat.S_ISLNK(facts.st_mode):
            member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)
            archive.addfile(member)
        elif stat.S_ISREG(facts.st_mode):
            member.size = facts.st_size
            with path.open("rb") as file:
                archive.addfile(member, file)
        else:
            raise UserFault(f"--put {path}: neither a file nor a directory.")
    except OSError as error:
        raise UserFault(f"--put {path}: cannot read it: {error.strerror}.") from None


def _launcher() -> bytes:
    path = resources.GUESTS / _LAUNCH
    try:
        return path.read_bytes()
    except OSError as error:
        raise InternalFault(
            f"{path}: cannot read the launcher: {error.strerror}. In a checkout, `make setup` builds it."
        ) from None


def _add_bytes(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    _add_file(archive, name, io.BytesIO(data), mode)


def _add_file(archive: tarfile.TarFile, name: str, data: BinaryIO, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = data.seek(0, io.SEEK_END), TIMESTAMP, mode
    data.seek(0)
    archive.addfile(member, data)
