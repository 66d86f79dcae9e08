"""The studies of locks on many CPUs: their guest, their rules, and the model of a collapse."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import vl_convert
from rich.console import Console

import loiter
from loiter import engine as engines
from loiter import latency, plots, reference, studies
from loiter.errors import RunFault, UserFault
from loiter.report import charts
from loiter.results import Result
from loiter.studies import anderson1990, boyd2012, mcs1991, sections
from loiter.studies.anderson1990.statements import Judge
from loiter.studies.base import Curves
from loiter.studies.boyd2012 import model
from loiter.studies.boyd2012.findings import Throughputs
from loiter.studies.boyd2012.model import Parameters
from loiter.studies.mcs1991.findings import Findings17
from loiter.studies.runner import Order, carry_out
from loiter.studies.sections import Cell, Measurements

NAMES = ("anderson1990", "mcs1991", "boyd2012")


@pytest.fixture(scope="module", autouse=True)
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOITER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


class Told(Measurements):
    """Measurements that the test makes up: cycles for each acquisition, and whatever else by name."""

    def __init__(self, cycles: Callable[[Cell], float], **others: Callable[[Cell], float]) -> None:
        super().__init__({})
        self._cycles, self._others = cycles, others

    def cycles(self, cell: Cell) -> float:
        return self._cycles(cell)

    def hold(self, cell: Cell) -> float:
        return self._others["hold"](cell)

    def handover(self, cell: Cell) -> float:
        return self._others["handover"](cell)

    def per_acquisition(self, cell: Cell, component: str, counter: str) -> float:
        assert (component, counter) == ("bus", "requests")
        return self._others["requests"](cell)

    def throughput(self, cell: Cell) -> float:
        return 1000 / self._cycles(cell)


def key_of(text: str) -> str:
    return text.removeprefix("statements.")


# ---- Anderson --------------------------------------------------------------------------------------------------------


def as_published(cell: Cell) -> float:
    """Every statement of the paper holds: spinners collapse, the queue is slow alone and when it is preempted."""
    heavy, alone = cell.cpus == anderson1990.grid.CPUS, cell.cpus == 1
    times = {
        "test_and_set": 1000 if heavy else 100,
        "test_and_test_and_set": 800 if heavy else 100,
        "anderson": 300 if heavy else 130 if alone else 110,
    }
    if cell.lock in times:
        time = times[cell.lock]
    elif cell.slot:  # static
        time = 350 + cell.slot if heavy else 200 if not alone else 100
    else:
        time = 400 if heavy else 110 if not alone else 100
    return time * {1: 1, 2: 9 if cell.lock == "anderson" else 2}[cell.threads]


def judged(told: Told, scale: str = "quick") -> dict[str, bool | None]:
    judge = Judge(told, anderson1990.grid.SCALES[scale])
    return {each.id: each.holds for each in anderson1990.statements.of(judge, None)}


def spinners_slow_holders(cell: Cell) -> float:
    return 300 if cell.cpus == anderson1990.grid.CPUS and cell.lock != "anderson" else 200


def handover_grows(cell: Cell) -> float:
    return 10 * cell.cpus


def test_a_machine_that_does_as_the_paper_says_keeps_every_statement() -> None:
    told = Told(as_published, hold=spinners_slow_holders, handover=handover_grows)
    found = judged(told)
    assert len(found) == 11
    assert all(found.values()), found


@pytest.mark.parametrize(
    ("missed", "change"),
    [
        ("tas_worst", {("test_and_set", 20, 1): 799}),
        ("ttas_disappoints", {("test_and_test_and_set", 20, 1): 1000}),
        ("static_wrong_load", {("delay_after_release", 4, 1): 110}),
        ("dynamic_right_load", {("delay_between_references", 20, 1): 352}),
        ("queue_contended", {("anderson", 20, 1): 349}),
        ("queue_contended", {("anderson", 1, 1): 100}),
        ("queue_preempted", {("anderson", 20, 2): 600}),
        ("queue_preempted", {("test_and_set", 4, 2): 990}),
    ],
)
def test_a_statement_that_one_time_breaks_is_a_miss(missed: str, change: Mapping[tuple[str, int, int], float]) -> None:
    def cycles(cell: Cell) -> float:
        return change.get((cell.lock, cell.cpus, cell.threads), as_published(cell))

    found = judged(Told(cycles, hold=spinners_slow_holders, handover=handover_grows))
    assert found[f"statements.{missed}"] is False


@pytest.mark.parametrize(("first", "others", "holds"), [(300, 1200, True), (120000, 300, False)])
def test_the_median_of_the_repetitions_says_what_preemption_costs(first: int, others: int, holds: bool) -> None:
    """One run of the queue that says otherwise decides nothing, however far it is from the others."""
    grid = anderson1990.grid

    def cycles(cell: Cell) -> float:
        if (cell.lock, cell.cpus, cell.threads) != ("anderson", grid.CPUS, 2):
            return as_published(cell)
        return first if cell.slice == grid.SLICES_US[0] else others

    judge = Judge(Told(cycles, hold=spinners_slow_holders, handover=handover_grows), grid.SCALES["default"])
    found = {each.id: each for each in anderson1990.statements.of(judge, "preempted")}["statements.queue_preempted"]
    assert found.holds is holds
    assert f"the queue's 5 runs 1.00 to {max(first, others) / 300:.2f}" in found.detail


def test_a_holder_that_nobody_slows_is_a_miss() -> None:
    found = judged(Told(as_published, hold=lambda cell: 200.0, handover=handover_grows))
    assert found["statements.holder_slowed"] is False


def test_a_collapse_is_twice_the_best_time() -> None:
    def cycles(cell: Cell) -> float:
        return 199 if (cell.lock, cell.cpus) == ("test_and_set", 20) else as_published(cell)

    found = judged(Told(cycles, hold=spinners_slow_holders, handover=handover_grows))
    assert found["anderson1990.findings.0"] is False


def test_a_static_delay_is_tuned_to_all_cpus_and_back_off_is_as_long() -> None:
    grid = anderson1990.grid
    scale = grid.SCALES["default"]
    judge = Judge(Told(lambda cell: abs(cell.slot - 4) + 100.0), scale)
    for static, dynamic in zip(grid.STATIC, grid.BACK_OFF, strict=True):
        assert judge.tuned(static) == judge.tuned(dynamic) == 4
        assert judge.cell(static, 8).slot == 4
        assert (judge.cell(dynamic, 8).slot, judge.cell(dynamic, 8).limit) == (0, 1 + 19 * 4)


# ---- Mellor-Crummey and Scott ----------------------------------------------------------------------------------------


def trade(cell: Cell) -> float:
    is_queue = cell.lock in ("anderson", "mcs")
    return {1: 150 if is_queue else 100}.get(cell.cpus, 120 if is_queue or cell.cpus < 20 else 400)


def mcs_judged(cycles: Callable[[Cell], float], requests: Callable[[Cell], float]) -> dict[str, bool | None]:
    found = Findings17(Told(cycles, requests=requests), mcs1991.grid.SCALES["quick"])
    return {key_of(each.id): each.holds for each in mcs1991.findings.statements(found, None)}


def test_the_trade_of_queues_and_who_uses_the_bus() -> None:
    by_hold = {"test_and_set": 100.0, "test_and_test_and_set": 40.0}

    def requests(cell: Cell) -> float:
        return by_hold.get(cell.lock, 8.0) * (cell.hold / 100 if cell.lock == "test_and_set" else 1)

    assert mcs_judged(trade, requests) == {"mcs1991.findings.0": True, "mcs_trade": True, "mcs_one_transfer": True}
    # A queue that waits on the bus; a plain lock that scales, by back-off; a queue that costs nothing alone.
    assert mcs_judged(trade, lambda cell: float(cell.hold))["mcs_one_transfer"] is False
    for lock, cpus, cycles in (("test_and_set_delay", 20, 119), ("mcs", 1, 100), ("anderson", 20, 151)):

        def one_other(cell: Cell, lock: str = lock, cpus: int = cpus, cycles: int = cycles) -> float:
            return cycles if (cell.lock, cell.cpus) == (lock, cpus) else trade(cell)

        assert mcs_judged(one_other, requests)["mcs_trade"] is False, lock


# ---- Boyd-Wickizer and others ----------------------------------------------------------------------------------------


def test_one_core_of_the_model_only_works_and_goes_round() -> None:
    parameters = Parameters(think_cycles=900, section_cycles=90, request_cycles=20)
    assert model.throughput(parameters, 1) == pytest.approx(1000 / (900 + 90 + 10))


@pytest.mark.parametrize("cores", [2, 5, 48])
def test_without_requests_the_model_is_that_of_a_repairman(cores: int) -> None:
    """Machines that fail and one who repairs them: n! / (n - k)! (s / a)^k, and the repairman's use of his time."""
    think, section = 700.0, 100.0
    weights = [math.perm(cores, k) * (section / think) ** k for k in range(cores + 1)]
    expected = 1000 / section * (1 - weights[0] / sum(weights))
    assert model.throughput(Parameters(think, section, 0), cores) == pytest.approx(expected)


