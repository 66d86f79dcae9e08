"""`loiter advise`: sections, queues, the search for a load that is like a profile, and what is recommended."""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

import loiter
from commands import Command, run
from loiter.advise import calibrate, demand, holds, profile
from loiter.advise.calibrate import Target
from loiter.advise.demand import Demand, Observed
from loiter.advise.effects import Effect, effect, recommend
from loiter.advise.profile import LockClass, Times

LOCK_STAT = """lock_stat version 0.4
   a_lock:  400 500 0.10 90.00 2000.00 4.00 900 1000 0.50 2.00 1000.00 1.00
   b_lock:  1 1 0.10 0.10 0.10 0.10 900 1000 0.50 2.00 1000.00 1.00
"""
PERF = """\
 contended   total wait     max wait     avg wait         type   caller

        42    192.67 us     13.64 us      4.59 us        mutex   f+0x20
"""


@pytest.fixture
def command() -> Command:
    return run


@pytest.fixture(scope="module", autouse=True)
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOITER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


# ---- sections -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "mean", "most"),
    [(120, 476, 624_420), (10, 1000, 100_000), (990, 1000, 1010), (100, 4900, 5000), (0, 50, 100), (0, 30, 100)],
)
def test_lengths_between_least_and_most_have_the_mean(least: float, mean: float, most: float) -> None:
    lengths = holds.of(Times(100, 100 * mean, least, most))
    assert len(lengths) == holds.MOST_LENGTHS
    assert sum(odds for _, odds in lengths) == holds.ODDS
    assert holds.mean(lengths) == pytest.approx(mean)
    assert all(least <= cycles <= most for cycles, _ in lengths)
    cycles = sorted(cycles for cycles, _ in lengths)
    steps = [after - before for before, after in itertools.pairwise(cycles)]
    # Few are far from the others on the side to which there is most room.
    towards_most = steps if 2 * mean <= least + most else steps[::-1]
    assert all(after >= before - 1e-6 for before, after in itertools.pairwise(towards_most))


def test_half_of_exponential_lengths_are_below_their_median() -> None:
    lengths = sorted(cycles for cycles, _ in holds.of(Times(1, 1000.0, 0.0, 1e6)))
    assert statistics.median(lengths) == pytest.approx(693, rel=0.03), "1000 ln 2"
    assert lengths[-1] == pytest.approx(3079, rel=0.05), "the mean of the longest eighth is 1000 (1 + ln 8)"


def test_what_has_one_length_has_it() -> None:
    assert holds.of(Times(5, 5000.0)) == ((1000.0, holds.ODDS),)
    assert holds.of(Times(5, 5000.0, 1000.0, 1000.0)) == ((1000.0, holds.ODDS),)
    narrow = Times(100, 120_500.0, 1200, 1230, (*([0] * 10), 100))
    assert holds.of(narrow) == ((1205.0, holds.ODDS),)


def test_a_histogram_keeps_its_shares_and_its_mean() -> None:
    # Three quarters within 256 to 511, a quarter within 4096 to 8191.
    histogram = (*([0] * 8), 75, 0, 0, 0, 25)
    mean = (75 * 300 + 25 * 5000) / 100
    lengths = holds.of(Times(100, 100 * mean, 280, 6000, histogram))
    assert [odds for _, odds in lengths] == [7500, 2500]
    assert holds.mean(lengths) == pytest.approx(mean)
    assert 280 <= lengths[0][0] <= 511
    assert 4096 <= lengths[1][0] <= 6000
    many = tuple(range(1, 14))
    total = sum(count * 1.5 * 2**at for at, count in enumerate(many))
    lengths = holds.of(Times(sum(many), total, 1, 2**13, many))
    assert len(lengths) == holds.MOST_LENGTHS
    assert holds.mean(lengths) == pytest.approx(total / sum(many))


# ---- the search -----------------------------------------------------------------------------------------------------


