"""Programs of `locks/native`, compiled by the user's compiler at first use and kept in the cache."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loiter.errors import RunFault, UserFault
from loiter.images import cache, tools
from loiter.resources import LOCKS

SOURCES = LOCKS / "native"

_FLAGS = ("-O2", "-DNDEBUG", "-pthread")
_GUARD = ".native"


@dataclass(frozen=True)
class Program:
    """What is compiled, and how."""

    name: str
    """Of the result."""
    source: str
    """A file of `locks/native`."""
    flags: tuple[str, ...] = ()
    """Beside those of all."""
    libraries: tuple[str, ...] = ()
    """What is linked after it: flags and files."""


def built(program: Program) -> Path:
    """The compiled program: from the cache, or made now.

    Raises `UserFault` where there is no compiler, `RunFault` with its words where it refuses the source.
    """
    key = hashlib.sha256()
    for word in (*_compiler(program.source), _version(program.source), *_FLAGS, *program.flags, *program.libraries):
        key.update(word.encode() + b"\0")
        if (file := Path(word)).suffix == ".a" and file.is_file():
            key.update(file.read_bytes())
    for path in _inputs():
        key.update(str(path.relative_to(LOCKS)).encode() + b"\0" + path.read_bytes())
    directory = cache.root() / "native" / key.hexdigest()[:24]
    path = directory / program.name
    if path.exists():
        return path
    with cache.guard(_GUARD), cache.reporting(directory):
        if not path.exists():
            directory.mkdir(parents=True, exist_ok=True)
            _compile(program, path)
    return path


def has_header(name: str, flags: Sequence[str] = ()) -> bool:
    """Whether a C program may include this."""
    words = [*_compiler(".c"), *flags, "-E", "-x", "c", "-include", name, os.devnull]
    return subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, check=False).returncode == 0


def crate(manifest: Path) -> Path:
    """The static library of a Rust crate in `locks/native`, built by cargo."""
    if tools.find("cargo") is None:
        raise UserFault(f"no cargo, which builds {manifest.parent.name}: install a Rust toolchain (rustup does it).")
    version = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=False).stdout
    key = hashlib.sha256(version.encode())
    for path in (manifest, manifest.with_name("Cargo.lock"), manifest.parent / "src" / "lib.rs"):
        key.update(path.read_bytes())
    directory = cache.root() / "native" / key.hexdigest()[:24]
    path = directory / f"lib{manifest.parent.name}.a"
    with cache.guard(_GUARD), cache.reporting(directory):
        if not path.exists():
            target = directory / "target"
            words = ["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", str(manifest)]
            tools.run([*words, "--target-dir", target], f"building {manifest.parent.name}")
            [found] = (target / "release").glob("*.a")
            found.rename(path)
            shutil.rmtree(target)
    return path


def _compile(program: Program, path: Path) -> None:
    temporary = path.with_name(f".incoming-{path.name}")
    words = [
        *_compiler(program.source),
        *_FLAGS,
        *program.flags,
        f"-I{LOCKS / 'include'}",
        "-o",
        str(temporary),
        str(SOURCES / program.source),
        *program.libraries,
    ]
    try:
        done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise RunFault(f"cannot run {words[0]}: {error.strerror}.") from None
    if done.returncode != 0:
        said = "\n".join(f"  {line}" for line in done.stderr.splitlines()[-12:])
        raise RunFault(f"{shlex.join(words)} ended with status {done.returncode}:\n{said}")
    temporary.rename(path)


def _inputs() -> list[Path]:
    """All that a program may include."""
    patterns = ("native/**/*", "include/loiter/*.h", "test/kinds.*")
    found = [path for pattern in patterns for path in LOCKS.glob(pattern) if path.is_file()]
    if not found:
        raise UserFault(f"{LOCKS}: the sources of the locks are not there; install loiter again.")
    return sorted(found)


def _compiler(source: str) -> Sequence[str]:
    """`CC` or `CXX` of the environment, or the system's."""
    variable, usual = ("CXX", "c++") if source.endswith(".cc") else ("CC", "cc")
    words = shlex.split(os.environ.get(variable) or usual)
    if tools.find(words[0]) is None:
        raise UserFault(
            f"no {words[0]}: programs for this machine are compiled on it. Install a C compiler (build-essential), or "
            f"name one with the environment variable {variable}."
        )
    standard = "gnu++17" if source.endswith(".cc") else "gnu11"
    return (*words, f"-std={standard}")


def _version(source: str) -> str:
    done = subprocess.run(
        [_compiler(source)[0], "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    return done.stdout
