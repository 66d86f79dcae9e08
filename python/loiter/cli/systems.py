"""Options of the commands that boot a system, and the request that they make."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, get_args, get_type_hints

import typer

from loiter.cli import complete
from loiter.cli.options import COUNT_LIMIT, SetOption, err, load_machine
from loiter.engine import Engine, Json
from loiter.errors import UserFault
from loiter.machines import Machine
from loiter.resources import readable
from loiter.systems.request import Boot, Disk, command_line, seat

DEFAULT_MACHINE = "virt"

MachineOption = Annotated[
    str | None,
    typer.Option(
        "--machine",
        "-m",
        autocompletion=complete.machines,
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
    typer.Option(
        "--image",
        metavar="NAME",
        help="An image (see [bold]loiter image list[/]). Default: debian; with more harts than its kernel is made for, "
        "debian-small-kernel.",
        autocompletion=complete.images,
    ),
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
    int, typer.Option("--seed", metavar="N", min=0, max=COUNT_LIMIT, help="What the guest gets as random numbers.")
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
        return Disk(readable(Path(path), "--disk"), writable=word == "writable")
    return Disk(readable(Path(text), "--disk"))


@dataclass(frozen=True)
class SystemOptions:
    """What a person said of a system that boots an image. Its fields are the options."""

    machine: MachineOption = None
    harts: HartsOption = None
    memory: MemoryOption = None
    image: ImageOption = None
    append: AppendOption = None
    network: NetworkOption = False
    seed: SeedOption = 0
    sets: SetOption = None

    def seated(self, engine: Engine) -> tuple[Machine, int]:
        """The machine, and the number of its harts."""
        machine = load_machine(engine, self.machine or DEFAULT_MACHINE, self.sets)
        return seat(engine, machine, self.harts, memory_mib(self.memory))


@dataclass(frozen=True)
class BootOptions(SystemOptions):
    """What a person said of a system that boots an image, or files of theirs."""

    kernel: KernelOption = None
    initrd: InitrdOption = None
    firmware: FirmwareOption = None
    disks: DiskOption = None
    device_tree: DeviceTreeOption = None

    def request(self, engine: Engine) -> Boot:
        """The request. Builds the image if it is missing."""
        from loiter import images, waiting
        from loiter.images.image import FIRMWARE_HARTS
        from loiter.images.kinds import SMALL_KERNEL

        machine, harts = self.seated(engine)
        given = tuple(disk(text) for text in self.disks or [])
        kernel, initrd, firmware = (
            None if path is None else readable(path, option)
            for path, option in ((self.kernel, "--kernel"), (self.initrd, "--initrd"), (self.firmware, "--firmware"))
        )
        words, disks, identity = _CONSOLE, given, None
        symbols: tuple[Path, ...] = ()
        table = None
        if self.image is not None or kernel is None:
            image = images.default(harts, err()) if self.image is None else images.ensure(self.image, err())
            if kernel is None:
                kernel, symbols = image.kernel, (image.system_map,) if image.system_map else ()
                table = waiting.of_kernel(image.manifest["kernel_release"]) if image.system_map else None
            initrd = initrd or image.initrd
            firmware = firmware or image.firmware_for(harts)
            words = image.command_line
            disks = ((Disk(image.root),) if image.root is not None else ()) + given
            identity = image.identity()
        elif firmware is None:
            kind = "kernel" if harts <= FIRMWARE_HARTS else SMALL_KERNEL
            firmware = images.ensure(kind, err()).firmware_for(harts)
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
            symbols=symbols,
            image=identity,
            waiting=table,
        )

    def request_of_snapshot(self, engine: Engine, path: Path) -> Json:
        """The request by which a snapshot continues, as it was taken but for another machine with the same hardware."""
        facts = engine.show_snapshot(readable(path, "--snapshot"))
        request: Json | None = facts["request"]
        if request is None:
            raise UserFault(f"{path}: a snapshot of a program without an operating system; it has nothing to boot.")
        fixed = {each.name: each.default for each in fields(self) if each.name not in ("machine", "sets")}
        given = [name for name, default in fixed.items() if getattr(self, name) != default]
        if given:
            raise UserFault(
                f"--snapshot {path} and {_option(type(self), given[0])} contradict each other: the system in the "
                "snapshot has booted with its own. Only -m and --set may differ."
            )
        if self.machine is not None:
            hardware = facts["header"]["hardware"]
            machine, _ = seat(
                engine, load_machine(engine, self.machine, self.sets), hardware["harts"], hardware["ram_bytes"] >> 20
            )
            request |= {"machine_name": machine.name, "machine_toml": machine.toml, "set": list(machine.sets)}
        else:
            request["set"] += self.sets or []
        return request | {"untimed": False}


def sits_in_cores(snapshot: Json) -> bool:
    """Whether a system was saved on timed cores, with what is in flight in them."""
    return any(section["name"] == "cores" for section in snapshot["sections"])


def _option(options: type[SystemOptions], field: str) -> str:
    """The option that a field is."""
    _, option = get_args(get_type_hints(options, include_extras=True)[field])
    # In an annotation Typer takes the first positional argument, which it calls the default, for a name.
    return str(option.default)