def test_requests_make_the_model_collapse() -> None:
    parameters = Parameters(think_cycles=18_000, section_cycles=360, request_cycles=200)
    curve = {cores: model.throughput(parameters, cores) for cores in range(1, 49)}
    best = max(curve, key=lambda cores: curve[cores])
    assert 15 < best < 25
    assert curve[48] < curve[best] / 3
    # Beyond it, by Little's law: all cores wait but those that work outside.
    waiting = 48 - 18 * curve[48]
    assert curve[48] == pytest.approx(1000 / (360 + 200 * waiting / 2), rel=0.01)


def ticket_collapses(cell: Cell) -> float:
    """With the short section a ticket lock halves from 16 to 20 cores; the others stay."""
    if cell.hold == 0:  # alone
        return 40 if "ticket" in cell.lock else 50
    rises = cell.cpus / 16
    if cell.lock != "ticket" or cell.hold != boyd2012.grid.SHORT:
        return 1000 / min(rises, 1.5)
    return 1000 / (rises if cell.cpus <= 16 else 0.5)


def test_what_a_hand_over_costs_moves_the_collapse() -> None:
    """Two cores in turn say what each hand-over costs whoever waits: sections that are so much longer."""
    scale = boyd2012.grid.SCALES["quick"]
    for fixed in (0, 300):

        def cycles(cell: Cell, fixed: float = fixed) -> float:
            return 360 + fixed + 200 if cell == boyd2012.grid.in_turn() else 18_000

        found = Throughputs(Told(cycles, hold=lambda cell: 360), scale, 200)
        longer = Parameters(think_cycles=18_000 - 360, section_cycles=360 + fixed, request_cycles=200)
        expected = {cores: model.throughput(longer, cores) for cores in range(1, 49)}
        assert found.modelled(hand_over=True) == pytest.approx(expected)
        published = found.modelled()
        best = [max(curve, key=curve.__getitem__) for curve in (published, found.modelled(hand_over=True))]
        assert (best[1] < best[0]) == bool(fixed)


