"""The host's own tools: which are needed, which are missing, and running one with messages a person can act on."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from loiter.errors import RunFault, StoreFault, UserFault

# By command, the Debian package that has it.
PACKAGES = {
    "apt-get": "apt",
    "apt-cache": "apt",
    "bc": "bc",
    "bison": "bison",
    "cc": "build-essential",
    "cpio": "cpio",
    "debugfs": "e2fsprogs",
    "depmod": "kmod",
    "dpkg-deb": "dpkg",
    "dumpe2fs": "e2fsprogs",
    "fakeroot": "fakeroot",
    "flex": "flex",
    "make": "build-essential",
    "mke2fs": "e2fsprogs",
    "modprobe": "kmod",
    "patch": "patch",
    "riscv64-linux-gnu-gcc": "gcc-riscv64-linux-gnu",
    "setpriv": "util-linux",
    "tar": "tar",
    "update-alternatives": "dpkg",
    "xz": "xz-utils",
}

# Where administrators' tools are, which is not in everybody's PATH.
_SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_LINES_KEPT = 12
# A tool does not outlive us, even when we are killed: what it still wrote would be in the way of the next build.
WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")


def path() -> str:
    """The search path of tools."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *_SYSTEM])


def find(command: str) -> str | None:
    """Where a tool is."""
    return shutil.which(command, path=path())


def require(commands: Iterable[str], files: Mapping[str, Path] | None = None) -> None:
    """Refuses to start without these tools and files (by the package that has them); says how to get them."""
    missing = {PACKAGES[command] for command in commands if find(command) is None}
    missing |= {package for package, file in (files or {}).items() if not file.exists()}
    if not missing:
        return
    listed = " ".join(sorted(missing))
    if "apt" in missing:
        raise UserFault(
            f"images are built from Debian's packages, with apt; this system has none. Missing, by Debian's names: "
            f"{listed}. Build the image on a Debian system and copy the directory that `loiter image list` names."
        )
    root = "" if os.geteuid() == 0 else "sudo "
    raise UserFault(
        f"missing on this system: {listed}. Install with: {root}apt-get install {listed} "
        f"(in a checkout, `tools/packages.sh images` does it)."
    )


def run(
    arguments: Sequence[str | Path],
    what: str,
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
    given: bytes | None = None,
) -> str:
    """Runs a tool and returns its standard output. `what` names the work in messages; `on_line` hears every line."""
    words = [str(word) for word in arguments]
    if find(words[0]) is None:
        require([words[0]] if words[0] in PACKAGES else [])
        raise RunFault(f"{what}: cannot run {words[0]}: no such command.")
    full = {**os.environ, "PATH": path(), "LC_ALL": "C", **(environment or {})}
    try:
        process = subprocess.Popen(
            [*WITH_US, *words],
            cwd=directory,
            env=full,
            stdin=subprocess.PIPE if given is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise RunFault(f"{what}: cannot run {words[0]}: {error.strerror}.") from None
    try:
        out, said = _listen(process, given, on_line)
    except BaseException:
        # Ctrl-C reaches us alone: the tool has a session of its own, so that no child of it outlives it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if process.returncode != 0:
        raise failure(what, words[0], process.returncode, said)
    return out


def extract(archive: Path, tree: Path) -> None:
    """Unpacks the one directory of an archive of sources as `tree`."""
    tree.mkdir()
    words: list[str | Path] = ["tar", "--extract", "--file", archive, "--strip-components=1", "--directory", tree]
    run(words, "unpacking the source")


def patch(tree: Path, patches: Iterable[Path]) -> None:
    """Applies patches in the order of their names. One that does not fit exactly ends the build."""
    for path in sorted(patches):
        run(
            ["patch", "--strip=1", "--fuzz=0", "--forward", "--batch", "--input", path.resolve()],
            f"patch {path.name}",
            directory=tree,
        )


def failure(what: str, command: str, status: int, said: Iterable[str]) -> RunFault:
    """The fault of a tool that failed: its own last words, and advice where the reason is known."""
    lines = [line for line in said if line.strip()]
    text = "\n".join(f"  {line}" for line in lines)
    if any("No space left on device" in line for line in lines):
        return no_space(what)
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return RunFault(f"{what}: {Path(command).name} {how}:\n{text or '  (it said nothing)'}")


def no_space(what: str) -> StoreFault:
    """The fault of a full disk."""
    return StoreFault(
        f"{what}: no space left on the device. Free some (`loiter image remove`), or name a cache directory elsewhere "
        "with the environment variable LOITER_CACHE."
    )


def _listen(
    process: subprocess.Popen[bytes], given: bytes | None, on_line: Callable[[str], None] | None
) -> tuple[str, deque[str]]:
    """Standard output and the last lines for a message; lines are heard as they come."""
    assert process.stdout is not None
    assert process.stderr is not None
    said: deque[str] = deque(maxlen=_LINES_KEPT)
    threads = [threading.Thread(target=_keep, args=(process.stderr, said), daemon=True)]
    if process.stdin is not None:
        threads.append(threading.Thread(target=_feed, args=(process.stdin, given or b""), daemon=True))
    for thread in threads:
        thread.start()
    out: list[str] = []
    with process.stdout:
        for raw in process.stdout:
            out.append(raw.decode(errors="replace"))
            if on_line is not None:
                on_line(out[-1].rstrip("\n"))
    process.wait()
    for thread in threads:
        thread.join()
    return "".join(out), said or deque(line.rstrip("\n") for line in out[-_LINES_KEPT:])


def _keep(pipe: IO[bytes], said: deque[str]) -> None:
    with pipe:
        for raw in pipe:
            said.append(raw.decode(errors="replace").rstrip("\n"))


def _feed(pipe: IO[bytes], given: bytes) -> None:
    # A tool that ends early says why; that its input was not read says nothing.
    with contextlib.suppress(BrokenPipeError), pipe:
        pipe.write(given)
