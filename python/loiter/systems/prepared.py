"""Systems that have booted to the agent of `loiter exec`, and some that have gone on from there, kept as snapshots.

    CACHE/snapshots/KEY.snapshot

The key is the hash of everything that the booted system depends on: what it boots, what the guest sees of the machine,
and this build of loiter. How cores are timed is not part of it: a boot is untimed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from loiter import waiting
from loiter.engine import Engine, Session
from loiter.errors import RunFault, UserFault
from loiter.images import Image, agent, cache
from loiter.machines import Machine
from loiter.runs.request import digest
from loiter.systems import ending
from loiter.systems.request import Boot, Disk, command_line
from loiter.systems.rest import WINDOW_SECONDS, Rest
from loiter.systems.watch import Watch

# Room for what goes in; nothing is stored but what is there.
ARCHIVE_BYTES = 4 << 30
ARCHIVE_DISK = 1
# Further ones, if there are any.
FIRST_OWN_DISK = 2
SERIAL = 0

_PORTS = 3
_SCHEMA = 2
_STEP_SECONDS = 0.1
# One that does not rest, such as with nohlt, is taken as it is.
_REST_LIMIT_SECONDS = 5.0
# Each is some tens of MiB; enough for those who go back and forth between a few machines (assumed).
KEPT = 16

Progress = Callable[[Session], None]


def request(
    machine: Machine, harts: int, image: Image, append: str | None = None, *, network: bool = False, seed: int = 0
) -> Boot:
    """The system that `loiter exec` runs programs on."""
    return Boot(
        machine=machine,
        harts=harts,
        firmware=image.firmware_for(harts),
        kernel=image.kernel,
        initrd=image.initrd,
        bootargs=command_line(image.agent_command_line, append),
        disks=(Disk(image.root), Disk(bytes=ARCHIVE_BYTES)),
        ports=_PORTS,
        network=network,
        seed=seed,
        image=image.identity(),
        waiting=waiting.of_kernel(image.manifest["kernel_release"]) if image.system_map else None,
    )


def key(engine: Engine, boot: Boot) -> str:
    """Names the snapshot. Systems with the same key are the same."""
    seen = ("system.", "hart.", "core.contexts")
    return digest(
        {
            "schema": _SCHEMA,
            "simulator": engine.sha256,
            "image": boot.image,
            "machine": {each.key: each.value for each in boot.machine.parameters if each.key.startswith(seen)},
            "harts": boot.harts,
            "bootargs": boot.bootargs,
            "network": boot.network,
            "seed": boot.seed,
            "virtual": boot.is_virtual,
            "own_disks": [disk.bytes for disk in boot.disks[FIRST_OWN_DISK:]],
        }
    )


def directory() -> Path:
    """Where the snapshots are."""
    return cache.root() / "snapshots"


def snapshot(engine: Engine, boot: Boot) -> Path:
    """Where the booted system is kept, once it has been restored."""
    return _path(key(engine, boot))


def restore(engine: Engine, boot: Boot, waits: Callable[[], None], progress: Progress) -> Session:
    """The booted system, waiting for an archive. Boots it where there is no snapshot that can be used."""

    def booted() -> Session:
        session = engine.boot(replace(boot, untimed=True).native())
        boot_to_agent(session, progress)
        come_to_rest(session, progress)
        return session

    return restore_kept(engine, boot, key(engine, boot), booted, waits, "booted to the agent of loiter exec")


def restore_kept(
    engine: Engine, boot: Boot, name: str, make: Callable[[], Session], waits: Callable[[], None], description: str
) -> Session:
    """The system that is kept under a name. Makes it where there is no snapshot that can be used."""
    path = _path(name)
    found = _restore(engine, boot, path)
    if found is not None:
        return found
    # One makes it, the others wait for it: they use what it made.
    with cache.guard(f"snapshot-{name[:32]}", waits), cache.reporting(path):
        found = _restore(engine, boot, path)
        if found is not None:
            return found
        path.parent.mkdir(parents=True, exist_ok=True)
        make().save(path, description)
        prune(path)
    # Continued as every later call continues it, on timed cores if the machine has them.
    return engine.restore(path, boot.native())


def _path(name: str) -> Path:
    return directory() / f"{name}.snapshot"


def _restore(engine: Engine, boot: Boot, path: Path) -> Session | None:
    """From a snapshot, if it is there and whole."""
    if not path.exists():
        return None
    try:
        session = engine.restore(path, boot.native())
    except UserFault:
        # Damaged, or of an image that was built again: another one takes its place.
        return None
    with contextlib.suppress(OSError):
        # When it was last of use.
        os.utime(path)
    return session


def boot_to_agent(session: Session, progress: Progress) -> None:
    """Runs up to the turn in which the agent says that it is ready."""
    watch, talk = Watch(), b""
    while True:
        status = session.step(_STEP_SECONDS, output=True)
        watch.hear(session.take_output(SERIAL))
        talk += session.take_output(agent.TALK)
        for port in (agent.OUT, agent.ERR):
            session.take_output(port)
        for line in lines(talk):
            if line == agent.READY:
                return
            ended = agent.ended(line)
            if ended is not None:
                raise RunFault(f"the agent in the guest failed: {ended.fault or line}")
        end = ending.of_guest(status, watch, session)
        if end is not None:
            raise RunFault(f"the guest did not come up: {end.message}")
        progress(session)


def come_to_rest(session: Session, progress: Progress) -> None:
    """Lets time pass until the kernel has done what it put off while it booted: none of it is the program's."""
    rest, latest = Rest(session), session.seconds + _REST_LIMIT_SECONDS
    hertz = session.cycle / session.seconds
    while rest.seconds == 0.0 and session.seconds < latest:
        session.step(_STEP_SECONDS, cycle=session.cycle + round(WINDOW_SECONDS * hertz))
        rest.look()
        progress(session)


def lines(talk: bytes) -> Iterator[str]:
    """The whole lines of what the agent has said."""
    for line in talk.split(b"\n")[:-1]:
        yield line.decode(errors="replace").strip()


def prune(newest: Path) -> None:
    """Removes those that have not been used for longest."""
    with contextlib.suppress(OSError):
        found = sorted(newest.parent.glob("*.snapshot"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in [each for each in found if each != newest][KEPT - 1 :]:
            path.unlink()
