"""The tool that keeps causes of misses: what is stale is found, and what was run is kept."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import causes
import pytest
import tomlkit
import validation
from rich.console import Console

from loiter import engine as engines
from loiter import resources, studies
from loiter.engine import Engine
from loiter.studies import runner
from loiter.studies.changes import Changes

DOCUMENT = """# Document
<!-- figures of cakarevic2008 -->
| Value | Unit | Published | Ours | Difference | Verdict |
|---|---|---|---|---|---|
| `active.cpi_alone.t1.hash` | CPI | 4.2 | 5.87 | +39.9 % | MISS |
| `active.cpi_alone.t1.sort` | CPI | 3.2 | 3.18 | -0.6 % | within |
| `t1_default_1_spinner_add` | % | 50 | 56.7 | +6.7 points | MISS |

| Statement | Holds | Measured |
|---|---|---|
| `add_most`: add, CPI 1, loses most | NO | add 1.0 % |
<!-- end of cakarevic2008 -->
<!-- causes of cakarevic2008 -->
<!-- end of causes of cakarevic2008 -->
<!-- figures of opensparc_t1 -->
| Value | Unit | Published | Ours | Difference | Verdict |
|---|---|---|---|---|---|
| `load.latency_cycles` | cycles | 3.0 | 3.00 | +0.0 % | within |
<!-- end of opensparc_t1 -->
<!-- causes of opensparc_t1 -->
<!-- end of causes of opensparc_t1 -->
<!-- figures of redstone2002 -->
| Value | Unit | Published | Ours | Difference | Verdict |
|---|---|---|---|---|---|
| `spin.one` | % | 1 | 2.00 | +1.0 points | within |

| Statement | Holds | Measured |
|---|---|---|
| It costs less | NO | more |
<!-- end of redstone2002 -->
<!-- causes of redstone2002 -->
<!-- end of causes of redstone2002 -->
"""

EXPERIMENT = """
[[experiment]]
study = "cakarevic2008"
suspect = "long rows"
explains = ["active.cpi_alone.t1.hash"]
figure = "table_2"
set = ["t1:system.clock_mhz=2000"]
argument = ["columns=4"]
"""

RECORDED = """
[experiment.recorded]
before = { "active.cpi_alone.t1.hash" = "5.87" }
after = { "active.cpi_alone.t1.hash" = "4.20" }
shows = { "active.cpi_alone.t1.hash" = "the cause" }
"""


@pytest.fixture
def files(tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A document and a list of experiments of one's own, on the simulator that stands in."""
    document, experiments = tmp_path / "validation.md", tmp_path / "causes.toml"
    document.write_text(DOCUMENT)
    experiments.write_text(EXPERIMENT + RECORDED)
    monkeypatch.setattr(causes, "DOCUMENT", document)
    monkeypatch.setattr(causes, "EXPERIMENTS", experiments)
    monkeypatch.setattr(causes, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(causes, "read", lambda read=causes.read: read(experiments))
    monkeypatch.setattr(engines, "load", lambda: engine)
    monkeypatch.setattr(studies, "NAMES", ("cakarevic2008", "opensparc_t1", "redstone2002"))
    return document, experiments


def complaints(document: str, experiments: str) -> list[str]:
    entries = [causes._experiment(each) for each in tomlkit.parse(experiments).unwrap().get("experiment", [])]
    written = document
    for study in studies.NAMES:
        written = causes.write_table(written, entries, study)
    return list(causes.complaints(written, entries))


def test_an_experiment_that_holds_is_no_complaint(files: tuple[Path, Path]) -> None:
    assert complaints(DOCUMENT, EXPERIMENT + RECORDED) == []


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ('explains = ["active.cpi_alone.t1.hash"]', 'explains = ["active.cpi_alone.t1.sort"]', "no miss"),
        ('explains = ["active.cpi_alone.t1.hash"]', 'explains = ["active.cpi_alone.t1.gone"]', "has no active"),
        ('explains = ["active.cpi_alone.t1.hash"]', 'moves = ["active.cpi_alone.t1.gone"]', "has no active"),
        ('explains = ["active.cpi_alone.t1.hash"]', 'moves = ["active.cpi_alone.t1.sort"]', "was not run for"),
        ('explains = ["active.cpi_alone.t1.hash"]', "explains = []", "explains nothing"),
        ('"5.87"', '"5.86"', "was run when active.cpi_alone.t1.hash was 5.86; the table has 5.87"),
        (RECORDED, "", "was not run"),
        ("clock_mhz", "clok_mhz", "did you mean system.clock_mhz"),
        ("t1:system", "t3:system", 'unknown machine "t3"'),
        ('figure = "table_2"', 'figure = "table_9"', "there is no figure table_9"),
        ('figure = "table_2"', 'scale = "tiny"', "there is no scale tiny"),
        ("columns=4", "columns", "is written key=value"),
        ('figure = "table_2"', 'instead = "table_9"', "there is no figure table_9"),
        ('figure = "table_2"', 'patch = "docs/causes/gone.patch"', "gone.patch"),
    ],
)
def test_what_is_stale_is_told(files: tuple[Path, Path], before: str, after: str, complaint: str) -> None:
    text = EXPERIMENT + RECORDED
    assert before in text
    found = complaints(DOCUMENT, text.replace(before, after))
    assert len(found) == 1
    assert complaint in found[0]


