"""The exec agent's side of the host for tests, with QEMU in loiter's place."""

from __future__ import annotations

import socket
import subprocess
import threading
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
    disk, messages = directory / "vdb", directory / "messages"
    with disk.open("wb") as file:
        agent.write_archive(file, script, put or [], stdin)
        file.truncate(_DISK_BYTES)
    ports = [socket.socketpair() for _ in range(3)]
    with subprocess.Popen(
        _command(image, disk, messages, ports, append), pass_fds=[far.fileno() for _, far in ports]
    ) as qemu:
        limit = threading.Timer(_LIMIT_SECONDS, qemu.kill)
        limit.start()
        for _, far in ports:
            far.close()
        heard = [bytearray(), bytearray()]
        threads = [threading.Thread(target=_hear, args=(ports[n][0], heard[n])) for n in range(2)]
        for thread in threads:
            thread.start()
        talk = []
        with ports[2][0].makefile("r") as lines:
            for line in lines:
                talk.append(line.rstrip("\n"))
                if talk[-1] == agent.READY:
                    ports[2][0].sendall(agent.GO)
        for thread in threads:
            thread.join()
        for near, _ in ports:
            near.close()
        limit.cancel()
    return Ran(bytes(heard[0]), bytes(heard[1]), talk, messages.read_text(errors="replace"))


def _command(
    image: Image, disk: Path, messages: Path, ports: list[tuple[socket.socket, socket.socket]], append: str
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
    for number, (_, far) in enumerate(ports):
        command += ["-chardev", f"socket,id=c{number},fd={far.fileno()}"]
        command += ["-device", f"virtio-serial-device,id=s{number},max_ports=1"]
        command += ["-device", f"virtconsole,chardev=c{number},bus=s{number}.0"]
    return command


def _hear(port: socket.socket, heard: bytearray) -> None:
    while data := port.recv(1 << 16):
        heard.extend(data)