def test_a_closed_queue_is_that_of_mean_value_analysis() -> None:
    # Alone nobody waits. Two customers with thinking as long as sections: states 0, 1, 2 at the server have odds 2:2:1.
    assert demand.queue(1, 100, 900) == (1000, 100, 0)
    period, stay, busy = demand.queue(2, 100, 100)
    assert 100 / period == pytest.approx(4 / 5), "busy in 3 of 5 parts of time, weighted by 2, 2 and 1"
    assert stay == pytest.approx(150)
    assert 0 < busy < 1
    assert demand.queue(50, 100, 0)[0] == pytest.approx(100)


def fake(section: float, overhead: float) -> calibrate.Run:
    """A lock that is a queue, where sections take longer than their work alone."""

    def carry_out(each: Demand) -> Observed:
        hold = section * holds.mean(each.lengths)
        period, stay, busy = demand.queue(len(each.contexts), hold + overhead, each.think_cycles)
        contentions = 1000 * busy
        wait = (stay - hold - overhead) / busy if busy else 0.0
        return Observed(1000, round(contentions), round(contentions) * wait, hold, 1000 * period)

    return carry_out


@pytest.mark.parametrize("match", calibrate.MATCHES)
@pytest.mark.parametrize("think", [500, 20_000])
def test_a_load_that_is_like_the_profile_is_found(match: str, think: float) -> None:
    lengths = ((1000.0, holds.ODDS),)
    contexts = tuple(range(16))
    real = fake(1.3, 80)(Demand(contexts, ((900.0, holds.ODDS),), think))
    wanted = Target(match, real.hold_mean_cycles, real.share, real.wait_mean_cycles, real.rate_per_cycle)
    found = calibrate.calibrate(wanted, lengths, Demand(contexts, lengths, 0), fake(1.3, 80))
    assert found.matches
    assert found.runs <= calibrate.MOST_RUNS
    assert abs(found.residuals["hold"] or 0) <= 0.06
    assert abs(found.residuals[match] or 0) <= 0.06
    # Saturated, a rate says little of the work outside, and a share less.
    if match == "wait":
        assert found.demand.think_cycles == pytest.approx(think, abs=0.3 * think + 600)


def test_what_no_load_is_like_is_said_so() -> None:
    lengths, contexts = ((1000.0, holds.ODDS),), (0, 1)
    # One other thread, which holds the lock for 1000 cycles, keeps nobody waiting for 50,000.
    found = calibrate.calibrate(
        Target("wait", 1000, None, 50_000, None), lengths, Demand(contexts, lengths, 0), fake(1, 50)
    )
    assert not found.matches
    assert (found.residuals["wait"] or 0) < -0.9
    assert found.residuals["share"] is found.residuals["rate"] is None
    assert found.runs <= calibrate.MOST_RUNS


def test_what_is_matched_is_the_share_where_it_says_something() -> None:
    def of(contentions: int, acquisitions: int | None) -> str:
        each = LockClass("a", Times(contentions, 100.0), acquisitions)
        return calibrate.target(each, 10, 1000, None).match

    assert (of(50, 100), of(99, 100), of(50, None)) == ("share", "wait", "wait")


# ---- what is recommended --------------------------------------------------------------------------------------------


def test_the_best_policy_outside_its_uncertainty_is_recommended() -> None:
    by_policy = {
        "now": [1.00, 1.02, 0.99, 1.01, 1.00],
        "better": [1.20, 1.23, 1.18, 1.22, 1.20],
        "as good": [1.19, 1.25, 1.17, 1.23, 1.20],
        "a little": [1.05, 1.07, 1.04, 1.06, 1.05],
        "worse": [0.80, 0.81, 0.79, 0.80, 0.80],
        "anything": [0.70, 1.50, 0.90, 1.30, 1.10],
    }
    found = recommend(by_policy, "now", more_is_better=True)
    assert found.policy in ("better", "as good")
    assert found.alike == tuple(name for name in ("better", "as good", "anything") if name != found.policy)
    assert found.effect is not None
    assert found.effect.percent == pytest.approx(20, abs=1)
    assert found.effect.low > 15
    assert found.advice.startswith(f"take {found.policy}: +20")
    assert not found.effects["anything"].differs
    assert found.effects["worse"].high < 0
    # Of waits, less is better.
    assert recommend(by_policy, "now", more_is_better=False).policy == "worse"


