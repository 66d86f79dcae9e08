"""The study of lock-holder preemption: its files, its rules, and a run of its small parts."""

from __future__ import annotations

import copy
import io
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from linux_guest import loiter_, message
from loiter import engine as engines
from loiter import reference, resources, store, studies, vms
from loiter.engine import Engine
from loiter.errors import UserFault
from loiter.results import Result
from loiter.runs import host
from loiter.runs.host import HostRequest
from loiter.studies.base import Verdict
from loiter.studies.changes import Changes
from loiter.studies.friebel2008 import build, findings, grid, mix, statements
from loiter.studies.friebel2008.grid import ALONE, BUILD, NATIVE, PREEMPTED, SECTIONS, TICKET, YIELDING, Case, Scale
from loiter.studies.friebel2008.measured import Measured, Times, Waits
from loiter.studies.friebel2008.statements import Judge
from loiter.studies.runner import Order, carry_out

TINY = Scale(
    cpus=2,
    acquisitions=6_000,
    hold=2_000,
    # With such work outside, the virtual CPUs of a guest do not lose their CPUs at the same time.
    think=21_000,
    units=4,
    jobs=2,
    clients=2,
    run_us=1_000_000,
    published_us=1_000_000,
    thresholds=(16,),
    guests=(1, 2),
    times=(1, 2, 4),
    repetitions=2,
    window_begins_us=200_000,
    window_us=5_000,
)


def name_of(case: Case) -> str:
    if case.native:
        return NATIVE
    if case.after_log2:
        return YIELDING
    return PREEMPTED if case.rivals else ALONE


class Told(Measured):
    """What the paper has measured, a hundredth as long; `changed` has what a test has of its own, by lock and mode."""

    def __init__(self, changed: dict[tuple[str, str], Times | Waits] | None = None) -> None:
        super().__init__({}, TINY)
        self._changed = changed or {}

    def times(self, case: Case, number: int = 0) -> Times:
        changed = self._changed.get((case.lock, name_of(case)))
        if isinstance(changed, Times):
            return changed
        guest, spinning, wall = {
            (False, PREEMPTED): (1173.0, 90.0, 348.0),
            (False, YIELDING): (1084.0, 0.0, 334.4),
            (True, PREEMPTED): (224342.0, 222704.0, 28251.0),
            (True, YIELDING): (1236.0, 66.0, 341.0),
        }.get((case.lock == TICKET, name_of(case)), (1090.0, 2.0, 330.0))
        return Times(wall, guest, spinning, 3000.0, 1270.0, 1260.0, 0.0, over=True, yields=0, helped=0, slept=0)

    def waits(self, case: Case) -> Waits:
        changed = self._changed.get((case.lock, name_of(case)))
        if isinstance(changed, Waits):
            return changed
        counts = {11: 2000, 12: 5000, 13: 2500, 16: 150}
        if name_of(case) == PREEMPTED:
            counts |= {24: 300, 23: 100}
        if name_of(case) == YIELDING:
            counts |= {16: 550}
        return Waits(counts, {log2: n * 3 * 2 ** (log2 - 1) for log2, n in counts.items()})


def verdicts(found: Measured) -> dict[str, bool | None]:
    return {
        each.id.removeprefix("statements."): each.holds for each in statements.statements(Judge(found, BUILD), None)
    }


def test_every_statement_is_judged_and_holds_of_what_is_published() -> None:
    found = verdicts(Told())
    assert list(found) == list(reference.lookup(grid.PAPER, "statements"))
    assert all(found.values()), found
    points = statements.points(Judge(Told(), BUILD), None, "")
    assert {each.id for each in points if each.verdict is not Verdict.WITHIN} == set()


@pytest.mark.parametrize(
    ("key", "lock", "mode", "changed"),
    [
        ("native_waits_short", grid.TEST_AND_SET, NATIVE, {12: 90, 17: 10}),
        ("guest_alone_as_native", grid.TEST_AND_SET, ALONE, {11: 90, 12: 10}),
        ("second_group", grid.TEST_AND_SET, PREEMPTED, {12: 100}),
        ("few_waits_much_time", grid.TEST_AND_SET, PREEMPTED, {12: 1000, 16: 1000}),
        ("yield_removes_group", grid.TEST_AND_SET, YIELDING, {12: 100, 16: 1000, 24: 1}),
    ],
)
def test_waits_that_differ_are_no_such_waits(key: str, lock: str, mode: str, changed: dict[int, int]) -> None:
    waits = Waits(changed, {log2: n * 2**log2 for log2, n in changed.items()})
    assert verdicts(Told({(lock, mode): waits}))[key] is False


