"""Result directories: a manifest beside Parquet tables, written whole or not at all.

A directory is filled under a temporary name, every file is flushed to the disk, and one rename makes it a result. So a
full disk or a kill leaves either a whole result or none. What is read back is checked against the hashes in the
manifest; an entry that fails is no result and is run again.

    manifest.json    what was run and how it ended; the same bytes on every host
    host.json        what depends on the host: seconds, date
    stdout stderr console.txt    of systems that booted
    counters.parquet accounts.parquet activities.parquet histograms.parquet seats.parquet samples.parquet
    marks.parquet reports.parquet lock_reads.parquet locks.parquet
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from loiter.engine import Engine, Json
from loiter.errors import StoreFault, UserFault
from loiter.results import HOST, Result
from loiter.runs.request import SCHEMA, Request, digest

MANIFEST = "manifest.json"
CONSOLE_TAIL = 4096
_TEMPORARY = ".incoming-"


class Corrupt(Exception):
    """An entry that is not what its manifest says."""


def write(path: Path, request: Request, engine: Engine, result: Json, *, replace: bool = False) -> Path:
    """Writes a result directory at `path`, whole or not at all. With `replace`, an earlier result there goes."""
    return _write(path, lambda directory: _fill(directory, request, engine, result), replace)


def write_files(
    path: Path,
    manifest: Json,
    host_seconds: float,
    files: Mapping[str, bytes],
    statistics: Json | None = None,
    *,
    replace: bool = True,
) -> Path:
    """Writes a result directory that holds other files, and tables if there are statistics."""

    def fill(directory: Path) -> None:
        entries: Json = {"schema": SCHEMA, "files": {name: _described(data) for name, data in files.items()}}
        for name, data in files.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            _put(directory / name, data)
        if statistics is not None:
            entries["tables"] = _put_tables(directory, statistics)
        _put_manifest(directory, manifest | entries, host_seconds)

    return _write(path, fill, replace)


def _write(path: Path, fill: Callable[[Path], None], replace: bool) -> Path:
    temporary = path.parent / f"{_TEMPORARY}{os.getpid()}-{path.name}"
    old = path.parent / f"{_TEMPORARY}{os.getpid()}-old-{path.name}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        fill(temporary)
        _sync_directory(temporary)
        if replace and path.exists():
            path.rename(old)
        _settle(temporary, path)
        _sync_directory(path.parent)
    except OSError as error:
        raise StoreFault(_cannot_write(path, error)) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return path


def read(path: Path, key: str | None = None) -> Result:
    """Opens a result directory, having checked all of it. Raises `Corrupt`, with the reason."""
    # Tables load much that most commands have no use for.
    from loiter import tables

    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        claimed = manifest.pop("checksum")
        if claimed != digest(manifest):
            raise Corrupt(f"{MANIFEST} does not match its checksum")
        if manifest["schema"] != SCHEMA:
            age = "a newer" if manifest["schema"] > SCHEMA else "an earlier"
            version = manifest["loiter"]["version"]
            raise Corrupt(f"it is of {age} loiter, {version} (schema {manifest['schema']}, not {SCHEMA})")
        if key is not None and manifest["key"] != key:
            raise Corrupt("it is the result of another request")
        # A system that booted has files of its own, and tables only if its cores were timed.
        entries = dict(manifest.get("files", {}))
        if "tables" in manifest or not entries:
            for name in tables.SCHEMAS:
                entry = manifest["tables"][name]
                entries[entry["file"]] = entry
        for name, entry in entries.items():
            if hashlib.sha256((path / name).read_bytes()).hexdigest() != entry["sha256"]:
                raise Corrupt(f"{name} does not match its hash")
        json.loads((path / HOST).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corrupt(f"{type(error).__name__}: {error}") from None
    return Result(path, manifest)


@contextlib.contextmanager
def claimed(directory: Path) -> Iterator[None]:
    """Keeps a directory that a command fills from other commands until it is through."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = FileLock(directory / ".lock", timeout=0)
        with lock:
            yield
    except Timeout:
        raise UserFault(
            f"{directory}: another command is filling this directory; wait for it, or name another."
        ) from None
    except (FileExistsError, NotADirectoryError):
        raise UserFault(f"{directory}: a file of that name exists; name a directory.") from None
    except OSError as error:
        raise StoreFault(_cannot_write(directory, error)) from None


def claim(path: Path) -> None:
    """Refuses to put a result where something else is; an earlier result may be replaced."""
    if path.is_dir():
        if any(path.iterdir()) and not (path / MANIFEST).is_file():
            raise UserFault(f"--out {path}: this directory holds other files; name a new one.")
    elif path.exists():
        raise UserFault(f"--out {path}: a file of that name exists; name a directory.")
    _try_to_write(path)


def _try_to_write(path: Path) -> None:
    """Finds out before a run whether its result can be written: beside where it is to be."""
    above = path.absolute().parent
    while not above.exists():
        above = above.parent
    try:
        with tempfile.TemporaryFile(dir=above):
            pass
    except OSError as error:
        raise UserFault(f"--out {path}: cannot write in {above}: {error.strerror}. Name another place.") from None


