"""`loiter native` and `loiter locks -m native`: what this machine has, what waiting costs on it, and its locks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from loiter import cli
from loiter.contention import METRICS, Contention
from loiter.errors import RunFault, UserFault
from loiter.native import build, contention, host, peers, topology


@dataclass(frozen=True)
class Said:
    """What a command left behind."""

    status: int
    out: str
    err: str


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def call(*arguments: str) -> Said:
        with pytest.raises(SystemExit) as end:
            cli.main(list(arguments))
        captured = capfd.readouterr()
        code = end.value.code
        return Said(0 if code is None else int(code), captured.out, captured.err)

    return call


@pytest.fixture(scope="module", autouse=True)
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOITER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def synthetic(description: str) -> topology.Topology:
    """A machine that hwloc makes up."""
    words = ["lstopo-no-graphics", "--input", description, "--of", "xml", "-"]
    return topology.parse(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def test_what_cpus_share_decides_their_order() -> None:
    found = synthetic("package:2 l3:2 core:2 pu:2")
    assert len(found.cpus) == 16
    assert [(cache.level, cache.count, cache.cpus) for cache in found.caches] == [(3, 4, 4)]
    pairs = {name: (first.number, second.number) for name, (first, second) in found.pairs().items()}
    assert pairs == {"SMT siblings": (0, 1), "one last cache": (0, 2), "one package": (0, 4), "two packages": (0, 8)}

    def order(fill: str) -> list[int]:
        return [cpu.number for cpu in found.order(fill)]

    assert order("siblings") == list(range(16))
    assert order("cores")[:8] == [0, 2, 1, 3, 4, 6, 5, 7]
    assert order("across")[:6] == [0, 8, 2, 10, 1, 9]
    for fill in topology.FILLS:
        assert sorted(order(fill)) == list(range(16))
    with pytest.raises(UserFault, match='did you mean "siblings"'):
        found.order("sibling")
    # With one package, last caches are the nodes that locks know.
    assert [found.node(cpu) for cpu in found.cpus] == 8 * [0] + 8 * [1]
    assert [synthetic("l3:2 core:2 pu:1").node(cpu) for cpu in synthetic("l3:2 core:2 pu:1").cpus] == [0, 0, 1, 1]
    assert [cpu.last_cache for cpu in synthetic("core:2 pu:2").cpus] == [-1] * 4


def test_this_machine_is_shown(command: Callable[..., Said]) -> None:
    said = command("native", "--json")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    online = subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout
    assert len(found["topology"]["cpus"]) == int(online)
    costs = {each["name"]: each for each in found["instructions"]}
    assert {"pause", "fence", "compare_and_swap", "yield", "futex_wake_nobody"} <= set(costs)
    for cost in costs.values():
        assert 0 < cost["least_ns"] <= cost["median_ns"] < 1e6
    # A system call is longer than an addition.
    assert costs["yield"]["least_ns"] > 5 * costs["loop"]["least_ns"]
    for between in found["between"]:
        by_way = {each["name"]: each["least_ns"] for each in between["one_way"]}
        assert ("nap" in by_way) == (found["nap"] != "none")
        assert min(by_way.values()) > 0
        # In the median: who is to park need not sleep yet when the other is late, as beside other programs.
        in_median = {each["name"]: each["median_ns"] for each in between["one_way"]}
        assert in_median["park"] > in_median["spin"]
    assert found["tick_rate_hz"] > 1e6
    text = command("native").out
    assert "CPU" in text
    assert "performance counters" in text


def test_without_tools_it_is_said_what_to_install(
    command: Callable[..., Said], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CC", "no-such-cc")
    said = command("native")
    assert said.status == 2
    assert "no-such-cc" in said.err
    assert "environment variable CC" in said.err.replace("\n", " ")
    monkeypatch.delenv("CC")
    topology.find.cache_clear()
    monkeypatch.setattr("loiter.images.tools.path", lambda: str(tmp_path))
    said = command("native")
    assert said.status == 2
    assert "hwloc-nox" in said.err


def test_energy_is_of_packages_that_may_be_read(tmp_path: Path) -> None:
    assert host.energy_refused(tmp_path / "none") == "the kernel shows no energy counter (RAPL)"
    for name in ("intel-rapl:0", "intel-rapl:0:0", "intel-rapl:1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "energy_uj").write_text("5\n")
    assert [path.parent.name for path in host.energy_files(tmp_path)] == ["intel-rapl:0", "intel-rapl:1"]
    assert host.energy_refused(tmp_path) is None


def test_a_program_is_built_once_by_each_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    program = build.Program("host", "host.c")
    path = build.built(program)
    assert shutil.which(str(path))
    asked = []
    monkeypatch.setattr(build, "_compile", lambda program, path: asked.append(path))
    assert build.built(program) == path
    assert not asked
    monkeypatch.setattr(build, "_version", lambda source: "another compiler")
    assert build.built(program) != path
    assert len(asked) == 1


def test_a_waiter_beside_a_program(command: Callable[..., Said]) -> None:
    cpus = [cpu.number for cpu in topology.find().cpus]
    said = command("native", "siblings", "--pair", f"{cpus[0]},{cpus[-1]}", "--json")
    if len(cpus) == 1:
        assert said.status == 2
        return
    found = json.loads(said.out)
    assert found["relation"] in topology.RELATIONS
    cells = {(each["program"], each["method"]): each for each in found["slowdowns"]}
    assert {"add", "mulx", "baa", "l1_hit", "l2_hit"} == {program for program, _ in cells}
    assert {"spin", "pause", "park"} <= {method for _, method in cells}
    for each in cells.values():
        assert 0 < each["least"] <= each["median"] <= each["most"]
        # Nobody is made much faster by a waiter; a busy machine disturbs what is alone, too.
        assert each["median"] > 0.2, each
    has_siblings = "SMT siblings" in topology.find().pairs()
    said = command("native", "siblings")
    assert said.status == (0 if has_siblings else 2)
    assert has_siblings or "no SMT siblings" in said.err.replace("\n", " ")
    assert command("native", "siblings", "--pair", f"{cpus[0]},9999").status == 2
    assert command("native", "siblings", "--pair", f"{cpus[0]},{cpus[0]}").status == 2
    assert command("native", "siblings", "--pair", "0").status == 2


QUICK = Contention(hold_cycles=200, think_cycles=400, window_cycles=100_000_000, seeds=1, lines=2)


@pytest.mark.slow
def test_every_lock_excludes_and_tells_the_same_as_a_simulated_one() -> None:
    names = list(contention.own_names())
    assert {"mcs", "ticket", "cna", "hmcs", "qspinlock", "phase_fair_queue", "spin_then_park"} <= set(names)
    shares = []
    frame = contention.measure(names, [1, 3], QUICK, progress=shares.append).frame
    assert "error" not in frame.columns, list(frame["error"].dropna())
    assert len(frame) == 2 * len(names) == len(shares)
    # On a busy machine a thread may come only once into the window.
    assert (frame["acquisitions"] >= frame["threads"]).all()
    alone = frame[frame["threads"] == 1]
    assert (alone["acquisitions"] > 20).all()
    assert (alone["contentions"] == 0).all()
    assert (alone["handovers"] == 0).all()
    assert (alone["jain"] == 1.0).all()
    # The work of the section, by a clock that changes less than that.
    assert (alone["holdtime-min"] >= QUICK.hold_cycles / 2).all()
    assert (alone["holdtime-p50"] <= 8 * QUICK.hold_cycles).all()
    columns = {f"{column}{end}" for column, _ in METRICS.values() for end in ("", "_least", "_most")}
    if host.energy_refused():
        columns = {name for name in columns if not name.startswith("energy_")}
        assert not [name for name in frame.columns if name.startswith("energy_")]
    wanted = {"lock", "threads", "acq-bounces", "contentions", "waittime-p99", "holdtime-max", "handovertime-avg"}
    assert columns | wanted <= set(frame.columns)


@pytest.mark.parametrize("peer", peers.PEERS, ids=lambda peer: peer.name)
def test_locks_of_libraries_run_in_the_same_loop(peer: peers.Peer) -> None:
    if peer.name == "dpdk" and not set(peer.locks) & set(peers.installed()):
        # Its package brings drivers of all kinds; whoever has it gets it measured.
        with pytest.raises(UserFault, match="apt-get install libdpdk-dev"):
            peers.flags(peer)
        return
    frame = contention.measure(peer.locks, [1, 2], QUICK).frame
    assert "error" not in frame.columns, list(frame["error"].dropna())
    assert list(frame["lock"]) == [name for name in peer.locks for _ in range(2)]
    assert (frame["acquisitions"] >= frame["threads"]).all()
    assert (frame[frame["threads"] == 1]["acquisitions"] > 20).all()


def test_what_has_been_measured_is_kept(command: Callable[..., Said], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Contention(window_cycles=1_000_000, seeds=2)
    first = contention.measure(["mcs"], [1, 2], asked)
    ran: list[list[str]] = []
    run = host.run

    def noted(program: build.Program, words: list[str], *rest: float) -> object:
        if any(word.startswith("seed=") for word in words):
            ran.append(words)
        return run(program, words, *rest)

    monkeypatch.setattr(host, "run", noted)
    again = contention.measure(["mcs"], [1, 2], asked)
    assert not ran
    pd.testing.assert_frame_equal(first.frame, again.frame)
    contention.measure(["mcs"], [1], asked, fresh=True)
    # Without probes and with them, for each of two seeds.
    assert len(ran) == 2 * 2
    # Repeats are in turn: a seed's runs of all points come before the next seed's.
    ran.clear()
    contention.measure(["mcs", "ticket"], [1], asked, fresh=True)
    assert [(words[0], words[-1]) for words in ran[::2]] == [
        (name, f"seed={seed}") for seed in (1, 2) for name in ("mcs", "ticket")
    ]
    # All are given the same steps of work.
    assert len({word for words in ran for word in words if word.startswith("step=")}) == 1


def test_the_command_prints_the_table_and_writes_plots(command: Callable[..., Said], tmp_path: Path) -> None:
    words = (
        "locks",
        "-m",
        "native",
        "--locks",
        "ticket,mcs",
        "--threads",
        "1,2",
        "--cycles",
        "100000000",
        "--seeds",
        "2",
    )
    said = command(*words, "--out", str(tmp_path / "out"), "--metric", "latency")
    assert said.status == 0, said.err
    assert "native: cycles from the beginning of an acquire" in said.out
    assert "MHz" in said.out
    files = {each.name for each in (tmp_path / "out").iterdir()}
    assert {"locks.parquet", "locks.csv", "locks.html", "throughput.png", "fairness.svg", "handover.png"} <= files
    kept = pd.read_parquet(tmp_path / "out" / "locks.parquet")
    assert list(zip(kept["lock"], kept["threads"], strict=True)) == [
        ("ticket", 1), ("ticket", 2), ("mcs", 1), ("mcs", 2)
    ]  # fmt: skip
    assert (kept["wait_mean_cycles_least"] <= kept["wait_mean_cycles_most"]).all()
    ratios = command(*words, "--against", "ticket").out
    assert "1.00 (1.00 to 1.00)" in ratios
    each = {(row["lock"], row["threads"]): row["acquisitions_per_1000_cycles_each"] for row in kept.to_dict("records")}
    first, second = sorted(mine / other for mine, other in zip(each["mcs", 1], each["ticket", 1], strict=True))
    assert f"{(first + second) / 2:.2f} ({first:.2f} to {second:.2f})" in ratios
    points = json.loads(command(*words, "--json").out)["points"]
    assert [row["acquisitions"] for row in points] == list(kept["acquisitions"]), "measured again"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--locks", "tickt"), 'did you mean "ticket"'),
        (("--policy", "paus"), 'did you mean "pause"'),
        (("--policy", "park", "--locks", "ticket"), "waiters of ticket cannot park"),
        (("--hold", "0"), "hold = 0: it is 1 at least"),
        (("--threads", "1,1025"), "1025 threads: take 1 to 1024"),
        (("--fill", "cors"), 'did you mean "cores"'),
        (("--set", "system.cores=2"), "no parameters to set"),
        (("--patience", "-1"), "patience = -1"),
    ],
)
def test_what_cannot_be_measured_is_refused(command: Callable[..., Said], words: tuple[str, ...], said: str) -> None:
    found = command("locks", "-m", "native", *words)
    assert found.status == 2
    assert said in found.err.replace("\n", " ")


def test_simulated_harts_have_no_scheduler(command: Callable[..., Said]) -> None:
    assert command("locks", "-m", "t1", "--patience", "5").status == 2
    assert command("locks", "-m", "t1", "--fresh").status == 2
    assert command("locks", "-m", "t1", "--policy", "park").status == 2


def test_what_the_machine_lacks_is_said_once(command: Callable[..., Said]) -> None:
    words = ("--locks", "mcs,ticket", "--threads", "1,2", "--policy", "nap", "--cycles", "1000000", "--seeds", "1")
    said = command("locks", "-m", "native", *words)
    assert said.status == 0, said.err
    expected = int(json.loads(command("native", "--json").out)["nap"] == "none")
    assert said.err.count("waiters pause instead") == expected
    if host.energy_refused():
        assert said.err.count("the column is left out") == 1
        assert command("locks", "-m", "native", "--metric", "energy").status == 2


def test_energy_is_what_its_counters_show(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: Callable[..., Said]
) -> None:
    """A counter of a package that another process drives on."""
    counter = tmp_path / "energy_uj"
    counter.write_text("1000\n")
    code = (
        f"import time\nfor n in range(10000):\n open({str(counter)!r}, 'r+').write(f'{{1000 + 7 * n:09d}}\\n')\n"
        " time.sleep(0.002)"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as driver:
        try:
            monkeypatch.setattr(host, "energy_files", lambda: [counter])
            monkeypatch.setattr(host, "energy_refused", lambda: None)
            words = ("--locks", "mcs", "--threads", "1", "--cycles", "100000000", "--seeds", "2")
            said = command("locks", "-m", "native", *words, "--metric", "energy", "--json")
            assert "RAPL" not in said.err
            [row] = json.loads(said.out)["points"]
            assert row["energy_per_acquisition_nj"] > 0
            # A counter that went round is no energy.
            assert contention._energy_uj({"energy_uj": [[5, 3]]}) is None
            assert contention._energy_uj({"energy_uj": [[5, 8], [1, 2]]}) == 4
            assert contention._energy_uj({"energy_uj": []}) is None
        finally:
            driver.terminate()


def test_a_lock_that_fails_fails_its_points_alone(
    monkeypatch: pytest.MonkeyPatch, command: Callable[..., Said]
) -> None:
    run = host.run

    def fails(program: build.Program, words: list[str], *rest: float) -> object:
        if words[0] == "ticket":
            raise RunFault("thread 1 is in the section with another")
        return run(program, words, *rest)

    monkeypatch.setattr(host, "run", fails)
    words = ("--locks", "mcs,ticket", "--threads", "1", "--cycles", "1200000", "--seeds", "1")
    said = command("locks", "-m", "native", *words)
    assert said.status == 1
    assert "thread 1 is in the section with another" in said.err
    assert "1 of 2 points failed" in said.err
