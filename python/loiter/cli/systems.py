"""Options of the commands that boot a system, and the request that they make."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from loiter.cli.options import err, load_machine
from loiter.engine import Engine
from loiter.errors import UserFault
from loiter.systems.request import Boot, Disk, command_line, seat

DEFAULT_MACHINE = "virt"
DEFAULT_IMAGE = "debian"

MachineOption = Annotated[
    str | None,
    typer.Option(
        "--machine",
        "-m",
        metavar="NAME|FILE",
        help="A machine by name (see [bold]loiter machines[/]) or by its file. Default: virt.",
    ),
]
HartsOption = Annotated[
    int | None,
    typer.Option("--harts", metavar="N", min=1, help="Number of CPUs. Default: the contexts of one core."),
]
MemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory", metavar="SIZE", help="RAM, such as 512M or 4G; a number alone is MiB. Default: the machine's."
    ),
]
ImageOption = Annotated[
    str | None,
    typer.Option("--image", metavar="NAME", help="An image (see [bold]loiter image list[/]). Default: debian."),
]
KernelOption = Annotated[
    Path | None,
    typer.Option("--kernel", metavar="FILE", help="A Linux Image for riscv64, instead of the image's. Without --image, "
                 "what is not given is not there, but for the firmware."),
]  # fmt: skip
InitrdOption = Annotated[
    Path | None, typer.Option("--initrd", metavar="FILE", help="An initial RAM file system, instead of the image's.")
]
FirmwareOption = Annotated[
    Path | None, typer.Option("--firmware", metavar="FILE", help="OpenSBI's fw_dynamic, instead of the image's.")
]
DiskOption = Annotated[
    list[str] | None,
    typer.Option(
        "--disk",
        metavar="FILE[,writable]",
        help="A disk, after those of the image: vda, vdb, ... What the guest writes is lost, unless it is writable. "
        "May be repeated.",
    ),
]
AppendOption = Annotated[
    str | None, typer.Option("--append", metavar="WORDS", help="Words after the kernel's command line.")
]
NetworkOption = Annotated[bool, typer.Option("--network", help="Give the system a network device.")]
SeedOption = Annotated[
    int, typer.Option("--seed", metavar="N", min=0, max=2**64 - 1, help="What the guest gets as random numbers.")
]
DeviceTreeOption = Annotated[
    list[str] | None,
    typer.Option("--device-tree", metavar="PATH:PROPERTY=VALUE", help="Change the device tree. May be repeated."),
]

_UNITS_KIB = {"K": 1, "M": 1 << 10, "G": 1 << 20}
_SIZE = re.compile(r"(\d+)\s*(?:([KMG])(?:i?B)?)?", re.IGNORECASE)
_KIB_PER_MIB = 1 << 10
# What a kernel of the user's own says goes where the console is.
_CONSOLE = "console=ttyS0"


def memory_mib(text: str | None) -> int | None:
    """A size of memory in MiB."""
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UserFault(f'--memory {text}: a size is a number with K, M or G, such as "512M"; a number alone is MiB.')
    kib = int(found[1]) * _UNITS_KIB[(found[2] or "M").upper()]
    if kib == 0 or kib % _KIB_PER_MIB:
        raise UserFault(f"--memory {text}: memory is a positive number of MiB; {kib} KiB is not.")
    return kib // _KIB_PER_MIB


def disk(text: str) -> Disk:
    """A disk as --disk names it."""
    path, comma, word = text.rpartition(",")
    if comma and word in ("writable", "ro"):
        return Disk(_file(Path(path), "--disk"), writable=word == "writable")
    return Disk(_file(Path(text), "--disk"))


@dataclass(frozen=True)
class SystemOptions:
    """What a person said of a system."""

    machine: str | None = None
    harts: int | None = None
    memory: str | None = None
    image: str | None = None
    kernel: Path | None = None
    initrd: Path | None = None
    firmware: Path | None = None
    disks: list[str] | None = None
    append: str | None = None
    network: bool = False
    seed: int = 0
    device_tree: list[str] | None = None
    sets: list[str] | None = None

    def request(self, engine: Engine) -> Boot:
        """The request. Builds the image if it is missing."""
        from loiter import images

        machine, harts = seat(
            engine,
            load_machine(engine, self.machine or DEFAULT_MACHINE, self.sets),
            self.harts,
            memory_mib(self.memory),
        )
        given = tuple(disk(text) for text in self.disks or [])
        kernel, initrd, firmware = (
            None if path is None else _file(path, option)
            for path, option in ((self.kernel, "--kernel"), (self.initrd, "--initrd"), (self.firmware, "--firmware"))
        )
        words, disks = _CONSOLE, given
        if self.image is not None or kernel is None:
            image = images.ensure(self.image or DEFAULT_IMAGE, err())
            kernel = kernel or image.kernel
            initrd = initrd or image.initrd
            firmware = firmware or image.firmware
            words = image.command_line
            disks = ((Disk(image.root),) if image.root is not None else ()) + given
        elif firmware is None:
            firmware = images.ensure("kernel", err()).firmware
        assert kernel is not None
        assert firmware is not None
        return Boot(
            machine=machine,
            harts=harts,
            firmware=firmware,
            kernel=kernel,
            initrd=initrd,
            bootargs=command_line(words, self.append),
            disks=disks,
            network=self.network,
            seed=self.seed,
            device_tree=tuple(self.device_tree or ()),
        )


def _file(path: Path, option: str) -> Path:
    """A file that the user named: it must be there before anything starts."""
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise UserFault(f"{option} {path}: {error.strerror}.") from None
