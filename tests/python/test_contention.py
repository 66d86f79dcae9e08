"""`loiter locks`: every lock on machines of each kind, and what is measured of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import loiter
from commands import Command, run
from loiter import contention, resources
from loiter.contention import Contention
from loiter.errors import UserFault

pytestmark = pytest.mark.simulator

QUICK = Contention(hold_cycles=40, think_cycles=200, window_cycles=30_000, seeds=1, lines=2)


@pytest.fixture
def command() -> Command:
    return run


@pytest.fixture(scope="module", autouse=True)
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOITER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("machine", ["t1", "smt8"])
def test_every_lock_excludes_and_loses_nobody(machine: str) -> None:
    names = contention.names()
    assert {"mcs", "ticket", "cna", "hmcs", "qspinlock", "phase_fair_queue", "hardware_lock"} <= set(names)
    # Long enough that one acquisition more or less of a hart says nothing.
    found = contention.measure(loiter.machine(machine), names, [8], replace(QUICK, window_cycles=60_000), quiet=True)
    assert "error" not in found.columns, list(found["error"].dropna())
    assert len(found) == len(names)
    assert (found["acquisitions"] > 80).all()
    assert (found["handovers"] > 20).all()
    # A hand-over ends a wait.
    assert (found["handovertime-avg"] <= found["waittime-max"]).all()
    by_lock = found.set_index("lock")
    assert min(by_lock.loc[name, "jain"] for name in ("ticket", "mcs", "clh", "qspinlock")) > 0.95


def test_who_is_alone_waits_for_nobody() -> None:
    periods = {}
    for think in (1000, 3000):
        asked = Contention(hold_cycles=300, think_cycles=think, window_cycles=200_000, seeds=2)
        found = contention.measure(loiter.machine("t1"), ["mcs", "test_and_set"], [1], asked, quiet=True)
        for row in found.to_dict("records"):
            assert (row["contentions"], row["handovers"], row["jain"]) == (0, 0, 1.0)
            assert pd.isna(row["handover_mean_cycles"])
            # The section also writes its line, and the word that shows who is inside.
            assert 300 <= row["holdtime-avg"] <= 400
            assert row["acquisitions_per_1000_cycles_least"] < row["acquisitions_per_1000_cycles_most"], "seeds differ"
        by_lock = found.set_index("lock")
        periods[think] = 1000 / by_lock["acquisitions_per_1000_cycles"]
        # The queue lock takes more steps than the word.
        assert by_lock.loc["mcs", "wait_mean_cycles"] > by_lock.loc["test_and_set", "wait_mean_cycles"]
    for name in ("mcs", "test_and_set"):
        assert periods[3000][name] - periods[1000][name] == pytest.approx(2000, rel=0.1)


def test_readers_share_and_writers_do_not() -> None:
    machine = loiter.machine("t1")
    rates = {}
    for share in (0, 100):
        result = loiter.run(
            machine,
            "locks",
            place={"phase_fair_ticket": list(range(0, 32, 4))},
            arguments={"share": share, "hold": 1000, "think": 0, "cycles": 30_000},
        )
        rates[share] = sum(row["acquisitions"] for row in result.rows("locks"))
    # Eight harts, one on each core.
    assert rates[100] > 5 * rates[0] > 0


def test_waiters_nap_where_the_machine_can(command: Command) -> None:
    words = (
        "--locks",
        "mcs,catnap",
        "--threads",
        "4",
        "--cycles",
        "20000",
        "--seeds",
        "1",
        "--policy",
        "nap",
        "--json",
    )
    asleep = command("locks", "-m", "t1", *words)
    assert asleep.status == 0, asleep.err
    assert "pauses instead" not in asleep.err
    isa = str(loiter.machine("t1").value("hart.isa"))
    awake = command("locks", "-m", "t1", *words, "--set", f"hart.isa={isa.replace('_zawrs', '')}")
    assert awake.status == 0, awake.err
    assert awake.err.count("have no Zawrs (hart.isa): who would nap pauses instead") == 1
    naps = {}
    for place in ("mcs=0,1,2,3", "catnap=0,1,2,3", "ticket=0,1,2,3"):
        rest = ("method=7", "hold=200", "think=0", "cycles=20000", "--json")
        said = command("run", "-m", "t1", "locks", "--place", place, *rest)
        counters = json.loads(said.out)["counters"]
        naps[place.partition("=")[0]] = sum(each["value"] for each in counters if each["name"] == "wrs_naps")
    assert naps["mcs"] > 20, naps
    assert naps["catnap"] > 5, naps
    assert naps["ticket"] > 20, naps


def test_a_nap_costs_a_holder_nothing_whose_section_hides_its_end(command: Command) -> None:
    """Waiters that nap read what those that pause do not: none of it may lie where the holder writes."""
    handovers = {}
    for lock in ("qspinlock", "catnap"):
        rest = ("method=1", "hold=2400", "think=40", "cycles=200000", "--json")
        said = command("run", "-m", "knl", "--fast-forward", "locks", "--place", f"{lock}=0,8,16,24", *rest)
        rows = json.loads(said.out)["locks"]
        handovers[lock] = sum(row["handover_sum_cycles"] for row in rows) / sum(row["handovers"] for row in rows)
        assert sum(row["acquisitions"] for row in rows) > 50
    assert handovers["catnap"] == pytest.approx(handovers["qspinlock"], rel=0.05)


def test_all_locks_of_the_program_lie_at_the_same_place_of_a_page() -> None:
    lister = os.environ.get("CROSS", "riscv64-linux-gnu-") + "nm"
    lines = subprocess.run([lister, resources.GUESTS / "locks.elf"], check=True, capture_output=True, text=True).stdout
    where = {name: int(address, 16) for address, _, name in (line.split(maxsplit=2) for line in lines.splitlines())}
    words = ("test_and_set", "ticket", "anderson", "mcs", "clh", "qspinlock", "catnap", "hmcs_lock", "delay")
    assert {where[name] % 4096 for name in words} == {0}


def test_nodes_of_a_machine_are_sockets_or_what_shares_a_cache() -> None:
    assert contention.node_contexts(loiter.machine("opteron48")) == 6
    assert contention.node_contexts(loiter.machine("knl")) == 8
    assert contention.node_contexts(loiter.machine("t1")) == 0
    t1 = loiter.machine("t1", "system.cores=2")
    assert contention.contexts(t1, "cores") == [0, 4, 1, 5, 2, 6, 3, 7]
    assert contention.contexts(t1, "siblings") == list(range(8))
    assert contention.contexts(t1, "across") == contention.contexts(t1, "cores"), "it is one node"
    opteron48 = loiter.machine("opteron48")
    assert contention.contexts(opteron48, "across")[:10] == [0, 6, 12, 18, 24, 30, 36, 42, 1, 7]


def test_the_command_prints_a_table_and_writes_plots(command: Command, tmp_path: Path) -> None:
    words = ("locks", "-m", "t1", "--locks", "ticket,mcs", "--threads", "1..4*2", "--cycles", "5000", "--seeds", "1")
    said = command(*words, "--out", str(tmp_path / "out"), "--metric", "latency")
    assert said.status == 0, said.err
    assert "ticket" in said.out
    lines = [line.rstrip() for line in said.out.splitlines() if not line.startswith("wrote")]
    assert max(map(len, lines)) <= 110
    files = {each.name for each in (tmp_path / "out").iterdir()}
    assert {"locks.parquet", "locks.csv", "locks.html", "throughput.png", "fairness.svg", "energy.png"} <= files
    assert len(pd.read_parquet(tmp_path / "out" / "locks.parquet")) == 6
    points = json.loads(command(*words, "--json").out)["points"]
    assert [(row["lock"], row["threads"]) for row in points] == [
        (name, count) for name in ("ticket", "mcs") for count in (1, 2, 4)
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--locks", "tickt"), 'did you mean "ticket"?'),
        (("--policy", "paus"), 'did you mean "pause"?'),
        (("--policy", "pause:x"), "steps are a number"),
        (("--threads", "33"), "has 32 contexts"),
        (("--threads", "two"), "is no number"),
        (("--hold", "0"), "hold = 0: it is 1 at least"),
        (("--against", "clh"), "--against names one of --locks"),
        (("--metric", "speed"), "unknown metric"),
        (("--locks", ","), "name one at least"),
        (("-m", "virt"), "has no timing"),
    ],
)
def test_what_cannot_be_measured_is_refused(command: Command, words: tuple[str, str], said: str) -> None:
    machine = () if "-m" in words else ("-m", "t1")
    found = command("locks", *machine, *words)
    assert found.status == 2
    assert said in found.err.replace("\n", " ")


def test_points_that_fail_are_told_once(command: Command) -> None:
    words = ("--locks", "mcs,clh", "--threads", "1,2", "--lines", "1000", "--seeds", "1")
    found = command("locks", "-m", "t1", *words)
    assert found.status == 1
    err = " ".join(found.err.split())
    while_they_run, at_the_end = re.findall("[^:]*: lines=1000: the section has 256 at most", err)
    assert "seed=1 failed" in while_they_run
    assert err.count("failed likewise") == 3
    assert "mcs with 1, mcs with 2, clh with 1 and 1 more" in at_the_end
    assert "4 of 4 points failed" in found.err


def test_a_machine_of_several_sockets_has_its_nodes() -> None:
    """Six contexts of one die and three of the next: locks that know of dies keep the lock on one for a while."""
    asked = Contention(think_cycles=0, window_cycles=40_000, seeds=1)
    found = contention.measure(loiter.machine("opteron48"), ["mcs", "hmcs", "cna", "hclh"], [9], asked, quiet=True)
    assert "error" not in found.columns, list(found["error"].dropna())
    assert (found["acquisitions"] > 4 * 9).all()
    jain = found.set_index("lock")["jain"]
    assert jain["mcs"] > 0.95
    assert jain["hmcs"] < 0.9
    assert jain["cna"] < 0.9


def test_fewer_than_one_seed_is_refused() -> None:
    with pytest.raises(UserFault, match="seeds"):
        Contention(seeds=0).check()
