"""Images as single files, for hosts that cannot build them or need not: a tar archive, compressed by Zstandard.

The manifest comes first, then the files that it names. What is read is checked against the manifest's hashes before it
becomes an image; members that it does not name are none of ours.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from loiter.engine import Json
from loiter.errors import StoreFault, UserFault
from loiter.images import cache
from loiter.images import image as images
from loiter.images.image import Damaged, Image

SUFFIX = ".tar.zst"
_CODEC = "zstd"
_BLOCK_BYTES = 1 << 20

Share = Callable[[float], None]
"""Is told what part is done, from 0 to 1."""


def export(image: Image, path: Path, share: Share = lambda part: None) -> None:
    """Writes an image to a file, whole or not at all."""
    names = [images.MANIFEST, images.HOST, *image.manifest["files"]]
    whole = sum((image.path / name).stat().st_size for name in names)
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with pa.CompressedOutputStream(str(temporary), _CODEC) as stream:
            # All that tarfile asks of a stream is that it can be written to.
            counted: Any = _Counted(stream, lambda sent: share(min(1.0, sent / whole)))
            with tarfile.open(fileobj=counted, mode="w|") as archive:
                for name in names:
                    archive.add(image.path / name, name, filter=_plain)
        os.replace(temporary, path)
    except OSError as error:
        raise StoreFault(f"{path}: cannot write: {error.strerror or error}. Name another place.") from None
    finally:
        temporary.unlink(missing_ok=True)


def import_(path: Path, name: str | None, share: Share = lambda part: None) -> Image:
    """Makes an image of a file, under a name or the one that it had. An image of that name is replaced."""
    try:
        whole = path.stat().st_size
        with (
            path.open("rb") as file,
            pa.CompressedInputStream(pa.PythonFile(file), _CODEC) as stream,
            tarfile.open(fileobj=stream, mode="r|") as archive,
        ):
            return _take(archive, name or path.name.removesuffix(SUFFIX), lambda: share(file.tell() / whole))
    except FileNotFoundError:
        raise UserFault(f"{path}: no such file.") from None
    except (OSError, tarfile.TarError, pa.ArrowException, Damaged, ValueError, KeyError) as error:
        raise UserFault(f"{path}: not a whole image of `loiter image export`: {error}") from None


def _take(archive: tarfile.TarFile, name: str, step: Callable[[], None]) -> Image:
    cache.check_name(name)
    member = archive.next()
    if member is None or member.name != images.MANIFEST:
        raise Damaged("it does not begin with a manifest")
    text = _content(archive, member).read()
    manifest: Json = json.loads(text)
    if manifest["schema"] != images.SCHEMA:
        raise Damaged(f"schema {manifest['schema']}, not {images.SCHEMA}; it is of another loiter")
    with cache.guard(name), cache.incoming(name) as temporary:
        out = temporary / "image"
        out.mkdir()
        (out / images.MANIFEST).write_bytes(text)
        missing = {images.HOST, *manifest["files"]}
        while (member := archive.next()) is not None:
            if member.name not in missing:
                raise Damaged(f"{member.name} is none of its files")
            missing.remove(member.name)
            found = _write(_content(archive, member), out / member.name, step)
            if member.name != images.HOST and found != manifest["files"][member.name]["sha256"]:
                raise Damaged(f"{member.name} does not match its hash")
        if missing:
            raise Damaged(f"{', '.join(sorted(missing))} missing")
        build = f"{manifest['key'][:16]}-{hashlib.sha256(text).hexdigest()[:8]}"
        return cache.settle(out, name, build)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    if content is None:
        raise Damaged(f"{member.name} is no file")
    return content


def _write(content: IO[bytes], path: Path, step: Callable[[], None]) -> str:
    """Writes a file, with holes where it has nothing but zeros; returns its hash."""
    digest, zeros = hashlib.sha256(), bytes(_BLOCK_BYTES)
    with path.open("wb") as file:
        while block := content.read(_BLOCK_BYTES):
            digest.update(block)
            if block == zeros:
                file.seek(len(block), os.SEEK_CUR)
            else:
                file.write(block)
            step()
        file.truncate(file.tell())
    return digest.hexdigest()


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without what is of this host."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member


class _Counted:
    """A stream that tells how much has gone into it."""

    def __init__(self, stream: pa.NativeFile, tell: Callable[[int], None]) -> None:
        self._stream, self._tell, self._bytes = stream, tell, 0

    def write(self, data: bytes) -> int:
        """Passes it on."""
        self._stream.write(data)
        self._bytes += len(data)
        self._tell(self._bytes)
        return len(data)