def test_where_nothing_differs_nothing_is_recommended() -> None:
    now, other = [1.00, 1.10, 0.95, 1.05], [1.03, 1.04, 1.01, 1.02]
    found = recommend({"now": now, "other": other}, "now", more_is_better=True)
    assert (found.policy, found.effect, found.alike) == (None, None, ())
    assert found.advice == "keep now: no policy differs from it by more than its uncertainty"
    worse = [0.5 * value for value in now]
    found = recommend({"now": now, "other": other, "worse": worse}, "now", more_is_better=True)
    assert found.advice == "keep now: none is better by more than its uncertainty; worse: worse"


def test_an_interval_is_that_of_student() -> None:
    # Logarithms of ratios 0.1, 0.2, 0.3: mean 0.2, standard error 0.1 / sqrt 3, t of two degrees of freedom 4.303.
    values = [1.105170918, 1.221402758, 1.349858808]
    found = effect(values, [1.0, 1.0, 1.0])
    assert found.percent == pytest.approx(22.14, abs=0.01)
    assert found.low == pytest.approx(100 * (2.718281828 ** (0.2 - 4.303 * 0.1 / 3**0.5) - 1), abs=0.02)
    assert effect(values, [1.0, 1.0, 1.0], 5).low < found.low, "of five comparisons each has a wider interval"
    assert Effect(1, -1, 3).differs is False
    with pytest.raises(ValueError, match="one seed"):
        effect([1.0], [1.0])


# ---- the guest ------------------------------------------------------------------------------------------------------


@pytest.mark.simulator
def test_sections_and_work_outside_are_drawn_as_they_are_asked_for() -> None:
    def of(**more: int) -> tuple[list[int], float]:
        arguments = {"hold": 100, "think": 1000, "cycles": 600_000, "hold1": 200, "odds1": 3, "hold2": 3000, "odds2": 1}
        result = loiter.run("t1", "profiled", place={"mcs": 0}, arguments=arguments | more)
        (row,) = result.rows("locks")
        period = max(each["value"] for each in result.rows("reports") if each["name"] == "cycles")
        outside = (period - row["hold_sum_cycles"] - row["wait_sum_cycles"]) / row["acquisitions"]
        return list(row["hold_log2_histogram"]), outside

    histogram, outside = of()
    short, long = sum(histogram[:10]), sum(histogram[10:])
    assert short + long > 200
    assert short / (short + long) == pytest.approx(0.75, abs=0.08)
    # What the loop takes beside is the same.
    assert of(think=4000)[1] - outside == pytest.approx(3000, rel=0.15)
    assert of(think=4000, arrivals=0)[1] - of(arrivals=0)[1] == pytest.approx(3000, rel=0.15)
    fixed, _ = of(odds1=0, odds2=0)
    assert sum(fixed) - max(fixed) <= 1, "without odds sections take as long as `hold`; the first brings the code"


# ---- the command ----------------------------------------------------------------------------------------------------