def test_what_another_figure_measures_is_run_instead(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    files[1].write_text(
        EXPERIMENT.replace('set = ["t1:system.clock_mhz=2000"]\nargument = ["columns=4"]', 'instead = "table_1"')
    )
    (each,) = causes.read()
    assert each.command == "loiter study run cakarevic2008 --figure table_1"
    ran: list[str] = []

    def carry_out(order: runner.Order, engine: Engine, console: Console) -> runner.Outcome:
        ran.append(order.command)
        return runner.carry_out(order, engine, console)

    monkeypatch.setattr(causes, "carry_out", carry_out)
    causes.run(each, Console(file=io.StringIO()))
    assert [command.rpartition(" ")[2] for command in ran] == ["table_2", "table_1"]


def test_guests_are_built_with_a_patch_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sources of one's own."""
    for name in ("guests", "locks"):
        (tmp_path / name).mkdir()
    (tmp_path / "guests/Makefile").write_text("all:\n\tmkdir build\n\tcp ../locks/word build/word\n")
    (tmp_path / "locks/word").write_text("before\n")
    (tmp_path / "change.patch").write_text("--- a/locks/word\n+++ b/locks/word\n@@ -1 +1 @@\n-before\n+after\n")
    monkeypatch.setattr(causes, "ROOT", tmp_path)
    built = resources.GUESTS
    with causes.patched("change.patch"):
        assert built != resources.GUESTS
        assert (resources.GUESTS / "word").read_text() == "after\n"
    assert built == resources.GUESTS
    assert (tmp_path / "locks/word").read_text() == "before\n"
    with causes.patched(None):
        assert built == resources.GUESTS


def test_an_option_that_is_gone_is_told(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Changes, "options", lambda self: ["--sets", "x=1"])
    assert any("No such option" in each for each in complaints(DOCUMENT, EXPERIMENT + RECORDED))


def test_a_table_that_was_not_written_again_is_told(files: tuple[Path, Path]) -> None:
    found = list(causes.complaints(DOCUMENT, causes.read()))
    assert len(found) == 3
    assert all("write them again" in each for each in found)
    assert "no table" in next(causes.complaints("", []))


def test_misses_without_an_experiment_are_unknown(files: tuple[Path, Path]) -> None:
    experiments = causes.read()
    text = causes.render(experiments, causes.table(DOCUMENT, "cakarevic2008"), "cakarevic2008")
    assert "| `active.cpi_alone.t1.hash` | long rows | 4.2 | 5.87 | 4.20 | the cause |" in text
    assert "--set t1:system.clock_mhz=2000 --argument columns=4`" in text
    assert "Cause unknown, 2: `t1_default_1_spinner_add`, `add_most`." in text
    refuted = [dataclasses.replace(each, recorded={"shows": {}}) for each in experiments]
    text = causes.render(refuted, causes.table(DOCUMENT, "cakarevic2008"), "cakarevic2008")
    assert "Cause unknown, 3: `active.cpi_alone.t1.hash`" in text
    assert "`It costs less`" in causes.render([], causes.table(DOCUMENT, "redstone2002"), "redstone2002")


def test_another_scale_has_a_value_before_of_its_own(files: tuple[Path, Path]) -> None:
    quick = (EXPERIMENT + RECORDED).replace('figure = "table_2"', 'scale = "quick"').replace("5.87", "6.01")
    assert complaints(DOCUMENT, quick) == []
    rows = causes.table(DOCUMENT, "cakarevic2008")
    files[1].write_text(quick)
    assert "| 4.2 | 6.01 | 4.20 | the cause | `loiter study run cakarevic2008 --scale quick " in causes.render(
        causes.read(), rows, "cakarevic2008"
    )


def test_what_a_rule_moves_need_not_be_a_miss_and_explains_none(files: tuple[Path, Path]) -> None:
    moves = (EXPERIMENT + RECORDED).replace("t1.hash", "t1.sort").replace("explains", "moves").replace("5.87", "3.18")
    assert complaints(DOCUMENT, moves.replace("the cause", "moved")) == []
    files[1].write_text(moves.replace("the cause", "moved"))
    text = causes.render(causes.read(), causes.table(DOCUMENT, "cakarevic2008"), "cakarevic2008")
    assert "| `active.cpi_alone.t1.sort` | long rows | 3.2 | 3.18 | 4.20 | moved |" in text
    assert "Cause unknown, 3: `active.cpi_alone.t1.hash`" in text
    # The stand-in's CPI does not depend on the clock.
    (each,) = causes.read()
    assert set(causes.run(each, Console(file=io.StringIO()))["shows"].values()) == {"not moved"}


def test_a_run_is_compared_and_kept(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """The stand-in's CPI does not depend on the clock, so the experiment refutes its suspect."""
    document, experiments = files
    assert validation.main(["--run", "cakarevic2008"]) == 1
    assert "recorded was 5.87" in capsys.readouterr().err
    assert experiments.read_text() == EXPERIMENT + RECORDED, "a comparison changes nothing"
    validation.main(["--record"])
    kept = causes.read()[0].recorded
    assert kept["before"] == kept["after"] == {"active.cpi_alone.t1.hash": "4.20"}
    assert kept["sources"] == causes.sources()
    assert validation.main(["--check"]) == 1, "the document has another value"
    capsys.readouterr()
    document.write_text(document.read_text().replace("4.2 | 5.87", "4.2 | 4.20"))
    assert validation.main(["--write"]) == 0
    assert validation.main(["--run"]) == 0
    assert capsys.readouterr().err.count("recorded was") == 0


def test_what_a_figure_does_not_measure_is_no_value(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    files[1].write_text(EXPERIMENT.replace("active.cpi_alone.t1.hash", "t1_default_1_spinner_add"))
    assert validation.main(["--record", "cakarevic2008"]) == 1
    assert "was not run for t1_default_1_spinner_add" in capsys.readouterr().err
    assert validation.main(["--record", "cakarevic"]) == 2
    assert "there is no study cakarevic; there are cakarevic2008" in capsys.readouterr().err


def test_what_a_change_shows(engine: Engine, files: tuple[Path, Path]) -> None:
    def shows(before: float, after: float) -> str:
        each = causes.read()[0]
        findings = causes._carry_out(each, Changes(), each.figure, "", Console(file=io.StringIO()))
        (point,) = [each for each in findings.points if each.id == "active.cpi_alone.t1.hash"]
        one, two = (dataclasses.replace(findings, points=[dataclasses.replace(point, ours=value)])
                    for value in (before, after))  # fmt: skip
        return causes._shows(one, two, point.id)

    assert shows(5.87, 4.3) == causes.CAUSE
    assert shows(5.87, 5.5) == causes.PART
    assert shows(5.87, 5.8) == causes.NOT
    assert shows(5.87, 6.5) == causes.NOT


def test_figures_go_into_the_document(files: tuple[Path, Path], tmp_path: Path) -> None:
    document, experiments = files
    experiments.write_text("")
    table = tmp_path / "points.md"
    table.write_text("| Value | Unit | Published | Ours | Difference | Verdict |\n|---|---|---|---|---|---|\n"
                     "| `new` | % | 1 | 9.00 | +8.0 points | MISS |\n")  # fmt: skip
    assert validation.main(["cakarevic2008", str(table)]) == 0
    assert "| `new` | % |" in document.read_text()
    assert "Cause unknown, 1: `new`." in document.read_text()
    table.write_text("Warning: changed by --set x=1: these are not the figures of the study.\n\n" + table.read_text())
    assert validation.main(["cakarevic2008", str(table)]) == 1, "an experiment is not the study"
    assert validation.main(["nothing", str(table)]) == 1
    assert validation.main([]) == 2