def boyd_judged(cycles: Callable[[Cell], float], request_cycles: float = 250) -> dict[str, bool | None]:
    def hold(cell: Cell) -> float:
        return 0.02 * cycles(cell)

    found = Throughputs(Told(cycles, hold=hold), boyd2012.grid.SCALES["quick"], request_cycles)
    return {key_of(each.id): each.holds for each in boyd2012.findings.statements(found, None)}


def test_what_a_collapse_is() -> None:
    found = boyd_judged(ticket_collapses)
    assert all(found.values()), found
    assert boyd_judged(ticket_collapses, request_cycles=1)["boyd2012.model"] is False


@pytest.mark.parametrize(
    ("missed", "lock", "hold", "cores", "cycles"),
    [
        ("long_sections_fine", "ticket", 25_600, 48, 800),
        ("scalable_no_collapse", "clh", 400, 48, 800),
        ("scalable_not_enough", "mcs", 400, 24, 800),
        ("scalable_latency", "k42", 0, 1, 40),
    ],
)
def test_one_run_breaks_a_statement(missed: str, lock: str, hold: int, cores: int, cycles: float) -> None:
    def one_other(cell: Cell) -> float:
        same = (cell.lock, cell.hold, cell.cpus) == (lock, hold, cores)
        return cycles if same else ticket_collapses(cell)

    assert boyd_judged(one_other)[missed] is False


def test_a_slow_decline_is_no_sudden_collapse() -> None:
    found = boyd_judged(lambda cell: 50.0 if cell.hold == 0 else 1000 * (1 + abs(cell.cpus - 16) / 32))
    assert found["collapse_sudden"] is False


# ---- all of them -----------------------------------------------------------------------------------------------------


def test_every_statement_about_locks_has_one_study() -> None:
    judges = {
        *anderson1990.statements.JUDGES,
        *mcs1991.findings.JUDGES,
        *boyd2012.findings.JUDGES,
        *boyd2012.linux_findings.JUDGES,
    }
    texts = reference.lookup("locks", "statements")
    assert {key_of(key) for key in judges if key.startswith("statements.")} == set(texts) - {"rtm_scales"}
    for name in NAMES:
        findings = reference.lookup("locks", f"{name}.findings")
        assert {f"{name}.findings.{n}" for n in range(len(findings))} <= judges