def test_waits_may_be_measured_by_what_was_executed_of_them() -> None:
    """A yielder waits on without a CPU."""

    class Executed(Told):
        def executed(self, case: Case) -> Waits:
            return Told().waits(case)

    found = Executed({(grid.TEST_AND_SET, YIELDING): Waits({12: 9000, 16: 150, 24: 9}, {12: 9000, 16: 150, 24: 9})})
    (whole, executed) = (
        {each.id: each.holds for each in statements.statements(Judge(found, BUILD, exhibit), exhibit)}
        for exhibit in ("waits", "executed")
    )
    assert whole["statements.yield_removes_group"] is False
    assert executed["statements.yield_removes_group"] is True
    assert executed["statements.ticket_cured"] is None, "of other runs"
    assert [row[:3] for row in findings.executed(found).rows][-1] == (YIELDING, "", "10,050")


def test_a_figure_of_linux_alone_names_the_image_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "is_there", lambda image=build.IMAGE: False)
    study, engine = studies.load(grid.PAPER), engines.load()
    only = [each.id for each in grid.EXHIBITS if not grid.cases(TINY, each.id, [SECTIONS])]
    assert {"executed", "window", "queued"} < set(only)
    for figure in only:
        with pytest.raises(UserFault, match=f"figure {figure} .* loiter image build friebel2008 "):
            study.plan(engine, "quick", figure)


def test_a_part_of_the_build_has_waits_of_its_own() -> None:
    class Windowed(Told):
        def waits(self, case: Case) -> Waits:
            return Waits({11: 30, 12: 60, 13: 10}, {}) if case.window else super().waits(case)

        def waits_of_each(self, case: Case) -> list[Waits]:
            return [self.waits(case)]

    assert grid.cases(TINY, "window", [SECTIONS, BUILD]) == [grid.WINDOW]
    assert grid.WINDOW.label == "build.test_and_set.native.window"
    assert grid.WINDOW.begins_us(TINY) == 200_000
    assert "run_us = 205000\n" in grid.WINDOW.file(TINY)
    points = {each.id: each.ours for each in statements.points(Judge(Windowed(), BUILD, "window"), "window", "")}
    assert points["wait_histogram.native_share_at_most_2_16_percent"] == 100.0
    assert points["result.tas.alone.spinning_percent"] is None
    table = findings.window(Windowed(), TINY)
    assert table.rows == (("2^11", "30", "30.0"), ("2^12", "60", "90.0"), ("2^13", "10", "100.0"))
    assert "from 200 to 205 ms" in table.caption


@pytest.mark.parametrize(
    ("key", "lock", "mode", "changes"),
    [
        ("guest_time_is_spinning", grid.TEST_AND_SET, PREEMPTED, {"spinning": 20.0}),
        ("yield_removes_group", grid.TEST_AND_SET, YIELDING, {"spinning": 20.0}),
        ("yield_better_than_none", grid.TEST_AND_SET, YIELDING, {"guest": 1150.0}),
        ("wall_gains_half", grid.TEST_AND_SET, YIELDING, {"wall": 320.0}),
        ("ticket_disaster", TICKET, PREEMPTED, {"wall": 2825.0}),
        ("ticket_cured", TICKET, YIELDING, {"over": False}),
    ],
)
def test_times_that_differ_are_no_such_times(key: str, lock: str, mode: str, changes: dict[str, float]) -> None:
    times = replace(Told().times(grid.mode(BUILD, lock, mode)), **changes)
    assert verdicts(Told({(lock, mode): times}))[key] is False


def test_guests_side_by_side_are_measured_apart() -> None:
    class Both(Told):
        def times(self, case: Case, number: int = 0) -> Times:
            return replace(super().times(case), wall=100.0 * (number + 1))

    rows = findings.pairs(Both()).rows
    assert [(row[3], row[7]) for row in rows] == [("100", "200" if "beside" in row[0] else "") for row in rows]
    assert [row[:3] for row in rows if "web beside build" in row[0]] == [
        ("web beside build", name, yields) for name in ("test-and-set", "ticket") for yields in ("never", "after 2^16")
    ]


