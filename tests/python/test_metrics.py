"""Named metrics: worked out by hand from small tables, left out without inputs, and consistent on a real run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from linux_guest import loiter_, message
from loiter import metrics, reference, store
from loiter.counts import ALL, KERNEL, TABLES, USER, Counts
from loiter.engine import Json
from loiter.metrics import METRICS

ROOT = Path(__file__).resolve().parents[2]


def counters(component: str, **values: int) -> list[Json]:
    return [{"component": component, "name": name, "unit": "", "value": value} for name, value in values.items()]


def activity(context: int, name: str, cycles: int, instructions: int) -> Json:
    return {"context": context, "hart": context, "activity": name, "cycles": cycles, "instructions": instructions}


def histogram(component: str, name: str, *cycles: int) -> list[Json]:
    return [
        {"component": component, "name": name, "unit": "", "value": value, "cycles": each}
        for value, each in enumerate(cycles)
    ]


# Two out-of-order cores of two contexts each, 1000 cycles; context 3 is vacant.
ACTIVITIES = [
    activity(0, "user", 600, 900),
    activity(0, "kernel", 400, 300),
    activity(1, "spinning", 500, 700),
    activity(1, "user", 200, 80),
    activity(1, "acquiring", 50, 20),
    activity(1, "idle", 250, 0),
    activity(2, "machine", 60, 30),
    activity(2, "interrupt", 40, 20),
    activity(2, "idle_polling", 150, 100),
    activity(2, "napping", 250, 0),
    activity(2, "pausing", 500, 0),
    activity(3, "vacant", 1000, 0),
]
OUT_OF_ORDER = {
    "activities": ACTIVITIES,
    "counters": [
        *counters("core0", fetchable_contexts=1500, zero_fetch_cycles=100, zero_issue_cycles=50),
        *counters("core0", zero_retire_cycles=70),
        *counters(
            "core1", fetchable_contexts=100, zero_fetch_cycles=900, zero_issue_cycles=950, zero_retire_cycles=930
        ),
        *counters("core0", queue_full_cycles=40, registers_full_cycles=10, integer_queue_occupancy=14_000),
        *counters("core1", queue_full_cycles=0, registers_full_cycles=0, integer_queue_occupancy=1_000),
        *counters("core0", fp_queue_occupancy=500),
        *counters("core1", fp_queue_occupancy=0),
        *counters("core0", misled_contexts=300, environment_calls=15, trap_returns=35),
        *counters("core1", misled_contexts=20, environment_calls=0, trap_returns=0),
        *counters("core0.useful", fetched=1500, squashed=300, integer_issued=1200, full_queue_entries=100),
        *counters("core0.spinning", fetched=700, squashed=70, integer_issued=650, full_queue_entries=250),
        *counters("core0.polling", fetched=300, squashed=30, integer_issued=150, full_queue_entries=650),
        *counters("core1.useful", fetched=100, squashed=20, integer_issued=60, full_queue_entries=0),
        *counters("core0.useful", load_lookups=300, load_misses=30),
        *counters("core0.branch", branches_taken=150, fixed_jumps=100),
        *counters("core0", fetched=2500, squashed=400, retired=2000, loads=500, l1d_accesses=800, l1d_misses=40),
        *counters("core0.user", fetched=2000, squashed=200, retired=1700, loads=425, l1d_accesses=600, l1d_misses=10),
        *counters("core0.kernel", fetched=500, squashed=200, retired=300, loads=75, l1d_accesses=200, l1d_misses=30),
        *counters("core1", fetched=100, squashed=0, retired=50, loads=0, l1d_accesses=0, l1d_misses=0),
        *counters("core1.user", fetched=0, squashed=0, retired=0, loads=0, l1d_accesses=0, l1d_misses=0),
        *counters("core1.kernel", fetched=100, squashed=0, retired=50, loads=0, l1d_accesses=0, l1d_misses=0),
        *counters("core0.branch", branches=200, branches_mispredicted=20, btb_lookups=300, btb_misses=30),
        *counters("core0.branch", returns=40, returns_mispredicted=1, indirect_jumps=10, indirect_jumps_mispredicted=4),
        *counters("core0.l1i", accesses=999, misses=99, outstanding_misses=3_800),
        *counters("core0.l1d", accesses=999, misses=99, outstanding_misses=5_400),
        *counters("core1.l1i", accesses=1, misses=1, outstanding_misses=200),
        *counters("core1.l1d", accesses=1, misses=1, outstanding_misses=0),
        *counters("l2", accesses=60, misses=6, outstanding_misses=1_300, writebacks=2, channel_wait_cycles=4),
    ],
    "histograms": [
        *histogram("core0", "integer_issued", 50, 300, 70, 580),
        *histogram("core1", "integer_issued", 950, 30, 18, 2),
        *histogram("core0", "retired", 70, 0, 930),
        *histogram("core0", "polling_queued", 100, 50, 0, 20, 800, 30),
        *histogram("core1", "polling_queued", 1000),
    ],
}
BY_HAND = {
    # (400 + 60 + 40 + 50) of 600 + 400 + 500 + 250 + 60 + 40 + 150 + 250 + 500 context-cycles
    "kernel_cycles_percent": {ALL: 100 * 550 / 2750},
    "ipc": {ALL: 2150 / 2000, USER: 1700 / 2000, KERNEL: 350 / 2000},
    "per_thread_ipc": {ALL: 2150 / 2750, USER: 980 / 800, KERNEL: 370 / 550},
    "fetchable_contexts": {ALL: 1600 / 2000},
    "branch_mispredict_percent": {ALL: 100 * 25 / 250},
    "squashed_percent": {ALL: 100 * 400 / 2600, USER: 10.0, KERNEL: 100 * 200 / 600},
    "useful_squashed_percent": {ALL: 100 * 320 / 1600},
    "correct_path_contexts": {ALL: (1600 - 320) / 2000},
    "full_queue_spin_percent": {ALL: 25.0},
    "full_queue_idle_percent": {ALL: 65.0},
    "few_polling_percent": {ALL: 100 * 1170 / 2000},
    # Three units on each core.
    "useful_issue_percent": {ALL: 100 * 1260 / 6000},
    "useful_load_miss_percent": {ALL: 10.0},
    "memory_bus_delay_cycles": {ALL: 4 / 8},
    # 200 conditional, 100 direct, 50 indirect, 50 of the system.
    "all_branches_percent": {ALL: 100 * 400 / 2050},
    "branch_mix.conditional": {ALL: 50.0},
    "branch_mix.unconditional": {ALL: 25.0},
    "branch_mix.indirect": {ALL: 12.5},
    "branch_mix.system": {ALL: 12.5},
    "conditional_taken_percent": {ALL: 75.0},
    "lock_instructions_percent": {ALL: 100 * 720 / 2150},
    "lock_cycles_percent": {ALL: 100 * 550 / 2750},
    "lock_ipc_ratio": {ALL: (720 / 550) / (1330 / 1300)},
    # 150 branches, 100 jumps to a fixed target and 10 to another.
    "btb_miss_percent": {ALL: 100 * 30 / 260},
    "l1d_miss_percent": {ALL: 5.0, USER: 100 * 10 / 600, KERNEL: 15.0},
    # By mode these cores do not count the two here, so they stand for all modes alone.
    "l1i_miss_percent": {ALL: 10.0},
    "l2_miss_percent": {ALL: 10.0},
    "zero_fetch_cycles_percent": {ALL: 50.0},
    "zero_issue_cycles_percent": {ALL: 50.0},
    "max_issue_cycles_percent": {ALL: 100 * 582 / 2000},
    "zero_retire_percent": {ALL: 50.0},
    "iq_backup_percent": {ALL: 2.0},
    "registers_full_percent": {ALL: 0.5},
    "iq_average_size": {ALL: 7.5},
    "fq_average_size": {ALL: 0.25},
    "outstanding_misses.l1i": {ALL: 2.0},
    "outstanding_misses.l1d": {ALL: 2.7},
    "outstanding_misses.l2": {ALL: 1.3},
    "loads_percent": {ALL: 100 * 500 / 2050, USER: 25.0, KERNEL: 100 * 75 / 350},
    "branches_percent": {ALL: 100 * 200 / 2050},
    "interrupt_cycles_percent": {ALL: 100 * 40 / 2750},
    "spin_cycles_percent": {ALL: 100 * 500 / 2750},
    "useful_ipc": {ALL: 1350 / 2000},
    "spin_ipc": {ALL: 700 / 2000},
    "spin_instructions_percent": {ALL: 100 * 700 / 2150},
    "idle_instructions_percent": {ALL: 100 * 100 / 2150},
    "useful_per_thread_ipc": {ALL: 1350 / 1350},
    "spin_per_thread_ipc": {ALL: 700 / 500},
    "idle_per_thread_ipc": {ALL: 100 / 150},
    "spin_to_useful_ipc_ratio": {ALL: (700 / 500) / (1350 / 1350)},
}

# An in-order core counts no modes, and nothing of a front end that it has not.
IN_ORDER = {
    "activities": [activity(0, "machine", 400, 100), activity(1, "idle", 400, 0)],
    "counters": [
        *counters("core0", issued=101, loads=20, stores=10, atomics=1, branches=15, fp_operations=0),
        *counters("core0.l1i", accesses=50, misses=5),
        *counters("core0.l1d", accesses=20, misses=2),
        *counters("core0.itlb", accesses=0, misses=0),
        *counters("l2", accesses=8, misses=2),
    ],
    "histograms": [],
}
BY_HAND_IN_ORDER = {
    "kernel_cycles_percent": {ALL: 100.0},
    "ipc": {ALL: 0.25},
    "per_thread_ipc": {ALL: 0.25, KERNEL: 0.25},
    "l1i_miss_percent": {ALL: 10.0},
    "l1d_miss_percent": {ALL: 10.0},
    "l2_miss_percent": {ALL: 25.0},
    "loads_percent": {ALL: 100 * 20 / 101},
    "stores_percent": {ALL: 100 * 10 / 101},
    "atomics_percent": {ALL: 100 / 101},
    "branches_percent": {ALL: 100 * 15 / 101},
    "fp_operations_percent": {ALL: 0.0},
    "interrupt_cycles_percent": {ALL: 0.0},
    "spin_cycles_percent": {ALL: 0.0},
    "useful_ipc": {ALL: 0.25},
    "spin_ipc": {ALL: 0.0},
    "spin_instructions_percent": {ALL: 0.0},
    "idle_instructions_percent": {ALL: 0.0},
    "useful_per_thread_ipc": {ALL: 0.25},
    "lock_instructions_percent": {ALL: 0.0},
    "lock_cycles_percent": {ALL: 0.0},
}


@pytest.mark.parametrize(("tables", "expected"), [(OUT_OF_ORDER, BY_HAND), (IN_ORDER, BY_HAND_IN_ORDER)])
def test_metrics_are_what_one_works_out_by_hand(
    tables: Mapping[str, list[Json]], expected: dict[str, dict[str, float]]
) -> None:
    found = {each.metric.name: each.values for each in metrics.measure(tables)}
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name] == pytest.approx(values), name


def test_nothing_is_measured_without_tables() -> None:
    assert metrics.measure({"activities": [], "counters": [], "histograms": []}) == []


def test_the_document_has_each_metric_as_it_is_declared() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    section = text.split("## Metrics\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{each.name}` | {each.unit} | {', '.join(each.groups)} | {each.definition} |" for each in METRICS
    ]
    assert len({each.name for each in METRICS}) == len(METRICS)


# Metrics whose published figures have another name.
SYNONYMS = {
    "outstanding_misses": ("outstanding_misses.l1i", "outstanding_misses.l1d", "outstanding_misses.l2"),
    "table_3_2_total_miss_percent": tuple(f"{each}_miss_percent" for each in ("btb", "l1i", "l1d", "l2", "dtlb")),
    "superscalar_ipc": ("per_thread_ipc",),
    "apache_spin_instructions_percent": ("spin_instructions_percent",),
    "multi7_idle_instructions_percent": ("idle_instructions_percent",),
    "zero_fetch_percent": ("zero_fetch_cycles_percent",),
    "fetchable": ("fetchable_contexts",),
    "average_size": ("iq_average_size",),
}
# Published figures that are no metric of one result: conditions of experiments, quotients of two results, and what
# needs the cause of a miss or the part of the kernel.
OTHERS = {
    *("startup_parts_percent", "kernel_cycles_percent_above", "kernel_parts_percent", "syscalls_percent_of_all"),
    *("smt_gain", "miss_causes", "miss_percent", "avoided_kernel_by_kernel_percent", "os_effect"),
    *("lock_loop", "lock_loop_independent", "pure", "pure_iq", "smt_lock", "apache_lock_fail_cycles"),
    *("removal_gain_percent", "pipeline_300", "idle_workloads", "idle_removal_speedup", "idle_removal_gain_percent"),
    *("other_configurations", "other_lock_fail_cycles", "law"),
}


def test_published_figures_have_metrics_of_their_names() -> None:
    published = reference.load("redstone2002")
    spin = published["spin"]
    sections = (*published["os"].values(), spin, spin["pipeline_300"], spin["pure_iq"])
    keys = {key for section in sections for key in section}
    names = {each.name for each in METRICS}
    assert keys - names == SYNONYMS.keys() | OTHERS
    assert names.issuperset(name for several in SYNONYMS.values() for name in several)


@pytest.mark.simulator
def test_metrics_of_a_real_run_are_consistent(tmp_path: Path) -> None:
    places = ("--place", "intmix=0,1,2,3,4,5,6,7")
    done = loiter_("run", "-m", "smt8", "coremix", *places, "--out", "mix", "--", "iterations=1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = loiter_("metrics", "mix", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = {each["name"]: each for each in json.loads(done.stdout)}
    result = store.read(tmp_path / "mix")
    counts = Counts({name: result.rows(name) for name in TABLES})
    retired, fetched = counts.counter("retired"), counts.counter("fetched")
    assert retired == counts.instructions() == result.manifest["timing_instructions"]
    assert 0 <= fetched - retired - counts.counter("squashed") <= 8 * 64, "what is under way at the end"
    assert counts.core_cycles == counts.cycles == result.manifest["timing_cycles"]
    assert found["ipc"][ALL] == pytest.approx(retired / counts.cycles)
    assert 1 < found["ipc"][ALL] < 8
    assert "kernel_cycles_percent" not in found, "a bare-metal program has no kernel"
    assert all(not {USER, KERNEL} & each.keys() for each in found.values())
    shares = [values for name, values in found.items() if name.endswith("_percent")]
    assert all(0 <= share[group] <= 100 for share in shares for group in metrics.GROUPS if group in share)
    mix = [found[f"{each}_percent"][ALL] for each in ("loads", "stores", "atomics", "branches", "fp_operations")]
    assert 20 < sum(mix) <= 100
    assert 0 < found["fetchable_contexts"][ALL] <= 8
    assert 0 < found["iq_average_size"][ALL] <= 32
    assert found["spin_instructions_percent"][ALL] == 0
    assert "spin_to_useful_ipc_ratio" not in found, "nobody waits for a lock"


@pytest.mark.simulator
def test_spinners_are_told_from_those_who_work(tmp_path: Path) -> None:
    """One works and seven wait for its lock; between the probes they do nothing else."""
    places = ("--place", "add=0", "--place", "spin_default=1,2,3,4,5,6,7")
    done = loiter_("run", "-m", "smt8", "spinloops", *places, "--out", "spin", "--", "iterations=20", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = {each.metric.name: each.values for each in metrics.of(store.read(tmp_path / "spin"))}
    assert found["spin_instructions_percent"][ALL] > 50
    assert 0 < found["useful_ipc"][ALL] < found["ipc"][ALL]
    assert found["spin_to_useful_ipc_ratio"][ALL] > 0


@pytest.mark.simulator
def test_the_table_fits_a_terminal_and_mistakes_are_explained(tmp_path: Path) -> None:
    for machine in ("t1", "virt"):
        assert loiter_("run", "-m", machine, "hello", "--out", machine, cwd=tmp_path).returncode == 0
    done = loiter_("metrics", "t1", cwd=tmp_path, environment={"COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert max(map(len, lines)) <= 80
    ipc = next(line for line in lines if line.split()[:1] == ["ipc"])
    assert ipc.split()[2:] == ["instructions/cycle"], "no modes"
    assert not any("squashed_percent" in line for line in lines), "nothing is ever squashed there"
    for name, why in (("virt", "nothing was timed"), ("nowhere", "no result directory")):
        done = loiter_("metrics", name, cwd=tmp_path)
        assert done.returncode == 2
        assert why in message(done)
    (tmp_path / "t1" / "counters.parquet").write_bytes(b"")
    done = loiter_("metrics", "t1", cwd=tmp_path)
    assert done.returncode == 2
    assert "counters.parquet does not match its hash" in message(done)