@pytest.mark.simulator
@pytest.mark.parametrize("name", NAMES)
def test_a_plan_names_each_run_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Those on Linux, which test_boyd2012_linux has, are of images that would have to be built.
    monkeypatch.setattr(boyd2012.linux, "jobs", lambda *_: [])
    study, engine = studies.load(name), engines.load()
    for scale in study.scales:
        whole = [job.label for job in study.plan(engine, scale, None)]
        assert len(whole) == len(set(whole)) > 10
        for exhibit in study.exhibits:
            assert {job.label for job in study.plan(engine, scale, exhibit.id)} <= set(whole), exhibit.id
    with pytest.raises(UserFault, match="unknown figure"):
        study.plan(engine, "quick", "figure_99")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "figure"), [("anderson1990", "preempted"), ("mcs1991", None), ("boyd2012", "alone")])
def test_a_study_from_plan_to_page(name: str, figure: str | None, tmp_path: Path) -> None:
    order = Order(studies.load(name), "quick", figure, 2, tmp_path, f"loiter study run {name}")
    outcome = carry_out(order, engines.load(), Console(file=io.StringIO(), width=200))
    outcome.raise_failures()
    assert outcome.findings is not None
    held = {key_of(each.id): each.holds for each in outcome.findings.statements}
    expected = {"anderson1990": "queue_preempted", "mcs1991": "mcs_one_transfer", "boyd2012": "scalable_latency"}
    assert held[expected[name]] is True
    assert (tmp_path / "report.html").is_file()
    assert "| Statement | Holds | Measured |" in (tmp_path / "points.md").read_text()


# ---- the guest -------------------------------------------------------------------------------------------------------

LOCKS = ("test_and_set", "test_and_test_and_set", "test_and_set_delay", "delay_after_release")
LOCKS += ("delay_between_references", "ticket", "ticket_proportional", "anderson", "mcs", "clh", "k42", "hclh")


def run(lock: str, cpus: int, machine: str = "symmetry", **arguments: int) -> Result:
    facts = {"acquisitions": 203, "hold": 60, "think": 300, "lines": 2, "place_harts": 2} | arguments
    return loiter.run(machine, "sections", place={lock: list(range(cpus))}, arguments=facts)


def reported(result: Result, name: str) -> list[int]:
    return [row["value"] for row in result.rows("reports") if row["name"] == name]


@pytest.mark.simulator
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("lock", LOCKS)
def test_every_lock_gives_so_many_sections_in_equal_shares(lock: str, threads: int) -> None:
    """The program itself fails where two are in the section or an acquisition is lost."""
    result = run(lock, 3, threads=threads, slice=150)
    assert sum(reported(result, "acquisitions")) == 203
    assert max(reported(result, "acquisitions")) - min(reported(result, "acquisitions")) <= threads
    assert (sum(reported(result, "switches")) > 10) is (threads == 2)
    if threads == 1:
        rows = result.rows("locks")
        assert sum(row["holds"] for row in rows) == 203


@pytest.mark.simulator
def test_a_hart_alone_takes_its_sections_and_the_work_outside() -> None:
    """The mean of the work outside is its target, and the section takes at least the cycles of its work."""
    cycles = {}
    for think in (0, 1000):
        result = run("ticket", 1, acquisitions=1000, hold=200, think=think, lines=0, checks=0)
        rows = result.rows("locks")
        assert 200 <= sum(row["hold_sum_cycles"] for row in rows) / 1000 < 260
        cycles[think] = reported(result, "cycles")[0] / 1000
    assert cycles[1000] - cycles[0] == pytest.approx(1000, rel=0.1)


@pytest.mark.simulator
def test_slots_differ_between_harts() -> None:
    """The hart with the longer slot waits longer for a lock that both want all the time."""
    result = run("delay_between_references", 4, acquisitions=400, hold=400, think=0, slot=40)
    waits = {row["hart"]: row["wait_sum_cycles"] / row["acquisitions"] for row in result.rows("locks")}
    assert waits[0] < waits[3]


@pytest.mark.simulator
def test_a_preempted_waiter_blocks_the_queue() -> None:
    def slower(lock: str) -> float:
        one, two = (max(reported(run(lock, 4, acquisitions=400, threads=n, slice=500), "cycles")) for n in (1, 2))
        return two / one

    assert slower("anderson") > 2 * slower("test_and_test_and_set")