def test_more_cpus_have_as_much_to_build_each() -> None:
    class Calls(Told):
        def calls(self, case: Case) -> Waits:
            return Waits({12: 3, 24: case.times}, {12: 2**13, 24: case.times * 2**24})

    rows = findings.more_cpus(Calls(), TINY).rows
    assert [row[:2] for row in rows] == [(n, mode) for n in ("2", "4", "8") for mode in (PREEMPTED, YIELDING)]
    assert [row[-1] for row in rows[::2]] == ["1", "2", "4"]
    assert TINY.enlarged(2) == replace(TINY, cpus=4, units=8, jobs=4)


def test_guests_on_linux_have_as_many_numbers_of_address_spaces_as_the_published_processors() -> None:
    cases = [case for exhibit in grid.EXHIBITS for case in grid.cases(TINY, exhibit.id, [BUILD])]
    on_linux = [case for case in cases if case.on_linux]
    assert on_linux
    for case in on_linux:
        assert f'machine_set = "hart.asid_bits={case.asid_bits}"' in case.file(TINY)
    others = [case for case in on_linux if case.asid_bits != grid.ASID_BITS]
    assert {case.asid_bits for case in others} == {grid.MOST_ASID_BITS}
    assert set(others) < set(grid.fences())
    assert all(case.label.endswith(".asid16") for case in others)
    assert len({case.label for case in cases}) == len(set(cases))


def test_repetitions_begin_evenly_over_a_slice() -> None:
    once = grid.mode(BUILD, TICKET, YIELDING)
    again = [case for case in grid.cases(TINY, "results", [BUILD]) if replace(case, repetition=0) == once]
    assert [case.repetition for case in again] == [0, 1]
    files = [case.file(TINY) for case in again]
    assert files[1] == files[0].replace("\nmount", "\nsleep 0.015\nmount", 1) != files[0]
    assert "run_us = 1000000" in files[1]
    longest = grid.mode(BUILD, TICKET, PREEMPTED)
    assert [case.repetition for case in grid.cases(TINY, "results", [BUILD, SECTIONS]) if case.lock == TICKET].count(
        1
    ) == 2
    assert replace(longest, repetition=1) not in grid.cases(TINY, "results", [BUILD])


def test_what_is_said_is_the_mean_of_repetitions_with_the_least_and_the_greatest() -> None:
    class Twice(Told):
        """Of two repetitions, of which the second has other times and other waits."""

        def repetitions(self, case: Case) -> list[Case]:
            return [replace(case, repetition=n) for n in range(2)]

        def times(self, case: Case, number: int = 0) -> Times:
            return Measured.times(self, case, number)

        def times_of(self, case: Case, number: int = 0) -> Times:
            times = Told.times(self, case)
            return replace(times, wall=times.wall * (1 + case.repetition), yields=case.repetition)

    found = Twice()
    case = grid.mode(BUILD, grid.TEST_AND_SET, PREEMPTED)
    times = found.times(case)
    assert (times.wall, times.guest, times.yields, times.over) == (522.0, 1173.0, 0.5, True)
    assert found.spread(case, lambda each: each.wall) == (348.0, 696.0)
    assert [row[2] for row in findings.results(found, BUILD).rows][1] == "522 (348 to 696)"
    judge = Judge(found, BUILD)
    gained, gains = judge.gains(lambda each: each.wall)
    assert gained == pytest.approx(100 * (1 - 334.4 / 348.0))
    assert gains == pytest.approx((gained, gained))
    points = {each.id: each for each in statements.points(judge, "results", "")}
    assert points["result.tas.preempted.spinning_percent"].interval == pytest.approx((100 * 90 / 1173,) * 2)
    given_up = Twice({(grid.TEST_AND_SET, PREEMPTED): replace(Told().times(case), over=False)})
    assert not given_up.times(case).over


