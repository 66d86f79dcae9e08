"""An ext4 file system from a directory, the same bytes from the same files."""

from __future__ import annotations

import os
import re
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

from loiter.errors import RunFault, UserFault
from loiter.images import tools
from loiter.images.initramfs import TIMESTAMP

# Assumed: room for what a guest writes, beside a fifth for the file system itself.
_ROOM_MIB = 256
_GRAIN_MIB = 64
_LABEL = "loiter"
_FIRST_INODE = 11
# Of Debian's own, all but the journal: the disk is as it was before at the next boot, whatever happens in this one.
# Inodes of 256 bytes have times after 2038.
_FEATURES = (
    "none,dir_index,dir_nlink,ext_attr,extent,extra_isize,filetype,flex_bg,huge_file,large_file,metadata_csum,"
    "resize_inode,sparse_super,64bit"
)
_INODE_BYTES = 256
_BLOCK_BYTES = 4096

_FREE = re.compile(r"^\s+Free inodes: (?P<ranges>[0-9, -]*)$", re.MULTILINE)
_COUNT = re.compile(r"^Inode count:\s+(?P<count>\d+)$", re.MULTILINE)


def build(tree: Path, out: Path, size_mib: int | None, key: str) -> None:
    """Writes the files under `tree`, as root owns them, to a file system at `out`."""
    used = _bytes_needed(tree) >> 20
    size = size_mib or (used * 6 // 5 + _ROOM_MIB + _GRAIN_MIB - 1) // _GRAIN_MIB * _GRAIN_MIB
    identity = uuid.UUID(hex=key[:32], version=4)
    with out.open("wb") as file:
        file.truncate(size << 20)
    for path in (tree, *tree.rglob("*")):
        os.utime(path, (TIMESTAMP, min(TIMESTAMP, int(path.lstat().st_mtime))), follow_symlinks=False)
    extended = f"hash_seed={identity},lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0"
    format_ = ["-t", "ext4", "-O", _FEATURES, "-I", str(_INODE_BYTES), "-b", str(_BLOCK_BYTES), "-m", "0"]
    command = ["mke2fs", "-q", "-F", *format_, "-L", _LABEL, "-U", str(identity), "-E", extended]
    try:
        tools.run([*command, "-d", tree, out], "root file system", environment=_environment())
    except RunFault as fault:
        if "Could not allocate" in str(fault) or "no free" in str(fault).lower():
            raise UserFault(
                f"the packages need {used} MiB and do not fit in a file system of {size} MiB: give a larger --size-mib."
            ) from None
        raise
    _fix_times(out)


def _bytes_needed(tree: Path) -> int:
    """What the files take in whole blocks, which the host's file system may have in another way."""
    facts = {each.st_ino: each for each in (path.lstat() for path in tree.rglob("*"))}
    sizes = (each.st_size if stat.S_ISREG(each.st_mode) else 1 for each in facts.values())
    return sum((size + _BLOCK_BYTES - 1) // _BLOCK_BYTES * _BLOCK_BYTES for size in sizes)


def _fix_times(out: Path) -> None:
    """Sets the times that mke2fs takes from the host, whose files have just been made."""
    fields = ("ctime", "atime")
    wanted = "".join(f"sif <{number}> {field} @{TIMESTAMP}\n" for number in _inodes(out) for field in fields)
    command = ["debugfs", "-w", "-f", "/dev/stdin", str(out)]
    tools.run(command, "root file system", environment=_environment(), given=wanted.encode())


def _inodes(out: Path) -> Iterator[int]:
    """The files' inodes."""
    said = tools.run(["dumpe2fs", out], "root file system")
    count = _COUNT.search(said)
    ranges = [part for match in _FREE.finditer(said) for part in match["ranges"].replace(" ", "").split(",") if part]
    if count is None or not ranges:
        raise RunFault("root file system: dumpe2fs does not say which inodes are free")
    free: set[int] = set()
    for part in ranges:
        first, _, last = part.partition("-")
        free.update(range(int(first), int(last or first) + 1))
    return (number for number in range(_FIRST_INODE, int(count["count"]) + 1) if number not in free)


def _environment() -> dict[str, str]:
    return {"E2FSPROGS_FAKE_TIME": str(TIMESTAMP), "MKE2FS_CONFIG": "/dev/null"}
