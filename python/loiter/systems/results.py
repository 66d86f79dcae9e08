"""Result directories of systems that booted: what was requested, on which image, how it ended, what was said.

manifest.json    the same bytes on every host, as long as nobody typed
host.json        what depends on the host
console.txt      the console, and for `loiter exec` stdout and stderr
*.parquet        the tables of a run, if cores were timed or locks counted
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import loiter
from loiter import store
from loiter.engine import Engine, Json, Session
from loiter.systems.request import Boot

TIMED = ("timing_from_cycle", "timing_instructions", "timing_cycles", "clock_mhz")


def describe(engine: Engine, boot: Boot) -> Json:
    """What determines the system, without the places of files on this host."""
    machine = boot.machine
    return {
        "loiter": {"version": loiter.__version__, "native_sha256": engine.sha256},
        "machine": {
            "name": machine.name,
            "hash": machine.hash,
            "set": list(machine.sets),
            "parameters": {each.key: each.value for each in machine.parameters},
        },
        "image": boot.image,
        "booted": {
            role: {"name": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
            for role, path in (("firmware", boot.firmware), ("kernel", boot.kernel), ("initrd", boot.initrd))
            if path is not None
        },
        "request": {
            "harts": boot.harts,
            "bootargs": boot.bootargs,
            "disks": [
                {
                    "name": None if disk.path is None else disk.path.name,
                    "bytes": disk.bytes,
                    "writable": disk.writable,
                }
                for disk in boot.disks
            ],
            "ports": boot.ports,
            "network": boot.network,
            "seed": boot.seed,
            "device_tree": list(boot.device_tree),
            "untimed": boot.untimed,
            "waiting": None if boot.waiting is None else boot.waiting.identity(),
        },
    }


def write(path: Path, manifest: Json, facts: Json, files: Mapping[str, bytes], session: Session) -> None:
    """Writes the directory, whole or not at all, with the statistics of the session if it has some."""
    same = {key: value for key, value in facts.items() if key != "host_seconds"}
    statistics = session.statistics() if session.was_timed or session.counts_locks else None
    if session.counts_locks:
        same["lock_stats"] = True
    if statistics is not None:
        same |= {key: statistics[key] for key in TIMED}
    store.write_files(path, manifest | same, facts["host_seconds"], files, statistics)
