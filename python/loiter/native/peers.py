"""Locks of other libraries, measured beside those of `locks/` by the same loop: one adapter, `locks/native/peers/`.

An adapter is a header that lists its locks, and what it is compiled and linked with, by pkg-config. A library that is
not installed is named with the package to install.
"""

from __future__ import annotations

import functools
import shlex
import subprocess
from dataclasses import dataclass

from loiter.errors import RunFault, UserFault
from loiter.images import tools
from loiter.native import build


@dataclass(frozen=True)
class Peer:
    """A library."""

    name: str
    locks: tuple[str, ...]
    include: str
    """A header of its own; empty where it is no C library."""
    package: str
    """Debian's, that has it."""
    pkg_config: str = ""
    """What pkg-config calls it; empty: nothing is asked."""
    is_headers: bool = False
    """Its locks need nothing of its libraries."""
    link: tuple[str, ...] = ()
    """What it is linked with, beside what pkg-config says."""
    object: str = ""
    """What of `locks/native/peers` gives it C names: they add a call to each lock and unlock."""

    @property
    def header(self) -> str:
        """Its adapter in `locks/native/peers`."""
        return f"{self.name}.h"


PEERS = (
    Peer("pthread", ("pthread_mutex", "pthread_mutex_adaptive", "pthread_spin"), "pthread.h", "libc6-dev"),
    Peer(
        "ck",
        ("ck_fas", "ck_cas", "ck_ticket", "ck_mcs", "ck_clh", "ck_anderson"),
        "ck_spinlock.h",
        "libck-dev",
        "ck",
        is_headers=True,
    ),
    Peer(
        "dpdk",
        ("dpdk_spinlock", "dpdk_ticketlock", "dpdk_mcslock"),
        "rte_mcslock.h",
        "libdpdk-dev",
        "libdpdk",
        is_headers=True,
    ),
    Peer("nsync", ("nsync_mu",), "nsync_mu.h", "libnsync-dev", link=("-lnsync",)),
    Peer("abseil", ("absl_mutex",), "", "libabsl-dev", "absl_synchronization", link=("-lstdc++",), object="abseil.cc"),
    Peer("parking_lot", ("parking_lot",), "", "cargo", object="parking_lot/Cargo.toml"),
)
"""All libraries."""


@dataclass(frozen=True)
class Flags:
    """What a peer is compiled and linked with."""

    compile: tuple[str, ...] = ()
    link: tuple[str, ...] = ()


def names() -> tuple[str, ...]:
    """Locks of all libraries, installed or not."""
    return tuple(lock for peer in PEERS for lock in peer.locks)


def find(lock: str) -> Peer | None:
    """The library that has this lock."""
    return next((peer for peer in PEERS if lock in peer.locks), None)


@functools.cache
def flags(peer: Peer) -> Flags:
    """How it is compiled. Raises `UserFault` with the package to install where it is not there."""
    compiled = _pkg_config(peer, "--cflags") if peer.pkg_config else ()
    linked = _pkg_config(peer, "--libs") if peer.pkg_config and not peer.is_headers else ()
    if peer.include and not build.has_header(peer.include, compiled):
        raise _missing(peer)
    if peer.object.endswith(".cc"):
        wrapper = build.Program(f"{peer.name}.o", f"peers/{peer.object}", ("-c", *compiled))
        linked = (str(build.built(wrapper)), *linked)
    elif peer.object:
        linked = (str(build.crate(build.SOURCES / "peers" / peer.object)), *linked)
    return Flags(compiled, (*linked, *peer.link))


def _pkg_config(peer: Peer, what: str) -> tuple[str, ...]:
    if tools.find("pkg-config") is None:
        raise UserFault(f"no pkg-config, which finds {peer.name}. Install it, on Debian: apt-get install pkgconf")
    words = ["pkg-config", what, peer.pkg_config]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise _missing(peer)
    return tuple(shlex.split(done.stdout))


def _missing(peer: Peer) -> UserFault:
    return UserFault(
        f"{', '.join(peer.locks)}: {peer.name} is not installed. On Debian: apt-get install {peer.package}"
    )


def installed() -> list[str]:
    """Locks of the libraries that are there."""
    out: list[str] = []
    for peer in PEERS:
        try:
            flags(peer)
        except (UserFault, RunFault):
            continue
        out += peer.locks
    return out
