"""The runner of mutants: what it puts into the source, and what it says of what came out."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "mutants.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module
    spec.loader.exec_module(module)
    return module


def mutant(tool: ModuleType, number: int, was: str, becomes: str, within: str = "") -> object:
    return tool.Mutant(number, f"m{number}", "all", "crates/x/src/y.rs", was, becomes, "wrong", ["x"], within, "")


def test_an_expression_and_a_statement_are_switched(tool: ModuleType) -> None:
    source = "let a = b + c;\nstop();\n"
    mutants = [mutant(tool, 1, "b + c", "b"), mutant(tool, 2, "stop();", "")]
    assert tool.switched(source, mutants) == (
        "let a = (if crate::mutant(1) { b } else { b + c });\nif crate::mutant(2) {  } else { stop(); }\n"
    )


def test_two_mutants_may_have_one_place(tool: ModuleType) -> None:
    mutants = [mutant(tool, 1, "b", "c"), mutant(tool, 2, "b", "d")]
    chosen = "(if crate::mutant(1) { c } else if crate::mutant(2) { d } else { b })"
    assert tool.switched("a = b", mutants) == f"a = {chosen}"


@pytest.mark.parametrize(
    ("source", "was", "within", "times"),
    [("a", "b", "", 0), ("b b", "b", "", 2), ("b b", "b", "a b", 0), ("(b b)", "b", "(b b)", 2)],
)
def test_an_original_that_does_not_stand_once_is_stale(
    tool: ModuleType, source: str, was: str, within: str, times: int
) -> None:
    with pytest.raises(tool.Wrong, match=f"m1: stands {times} times"):
        tool.switched(source, [mutant(tool, 1, was, "c", within)])


def test_mutants_do_not_overlap(tool: ModuleType) -> None:
    with pytest.raises(tool.Wrong, match="overlap"):
        tool.switched("a + b + c", [mutant(tool, 1, "a + b", "a"), mutant(tool, 2, "b + c", "c")])


def test_golden_runs_are_no_reasoned_tests(tool: ModuleType) -> None:
    outcomes = {
        "seen": tool.Outcome("", ["hart csr"], "failed", True),
        "hung": tool.Outcome("", ["analytic smt"], "timed out", True),
        "moved": tool.Outcome("", ["architecture golden::t1"], "failed"),
        "lives": tool.Outcome(""),
    }
    assert tool.reasoned(outcomes) == 2
    of_list = mutant(tool, 1, "a", "b")
    cells = {name: tool.verdict(of_list, outcome) for name, outcome in outcomes.items()}
    assert (
        "2 caught by reasoned tests (50%), of them 1 by a time-out; 1 by golden runs only; 1 survived"
        in tool.totals([of_list] * 4, cells)
    )


def test_the_list_fits_the_source_and_the_table(tool: ModuleType) -> None:
    mutants = tool.read_list()
    assert len(mutants) >= tool.FEWEST
    tool.check(mutants)


def test_a_survivor_without_a_reason_and_too_few_caught_are_failures(
    tool: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    mutants = [mutant(tool, 1, "a", "b"), mutant(tool, 2, "c", "d")]
    caught = tool.Outcome("", ["hart csr"], "failed", True)
    assert tool.conclude(mutants, {"m1": caught, "m2": caught}) == 0
    assert tool.conclude(mutants, {"m1": caught, "m2": tool.Outcome("")}) == 1
    shown = capsys.readouterr().err
    assert "m2: no reasoned test catches it, and no reason is given" in shown
    assert "less than 95%" in shown
