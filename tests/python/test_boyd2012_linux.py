"""The part of `boyd2012` that runs on Linux: profiles, its rules, and the program that works on many CPUs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from linux_guest import loiter_
from loiter import profiles, resources
from loiter.profiles import Function
from loiter.runs.linux import FUNCTIONS
from loiter.studies import boyd2012
from loiter.studies.boyd2012 import linux_findings
from loiter.studies.boyd2012.linux import EXIM, FOPS, KERNELS, PROFILED, QUEUES, TICKETS, WORKLOADS, Kernel, Run, runs
from loiter.studies.boyd2012.linux_findings import IDLE, LISTED, LOCKS, LinuxRuns

WINDOW = (5_000_000, 6_000_000)
PROFILE = """\
# callgrind format
events: Instructions Cycles
ob=(1) vmlinux
fl=(1) ???
fn=(1) vfs_open
0 10 20
cob=(1)
cfi=(1)
cfn=(2) _raw_spin_lock
calls=3 0
0 200 400

ob=(1)
fl=(1)
fn=(2)
0 200 400

ob=(2) ./manycore
fl=(1)
fn=(3) vfs_open
0 1 2

totals: 211 422
"""


def test_a_profile_has_what_functions_cost_themselves() -> None:
    found = profiles.functions(PROFILE.splitlines(keepends=True))
    assert found == [Function("_raw_spin_lock", 200, 400), Function("vfs_open", 11, 22)]


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        *(("_raw_spin_lock", True), ("_raw_spin_lock_irqsave", True), ("_raw_spin_trylock", True)),
        *(("queued_spin_lock_slowpath", True), ("queued_write_lock_slowpath", True), ("lockref_put_return", True)),
        *(("__mutex_lock.constprop.0", True), ("down_write", True), ("rwsem_down_write_slowpath", True)),
        *(
            ("_raw_spin_unlock_irqrestore", False),
            ("up_write", False),
            ("mutex_unlock", False),
            ("do_filp_open", False),
        ),
    ],
)
def test_which_functions_take_locks(name: str, takes: bool) -> None:
    assert bool(LOCKS.match(name)) is takes


@dataclass
class Told:
    """A result that the test makes up."""

    path: Path
    manifest: dict[str, Any]
    marks: list[dict[str, Any]]

    def rows(self, name: str) -> list[dict[str, Any]]:
        assert name == "marks"
        return self.marks


def told(path: Path, run: Run, operations: int, functions: Iterable[Function]) -> Told:
    """So many operations in the window, and some before and after it."""
    path = path / run.label
    path.mkdir()
    (path / FUNCTIONS).write_text(json.dumps([asdict(each) for each in functions]))
    pieces = operations * run.workload.pieces
    at = [WINDOW[0] - 1, *(WINDOW[0] + n for n in range(pieces)), WINDOW[1]]
    marks = [{"kind": "work_end", "cycle": cycle} for cycle in at] + [{"kind": "roi_begin", "cycle": WINDOW[0]}]
    phases = [{"begin_cycle": 0, "end_cycle": WINDOW[0]}, {"begin_cycle": WINDOW[0], "end_cycle": WINDOW[1]}]
    return Told(path, {"phases": phases, "clock_mhz": 2100}, marks)


RATES = {1: 2, 24: 20, 40: 10, 48: 4}
"""Messages in the window, by cores: it collapses as the paper's does."""


