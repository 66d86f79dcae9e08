"""Kernel modules that a boot needs, in the order in which they go in. kmod's tools know the order."""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from pathlib import Path

from loiter.errors import RunFault
from loiter.images import tools

# The initial RAM file system loads a driver when its device is there, and the file system when there is a disk.
WANTED = ("virtio_mmio", "virtio_blk", "virtio_net", "virtio_rng", "virtio_console", "ext4")


@dataclass(frozen=True)
class Modules:
    """Modules by file name, and for each wanted one the names to load, in order; none if it is built in."""

    files: dict[str, bytes]
    orders: dict[str, list[str]]


def load_orders(base: Path, release: str, scratch: Path) -> Modules:
    """The wanted modules of the kernel under `base`/lib/modules with all they depend on."""
    tools.run(["depmod", "-b", base, release], "order of kernel modules")
    nothing = scratch / "no-modprobe-configuration"
    nothing.mkdir(exist_ok=True)
    files: dict[str, bytes] = {}
    orders: dict[str, list[str]] = {}
    for wanted in WANTED:
        command: list[str | Path] = ["modprobe", "--dirname", base, "--set-version", release, "--config", nothing]
        said = tools.run([*command, "--show-depends", wanted], f"dependencies of kernel module {wanted}")
        orders[wanted] = []
        for line in said.splitlines():
            verb, _, path = line.strip().partition(" ")
            if verb == "builtin":
                continue
            if verb != "insmod":
                raise RunFault(f'dependencies of kernel module {wanted}: modprobe says "{line}"')
            file = Path(path.strip())
            name = file.name.removesuffix(".xz")
            files[name] = _contents(file)
            orders[wanted].append(name)
    return Modules(files, orders)


def _contents(path: Path) -> bytes:
    data = path.read_bytes()
    # Unpacked here, once, rather than in every boot.
    return lzma.decompress(data) if path.suffix == ".xz" else data