@pytest.mark.simulator
@pytest.mark.parametrize(
    "arguments", [{"threads": 3}, {"threads": 0}, {"lines": 1000}, {"acquisitions": 0}, {"slice": 0, "threads": 2}]
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(UserFault, match=next(iter(arguments))):
        run("ticket", 2, **arguments)


@pytest.mark.simulator
def test_a_run_of_the_matrix_is_what_loiter_latency_prints() -> None:
    machine = loiter.machine("opteron48", "system.cores=4")
    result = loiter.api.carry_out(latency.transfers_request(machine))
    matrix = latency.measure(machine).matrix
    others = [cycles for asker, row in enumerate(matrix) for holder, cycles in enumerate(row) if holder != asker]
    assert latency.transfer_cycles(machine, result) == pytest.approx(sum(others) / len(others))


def test_a_run_of_another_length_is_no_measurement() -> None:
    class Reports:
        def rows(self, table: str) -> list[dict[str, Any]]:
            return [{"hart": 0, "name": "acquisitions", "value": 7}, {"hart": 0, "name": "cycles", "value": 700}]

    results: Any = {}
    cell = Cell("ticket", 1, 7, 0, 0, 0)
    results[cell.label] = Reports()
    assert Measurements(results).cycles(cell) == 100
    assert Measurements(results).throughput(cell) == pytest.approx(10)
    other = Cell("ticket", 1, 8, 0, 0, 0)
    with pytest.raises(RunFault, match="7 acquisitions, not 8"):
        Measurements(results).cycles(other)


# ---- curves ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("models", [{}, {"model, a": "a"}, {"model, a": "a", "other model, a": "a"}])
def test_a_model_is_dashed_and_has_the_colour_of_what_it_is_of(models: dict[str, str]) -> None:
    points = {"a": [(1.0, 2.0), (2.0, 3.0)], "b": [(1.0, 1.0)]} | {name: [(1.0, 2.5)] for name in models}
    spec = charts.of_curves(Curves("c", "title", "", "cores", "rate", points, models), lambda label: None)
    dashed = [layer for layer in spec["layer"] if "strokeDash" in layer["mark"]]
    assert len({tuple(layer["mark"]["strokeDash"]) for layer in dashed}) == len(dashed) == len(models)
    shown = [layer["transform"][0]["filter"] for layer in dashed]
    assert [
        [value["series"] for value in spec["data"]["values"] if f"'{value['kind']}'" in each] for each in shown
    ] == [[name] for name in models]
    scale = spec["encoding"]["color"]["scale"]
    colours = dict(zip(scale["domain"], scale["range"], strict=True))
    assert colours["a"] != colours["b"]
    assert all(colours[name] == colours[of] for name, of in models.items())
    spec["width"] = 400
    assert vl_convert.vegalite_to_svg(spec).startswith("<svg")


def test_points_of_several_runs_have_bars_from_the_least_to_the_greatest() -> None:
    points = {"a": [(1.0, 2.0), (2.0, 3.0)], "b": [(1.0, 1.0)]}
    spans = {"a": [(1.5, 2.5), (3.0, 3.0)]}
    spec = charts.of_curves(Curves("c", "title", "", "cores", "rate", points, spans=spans), lambda label: None)
    ends = [(each["x"], each["low"], each["high"]) for each in spec["data"]["values"] if "low" in each]
    assert ends == [(1.0, 1.5, 2.5), (2.0, 3.0, 3.0)]
    assert [layer["encoding"]["y2"] for layer in spec["layer"] if "y2" in layer.get("encoding", {})] == [
        {"field": "high"}
    ]
    spec["width"] = 400
    with_bars = vl_convert.vegalite_to_svg(spec)
    plain = charts.of_curves(Curves("c", "title", "", "cores", "rate", points), lambda label: None) | {"width": 400}
    # One for each point with ends, as long as they are apart.
    assert with_bars.count("rule") > vl_convert.vegalite_to_svg(plain).count("rule")
    drawn = plots.draw_figure(Curves("c", "title", "", "cores", "rate", points, spans=spans))
    assert drawn["svg"] != plots.draw_figure(Curves("c", "title", "", "cores", "rate", points))["svg"]


@pytest.mark.simulator
@pytest.mark.parametrize(("spread", "words"), [(True, "task.mcs=0,5,10,15"), (False, "task.mcs=0,1,2,3")])
def test_few_cpus_are_spread_or_the_first(spread: bool, words: str) -> None:
    cell = Cell("mcs", 4, 40, 0, 0, 0)
    [job] = sections.jobs(engines.load(), loiter.machine("symmetry"), [cell, cell], spread=spread)
    assert words in job.request.native()["bootargs"].split()
