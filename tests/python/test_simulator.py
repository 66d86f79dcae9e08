"""The package with the compiled simulator and the built guests: smoke runs, bad input, a real exhibit."""

from __future__ import annotations

import ast
import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

import loiter._native
from loiter import machines, programs, store

pytestmark = pytest.mark.simulator

RAM = 0x8000_0000
ILLEGAL = 0x0000_0000
WFI = 0x1050_0073
JUMP_BACK = 0xFFDFF06F  # j to the instruction before
SPIN = 0x0000_006F  # j to itself


def loiter_(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from loiter.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120)


def write_elf(path: Path, code: list[int], machine: int = 243, at: int = RAM) -> str:
    """The smallest executable: one segment of code, no sections."""
    text = struct.pack(f"<{len(code)}I", *code)
    header = b"\x7fELF" + bytes([2, 1, 1, 0]) + bytes(8)
    header += struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, at, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 120, at, at, len(text), len(text), 4)
    path.write_bytes(header + segment + text)
    return str(path)


def test_presets_and_guests_are_there() -> None:
    assert {"t1", "t2", "virt"} <= set(machines.names())
    assert {"coremix", "hello", "spinloops"} <= set(programs.names())


@pytest.mark.parametrize("machine", machines.names())
def test_every_preset_runs_hello(machine: str, tmp_path: Path) -> None:
    done = loiter_("run", "-m", machine, "hello", "--out", "result", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("hello from hart 0\n")
    result = store.read(tmp_path / "result")
    manifest = result.manifest
    assert manifest["exit"] == {"reason": "finisher", "code": 0, "message": manifest["exit"]["message"]}
    parameters = manifest["machine"]["parameters"]
    if parameters["core.kind"] == "reference":
        return  # it has no time to account for
    assert result.table("counters").num_rows > 0
    accounts = pd.read_parquet(tmp_path / "result" / "accounts.parquet")
    by_context = accounts.groupby("context")["cycles"].sum()
    assert len(by_context) == parameters["system.cores"] * parameters["core.contexts"]
    assert (by_context == manifest["cycles"]).all(), "every cycle of every context is accounted once"


def test_the_same_run_leaves_the_same_bytes(tmp_path: Path) -> None:
    arguments = ["run", "-m", "t2", "spinloops", "--set", "system.cores=2", "--fast-forward"]
    arguments += ["--place", "hash=0", "--place", "spin_casx=1,4,1.0", "--", "iterations=200"]
    for name in ("a", "b"):
        done = loiter_(*arguments[:3], "--out", name, *arguments[3:], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    names = [each.name for each in (tmp_path / "a").iterdir() if each.name != "host.json"]
    assert len(names) == 11
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    marks = store.read(tmp_path / "a").rows("marks")
    assert {mark["hart"] for mark in marks if mark["kind"] == "acquired"} == {0, 1, 4, 8}


def test_accounts_of_a_fast_forwarded_run_begin_with_timing(tmp_path: Path) -> None:
    arguments = ("run", "-m", "t1", "spinloops", "--place", "add=0", "--place", "spin_default=1,4")
    for name, extra in (("whole", ()), ("forwarded", ("--fast-forward",))):
        done = loiter_(*arguments, *extra, "--out", name, "--", "iterations=5", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        result = store.read(tmp_path / name)
        manifest = result.manifest
        parameters = manifest["machine"]["parameters"]
        contexts = parameters["system.cores"] * parameters["core.contexts"]
        assert contexts == 32
        accounts = pd.read_parquet(tmp_path / name / "accounts.parquet")
        timed = manifest["timing_cycles"]
        assert timed == manifest["cycles"] - manifest["timing_from_cycle"]
        assert accounts["cycles"].sum() == contexts * timed
        assert (accounts.groupby("context")["cycles"].sum() == timed).all()
        retired = accounts[accounts["slot"] == "retired"]["cycles"].sum()
        assert retired == manifest["timing_instructions"] > 0
        assert (manifest["timing_from_cycle"] > 0) == bool(extra)
        assert (manifest["timing_instructions"] < manifest["instructions"]) == bool(extra)


def test_a_plan_of_phases_is_kept_in_the_result_and_checked_instructions_are_told(tmp_path: Path) -> None:
    plan = "reference until probe:work_begin, timing for 20k instructions, reference warm for 5k cycles, timing"
    arguments = ("run", "-m", "smt8", "spinloops", "--place", "add=0", "--phases", plan, "--check", "--out", "phased")
    done = loiter_(*arguments, "--", "iterations=5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    manifest = store.read(tmp_path / "phased").manifest
    assert f"{manifest['timing_instructions']:,} instructions, as the reference engine does them" in done.stdout
    rows = manifest["phases"]
    shown = [row["phase"] for row in rows]
    assert manifest["request"]["phases"] == ", ".join(shown)
    assert shown[1:3] == ["timing for 20000 instructions", "reference warm for 5000 cycles"]
    assert rows[2]["end_cycle"] - rows[2]["begin_cycle"] == 5_000
    assert 20_000 <= rows[1]["instructions"] < 20_100
    assert sum(row["instructions"] for row in rows[1::2]) == manifest["timing_instructions"]
    accounts = pd.read_parquet(tmp_path / "phased" / "accounts.parquet")
    assert (accounts.groupby("context")["cycles"].sum() == manifest["timing_cycles"]).all()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--phases", "reference untl symbol:main"), 'expected "warm", "until", "for" or ",", found "untl"'),
        (("--phases", "reference, timing"), "since another phase follows"),
        (("--phases", "timing until symbol:nowhere_at_all"), "no symbol of the program"),
        (("--phases", "timing", "--fast-forward"), "contradict each other"),
        (("--phases", "timing", "--gdb", "0"), "contradict each other"),
        (("-m", "virt", "--phases", "reference for 5 cycles, timing"), "no cores with timing"),
        (("-m", "virt", "--check"), "no timing cores to check"),
        (("--phases", "reference until console:never-said, timing"), "phase 1 of 2 never ended"),
    ],
)
def test_plans_that_cannot_be_are_the_users_mistake(options: tuple[str, ...], says: str, tmp_path: Path) -> None:
    machine = () if "-m" in options else ("-m", "t1")
    done = loiter_("run", *machine, "spinloops", "--place", "add=0", *options, "--", "iterations=1", cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert says in " ".join(done.stderr.split())


def test_intervals_between_reads_do_not_span_two_waits(tmp_path: Path) -> None:
    places = ("--place", "sort=0", "--place", "spin_default=1,2,3")
    done = loiter_("run", "-m", "t1", "spinloops", *places, "--out", "result", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = store.read(tmp_path / "result")
    rows = result.rows("lock_reads")
    assert {row["hart"] for row in rows} >= {1, 2, 3}
    for row in rows:
        waits = sum(
            mark["hart"] == row["hart"] and mark["kind"] == "acquire" and mark["value"] == row["lock"]
            for mark in result.rows("marks")
        )
        assert row["intervals"] == sum(row["log2_histogram"])
        assert 1 <= row["reads"] - row["intervals"] <= waits
        least, most = row["interval_min_cycles"], row["interval_max_cycles"]
        assert least * row["intervals"] <= row["interval_sum_cycles"] <= most * row["intervals"]


def test_json_is_the_whole_result() -> None:
    done = loiter_("run", "-m", "t1", "hello", "--json")
    result = json.loads(done.stdout)
    assert result["request"]["bootargs"] == "task.hello=0"
    assert sum(each["cycles"] for each in result["accounts"]) == 32 * result["cycles"]


def test_a_changed_parameter_changes_time(tmp_path: Path) -> None:
    cycles = {}
    arguments = ("run", "-m", "t1", "spinloops", "--place", "mulx=0", "--json", "--set", "system.cores=1")
    for latency in (11, 22):
        done = loiter_(*arguments, "--set", f"latency.mul_cycles={latency}", "--", "iterations=100")
        assert done.returncode == 0, done.stderr
        cycles[latency] = json.loads(done.stdout)["cycles"]
    assert 1.8 < cycles[22] / cycles[11] < 2.0


def test_a_machine_file_takes_the_rest_from_its_base(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'base = "t1"\n[machine]\nname = "mine"\n[latency]\nmul_cycles = 7  # assumed: to see it\n'
    )
    facts = json.loads(loiter_("machine", "show", "./mine.toml", "--json", cwd=tmp_path).stdout)
    t1 = json.loads(loiter_("machine", "show", "t1", "--json").stdout)
    own = {each["key"]: each for each in facts["parameters"]}
    base = {each["key"]: each for each in t1["parameters"]}
    assert facts["name"] == "mine"
    assert own["latency.mul_cycles"]["value"] == 7
    assert own["latency.mul_cycles"]["source"] == "assumed: to see it"
    different = [key for key in base if base[key] != own[key]]
    assert different == ["latency.mul_cycles"], "values and sources of the base are kept"
    assert facts["hash"] != t1["hash"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('base = "t9"\n', 'unknown machine "t9"'),
        ('base = "./mine.toml"\n', "leads back to the machine itself"),
        ("base = 1\n", "base must be the name"),
        ("[core\n", "no TOML"),
        ('base = "t1"\n[core]\ncontexts = "four"\n', "core.contexts"),
        ('base = "t1"\n[core]\ncontxts = 4\n', "core.contexts"),
    ],
)
def test_a_bad_machine_file_is_named(tmp_path: Path, text: str, part: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    done = loiter_("machine", "show", "./mine.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert part in done.stderr
    assert "Traceback" not in done.stderr


def expect_user_fault(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for part in parts:
        assert part in done.stderr


def test_files_that_are_no_programs_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a program\n")
    expect_user_fault(loiter_("run", "-m", "t1", str(text)), "notes.txt", "ELF")
    foreign = write_elf(tmp_path / "foreign.elf", [SPIN], machine=62)
    expect_user_fault(loiter_("run", "-m", "t1", foreign), "foreign.elf", "x86-64", "RISC-V")
    outside = write_elf(tmp_path / "outside.elf", [SPIN], at=0x1_0000)
    expect_user_fault(loiter_("run", "-m", "t1", outside), "outside.elf", "0x10000", "RAM")
    whole = (programs.resources.GUESTS / "hello.elf").read_bytes()
    (tmp_path / "half.elf").write_bytes(whole[: len(whole) // 2])
    expect_user_fault(loiter_("run", "-m", "t1", str(tmp_path / "half.elf")), "half.elf", "truncated")


@pytest.mark.parametrize("json_", [(), ("--json",)])
def test_what_the_program_says_of_its_failure_comes_with_the_error(json_: tuple[str, ...]) -> None:
    words = "error: task mbv_int wants "
    small = ("--set", "system.ram_mib=64")
    done = loiter_("run", "-m", "t1", *small, "spinloops", "--place", "mbv_int=0", *json_)
    assert done.returncode == 1
    console = json.loads(done.stdout)["console"] if json_ else done.stdout
    assert words in console
    ended, *said = done.stderr.splitlines()
    assert ended.startswith("error: after ")
    assert ended.endswith("with code 1")
    assert len(said) == 1
    assert said[0].startswith(f"  | {words}")


@pytest.mark.parametrize("json_", [(), ("--json",)])
def test_a_wrong_argument_of_a_program_is_the_users_mistake_and_said_once(json_: tuple[str, ...]) -> None:
    done = loiter_("run", "-m", "t1", "spinloops", "--place", "add=0", *json_, "--", "iteratons=5")
    assert done.returncode == 2
    assert done.stderr.startswith("error: no task of this program has an argument 'iteratons'\n")
    assert done.stderr.count("iteratons") == 1
    assert "iterations=" in done.stderr, "what arguments there are"
    assert bool(done.stdout) == bool(json_)


@pytest.mark.parametrize("machine", ["t1", "virt"])
def test_a_trap_without_a_handler_says_cause_and_place(machine: str, tmp_path: Path) -> None:
    done = loiter_("run", "-m", machine, write_elf(tmp_path / "trap.elf", [ILLEGAL]))
    assert done.returncode == 1
    for part in ("illegal instruction", "0x80000000", "hart"):
        assert part in done.stderr.lower()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("machine", ["t1", "virt"])
def test_the_watchdog_ends_what_can_never_wake(machine: str, tmp_path: Path) -> None:
    done = loiter_("run", "-m", machine, write_elf(tmp_path / "sleep.elf", [WFI, JUMP_BACK]))
    assert done.returncode == 1
    assert "wfi" in done.stderr.lower()
    assert "hart 0" in done.stderr or "context 0" in done.stderr


def test_max_cycles_ends_a_program_that_does_not_end(tmp_path: Path) -> None:
    elf = write_elf(tmp_path / "spin.elf", [SPIN])
    done = loiter_("run", "-m", "t1", elf, "--max-cycles", "50000", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["exit"]["reason"] == "max_cycles"
    assert result["cycles"] == 50_000


@pytest.mark.parametrize("machine", ["t1", "virt"])
def test_ctrl_c_ends_a_run(machine: str, tmp_path: Path) -> None:
    elf = write_elf(tmp_path / "spin.elf", [SPIN])
    code = "from loiter import cli, engine; engine.load(); print('loaded', flush=True); cli.main()"
    command = [sys.executable, "-c", code, "run", "-m", machine, elf]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loaded\n"
        time.sleep(1.5)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err


def test_the_stub_says_what_the_compiled_module_has() -> None:
    stub = ast.parse((Path(programs.__file__).parent / "_native.pyi").read_text())
    declared = {each.name for each in stub.body if isinstance(each, ast.ClassDef | ast.FunctionDef)}
    assert declared
    assert declared == {name for name in dir(loiter._native) if not name.startswith("_")}


def test_cpi_alone_of_the_single_behaviour_benchmarks(tmp_path: Path) -> None:
    """Table II on T1, from plan to JSON, with two workers."""
    arguments = ("--scale", "quick", "--figure", "table_2", "--jobs", "2", "--out", "out", "--json", "points.json")
    done = loiter_("study", "run", "cakarevic2008", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    points = {each["id"]: each for each in json.loads((tmp_path / "points.json").read_text())["points"]}
    for benchmark in ("add", "mulx", "baa", "l1_hit", "l2_hit"):
        point = points[f"active.cpi_alone.t1.{benchmark}"]
        assert point["ours"] == pytest.approx(point["published"], rel=0.02), benchmark
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
