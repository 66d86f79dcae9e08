"""A boot of Debian's kernel is the same every time, wherever it was saved and restored.

The hash is over all that the guest can find out: memory, harts, devices. It is taken every 100 million instructions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from loiter import engine as engines
from loiter import images, machines
from loiter.cli.options import err
from loiter.engine import Engine, Json, Session
from loiter.systems.request import Boot, Disk, command_line, seat

pytestmark = pytest.mark.simulator

STEP = 100_000_000
HARTS = 2
# Enough for the kernel to have started all harts, and for init to have run programs from the disk.
CHECKPOINTS = 16


@pytest.fixture(scope="module")
def engine() -> Engine:
    return engines.load()


@pytest.fixture(scope="module")
def request_of(engine: Engine) -> Json:
    image = images.ensure("debian", err())
    machine, harts = seat(engine, machines.load(engine, "virt"), HARTS, 512)
    assert image.root is not None
    boot = Boot(
        machine=machine,
        harts=harts,
        firmware=image.firmware,
        kernel=image.kernel,
        initrd=image.initrd,
        bootargs=command_line(image.command_line),
        disks=(Disk(image.root),),
        ports=1,
        seed=7,
    )
    return boot.native()


def go_on(session: Session, checkpoint: int) -> str:
    """Runs to a checkpoint and hashes what is there."""
    while True:
        answer = session.step(10.0, instructions=checkpoint * STEP)
        if answer["state"] == "reached":
            return f"{session.instructions} instructions, cycle {session.cycle}: {session.state_hash()}"
        assert answer["state"] == "running", answer


@pytest.fixture(scope="module")
def unbroken(engine: Engine, request_of: Json) -> list[str]:
    session = engine.boot(request_of)
    hashes = [go_on(session, n) for n in range(1, CHECKPOINTS + 1)]
    assert len(set(hashes)) == CHECKPOINTS
    assert b"loiter: init" in session.take_output(0), "the boot came too short a way to mean something"
    return hashes


@pytest.mark.slow
def test_the_same_boot_again(engine: Engine, request_of: Json, unbroken: list[str]) -> None:
    session = engine.boot(request_of)
    assert [go_on(session, n) for n in range(1, CHECKPOINTS + 1)] == unbroken


@pytest.mark.slow
def test_a_boot_that_was_saved_and_restored_half_way(
    engine: Engine, request_of: Json, unbroken: list[str], tmp_path: Path
) -> None:
    half = CHECKPOINTS // 2
    session = engine.boot(request_of)
    for n in range(1, half + 1):
        assert go_on(session, n) == unbroken[n - 1]
    path = tmp_path / "half.snapshot"
    assert session.save(path, "half way") == path.stat().st_size
    restored = engine.restore(path, request_of)
    assert restored.instructions == session.instructions
    assert restored.state_hash() == session.state_hash()
    rest = range(half + 1, CHECKPOINTS + 1)
    assert [go_on(restored, n) for n in rest] == unbroken[half:]
    # Saving changes nothing for the one that was saved.
    assert [go_on(session, n) for n in rest] == unbroken[half:]


def test_another_seed_is_another_boot(engine: Engine, request_of: Json, unbroken: list[str]) -> None:
    session = engine.boot(request_of | {"seed": 8})
    assert go_on(session, CHECKPOINTS) != unbroken[-1]