def test_a_contended_lock_stands_beside_the_build() -> None:
    rows = findings.contended(Told()).rows
    assert [row[:3] for row in rows[:2]] == [(grid.LOADS[BUILD], name, ALONE) for name in ("test-and-set", "ticket")]
    assert [row[1:3] for row in rows[2:]] == [
        (name, mode) for name in ("test-and-set", "ticket") for mode in (ALONE, PREEMPTED, YIELDING)
    ]
    # 10,050 waits and 1,236 ms.
    assert rows[-1][-2:] == ("8.13", "0")
    assert rows[-2][-1] == "400"


def test_figures_and_tables_have_all_modes() -> None:
    by_count, by_time = findings.histograms(Told(), BUILD)
    assert list(by_count.points) == list(grid.MODES) == list(by_time.points)
    assert dict(by_count.points[PREEMPTED])[24.0] == 300
    assert dict(by_time.points[ALONE])[24.0] == 0
    rows = findings.results(Told(), BUILD).rows
    assert [row[:2] for row in rows] == [
        (name, mode) for name in ("test-and-set", "ticket") for mode in (ALONE, PREEMPTED, YIELDING)
    ]
    assert rows[4][6:] == ("2825.1", "22434.2", "22270.4", "99.3")
    expected = str(reference.lookup(grid.PAPER, "efficiency.expected_wall_gain_percent"))
    assert findings.efficiency(Told(), BUILD).rows[0][-3:] == ("7.6", expected, "3.9")


def test_efficiency_beside_other_guests_is_of_what_a_guest_needs_alone() -> None:
    class Shared(Told):
        def times(self, case: Case, number: int = 0) -> Times:
            wasted = 0 if case.rivals == 0 or case.after_log2 else 250
            alone = replace(super().times(case), host=0.0, guest=1000.0, wall=250.0)
            return replace(alone, guest=1000.0 + wasted, wall=(250.0 + wasted / 4) * (case.rivals + 1))

    found = findings.overcommitment(Shared(), replace(TINY, guests=(1, 4)))
    rows = [(row[0], row[1], row[2], *row[-5:]) for row in found.rows if row[0] == "ticket"]
    assert rows == [
        ("ticket", "1", "never", "100.0", "100.0", "", "", ""),
        ("ticket", "1", "after 2^16", "100.0", "100.0", "0.0", "0.0", "0.0"),
        ("ticket", "4", "never", "80.0", "80.0", "", "", ""),
        ("ticket", "4", "after 2^16", "100.0", "100.0", "20.0", "20.0", "20.0"),
    ]
    (curves,) = (each for each in findings.guests(Shared(), TINY) if each.id == "guests_efficiency")
    assert dict(curves.points["ticket, never"]) == {1.0: 100.0, 2.0: 80.0}


