"""Where the files beside the code are: machines, published figures, built guests, what goes into guests' Linux, locks.

`loiter/data` holds them. In a checkout it consists of links to the top-level folders; a wheel carries the files.
"""

from __future__ import annotations

from pathlib import Path

from loiter.errors import UserFault

DATA = Path(__file__).resolve().parent / "data"
MACHINES = DATA / "machines"
REFERENCE = DATA / "reference"
GUESTS = DATA / "guests"
LINUX = DATA / "linux"
LOCKS = DATA / "locks"


def read_text(path: Path, what: str) -> str:
    """The text of a file the user named, with the faults a person can act on."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserFault(
            f"{path}: {what} must be UTF-8 text; byte {error.start} is not. Is it the right file?"
        ) from None
    except OSError as error:
        raise UserFault(f"{path}: cannot read {what}: {error.strerror}.") from None


def read_bytes(path: Path, what: str) -> bytes:
    """The bytes of a file the user named, with the faults a person can act on."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserFault(f"{path}: cannot read {what}: {error.strerror}.") from None


def readable(path: Path, option: str) -> Path:
    """A file that the user named: it must be there before anything starts."""
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise UserFault(f"{option} {path}: {error.strerror}.") from None
