"""The host's side of the exec agent (guests/linux/root/agent): the archive it unpacks and the lines it speaks."""

from __future__ import annotations

import io
import os
import shlex
import stat
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from loiter.errors import UserFault
from loiter.images.initramfs import TIMESTAMP

# Ports of the machine: the UART is 0, and hvc0, hvc1, ... follow.
OUT, ERR, TALK = 1, 2, 3

READY = "ready"
GO = b"go\n"
# Where files and the command are in the guest.
DIRECTORY = "/put"

_OWN = ".loiter"


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


def script(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """The script that runs one command."""
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in sorted((environment or {}).items())]
    return "".join([*lines, f"{shlex.join(command)}\n"])


def write_archive(out: BinaryIO, script: str, put: Iterable[Path] = (), stdin: bytes | None = None) -> None:
    """Writes the archive: a script, files and directories by their own names, and what the command reads."""
    # Fixed times and owners: the same files make the same run.
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        _add_bytes(archive, f"{_OWN}/command", script.encode())
        if stdin is not None:
            _add_bytes(archive, f"{_OWN}/stdin", stdin)
        seen = {_OWN: Path(_OWN)}
        for path in put:
            name = path.absolute().name or path.resolve().name
            if name in seen:
                raise UserFault(f"--put {path}: {seen[name]} has the same name in {DIRECTORY}; rename one.")
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


def _add_bytes(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = len(data), TIMESTAMP, 0o644
    archive.addfile(member, io.BytesIO(data))
