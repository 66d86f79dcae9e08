"""Makes a root file system out of downloaded packages. Runs as a process of its own, as root or under fakeroot, which
plays root: files belong in the guest to whom they should.

    python -m loiter.images.assemble ORDER.json

Standard output says how much is done, a line at a time: SHARE TEXT.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from loiter import resources
from loiter.engine import Json
from loiter.errors import Fault, RunFault, UserFault
from loiter.images import cache, ext4, settle, tools, unpack
from loiter.images.apt import ARCHITECTURE

# Our own files and where they go; all may be executed.
OURS = {"root/init": "usr/sbin/init", "root/agent": "usr/lib/loiter/agent"}
CROSS = "riscv64-linux-gnu-"
# By their own account, of the time that the whole takes.
_UNPACKED, _SETTLED = 0.6, 0.7
_FAULT = "fault.json"


def assemble(order: Json, progress: Callable[[float, str], None]) -> None:
    """Carries out an order: `debs`, `out`, `scratch`, `size_mib`, `key`, `files`, `programs`."""
    os.umask(0o022)
    scratch = Path(order["scratch"])
    tree = scratch / "root"
    progress(0.0, "unpacking")
    scripts = unpack.unpack([Path(deb) for deb in order["debs"]], tree, scratch, ARCHITECTURE)
    progress(_UNPACKED, "settling")
    settle.settle(tree, scripts)
    for source, target in OURS.items():
        path = tree / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        shutil.copyfile(resources.LINUX / source, path)
        path.chmod(0o755)
    for target, source in order["files"].items():
        path = tree / target
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
        path.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
    for target, source in order["programs"].items():
        compile_program(Path(source), tree / target, tree)
    progress(_SETTLED, "file system")
    ext4.build(tree, Path(order["out"]), order["size_mib"], order["key"])
    progress(1.0, "")


def compile_program(source: Path, out: Path, root: Path) -> None:
    """Compiles a program for the guest, against the headers and the library that its root file system has."""
    out.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-s", "-Wl,--build-id=none"]
    flags += ["-shared", "-fPIC"] if out.suffix == ".so" else ["-static"]
    tools.run([f"{CROSS}gcc", f"--sysroot={root}", *flags, "-o", out, source], f"compiling {source.name}")


def run(order: Json, scratch: Path, share: Callable[[float, str], None]) -> None:
    """Has it done by another process."""
    path = scratch / "order.json"
    path.write_text(json.dumps(order))
    fakeroot = [] if os.geteuid() == 0 else ["fakeroot", "--", *tools.WITH_US]

    def on_line(line: str) -> None:
        done, _, text = line.partition(" ")
        share(float(done), text)

    package = str(Path(__file__).resolve().parents[2])
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))}
    command: list[str | Path] = [*fakeroot, sys.executable, "-m", "loiter.images.assemble", path]
    try:
        tools.run(command, "root file system", on_line=on_line, environment=environment)
    except RunFault:
        said = scratch / _FAULT
        if said.is_file():
            fault = json.loads(said.read_text(encoding="utf-8"))
            raise (UserFault if fault["status"] == UserFault.exit_status else RunFault)(fault["text"]) from None
        raise


def main() -> int:
    """Entry point. A fault goes into a file, for the process that ordered this."""
    path = Path(sys.argv[1])
    try:
        with cache.reporting(path):
            assemble(json.loads(path.read_text()), lambda done, text: print(f"{done} {text}", flush=True))
    except Fault as fault:
        said = json.dumps({"status": fault.exit_status, "text": str(fault)})
        path.with_name(_FAULT).write_text(said, encoding="utf-8")
        return fault.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
