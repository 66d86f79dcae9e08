"""The store: whole or nothing, damage noticed, nothing finished ever lost."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from fake_native import FAST_FORWARDED
from loiter import machines, programs, store
from loiter.engine import Engine, Json
from loiter.errors import InternalFault, StoreFault
from loiter.runs.request import Request
from loiter.store import Corrupt, Store


@pytest.fixture
def request_(engine: Engine) -> Request:
    machine = machines.load(engine, "t1")
    program = programs.load(engine, "spinloops")
    placement = programs.place(["add=0", "spin_default=1,2"], program, machine)
    return Request(machine, program, placement, ("iterations=5",))


@pytest.fixture
def answer(engine: Engine, request_: Request) -> Json:
    return engine.run(request_.native(), request_.program.elf)


@pytest.fixture
def written(tmp_path: Path, engine: Engine, request_: Request, answer: Json) -> Path:
    return store.write(tmp_path / "store" / "one", request_, engine, answer)


def test_what_is_written_is_read_back(written: Path, engine: Engine, request_: Request, answer: Json) -> None:
    result = store.read(written, request_.key(engine))
    for name in ("counters", "accounts", "activities", "histograms", "marks", "reports", "lock_reads"):
        assert result.rows(name) == answer[name]
        assert result.rows(name), f"{name} of the test is not empty"
    manifest = result.manifest
    assert manifest["exit"]["reason"] == "finisher"
    assert manifest["machine"]["hash"] == request_.machine.hash
    assert manifest["machine"]["parameters"]["core.contexts"] == 4
    assert manifest["program"]["hash"] == request_.program.hash
    assert manifest["loiter"]["native_sha256"] == engine.sha256
    assert manifest["request"]["bootargs"] == "task.add=0 task.spin_default=1,2 iterations=5"
    assert "host_seconds" not in json.dumps(manifest)
    assert result.host()["host_seconds"] == answer["host_seconds"]


def test_the_manifest_says_where_timing_began(tmp_path: Path, engine: Engine, request_: Request) -> None:
    for fast_forward, start in ((False, 0), (True, FAST_FORWARDED)):
        request = dataclasses.replace(request_, fast_forward=fast_forward)
        answer = engine.run(request.native(), request.program.elf)
        result = store.read(store.write(tmp_path / f"from-{start}", request, engine, answer))
        assert result.manifest["timing_from_cycle"] == start
        assert result.manifest["timing_instructions"] == answer["timing_instructions"] > 0
        accounted = sum(row["cycles"] for row in result.rows("accounts"))
        assert accounted == 8 * (result.manifest["cycles"] - start)


@pytest.mark.parametrize("change", ["lost", "new"])
def test_a_table_with_other_columns_than_declared_is_our_fault(
    tmp_path: Path, engine: Engine, request_: Request, answer: Json, change: str
) -> None:
    row = answer["lock_reads"][0]
    row.pop("intervals") if change == "lost" else row.update(waits=2)
    with pytest.raises(InternalFault, match=r"lock_reads.*(intervals|waits)"):
        store.write(tmp_path / "one", request_, engine, answer)
    assert list(tmp_path.glob("one*")) == []


def test_pandas_reads_the_tables_as_they_are(written: Path, answer: Json) -> None:
    marks = pd.read_parquet(written / "marks.parquet")
    assert list(marks.columns) == ["hart", "kind", "value", "cycle", "retired"]
    assert len(marks) == len(answer["marks"])
    accounts = pd.read_parquet(written / "accounts.parquet")
    assert accounts["cycles"].sum() == 8 * answer["cycles"]


def test_the_same_run_gives_the_same_bytes(tmp_path: Path, engine: Engine, request_: Request, answer: Json) -> None:
    first = store.write(tmp_path / "a", request_, engine, answer)
    second = store.write(tmp_path / "b", request_, engine, answer | {"host_seconds": 77.0})
    names = sorted(each.name for each in first.iterdir() if each.name != "host.json")
    assert len(names) == 11
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_the_key_follows_what_determines_the_result(engine: Engine, request_: Request) -> None:
    base = request_.key(engine)
    words = ("iterations=6",)
    assert Request(request_.machine, request_.program, request_.placement, words).key(engine) != base
    other = machines.load(engine, "t1", ["system.ram_mib=128"])
    assert Request(other, request_.program, request_.placement, request_.arguments).key(engine) != base
    again = machines.load(engine, "t1")
    assert Request(again, request_.program, request_.placement, request_.arguments).key(engine) == base


def damage_truncate(path: Path) -> None:
    data = (path / "marks.parquet").read_bytes()
    (path / "marks.parquet").write_bytes(data[: len(data) // 2])


def damage_flip(path: Path) -> None:
    data = bytearray((path / "lock_reads.parquet").read_bytes())
    data[len(data) // 2] ^= 1
    (path / "lock_reads.parquet").write_bytes(data)


def damage_manifest(path: Path) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["cycles"] += 1
    (path / "manifest.json").write_text(json.dumps(manifest))


def damage_empty(path: Path) -> None:
    (path / "manifest.json").write_text("")


def damage_other_json(path: Path) -> None:
    (path / "manifest.json").write_text("[1]")


def damage_missing(path: Path) -> None:
    (path / "counters.parquet").unlink()


def damage_host(path: Path) -> None:
    (path / "host.json").unlink()


DAMAGES = [
    *(damage_truncate, damage_flip, damage_manifest, damage_empty, damage_other_json, damage_missing, damage_host),
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
def test_a_damaged_entry_is_no_result_and_makes_room(
    tmp_path: Path, engine: Engine, request_: Request, answer: Json, damage
) -> None:
    root = Store(tmp_path / "runs")
    key = request_.key(engine)
    path = store.write(root.path("t1.add", key), request_, engine, answer)
    assert root.find("t1.add", key) is not None
    damage(path)
    with pytest.raises(Corrupt):
        store.read(path, key)
    assert root.find("t1.add", key) is None
    assert not path.exists()
    store.write(path, request_, engine, answer)
    assert root.find("t1.add", key) is not None


def test_an_entry_of_another_request_is_no_result(written: Path) -> None:
    with pytest.raises(Corrupt, match="another request"):
        store.read(written, "0" * 64)


@pytest.mark.parametrize("nth", range(1, 9))
def test_a_disk_that_fills_up_leaves_no_half_result(
    tmp_path: Path, engine: Engine, request_: Request, answer: Json, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """Seven files and their directory are flushed; each of the eight may be the one that finds the disk full."""
    flushed = 0
    fsync = os.fsync

    def full(handle: int) -> None:
        nonlocal flushed
        flushed += 1
        if flushed == nth:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreFault, match=r"No space left on device\. Free some space"):
        store.write(tmp_path / "runs" / "one", request_, engine, answer)
    assert list((tmp_path / "runs").iterdir()) == []
    store.write(tmp_path / "runs" / "one", request_, engine, answer)
    store.read(tmp_path / "runs" / "one")


def test_a_failed_replacement_keeps_the_earlier_result(
    tmp_path: Path, engine: Engine, request_: Request, answer: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.write(tmp_path / "one", request_, engine, answer)
    monkeypatch.setattr("loiter.tables.encode", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(StoreFault):
        store.write(path, request_, engine, answer | {"cycles": 1}, replace=True)
    assert store.read(path).manifest["cycles"] == answer["cycles"]


def test_two_writers_of_one_result_both_succeed(written: Path, engine: Engine, request_: Request, answer: Json) -> None:
    store.write(written, request_, engine, answer)
    store.read(written)
    assert [each.name for each in written.parent.iterdir()] == [written.name]


WRITER = """
import os, sys, itertools
from pathlib import Path
sys.path[:0] = {paths!r}
import conftest
from loiter import engine as engines, machines, programs, resources, store
from loiter.runs.request import Request
data = Path({data!r})
resources.MACHINES, resources.GUESTS = data / "machines", data / "guests"
engine = engines.load("fake_native")
machine, program = machines.load(engine, "t1"), programs.load(engine, "spinloops")
print("ready", flush=True)
for number in itertools.count():
    request = Request(machine, program, programs.place(["add=0"], program, machine), (f"iterations={{number}}",))
    answer = engine.run(request.native(), request.program.elf)
    store.write(Path({root!r}) / f"run-{{number}}", request, engine, answer)
    print(number, flush=True)
"""


def test_a_kill_at_any_moment_leaves_whole_results_only(engine: Engine, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    source = WRITER.format(paths=sys.path, data=str(tmp_path / "data"), root=str(root))
    finished_in_all = 0
    for round_ in range(4):
        with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            finished = 0
            while finished <= 3 + round_:  # at a different place in the writing each time
                finished = int(writer.stdout.readline()) + 1
            writer.kill()
            finished = max([finished] + [int(line) + 1 for line in writer.stdout])
        whole = [path for path in root.iterdir() if not path.name.startswith(".")]
        assert len(whole) >= finished, "a result was announced and is not there"
        for path in whole:
            store.read(path)
        finished_in_all += finished
        Store(root).sweep()
        assert not [path for path in root.iterdir() if path.name.startswith(".")], "the killed writer's half is swept"
    assert finished_in_all > 10
