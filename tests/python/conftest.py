"""Fixtures: a package whose simulator is the fake one, with machines and guests of the tests' own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import fake_native
from loiter import engine as engines
from loiter import resources
from loiter.engine import Engine, Json, Progress

TASKS = [
    *("add", "mulx", "baa", "l1_hit", "l2_hit", "hash", "sort", "mbv_fp", "mbv_int", "hold"),
    *(f"spin_{loop}" for loop in fake_native.SHARE),
]
MACHINE = """
name = "{name}"
description = "a machine of the tests"
[system]
cores = 2
clock_mhz = {clock}
ram_mib = 64
[core]
contexts = {contexts}
pipes = {pipes}
"""


def write_data(root: Path) -> None:
    """Machines and guests that the fake simulator understands."""
    (root / "machines").mkdir(parents=True)
    (root / "guests").mkdir()
    for name, clock, contexts, pipes in (("t1", 1000, 4, 1), ("t2", 1400, 8, 2)):
        text = MACHINE.format(name=name, clock=clock, contexts=contexts, pipes=pipes)
        (root / "machines" / f"{name}.toml").write_text(text)
    for name, tasks in (("spinloops", TASKS), ("hello", ["hello"])):
        (root / "guests" / f"{name}.elf").write_bytes(fake_native.ELF + json.dumps({"tasks": tasks}).encode())


HANGS_CYCLES = 2_000_000_000
"""More than any run of a test needs."""


@pytest.fixture(scope="session", autouse=True)
def _no_run_hangs() -> Iterator[None]:
    """A run in this process that says no limit has one; those of commands end with the command's time."""
    run = Engine.run

    def limited(self: Engine, request: Json, elf: bytes, progress: Progress | None = None) -> Json:
        if request.get("max_cycles") is None:
            request = request | {"max_cycles": HANGS_CYCLES}
        return run(self, request, elf, progress)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "run", limited)
        yield


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in which the fake simulator notes every run it carries out."""
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv("FAKE_LOG", str(path))
    return path


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The fake simulator, in place of the compiled one in the whole package."""
    write_data(tmp_path / "data")
    monkeypatch.setattr(resources, "MACHINES", tmp_path / "data" / "machines")
    monkeypatch.setattr(resources, "GUESTS", tmp_path / "data" / "guests")
    load = engines.load
    monkeypatch.setattr(engines, "load", lambda name="fake_native": load(name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return load("fake_native")
