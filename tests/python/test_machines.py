"""Machine files read by the compiled simulator: where every value comes from, and how faults are named."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from loiter import cli, engine, machines, studies
from loiter.report import page
from loiter.studies.base import Findings
from loiter.studies.cakarevic2008 import grid

pytestmark = pytest.mark.simulator

MINE = """
base = "t1"
[machine]
name = "mine"
[core]
contexts = 5
store_buffer_entries = 9        #
alternates = false              # assumed: to see it
[latency]
mul_cycles = 7                  # [cak] Table II, halved
[fpu]
does_integer = true
[memory]
channels = 2"""
UNSOURCED = {"core.contexts", "core.store_buffer_entries", "fpu.does_integer", "memory.channels"}


@dataclass
class Said:
    """What a command left."""

    status: int
    out: str
    err: str


@pytest.fixture
def loiter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs a command in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> Said:
        with pytest.raises(SystemExit) as end:
            cli.main(list(arguments))
        captured = capsys.readouterr()
        return Said(int(end.value.code or 0), captured.out, captured.err)

    return call


def by_key(text: str) -> dict[str, dict[str, object]]:
    return {each["key"]: each for each in json.loads(text)["parameters"]}


def test_a_value_does_not_take_the_source_of_the_value_it_replaces(loiter, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    own, base = (by_key(loiter("machine", "show", name, "--json").out) for name in ("./mine.toml", "t1"))
    assert own["core.contexts"]["value"] == 5
    assert own["core.alternates"]["value"] is False
    assert own["core.alternates"]["source"] == "assumed: to see it"
    assert own["latency.mul_cycles"]["source"] == "[cak] Table II, halved"
    assert own["fpu.does_integer"]["value"] is True
    assert {key for key in own if own[key]["source"] == "no source given"} == UNSOURCED
    changed = {*UNSOURCED, "core.alternates", "latency.mul_cycles"}
    assert {key for key in base if base[key] != own[key]} == changed, "values and sources of the base are kept"


def test_a_value_without_a_source_shows_as_one(loiter, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    lines = loiter("machine", "show", "./mine.toml").out.splitlines()
    assert {line.split()[0] for line in lines if "no source given" in line} == UNSOURCED


def test_a_file_without_a_base_owes_sources_too(loiter, tmp_path: Path) -> None:
    text = (machines.resources.MACHINES / "t1.toml").read_text()
    (tmp_path / "copy.toml").write_text(re.sub(r"(?m)^(overlap = 3) .*$", r"\1", text))
    own = by_key(loiter("machine", "show", "./copy.toml", "--json").out)
    assert {key for key in own if own[key]["source"] == "no source given"} == {"fpu.overlap"}


def test_the_report_names_values_without_a_source(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    machine = machines.load(engine.load(), str(tmp_path / "mine.toml"))
    provenance = page.Provenance("loiter", "quick", "0" * 64, [("spinloops", "0" * 64)], [machine])
    html = page.of_study(studies.load(grid.PAPER), Findings((), (), (), (), ()), provenance, {})
    assert html.count("<td>no source given</td>") == len(UNSOURCED)


TAGGED = """
base = "t1"
[sources]
own = "a book on the shelf"
[core]
contexts = 5                    # [own] page 3; [xyz] page 4, bits [7:6]
[latency]
mul_cycles = 7                  # assumed: as in [xyz]
load_cycles = 4                 # [caq] Table I
"""


@pytest.mark.parametrize("command", [("machine", "show", "./mine.toml"), ("run", "-m", "./mine.toml", "hello")])
@pytest.mark.parametrize("json_", [(), ("--json",)])
def test_a_tag_that_nothing_defines_is_warned_of(
    loiter, tmp_path: Path, command: tuple[str, ...], json_: tuple[str, ...]
) -> None:
    (tmp_path / "mine.toml").write_text(TAGGED)
    said = loiter(*command, *json_)
    assert said.status == 0
    unknown, misspelt = said.err.splitlines()
    assert unknown.startswith("warning: ./mine.toml: [sources] does not define [xyz]")
    assert "core.contexts, latency.mul_cycles" in unknown
    assert misspelt.startswith("warning: ./mine.toml: [sources] does not define [caq]")
    assert "latency.load_cycles" in misspelt
    assert 'did you mean "cak"' in misspelt
    assert "warning" not in said.out
    if json_:
        json.loads(said.out)


def test_sources_in_order_are_not_warned_of(loiter, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(TAGGED.replace("caq", "cak").replace("[xyz]", "[gcc]"))
    assert loiter("machine", "show", "./mine.toml").err == ""
    assert loiter("run", "-m", "./mine.toml", "hello").err == ""


def is_sourced(source: str, tags: dict[str, str]) -> bool:
    """`assumed`, with a reason or without, or what begins with a tag that is defined."""
    begun = re.match(r"\[([\w-]+)\]", source)
    return bool(begun and begun[1] in tags) or re.fullmatch(r"assumed(: \S.*)?", source) is not None


@pytest.mark.parametrize("name", machines.names())
def test_every_value_of_a_preset_has_its_source(name: str) -> None:
    machine = machines.load(engine.load(), name)
    assert machine.parameters
    assert [each for each in machine.parameters if not is_sourced(each.source, dict(machine.sources))] == []
    assert machine.undefined_tags() == {}


@pytest.mark.parametrize("source", ["no source given", "default", "[xyz] Table I", "Table I [cak]", "assumed because"])
def test_the_rule_for_presets_can_fail(source: str) -> None:
    assert is_sourced("[cak] Table I", {"cak": "a paper"})
    assert not is_sourced(source, {"cak": "a paper"})


FAULTS = [
    ('base = "t1"\n[core]\ncontxts = 4\n', ['unknown key "core.contxts"', "core.contexts"]),
    ('base = "t1"\n[core]\ncontexts = 65\n', ["core.contexts", "1 to 64"]),
    ('base = "t1"\n[core]\npipes = 3\n', ["section core", "pipes"]),
    ("[system]\ncores = 1\n", ["core.kind is missing"]),
    ("[core\n", ["no TOML"]),
    ('[core]\ncontexts = 5\nbase = "t1"\n', ["base stands in [core]", "top", "before any section"]),
    ('[machine]\nbase = "t1"\nname = "mine"\n', ["base stands in [machine]", "before any section"]),
    ('base = "t1"\n[core]\nbase = "t1"\n', ["base stands in [core]", "before any section"]),
    ('[sources]\nown = "a book"\nbase = "t1"\n', ["base stands in [sources]", "before any section"]),
    ("[core]\npipes = 1\npipes = 2\n", ["no TOML", "duplicate key", "line 3"]),
    ('base = "t9"\n', ['unknown machine "t9"', 'base = "./t9.toml"']),
    ("base = 1\n", ["base must be the name"]),
    ('base = "./bad.toml"\n', ["leads back to the machine itself"]),
    ('base = "t1"\ncore = { contexts = 5 }\n', ["[core]", "section"]),
    ('base = "t1"\ncore.contexts = 5\ncore.alternates = true\n', ["[core]", "section"]),
]


@pytest.mark.parametrize(("text", "parts"), FAULTS, ids=[each[0] for each in FAULTS])
@pytest.mark.parametrize("path", ["./bad.toml", "rigs/bad.toml"])
def test_a_fault_in_a_machine_file_is_at_the_path_that_was_given(
    loiter, tmp_path: Path, text: str, parts: list[str], path: str
) -> None:
    (tmp_path / "rigs").mkdir()
    (tmp_path / path).write_text(text)
    said = loiter("machine", "show", path)
    assert said.status == 2
    assert said.err.startswith(f"error: {path}: ")
    for part in parts:
        assert part in said.err
    assert "Traceback" not in said.err


CONTRADICTIONS = [
    (["core.integer_queue_entries=0"], ["core.integer_queue_entries=0", "out of range, 1 to"]),
    (["core.fetch_width=0"], ["core.fetch_width=0", "1 to 16"]),
    (["core.contexts=65"], ["core.contexts=65", "1 to 64"]),
    (["core.fetch_policy=icont"], ["core.fetch_policy=icont", '"icont" is not known', "icount, round_robin"]),
    (["branch.kind=tage"], ["branch.kind=tage", '"tage" is not known', "hybrid, bimodal"]),
    (["core.pipes=2"], ['unknown key "core.pipes"']),
    (["units.load_store=7"], ["section units", "load_store = 7 is more than integer = 6"]),
    (["units.integer=3"], ["section units", "load_store = 4 is more than integer = 3"]),
    (["units.data_ports=5"], ["section units", "data_ports = 5 is more than load_store = 4"]),
    (["core.contexts=1"], ["section core", "fetch_contexts = 2 is more than contexts = 1"]),
    (["core.contexts=4", "core.fetch_contexts=5"], ["section core", "fetch_contexts = 5 is more than contexts = 4"]),
    (["core.fetch_banks=3"], ["section core", "fetch_banks = 3 is not a power of two"]),
    (["btb.ways=3"], ["section btb", "power of two"]),
    (
        ["l1i.size_kib=1", "l1i.ways=16", "system.ram_mib=1048576"],
        ["section system", "ram_mib = 1048576", "at most 260095, or caches with more sets"],
    ),
]


@pytest.mark.parametrize("command", [("machine", "show", "smt8"), ("run", "-m", "smt8", "hello")])
@pytest.mark.parametrize(("sets", "parts"), CONTRADICTIONS, ids=[" ".join(each[0]) for each in CONTRADICTIONS])
def test_options_that_make_no_core_are_one_clear_error(
    loiter, command: tuple[str, ...], sets: list[str], parts: list[str]
) -> None:
    said = loiter(*command, *(word for each in sets for word in ("--set", each)))
    assert said.status == 2
    assert said.out == ""
    assert said.err.count("error:") == 1
    assert [part for part in parts if part not in " ".join(said.err.split())] == []


def test_a_task_beyond_the_contexts_is_refused(loiter) -> None:
    said = loiter("run", "-m", "smt8", "coremix", "--place", "intmix=0,1,2,3,4,5,6,7,8")
    assert said.status == 2
    assert "1 core of 8 contexts" in said.err
    assert "system.cores=2" in said.err


def test_more_harts_than_contexts_are_refused(loiter) -> None:
    said = loiter("boot", "-m", "smt8", "--set", "system.cores=1", "--harts", "9", "--kernel", "none")
    assert said.status == 2
    assert "--harts 9 and --set system.cores contradict each other" in said.err
    assert "8 contexts" in said.err


def test_a_machine_file_that_is_no_text_or_is_not_there_is_named(loiter, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    for name, parts in (("./bad.toml", ["UTF-8", "byte 0"]), ("./none.toml", ["cannot read", "No such file"])):
        said = loiter("machine", "show", name)
        assert said.status == 2
        assert said.err.startswith(f"error: {name}: ")
        assert [part for part in parts if part not in said.err] == []


def test_a_tag_may_be_called_base(loiter, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('base = "t1"\n[sources]\nbase = "a book"\n[core]\ncontexts = 5  # [base] 1\n')
    assert "[base] a book" in loiter("machine", "show", "./mine.toml").out


def test_a_machine_file_without_a_name_is_called_by_its_stem(loiter, tmp_path: Path) -> None:
    text = (machines.resources.MACHINES / "virt.toml").read_text()
    (tmp_path / "plain.toml").write_text(re.sub(r"(?m)^name = .*$", "", text))
    assert loiter("machine", "show", "./plain.toml").out.startswith("plain: ")