@pytest.mark.simulator
@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (LOCK_STAT, (), "how many threads contend for a_lock is not in the profile; say it: --threads N, of 2 to 32"),
        (LOCK_STAT, ("--threads", "33"), "--threads 33: t1 has room for 2 to 32 that contend"),
        (LOCK_STAT, ("--lock", "alock"), 'did you mean "a_lock"'),
        (LOCK_STAT, ("--threads", "4", "--policies", "naap"), 'did you mean "nap"'),
        (LOCK_STAT, ("--threads", "4", "--policies", "catnap/nap"), "catnap waits in a way of its own; write catnap"),
        (
            LOCK_STAT,
            ("--threads", "4", "--policies", "pause"),
            "there is only qspinlock/pause, which is the current one",
        ),
        (LOCK_STAT, ("--threads", "4", "--policies", "pause:x"), "steps are a number"),
        (LOCK_STAT, ("--threads", "4", "--policies", "hardware_lock"), "do not have Xloiterlock (hart.isa)"),
        (LOCK_STAT, ("--threads", "4", "--set", "hart.isa=rv64gc"), "do not have Zawrs (hart.isa)"),
        (LOCK_STAT, ("--threads", "4", "--for", "speed"), "unknown --for"),
        (LOCK_STAT, ("--threads", "4", "--match", "rate"), "--match rate: the profile does not say it of a_lock"),
        (LOCK_STAT, ("--threads", "4", "--match", "hold"), "unknown --match"),
        (LOCK_STAT, ("--threads", "4", "--check", "all"), "is no result directory, so there is no program"),
        (PERF, ("--threads", "4"), "how long f+0x20 is held is not in the profile; say it"),
        (PERF, ("--threads", "4", "--hold", "3"), "'3' is no time; write 1.2us, 300ns, 2ms or 800cycles"),
        (PERF, ("--threads", "4", "--hold", "3us..1us"), "the first is to be the shorter one"),
        (PERF, ("-m", "virt", "--threads", "4"), "has no timing"),
        ("nothing\n", ("--threads", "4"), "no lock profile"),
    ],
)
def test_what_cannot_be_advised_is_refused(
    command: Command, tmp_path: Path, text: str, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "profile").write_text(text)
    machine = () if "-m" in words else ("-m", "t1")
    found = command("advise", str(tmp_path / "profile"), *machine, *words)
    assert found.status == 2, found.err
    assert said in found.err.replace("\n", " ")


@pytest.mark.simulator
@pytest.mark.slow
def test_bounds_of_a_hold_are_two_cases(command: Command, tmp_path: Path) -> None:
    (tmp_path / "perf").write_text(PERF)
    words = ("--threads", "2", "--hold", "300ns..2us", "--policies", "nap", "--seeds", "2", "--acquisitions", "20")
    said = command("advise", str(tmp_path / "perf"), "-m", "t1", *words, "--out", str(tmp_path / "out"), "--json")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    short, long = found["cases"]
    assert (short["case"], long["case"]) == ("f+0x20, held 300ns", "f+0x20, held 2us")
    # A clock of 1000 MHz. Nobody waits for 4.6 us where one other holds the lock for 0.3.
    assert short["calibration"]["hold"]["profile"] == 300
    assert not short["calibration"]["matches"]
    assert any("is not like the profile" in each for each in short["warnings"])
    assert any("is of kind mutex" in each for each in long["warnings"])
    (both,) = found["bounded"]
    assert both["class"] == "f+0x20"
    agreed = {short["recommendation"]["policy"], long["recommendation"]["policy"]}
    assert both["policy"] == (agreed.pop() if len(agreed) == 1 else None)


SCHEMA = {
    "schema": 1,
    "top": {
        *("schema", "machine", "machine_hash", "profile", "objective", "current", "confidence", "seeds", "cases"),
        *("bounded", "checked"),
    },
    "case": {
        *("class", "case", "kind", "threads", "threads_from", "contexts", "calibration", "policies", "recommendation"),
        "warnings",
    },
    "calibration": {
        *("match", "matches", "runs", "think_cycles", "sections", "window_cycles", "hold", "share", "wait", "rate")
    },
    "policy": {
        *("class", "case", "policy", "current", "recommended", "acquisitions", "acquisitions_per_1000_cycles"),
        *("wait_mean_cycles", "wait_p99_below_cycles", "energy_per_acquisition_nj"),
        *("energy_per_acquisition_least_nj", "energy_per_acquisition_most_nj"),
        *(f"{name}_change{end}_percent" for name in ("throughput", "wait", "energy") for end in ("", "_low", "_high")),
    },
    "recommendation": {"policy", "change_percent", "change_low_percent", "change_high_percent", "alike", "advice"},
    "checked": {
        *("case", "policy", "predicted_percent", "predicted_low_percent", "predicted_high_percent"),
        *("measured_percent", "measured_low_percent", "measured_high_percent", "error_points", "intervals_meet"),
    },
}
"""What --json prints. A change of it is a change of `schema`."""


