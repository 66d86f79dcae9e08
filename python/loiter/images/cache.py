"""The images on this host: found by name, put in place whole, removed.

    CACHE/images/NAME/BUILD     an image; BUILD is made of the recipe's key and the manifest's hash
    CACHE/images/NAME/current   a link to the newest
    CACHE/apt                   lists and downloaded packages
    CACHE/locks

A lock for each image, which the kernel drops with the process, lets one process build it at a time. A build grows under
a temporary name and one rename makes it an image, so a kill leaves an image or none; who builds it next sweeps up.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from loiter.errors import StoreFault, UserFault, unknown
from loiter.images import image as images
from loiter.images import kinds
from loiter.images.image import Damaged, Image

_CURRENT = "current"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_TEMPORARY = ".incoming-"

# Locks that are of no image: apt's lists, and the packages that builds read.
LISTS = ".lists"
DOWNLOADS = ".downloads"


def root() -> Path:
    """The directory of all that loiter keeps between runs and could make again."""
    if named := os.environ.get("LOITER_CACHE"):
        return Path(named).absolute()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).absolute() / "loiter"
    return Path.home() / ".cache" / "loiter"


def names() -> list[str]:
    """Images that are there."""
    return sorted(path.parent.name for path in _images().glob(f"*/{_CURRENT}"))


def check_name(name: str) -> None:
    """Refuses what cannot be a name."""
    if not _NAME.fullmatch(name):
        raise UserFault(f'"{name}": the name of an image is made of letters, digits and . _ + -')


def find(name: str) -> Image:
    """An image by its name."""
    check_name(name)
    path = _images() / name / _CURRENT
    if not path.is_symlink():
        if name in kinds.NAMES:
            raise UserFault(f"image {name} is not built yet: `loiter image build {name}` does it.")
        raise unknown("image", name, {*names(), *kinds.NAMES}, advice="`loiter image list` shows what is built.")
    try:
        # The link is followed once, so that what is found stays one build.
        return images.read(path.resolve(), name)
    except Damaged as damage:
        raise StoreFault(f"image {name} is damaged ({damage}): `loiter image build {name}` builds it again.") from None


def lookup(name: str) -> Image | None:
    """An image by its name, if it is there and whole."""
    with contextlib.suppress(UserFault, StoreFault):
        return find(name)
    return None


def remove(name: str) -> None:
    """Removes an image."""
    check_name(name)
    directory = _images() / name
    if not directory.is_dir():
        raise unknown("image", name, names())
    with guard(name), reporting(directory):
        # Without its link it is no image any more, whatever happens to the rest.
        (directory / _CURRENT).unlink(missing_ok=True)
        shutil.rmtree(directory)


def remove_downloads() -> int:
    """Removes lists and packages that were downloaded. Returns how many bytes that were."""
    directory = root() / "apt"
    with guard(DOWNLOADS), reporting(directory):
        found = [path.lstat().st_blocks * 512 for path in directory.rglob("*") if not path.is_dir()]
        if directory.is_dir():
            shutil.rmtree(directory)
    return sum(found)


@contextlib.contextmanager
def guard(name: str, waiting: Callable[[], None] = lambda: None, *, shared: bool = False) -> Iterator[None]:
    """Holds the lock of an image or of one of ours; `waiting` is called when another process has it."""
    path = root() / "locks" / name
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with reporting(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, kind)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def incoming(name: str) -> Iterator[Path]:
    """A directory for an image that is being built. Needs the image's lock; leaves nothing in the cache."""
    temporary = _images() / f"{_TEMPORARY}{name}"
    with reporting(temporary):
        if temporary.exists():
            shutil.rmtree(temporary)
        temporary.mkdir(parents=True)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def settle(temporary: Path, name: str, build: str) -> Image:
    """Makes a finished directory the image of that name. Earlier builds of it go."""
    directory = _images() / name
    path = directory / build
    with reporting(path):
        directory.mkdir(exist_ok=True)
        if path.is_dir():
            # The same bytes as far as the manifest goes, but they may have been damaged since.
            shutil.rmtree(path)
        temporary.rename(path)
        link = directory / f".{_CURRENT}"
        link.unlink(missing_ok=True)
        link.symlink_to(build)
        os.replace(link, directory / _CURRENT)
        for other in directory.iterdir():
            if other.is_dir() and not other.is_symlink() and other != path:
                shutil.rmtree(other)
    return images.read(path, name)


@contextlib.contextmanager
def reporting(path: Path) -> Iterator[None]:
    """Makes what the file system refuses a fault that names the cause."""
    from loiter.images import tools

    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise tools.no_space(str(error.filename or path)) from None
        raise StoreFault(
            f"{error.filename or path}: {error.strerror}. The cache is another directory with the environment variable "
            "LOITER_CACHE."
        ) from None


def _images() -> Path:
    return root() / "images"