def test_what_a_guest_builds_says_what_it_should(tmp_path: Path) -> None:
    """With the compiler of this host."""
    text = build.command(build.FILES + 1, 2, []).replace("mount -t tmpfs tmpfs /mnt", ":")
    script = text.replace("/mnt", str(tmp_path))
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "checked\n"), done.stderr
    wrong = subprocess.run(
        ["sh", "-c", f"rm -r {tmp_path}/*; {script.replace('k * k', 'k * k + 1')}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert wrong.returncode != 0
    assert "checked" not in wrong.stdout


def test_a_guest_compiles_what_meets_in_one_lock(tmp_path: Path) -> None:
    text = mix.command(2, ["chosen"])
    source = text.partition("<<'EOF'\n")[2].partition("EOF\n")[0]
    assert source == (resources.LINUX / "workloads/kernelmix.c").read_text()
    assert text.endswith("chosen\n./kernelmix 8 500 narrow\necho checked\n")
    file = vms.parse(engines.load(), Path("host.toml"), grid.mode(grid.MIX, TICKET, YIELDING).file(TINY))
    assert source in str(file.guests[0]["command"])


def test_a_guest_chooses_its_locks() -> None:
    parameters = "/sys/module/loiter_yield/parameters"
    scale = grid.SCALES["quick"]
    assert f"{parameters}/after_ns" not in grid.command(grid.mode(BUILD, TICKET, ALONE), BUILD, scale)
    assert f"echo 65536 > {parameters}/after_ns\n" in grid.command(grid.mode(BUILD, TICKET, YIELDING), BUILD, scale)
    sleeping = grid.mode(BUILD, grid.PARAVIRTUAL, PREEMPTED)
    assert f"echo paravirtual > {parameters}/lock\necho 65 > {parameters}/looks\n" in grid.command(
        sleeping, BUILD, scale
    )
    assert 'append = "loiter_yield.lock=paravirtual"' in sleeping.file(scale)
    assert "append" not in grid.mode(BUILD, grid.QUEUED, PREEMPTED).file(scale)


@pytest.mark.simulator
def test_every_case_is_a_file_that_the_simulator_takes() -> None:
    engine = engines.load()
    for scale in grid.SCALES.values():
        found = [case for each in grid.EXHIBITS for case in grid.cases(scale, each.id, (SECTIONS, BUILD))]
        for case in dict.fromkeys(found):
            file = vms.parse(engine, Path("host.toml"), case.file(scale))
            assert len(file.guests) == case.rivals + (2 if case.beside else 1)
            assert [guest["background"] for guest in file.guests].count(True) == case.rivals
            assert file.guests[0]["harts"] == scale.cpus * case.times == file.values["host"]["cpus"]
            assert not case.on_linux or case.load != BUILD or f"units={scale.units * case.times}\n" in case.file(scale)


@pytest.mark.simulator
def test_a_preempted_holder_on_bare_metal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(grid.SCALES, "quick", TINY)
    engine = engines.load()
    order = Order(studies.load(grid.PAPER), "quick", "results", 1, tmp_path / "out", "loiter study run friebel2008")
    outcome = carry_out(order, engine, Console(file=io.StringIO()))
    outcome.raise_failures()
    assert outcome.findings is not None
    assert [each.id for each in outcome.findings.grids] == [f"results_{SECTIONS}"]
    runs = outcome.runs.set_index("run")
    label = grid.mode(SECTIONS, TICKET, PREEMPTED).label
    assert runs.loc[label, "spinning_ms"] > 4 * runs.loc[grid.mode(SECTIONS, TICKET, YIELDING).label, "spinning_ms"]
    assert runs.loc[grid.mode(SECTIONS, TICKET, YIELDING).label, "yields"] > 0
    page = (tmp_path / "out/report.html").read_text()
    assert "loiter vm" in page
    assert result_of(tmp_path / "out", engine, label).manifest["file"]["scheduler"]["slice_us"] == grid.SLICE_US


def result_of(out: Path, engine: Engine, label: str) -> Result:
    (path,) = (out / "runs").glob(f"{label}-*")
    case = next(each for each in grid.modes(SECTIONS) if each.label == label)
    request = host.request(engine, label, case.file(TINY))
    assert request.key(engine)[:16] == path.name.rpartition("-")[2]
    return store.read(path)


def counts(request: HostRequest, engine: Engine, path: Path) -> Counter[int]:
    request.carry_out(engine, lambda facts: True, path)
    waits: Counter[int] = Counter()
    for row in store.read(path).rows("waits"):
        waits[row["log2_cycles"]] += row["waits"]
    return waits


@pytest.mark.simulator
def test_waits_count_from_where_a_run_begins(tmp_path: Path) -> None:
    engine = engines.load()
    whole = host.request(engine, "waits", grid.mode(SECTIONS, TICKET, ALONE).file(replace(TINY, run_us=20_000)))
    before = replace(whole, file=vms.changed(engine, whole.file, ["host.run_us=8000"]))
    after = replace(whole, begin_us=8_000)
    assert len({each.key(engine) for each in (whole, before, after)}) == 3
    found = {name: counts(each, engine, tmp_path / name) for name, each in
             {"whole": whole, "before": before, "after": after}.items()}  # fmt: skip
    assert found["before"].total() > 10
    assert found["after"].total() > 10
    assert found["before"] + found["after"] == found["whole"]
    sets = ["host.machine=opteron48", "host.machine_set=system.clock_mhz=1000"]
    timed = replace(after, file=vms.changed(engine, whole.file, sets))
    assert counts(timed, engine, tmp_path / "timed").total() > 10
    cycles = sum(row["cycles"] for row in store.read(tmp_path / "timed").rows("accounts") if row["context"] == 0)
    assert cycles == 12_000 * grid.CLOCK_MHZ


@pytest.mark.long
@pytest.mark.simulator
class TestKernel:
    """The kernel whose waiters yield; it takes minutes to build."""

    PARAMETERS = "/sys/module/loiter_yield/parameters"

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _image(cls) -> None:
        build.ensure()

    def test_without_a_host_nobody_can_yield(self) -> None:
        refused = loiter_("exec", "--image", build.IMAGE, "--", "sh", "-c", f"echo 65536 > {self.PARAMETERS}/after_ns")
        assert refused.returncode != 0
        assert b"I/O error" in refused.stderr
        said = loiter_("exec", "--image", build.IMAGE, "--", "sh", "-c", f"cat {self.PARAMETERS}/after_ns")
        assert said.stdout.decode().split() == ["0"]

    @pytest.mark.parametrize(("name", "words"), [("lock", (grid.TEST_AND_SET, TICKET)), ("fences", ("ipi", "sbi"))])
    def test_words_change_while_others_wait(self, name: str, words: tuple[str, str]) -> None:
        change = " ".join(f"echo {word} > {self.PARAMETERS}/{name};" for word in words)
        make = "make --silent --jobs"
        text = build.command(8, 8, []).replace(make, f"(for n in 1 2 3 4; do {change} done) & {make}")
        assert change in text
        done = loiter_("exec", "--image", build.IMAGE, "--harts", "4", "--", "sh", "-c", text)
        assert (done.returncode, done.stdout) == (0, b"checked\n"), message(done)

    @pytest.mark.parametrize("lock", grid.QUEUED_LOCKS)
    def test_queued_locks_without_a_host(self, lock: str) -> None:
        build.ensure(build.QUEUED_IMAGE)
        text = build.command(8, 8, build.choices(lock, 0, 4))
        boot = ["--append", f"loiter_yield.lock={lock}"]
        done = loiter_("exec", "--image", build.QUEUED_IMAGE, "--harts", "4", *boot, "--", "sh", "-c", text)
        assert (done.returncode, done.stdout) == (0, b"checked\n"), message(done)

    def test_a_para_virtual_lock_is_chosen_when_the_kernel_boots(self) -> None:
        build.ensure(build.QUEUED_IMAGE)
        change = f"echo paravirtual > {self.PARAMETERS}/lock"
        refused = loiter_("exec", "--image", build.QUEUED_IMAGE, "--", "sh", "-c", change)
        assert refused.returncode != 0

    def test_a_build_beside_a_rival_is_checked(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(grid.SCALES, "quick", replace(TINY, published_us=5_000_000))
        order = Order(studies.load(grid.PAPER), "quick", "waits", 1, tmp_path / "out", "loiter study run friebel2008")
        outcome = carry_out(order, engines.load(), Console(file=io.StringIO()))
        outcome.raise_failures()
        runs = outcome.runs.set_index("run")
        for mode in grid.MODES:
            row = runs.loc[grid.mode(BUILD, grid.TEST_AND_SET, mode).label]
            assert row["over"]
            assert row["waits"] > 0


def test_changes_reach_hosts_with_guests() -> None:
    engine = engines.load()
    jobs = studies.load(grid.PAPER).plan(engine, "quick", "choice")
    words = ("vm:host.turn_cycles=100", "vm:host.machine=smt8", "vm:scheduler.policy=gang", "virt:hart.asid_bits=0")
    changed = Changes(words).apply(engine, jobs)
    assert len(changed) == len(jobs) > 2
    for before, after in zip(jobs, changed, strict=True):
        assert after.label == before.label
        assert after.request.key(engine) != before.request.key(engine)
        assert after.request.machine.value("hart.asid_bits") == 0
        wanted = copy.deepcopy(before.request.file.values)
        wanted["host"] |= {"turn_cycles": 100, "machine": "smt8"}
        wanted["scheduler"] |= {"policy": "gang"}
        assert after.request.file.values == wanted


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("vm:turn_cycles=100", "turn_cycles=100: .* SECTION.KEY=VALUE"),
        ("vm:hosts.turn_cycles=100", 'unknown section of a file of virtual machines "hosts"'),
        ("vm:host.turn_cyles=100", "turn_cycles"),
        ("vm:scheduler.policy=gangs", "gangs"),
    ],
)
def test_changes_of_hosts_that_cannot_be_made_are_refused(change: str, message: str) -> None:
    engine = engines.load()
    jobs = studies.load(grid.PAPER).plan(engine, "quick", "choice")
    with pytest.raises(UserFault, match=message):
        Changes((change,)).apply(engine, jobs)