def found(path: Path, rates: dict[int, int] = RATES, percent: int = 35, fewer_percent: int = 1) -> LinuxRuns:
    """Exim's runs: with all cores the lock has so many percent, with fewer so many."""
    results = {}
    for cores, operations in rates.items():
        run = Run(EXIM, TICKETS, cores)
        share = percent if cores == 48 else fewer_percent
        work = [Function(f"work{n}", 0, (100 - share) // LISTED) for n in range(LISTED)]
        work += [Function("more", 0, 100 - share - sum(each.cycles for each in work)), Function(IDLE, 0, 10_000)]
        lock = Function("_raw_spin_lock", 0, share)
        functions = sorted([*work, lock], key=lambda each: -each.cycles)
        results[run.label] = told(path, run, operations, functions)
    return LinuxRuns(results, "quick")  # type: ignore[arg-type]


def held(runs: LinuxRuns) -> dict[str, bool | None]:
    return {each.id: each.holds for each in linux_findings.statements(runs, "exim")}


def test_throughput_is_of_the_window_and_shares_of_the_time_without_idle_cores(tmp_path: Path) -> None:
    here, run = found(tmp_path), Run(EXIM, TICKETS, 48)
    assert here.pieces(run) == 12
    assert here.throughput(run) == pytest.approx(4)
    assert here.per_second(run) == pytest.approx(8400)
    assert here.locking(run) == pytest.approx(35)
    assert here.top(run) == ("_raw_spin_lock", pytest.approx(35))


def test_a_collapse_as_the_paper_has_it_keeps_both_statements(tmp_path: Path) -> None:
    here = found(tmp_path)
    assert held(here) == {"statements.collapse_total": True, "statements.collapse_visible": True}
    ours = {each.id.removeprefix("boyd2012."): each.ours for each in linux_findings.points(here, "")}
    assert ours["exim_case.throughput_48_over_40"] == pytest.approx(0.4)
    assert ours["exim.top_function_at_48"] == "_raw_spin_lock"


def test_what_breaks_a_statement(tmp_path: Path) -> None:
    changes: dict[str, dict[str, Any]] = {
        "statements.collapse_total": {"rates": {**RATES, 48: 19}},
        "statements.collapse_visible": {"percent": 30},
    }
    for number, (key, change) in enumerate(changes.items()):
        (tmp_path / str(number)).mkdir()
        here = held(found(tmp_path / str(number), **change))
        assert here.pop(key) is False, key
        assert all(here.values()), key
    (tmp_path / "seen").mkdir()
    assert held(found(tmp_path / "seen", fewer_percent=20))["statements.collapse_visible"] is False


def test_without_runs_nothing_is_said() -> None:
    assert all(each.ours is None for each in linux_findings.points(None, ""))
    of_others = linux_findings.statements(LinuxRuns({}, "quick"), "fops")
    assert [each.holds for each in of_others] == [None, None]


def test_without_images_only_who_names_an_exhibit_has_them_built(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, workloads in ((False, []), (True, list(WORKLOADS))):
        monkeypatch.setattr(boyd2012.linux, "are_there", lambda there=there: there)
        assert boyd2012._workloads(None) == workloads
        assert boyd2012._workloads("exim") == ["exim"]
    for kernel in KERNELS:
        words = kernel.build.split()
        assert words[:4] == ["loiter", "image", "build", kernel.image]
        assert all(name in kernel.build for name in kernel.recipe.fragments)
    assert [each.holds for each in linux_findings.unmeasured("no images")] == [None, None]


@pytest.mark.parametrize("scale", ["quick", "default"])
def test_runs_have_the_counts_that_are_compared(scale: str) -> None:
    planned = runs(scale, list(WORKLOADS))
    assert len({run.label for run in planned}) == len(planned)
    assert set(KERNELS) == {run.kernel for run in planned}
    assert {1, *PROFILED} <= {run.cores for run in planned if run.workload == EXIM}


def test_labels_tell_kernels_apart() -> None:
    assert [Run(FOPS, kernel, 8).label for kernel in (TICKETS, QUEUES)] == [
        "linux.fops.ticket.8",
        "linux.fops.queued.8",
    ]
    assert Kernel("ticket") == TICKETS


# ---- the guest -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.simulator
@pytest.mark.parametrize("name", WORKLOADS)
def test_each_operation_passes_its_probes(name: str, tmp_path: Path) -> None:
    """Checks of its own end the program otherwise; how often it passes a probe is known."""
    cpus, operations = 2, 30
    (tmp_path / "manycore").write_bytes((resources.GUESTS / "manycore").read_bytes())
    (tmp_path / "manycore").chmod(0o755)
    words = ("exec", "-m", "t1", "--harts", str(cpus), "-n", "--phases", "reference until probe:roi_end, timing")
    done = loiter_(*words, "--out", "out", "--", "./manycore", name, str(cpus), str(operations), cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    import pyarrow.parquet as pq

    marks = pq.read_table(tmp_path / "out" / "marks.parquet").to_pylist()
    ends = [mark["value"] for mark in marks if mark["kind"] == "work_end"]
    assert {cpu: ends.count(cpu) for cpu in range(cpus)} == dict.fromkeys(
        range(cpus), operations * WORKLOADS[name].pieces
    )


@pytest.mark.slow
@pytest.mark.simulator
def test_words_that_it_does_not_understand(tmp_path: Path) -> None:
    (tmp_path / "manycore").write_bytes((resources.GUESTS / "manycore").read_bytes())
    (tmp_path / "manycore").chmod(0o755)
    done = loiter_("exec", "-n", "--", "./manycore", "fops", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert b"usage: manycore" in done.stderr
