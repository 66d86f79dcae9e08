"""The command line: exit statuses, and messages that say what, where and what to do."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from commands import Command, run
from loiter.engine import Engine


@pytest.fixture
def loiter(engine: Engine) -> Command:
    """Runs a command against the fake simulator."""
    return run


MISTAKES = [
    (("machine", "show", "t3"), ['unknown machine "t3"', '"t1" or "t2"', "-m ./t3.toml"]),
    (("machine", "show", "T1"), ['did you mean "t1"']),
    (("machine", "show", "t1", "--set", "core.contxts=8"), ['unknown key "core.contxts"', "core.contexts"]),
    (("machine", "show", "t1", "--set", "core.contexts"), ["--set core.contexts", "key=value"]),
    (("run", "-m", "t1", "spinlops"), ['unknown program "spinlops"', '"spinloops"']),
    (("run", "-m", "t1", "nowhere/a.elf"), ["nowhere/a.elf", "no such file", "spinloops"]),
    (("run", "-m", "t1", "data"), ["a directory, not a program"]),
    (("run", "-m", "t1", "data/machines/t1.toml"), ["no ELF file", "t1.toml"]),
    (("run", "-m", "t1", "spinloops"), ["none is placed", "--place TASK=CONTEXT", "spin_default"]),
    (("run", "-m", "t1", "spinloops", "--place", "ad=0"), ['unknown task of spinloops "ad"', '"add"']),
    (("run", "-m", "t1", "spinloops", "--place", "add"), ["--place add", "task=context"]),
    (("run", "-m", "t1", "spinloops", "--place", "add=x"), ['"x" is neither a context number']),
    (("run", "-m", "t1", "spinloops", "--place", "add=-1"), ['"-1" is neither a context number']),
    (("run", "-m", "t1", "spinloops", "--place", "add=8"), ["numbered 0 to 7", "system.cores=3"]),
    (("run", "-m", "t1", "spinloops", "--place", "add=0.4"), ["contexts 0 to 3 in each core", "0.4"]),
    (("run", "-m", "t1", "spinloops", "--place", "add=2.0"), ["no 2.0", "system.cores=3"]),
    (
        ("run", "-m", "t1", "spinloops", "--place", "add=1", "--place", "spin_idiv=2,0.1"),
        ["context 1 already runs add"],
    ),
    (("run", "-m", "t1", "hello", "--", "reps"), ['argument "reps"', "key=value"]),
    (("run", "-m", "t1", "hello", "--", "task.hello=1"), ["--place hello=CONTEXT"]),
    (("run", "-m", "t1", "hello", "--max-cycles", "0"), ["max-cycles"]),
    (("study", "run", "cakarevic2007"), ['unknown study "cakarevic2007"', "cakarevic2008"]),
    (("study", "run", "cakarevic2008", "--scale", "quik"), ['unknown scale "quik"', '"quick"']),
    (("study", "run", "cakarevic2008", "--figure", "fig_4"), ['unknown figure or table "fig_4"', "figure_4"]),
    (("study", "run", "cakarevic2008", "--figure", "figure_8", "--scale", "quick"), ["--scale default"]),
    (("study", "run", "cakarevic2008", "--json", "no/where.json"), ["--json", "no directory no"]),
    (("study", "run", "cakarevic2008", "--jobs", "0"), ["jobs"]),
    (("nonsense",), ["nonsense"]),
]


@pytest.mark.parametrize(("arguments", "parts"), MISTAKES, ids=[" ".join(each[0]) for each in MISTAKES])
def test_a_mistake_is_named_with_what_to_do(loiter, arguments: tuple[str, ...], parts: list[str]) -> None:
    said = loiter(*arguments)
    assert said.status == 2
    assert said.out == ""
    assert parts
    for part in parts:
        assert part in said.err
    assert "Traceback" not in said.err


def test_out_refuses_a_directory_with_other_files(loiter, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("years of work")
    said = loiter("run", "-m", "t1", "hello", "--out", "thesis")
    assert said.status == 2
    assert "holds other files" in said.err
    assert (tmp_path / "thesis" / "chapter1.tex").read_text() == "years of work"


def test_machines_lists_them(loiter) -> None:
    said = loiter("machines")
    assert said.status == 0
    assert "t1" in said.out
    assert "1400" in said.out
    assert "\x1b[" not in said.out, "no colour in a pipe"
    facts = json.loads(loiter("machines", "--json").out)
    assert [each["name"] for each in facts] == ["t1", "t2"]
    assert facts[1]["contexts_per_core"] == 8


def test_show_marks_what_set_changed(loiter) -> None:
    said = loiter("machine", "show", "t1", "--set", "core.contexts=8")
    assert said.status == 0
    (line,) = [line for line in said.out.splitlines() if line.strip().startswith("core.contexts")]
    assert "* 8" in line
    assert "changed by --set" in said.out
    assert "assumed: a test" in said.out, "every value has its source"
    facts = json.loads(loiter("machine", "show", "t1", "--set", "core.contexts=8", "--json").out)
    assert [each["key"] for each in facts["parameters"] if each["changed"]] == ["core.contexts"]


def test_a_machine_of_the_users_own(loiter, tmp_path: Path) -> None:
    text = (tmp_path / "data" / "machines" / "t1.toml").read_text()
    (tmp_path / "my.toml").write_text(text.replace('"t1"', '"mine"'))
    assert "mine" in loiter("machine", "show", "./my.toml").out


def test_run_prints_console_and_summary(loiter) -> None:
    said = loiter("run", "-m", "t1", "hello")
    assert said.status == 0
    assert said.out.startswith("hello on t1\n")
    assert "task.hello=0" in said.out
    assert "machine: retired 100.0%" in said.out


def test_run_says_how_long_each_repetition_takes(loiter) -> None:
    said = loiter("run", "-m", "t1", "spinloops", "--place", "add=0")
    # Six of a thousand instructions each, one of which takes a cycle more than the others' thousand, at 1 GHz.
    line = next(line for line in said.out.splitlines() if line.startswith("repetitions "))
    assert line.split(maxsplit=1)[1].strip() == (
        "6 of 1,000 cycles (1.0 µs), 1.000 instructions a cycle, 1,000 to 1,001 cycles (hart 0)"
    )


def test_run_places_tasks_by_number_and_by_core(loiter) -> None:
    said = loiter(
        *("run", "-m", "t2", "spinloops", "--place", "add=0", "--place", "spin_default=1,1.0,1.7"),
        *("--json", "--", "iterations=3"),
    )
    request = json.loads(said.out)["request"]
    assert request["bootargs"] == "task.add=0 task.spin_default=1,8,15 iterations=3"


def test_run_writes_a_result_directory_and_replaces_its_own(loiter, tmp_path: Path) -> None:
    for _ in range(2):
        said = loiter("run", "-m", "t1", "hello", "--out", "out/first")
        assert said.status == 0
    assert sorted(each.name for each in (tmp_path / "out" / "first").iterdir()) == [
        *("accounts.parquet", "activities.parquet", "counters.parquet", "histograms.parquet", "host.json"),
        *("lock_reads.parquet", "locks.parquet"),
        *("manifest.json", "marks.parquet", "reports.parquet", "samples.parquet"),
        "seats.parquet",
    ]
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["first"]


@pytest.mark.parametrize(
    ("variable", "status", "part"),
    [
        ("FAKE_EXIT", 1, "cycles: the program said so"),
        ("FAKE_GUEST_ERROR", 1, "illegal instruction at pc 0x80000010"),
        ("FAKE_PANIC", 3, "Please report it"),
    ],
)
def test_a_failing_run_has_its_status(
    loiter, monkeypatch: pytest.MonkeyPatch, variable: str, status: int, part: str
) -> None:
    monkeypatch.setenv(variable, "t1:hello")
    said = loiter("run", "-m", "t1", "hello")
    assert said.status == status
    assert part in said.err


@pytest.mark.parametrize("json_", [(), ("--json",)])
def test_a_program_is_heard_though_its_result_cannot_be_kept(
    loiter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, json_: tuple[str, ...]
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    said = loiter("run", "-m", "t1", "hello", "--out", "result", *json_)
    assert said.status == 1
    assert "No space left" in said.err
    console = json.loads(said.out)["console"] if json_ else said.out
    assert console == "hello on t1\n" + ("" if json_ else "\n")


def test_an_error_of_our_own_says_so(loiter, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("loiter.machines.names", broken)
    said = loiter("machines")
    assert said.status == 3
    assert "ZeroDivisionError" in said.err
    assert "Please report it" in said.err


def test_version(loiter) -> None:
    from importlib.metadata import version

    assert loiter("--version").out.strip() == f"loiter {version('loiter')}"