class Store:
    """The results of a study, each in a directory named by a label for people and by the key of its request."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, label: str, key: str) -> Path:
        """Where the result of a request is, or would be."""
        return self.root / f"{label}-{key[:16]}"

    def find(self, label: str, key: str) -> Result | None:
        """The stored result of a request. A damaged entry is removed and counts as none."""
        path = self.path(label, key)
        if not path.is_dir():
            return None
        try:
            return read(path, key)
        except Corrupt:
            shutil.rmtree(path, ignore_errors=True)
            return None

    def supersede(self, current: Mapping[str, Path]) -> None:
        """Removes the results of earlier versions of the given runs, so that who reads them all reads no stale one."""
        for path in self.root.iterdir():
            label = path.name.rpartition("-")[0]
            if label in current and path != current[label]:
                shutil.rmtree(path, ignore_errors=True)

    def sweep(self) -> None:
        """Removes what killed processes left half written."""
        for path in self.root.glob(f"{_TEMPORARY}*"):
            owner = path.name.removeprefix(_TEMPORARY).partition("-")[0]
            if not owner.isdigit() or not _alive(int(owner)):
                shutil.rmtree(path, ignore_errors=True)


class StudyStore(Store):
    """The results of a study, which shares them with all other runs: found there, they are not carried out again.

    Both have the same files, so neither loses what is removed in the other, and no bytes are kept twice where a file
    system has links.
    """

    def __init__(self, root: Path, shared: SharedStore) -> None:
        super().__init__(root)
        self.shared = shared

    def find(self, label: str, key: str) -> Result | None:
        """The stored result of a request, here or among all others."""
        found = super().find(label, key)
        if found is not None:
            return found
        elsewhere = self.shared.find(label, key)
        if elsewhere is None:
            return None
        _copy(elsewhere.path, self.path(label, key))
        return super().find(label, key)

    def share(self, label: str, key: str) -> None:
        """Puts a result among all others."""
        path = self.shared.path(label, key)
        if not path.is_dir():
            _copy(self.path(label, key), path)


class SharedStore(Store):
    """The results of all runs on this host, each in a directory named by its key alone."""

    def path(self, label: str, key: str) -> Path:
        """Where the result of a request is, or would be, whatever it is called."""
        return self.root / key[:2] / key

    def sweep(self) -> None:
        """Removes what killed processes left half written."""
        for directory in self.root.glob("*/"):
            Store(directory).sweep()


def _copy(source: Path, path: Path) -> None:
    def fill(directory: Path) -> None:
        for file in source.iterdir():
            try:
                os.link(file, directory / file.name)
            except OSError:
                shutil.copy2(file, directory / file.name)

    _write(path, fill, False)


def save_text(path: Path, text: str) -> None:
    """Writes a text file whole or not at all."""
    save_bytes(path, text.encode())


def save_bytes(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _put(temporary, data)
        os.replace(temporary, path)
    except OSError as error:
        raise StoreFault(_cannot_write(path, error)) from None
    finally:
        temporary.unlink(missing_ok=True)


def _fill(directory: Path, request: Request, engine: Engine, result: Json) -> None:
    entries = _put_tables(directory, result)
    manifest = _manifest(request, engine, result) | {"tables": entries}
    _put_manifest(directory, manifest, result["host_seconds"])


def _put_tables(directory: Path, result: Json) -> Json:
    """Writes the tables; their entries in the manifest."""
    from loiter import tables

    entries: Json = {}
    for name, table in tables.of(result).items():
        data = tables.encode(table)
        _put(directory / f"{name}.parquet", data)
        entries[name] = {"file": f"{name}.parquet", "rows": table.num_rows} | _described(data)
    return entries


def _described(data: bytes) -> Json:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _put_manifest(directory: Path, manifest: Json, host_seconds: float) -> None:
    _put(directory / MANIFEST, _json(manifest | {"checksum": digest(manifest)}))
    host = {
        "host_seconds": host_seconds,
        "finished": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "platform": platform.platform(),
        "python": platform.python_version(),
    }
    _put(directory / HOST, _json(host))


def _manifest(request: Request, engine: Engine, result: Json) -> Json:
    machine = request.machine
    identity = request.identity(engine)
    return {
        "schema": SCHEMA,
        "key": digest(identity),
        "loiter": identity["loiter"],
        "machine": {
            "name": machine.name,
            "hash": machine.hash,
            "set": list(machine.sets),
            "parameters": {each.key: each.value for each in machine.parameters},
        },
        "program": {"name": request.program.name, "hash": request.program.hash},
        "request": {
            "bootargs": request.bootargs,
            "fast_forward": request.fast_forward,
            "max_cycles": request.max_cycles,
            "phases": request.phases,
            "lock_stats": request.lock_stats,
        },
        "exit": result["exit"],
        "cycles": result["cycles"],
        "timing_from_cycle": result["timing_from_cycle"],
        "instructions": result["instructions"],
        "timing_instructions": result["timing_instructions"],
        "timing_cycles": result["timing_cycles"],
        "phases": result["phases"],
        "clock_mhz": result["clock_mhz"],
        "console_tail": result["console"][-CONSOLE_TAIL:],
    }


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _put(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _settle(temporary: Path, path: Path) -> None:
    try:
        temporary.rename(path)
    except OSError as error:
        # Another process finished the same run first; its result is the same.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        try:
            os.kill(pid, 0)
        except PermissionError:
            return True
        return True
    return False


def _cannot_write(path: Path, error: OSError) -> str:
    advice = ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = " Free some space, or name another place with --out."
    return f"{path}: cannot write: {error.strerror}.{advice}"
