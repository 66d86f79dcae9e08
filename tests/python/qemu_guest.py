"""The exec agent's side of the host for tests, with QEMU in loiter's place."""

from __future__ import annotations

import io
import socket
import subprocess
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from loiter.images import Image, agent

_LIMIT_SECONDS = 400
_DISK_BYTES = 64 << 20


@dataclass
class Ran:
    """What a command left."""

    out: bytes
    err: bytes
    talk: list[str]
    messages: str


def run(
    image: Image,
    directory: Path,
    script: str,
    put: list[Path] | None = None,
    stdin: bytes | None = None,
    append: str = "",
) -> Ran:
    """Runs a script in a freshly booted guest, with more words for its kernel."""
    disk, messages, heard = directory / "vdb", directory / "messages", (directory / "out", directory / "err")
    with disk.open("wb") as file:
        agent.write_archive(file, script, put or [], None if stdin is None else io.BytesIO(stdin))
        file.truncate(_DISK_BYTES)
    talk = []
    near, far = socket.socketpair()
    with near, subprocess.Popen(_command(image, disk, messages, heard, far, append), pass_fds=[far.fileno()]) as qemu:
        limit = threading.Timer(_LIMIT_SECONDS, qemu.kill)
        limit.start()
        far.close()
        with near.makefile("r") as lines:
            for line in lines:
                talk.append(line.rstrip("\n"))
                if talk[-1] == agent.READY:
                    near.sendall(agent.GO)
        limit.cancel()
    out, err = (path.read_bytes() for path in heard)
    return Ran(out, err, talk, messages.read_text(errors="replace"))


def _command(
    image: Image, disk: Path, messages: Path, heard: Iterable[Path], talk: socket.socket, append: str
) -> list[str]:
    words = f"{image.agent_command_line} {append}".strip()
    command = [
        *("qemu-system-riscv64", "-machine", "virt", "-m", "1G", "-smp", "2", "-display", "none", "-monitor", "none"),
        *("-no-reboot", "-global", "virtio-mmio.force-legacy=false", "-serial", f"file:{messages}"),
        *("-bios", str(image.firmware), "-kernel", str(image.kernel), "-append", words),
    ]
    if image.initrd is not None:
        command += ["-initrd", str(image.initrd)]
    for name, path in (("vda", image.root), ("vdb", disk)):
        command += ["-drive", f"file={path},format=raw,if=none,id={name},snapshot=on"]
        command += ["-device", f"virtio-blk-device,drive={name}"]
    # Output goes to files: QEMU's consoles drop what the reader of a socket is too slow for (flush_buf in its
    # hw/char/virtio-console.c).
    ports = [*(f"file,path={path}" for path in heard), f"socket,fd={talk.fileno()}"]
    for number, port in enumerate(ports):
        command += ["-chardev", f"{port},id=c{number}"]
        command += ["-device", f"virtio-serial-device,id=s{number},max_ports=1"]
        command += ["-device", f"virtconsole,chardev=c{number},bus=s{number}.0"]
    return command
