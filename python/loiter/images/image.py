"""An image: a directory with what a boot needs and a manifest of what went into it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from loiter.engine import Json
from loiter.errors import UserFault

MANIFEST = "manifest.json"
HOST = "host.json"
SCHEMA = 1

# Names in every image's directory.
KERNEL = "Image"
FIRMWARE = "fw_dynamic.bin"
# The same, built for more harts than Debian's is.
MANY_HARTS_FIRMWARE = "fw_dynamic.many-harts.bin"
INITRD = "initrd.cpio"
ROOT = "root.ext4"
SYSTEM_MAP = "System.map"
CONFIG = "config"

# SBI_HARTMASK_MAX_BITS of OpenSBI 1.6, include/sbi/sbi_hartmask.h, as Debian builds it, and as our patch in
# guests/linux/firmware has it.
FIRMWARE_HARTS = 128
MANY_HARTS = 256

# Kernel messages and the interactive shell are on the UART.
CONSOLE = "console=ttyS0"
# Our init starts the exec agent instead of a shell.
AGENT = "loiter.agent"


class Damaged(Exception):
    """A directory that is not what its manifest says."""


@dataclass(frozen=True)
class Image:
    """A built image. Paths are of files that exist; a file it does not have is None."""

    name: str
    path: Path
    manifest: Json

    @property
    def key(self) -> str:
        """The key of the recipe it was built from."""
        key: str = self.manifest["key"]
        return key

    @property
    def kind(self) -> str:
        """The kind of its recipe."""
        kind: str = self.manifest["recipe"]["kind"]
        return kind

    @property
    def kernel(self) -> Path:
        """The raw RISC-V `Image`."""
        return self.path / KERNEL

    @property
    def firmware(self) -> Path:
        """OpenSBI, as fw_dynamic."""
        return self.path / FIRMWARE

    def firmware_for(self, harts: int) -> Path:
        """The firmware that boots so many harts: Debian's as far as it can. With more harts than it is made for, all of
        them would hang without a word."""
        if harts <= FIRMWARE_HARTS:
            return self.firmware
        found = self._optional(MANY_HARTS_FIRMWARE)
        if found is None:
            raise UserFault(
                f"--harts {harts}: Debian's OpenSBI and kernel, which image {self.name} has, are made for at most "
                f"{FIRMWARE_HARTS} harts. An image that is built with --kernel small-kernel boots {MANY_HARTS}."
            )
        return found

    @property
    def initrd(self) -> Path | None:
        """The initial RAM file system."""
        return self._optional(INITRD)

    @property
    def root(self) -> Path | None:
        """The root file system, for the first disk."""
        return self._optional(ROOT)

    @property
    def system_map(self) -> Path | None:
        """Symbols of the kernel, in the form of `System.map`."""
        return self._optional(SYSTEM_MAP)

    @property
    def command_line(self) -> str:
        """The kernel's command line for an interactive boot."""
        words: str = self.manifest["command_line"]
        return words

    @property
    def agent_command_line(self) -> str:
        """The kernel's command line for a boot to the exec agent."""
        return f"{self.command_line} {AGENT}"

    @property
    def bytes(self) -> int:
        """Size of its files on the disk, holes not counted."""
        return sum((self.path / name).stat().st_blocks * 512 for name in self.manifest["files"])

    def identity(self) -> Json:
        """What a result records of the image it ran on: enough to tell it from every other and to build it again."""
        return {
            "name": self.name,
            "recipe": self.manifest["recipe"],
            "key": self.key,
            "manifest_sha256": hashlib.sha256((self.path / MANIFEST).read_bytes()).hexdigest(),
            "kernel_release": self.manifest["kernel_release"],
            "files": {name: facts["sha256"] for name, facts in self.manifest["files"].items()},
            "packages": [
                {key: each[key] for key in ("name", "version", "architecture", "sha256")}
                for each in self.manifest["packages"]
            ],
        }

    def _optional(self, name: str) -> Path | None:
        return self.path / name if name in self.manifest["files"] else None


def read(path: Path, name: str) -> Image:
    """Opens an image's directory. Raises `Damaged`, with the reason."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if manifest["schema"] != SCHEMA:
            raise Damaged(f"schema {manifest['schema']}, not {SCHEMA}")
        for file, facts in manifest["files"].items():
            found = (path / file).stat().st_size
            if found != facts["bytes"]:
                raise Damaged(f"{file} has {found} bytes, not {facts['bytes']}")
        image = Image(name, path, manifest)
        _ = (
            image.key,
            image.kind,
            image.command_line,
            manifest["root_command_line"],
            manifest["kernel_release"],
            manifest["packages"],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"{type(error).__name__}: {error}") from None
    return image


def encode(value: Json) -> bytes:
    """JSON as images have it."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
