"""Unpacks packages into a root file system, and writes the record of them that dpkg in the guest continues from.

No script of a package runs. apt and dpkg have no command for this: `dpkg --unpack` runs scripts that come before.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from loiter.errors import RunFault
from loiter.images import tools

_ADMINISTRATION = "var/lib/dpkg"
# It has the links that make /bin, /lib and the like part of /usr; what comes after follows them.
_FIRST = "base-files"
# The owner of a file is a number in the guest, not a name of the host's; a link to a directory stays a link.
_EXTRACT = (
    'set -o pipefail; dpkg-deb --fsys-tarfile "$1" | '
    'tar --extract --verbose --preserve-permissions --numeric-owner --keep-directory-symlink --directory "$2"'
)


def unpack(debs: list[Path], root: Path, scratch: Path, architecture: str) -> list[str]:
    """Unpacks all of them to `root`; returns their postinst scripts."""
    root.mkdir()
    root.chmod(0o755)
    information = root / _ADMINISTRATION / "info"
    status: list[str] = []
    scripts: list[str] = []
    for deb in sorted(debs, key=lambda path: (not path.name.startswith(f"{_FIRST}_"), path.name)):
        said = tools.run(["bash", "-c", _EXTRACT, "bash", deb, root], f"unpacking {deb.name}")
        control = scratch / "control"
        shutil.rmtree(control, ignore_errors=True)
        tools.run(["dpkg-deb", "--control", deb, control], f"unpacking {deb.name}")
        information.mkdir(parents=True, exist_ok=True)
        fields = (control / "control").read_text(encoding="utf-8")
        status.append(_with_status(fields))
        name = _in_dpkg(fields)
        _file(information / f"{name}.list", "".join(f"{_absolute(line)}\n" for line in said.splitlines()))
        for each in sorted(control.iterdir()):
            if each.name != "control":
                shutil.copyfile(each, information / f"{name}.{each.name}")
                (information / f"{name}.{each.name}").chmod(each.stat().st_mode & 0o777)
        if (control / "postinst").is_file():
            scripts.append((control / "postinst").read_text(encoding="utf-8", errors="replace"))
    administration = root / _ADMINISTRATION
    _file(administration / "status", "\n".join(status))
    _file(administration / "available", "")
    _file(administration / "arch-native", f"{architecture}\n")
    _file(information / "format", "1\n")
    return scripts


def _absolute(name: str) -> str:
    """A name in an archive as dpkg lists it."""
    path = name.removeprefix(".").rstrip("/")
    return path or "/."


def _in_dpkg(fields: str) -> str:
    """The name of a package's files in dpkg's directory: with the architecture where several may be installed."""
    values = dict(line.split(": ", 1) for line in fields.splitlines() if ": " in line and not line.startswith(" "))
    if "Package" not in values:
        raise RunFault("a package has no name in its control file")
    same = values.get("Multi-Arch") == "same"
    return f"{values['Package']}:{values['Architecture']}" if same else values["Package"]


def _with_status(fields: str) -> str:
    first, _, rest = fields.partition("\n")
    return f"{first}\nStatus: install ok unpacked\n{rest.rstrip()}\n"


def _file(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