@pytest.mark.simulator
@pytest.mark.slow
def test_a_known_contention_is_advised_on_and_the_advice_is_checked(command: Command, tmp_path: Path) -> None:
    """Eight waiters of a T1's core that pause slow the holder down; napping ones do not."""
    place = ",".join(map(str, range(8)))
    arguments = ("method=1", "hold=300", "think=1500", "cycles=100000")
    ran = command(
        "run", "-m", "t1", "locks", "--place", f"qspinlock={place}", "--out", str(tmp_path / "p"), "--", *arguments
    )
    assert ran.status == 0, ran.err
    words = ("advise", str(tmp_path / "p"), "-m", "t1", "--policies", "nap,back_off", "--seeds", "3", "--check", "all")
    words += ("--acquisitions", "300", "--out", str(tmp_path / "out"))
    said = command(*words, "--json")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    assert found["schema"] == SCHEMA["schema"]
    assert set(found) == SCHEMA["top"]
    (case,) = found["cases"]
    assert set(case) == SCHEMA["case"]
    assert set(case["calibration"]) == SCHEMA["calibration"]
    assert all(set(each) == SCHEMA["policy"] for each in case["policies"])
    assert set(case["recommendation"]) == SCHEMA["recommendation"]
    assert all(set(each) == SCHEMA["checked"] for each in found["checked"])
    assert (case["class"], case["threads"], case["threads_from"]) == ("qspinlock", 8, "profile")
    assert case["contexts"] == list(range(8))
    assert case["calibration"]["matches"]
    # What is not matched is near, too.
    assert abs(case["calibration"]["rate"]["residual"]) < 0.25
    by_policy = {each["policy"]: each for each in found["checked"]}
    assert set(by_policy) == {"qspinlock/nap", "qspinlock/back_off"}
    for each in by_policy.values():
        assert abs(each["error_points"]) < 15, each
    written = {each.name for each in (tmp_path / "out").iterdir()}
    assert {"report.html", "runs.parquet", "throughput.png", "wait.svg", "energy.png"} <= written
    # The second time all runs are there, and a table fits a terminal.
    again = command(*words)
    assert again.status == 0, again.err
    assert "Advice, for throughput" in again.out
    assert max(len(line.rstrip()) for line in again.out.splitlines() if not line.startswith("wrote")) <= 160
    assert "9 of 9 runs are there already" in again.err


@pytest.mark.simulator
def test_a_program_that_cannot_be_run_with_another_policy_is_not_checked(command: Command, tmp_path: Path) -> None:
    words = ("--place", "mcs=0,1,2,3", "--out", str(tmp_path / "p"), "--", "hold=100", "acquisitions=50")
    assert command("run", "-m", "t1", "sections", *words).status == 0
    found = command("advise", str(tmp_path / "p"), "-m", "t1", "--check", "all")
    assert found.status == 2
    assert "is a result of program sections; only runs of the program locks can be repeated" in found.err.replace(
        "\n", " "
    )
    of = profile.read(tmp_path / "p")
    assert (of.unit, [each.name for each in of.classes]) == ("cycles", ["mcs"])
    assert of.classes[0].contexts == (0, 1, 2, 3)
    assert of.classes[0].acquisitions == 50
    assert of.duration is not None
    assert of.classes[0].holds is not None
    assert sum(of.classes[0].holds.log2_histogram) == of.classes[0].holds.count == 50
    ran = ("--place", "mcs=0,1", "--out", str(tmp_path / "q"), "--", "hold=100", "cycles=5000")
    assert command("run", "-m", "t1", "locks", *ran).status == 0
    found = command("advise", str(tmp_path / "q"), "-m", "t2", "--check", "all")
    assert "is of another machine than -m" in found.err.replace("\n", " ")
    found = command("advise", str(tmp_path / "q"), "-m", "t1", "--check", "all")
    assert "ran mcs/pause; take --current mcs/pause" in found.err.replace("\n", " ")
