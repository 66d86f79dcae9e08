"""`loiter vm`: locks whose holders lose their CPUs, with and without help; results; mistakes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from linux_guest import loiter_, message
from loiter import engine as engines
from loiter import images, store, vms
from loiter.cli.options import err
from vm_files import CPUS, RIVAL, SLICE_CYCLES, SLICE_US, on_a_machine, write

pytestmark = pytest.mark.simulator

# Which virtual CPU is preempted when is chance: what is said of preemption is said of all of these.
THINKS = (2500, 3000, 3500, 4000)


def run(file: Path) -> dict[str, Any]:
    """What a host comes to, every cycle of which is in one account."""
    engine = engines.load()
    made = vms.run(engine, vms.load(engine, file), lambda status: None, err())
    result = made.native()
    assert not list(vms.faults(made))
    cycles = result["cycles"]
    assert len(result["cpus"]) == CPUS
    for row in result["cpus"]:
        assert row["run_cycles"] + row["switching_cycles"] + row["idle_cycles"] == cycles
    for row in result["vcpus"]:
        lived = cycles if row["over_cycle"] is None else row["over_cycle"]
        assert row["run_cycles"] + row["steal_cycles"] + row["blocked_cycles"] == lived
    return result


def spinning(result: dict[str, Any]) -> float:
    """The share of the working guest's time that it spins."""
    rows = [row for row in result["vcpus"] if row["guest"] == "work"]
    return float(sum(row["spinning_cycles"] for row in rows) / sum(row["run_cycles"] for row in rows))


def waits(result: dict[str, Any]) -> Counter[int]:
    """Acquisitions by the log2 of their waits."""
    found: Counter[int] = Counter()
    for row in result["guests"][0]["locks"]:
        found.update(dict(enumerate(row["wait_log2_histogram"])))
    return found


def test_a_preempted_ticket_lock_spins_away_what_helping_gives_back(tmp_path: Path) -> None:
    nobody = run(write(tmp_path))
    published = run(write(tmp_path, policy="published", yield_after=13))
    assert nobody["guests"][0]["state"] == "running"
    assert spinning(nobody) > 0.8
    assert published["guests"][0]["code"] == 0
    assert spinning(published) < 0.3
    assert sum(row["helped"] for row in published["vcpus"]) > 5


@pytest.mark.parametrize(("machine", "clock_mhz"), [("t1", 1000), ("knl", 1300), ("p-core", 4500)])
def test_virtual_cpus_on_timing_cores(tmp_path: Path, machine: str, clock_mhz: int) -> None:
    file = write(tmp_path, policy="published", yield_after=11, acquisitions=20, run_us=20_000)
    if machine == "p-core":
        file.write_text(file.read_text().replace(f"cpus = {CPUS}", f'cpus = {CPUS}\nmachine_set = "core.contexts=2"'))
    result = run(on_a_machine(file, machine, clock_mhz))
    assert result["guests"][0]["code"] == 0
    assert result["clock_mhz"] == clock_mhz
    # Contexts are charged whoever sits there, and not at all while the host changes virtual CPUs.
    accounts = result["timed"]["accounts"]
    charged: Counter[int] = Counter()
    for row in accounts:
        charged[row["context"]] += row["cycles"]
    assert set(charged.values()) == {result["cycles"]}
    vacant = sum(row["cycles"] for row in accounts if row["activity"] == "vacant" and row["context"] < CPUS)
    without = sum(row["switching_cycles"] + row["idle_cycles"] for row in result["cpus"])
    yields = sum(row["yields"] for row in result["vcpus"])
    assert without > 0
    # A call that comes back to its caller empties the context, too. One that is emptied of a guest which is over
    # changes.
    emptied = 500 * CPUS
    assert vacant - 100 * yields <= without <= vacant + emptied
    assert sum(row["switches"] for row in result["cpus"]) > 4


def test_a_host_on_timing_cores_writes_what_they_counted(tmp_path: Path) -> None:
    file = on_a_machine(write(tmp_path, acquisitions=20, run_us=1000), "t1", 1000)
    for name in ("first", "second"):
        done = loiter_("vm", str(file), "--out", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    first, second = (store.read(tmp_path / name) for name in ("first", "second"))
    assert first.manifest["file"]["host"]["machine"] == "t1"
    for table in ("vcpus", *vms.TIMED_TABLES):
        rows = first.rows(table)
        assert rows or table == "histograms", table
        assert rows == second.rows(table)


def test_a_gang_needs_no_help(tmp_path: Path) -> None:
    file = write(tmp_path)
    file.write_text(file.read_text().replace("[scheduler]", '[scheduler]\npolicy = "gang"'))
    gang = run(file)
    assert gang["guests"][0]["code"] == 0
    assert spinning(gang) < 0.3


@pytest.mark.parametrize("lock", ["ticket_kick", "test_and_set_kick"])
def test_waiters_that_sleep_until_they_are_kicked_cost_nothing(tmp_path: Path, lock: str) -> None:
    kicks = 0
    for think in THINKS:
        kicked = run(write(tmp_path, lock, yield_after=13, think=think, run_us=120 * SLICE_US))
        assert kicked["guests"][0]["code"] == 0
        assert spinning(kicked) < 0.05
        rows = [row for row in kicked["vcpus"] if row["guest"] == "work"]
        kicks += sum(row["kicks"] for row in rows)
        # Who is kicked has waited, or is about to.
        assert all(row["kicks"] <= row["kick_waits"] + 1 for row in rows)
    assert kicks > 5


FOUND = [("pause_loop", 0, "pause_loops"), ("wrs_trap", 1, "wrs_traps")]


def finding(file: Path, detection: str, nap: int) -> Path:
    """The same host, which finds waiters by itself."""
    text = file.read_text().replace("[helping]", f'[helping]\ndetection = "{detection}"')
    file.write_text(text.replace("task.ticket", f"nap={nap} task.ticket"))
    return file


@pytest.mark.parametrize(("detection", "nap", "counter"), FOUND)
def test_a_host_finds_waiters_of_guests_that_never_call(tmp_path: Path, detection: str, nap: int, counter: str) -> None:
    found = run(finding(write(tmp_path, policy="published"), detection, nap))
    assert found["guests"][0]["code"] == 0
    assert spinning(found) < 0.3
    assert sum(row[counter] for row in found["vcpus"]) > 5
    assert all(row["yields"] == 0 for row in found["vcpus"])


@pytest.mark.parametrize(("detection", "nap", "counter"), FOUND)
def test_a_host_on_timing_cores_finds_them_too(tmp_path: Path, detection: str, nap: int, counter: str) -> None:
    file = finding(write(tmp_path, policy="published", acquisitions=100, run_us=20_000), detection, nap)
    found = run(on_a_machine(file, "t1", 1000))
    assert found["guests"][0]["code"] == 0
    assert sum(row[counter] for row in found["vcpus"]) > 0


def test_who_leaves_its_kernel_in_time_is_not_preempted_there(tmp_path: Path) -> None:
    file = write(tmp_path)
    in_user_mode = file.read_text().replace("task.", "user=1 task.")
    file.write_text(in_user_mode)
    nobody = run(file)
    file.write_text(in_user_mode.replace("[helping]", "[helping]\npostpone_us = 100"))
    avoided = run(file)
    assert spinning(avoided) < spinning(nobody) / 2
    assert sum(row["postponements"] for row in avoided["vcpus"]) > 0


@pytest.mark.parametrize("lock", ["ticket", "test_and_set"])
def test_an_oracle_wastes_less_of_a_guests_time_than_any_policy(tmp_path: Path, lock: str) -> None:
    for think in THINKS:
        wasted = {
            policy: spinning(run(write(tmp_path, lock, policy, yield_after=after, think=think)))
            for policy, after in (("oracle", 0), ("next", 13), ("published", 13), ("directed", 13), ("random", 13))
        }
        # Waits for one that runs are in all of them, as it happens.
        assert all(wasted["oracle"] < share + 0.001 for share in wasted.values()), wasted
        assert wasted["oracle"] < 0.02


def test_a_call_helps_only_where_somebody_listens(tmp_path: Path) -> None:
    silent = run(write(tmp_path, yield_after=13))
    assert spinning(silent) > 0.8
    assert sum(row["yields"] for row in silent["vcpus"]) > 100
    assert all(row["helped"] == 0 for row in silent["vcpus"])


def test_a_second_group_of_waits_comes_with_a_rival_and_help_ends_the_spinning(tmp_path: Path) -> None:
    near_slice = SLICE_CYCLES.bit_length() - 2
    long = [0, 0]
    for think in THINKS:
        alone, preempted, helped = [
            run(write(tmp_path, "test_and_set", policy, yield_after=after, rival=rival, think=think))
            for policy, after, rival in (("nobody", 0, ""), ("nobody", 0, RIVAL), ("published", 13, RIVAL))
        ]
        assert sum(waits(alone).values()) == 2000
        for n, result in enumerate((alone, preempted)):
            long[n] += sum(count for log2, count in waits(result).items() if log2 >= near_slice)
        assert spinning(helped) < spinning(preempted) / 5
    assert long[0] == 0
    assert long[1] > 0


def test_waits_are_told_by_their_length(tmp_path: Path) -> None:
    result = run(write(tmp_path, acquisitions=200))
    assert {(row["guest"], row["lock_symbol"]) for row in result["waits"]} == {("work", "lock")}
    assert {row["log2_cycles"]: row["waits"] for row in result["waits"] if row["waits"]} == {
        log2: n for log2, n in waits(result).items() if n
    }
    # Each wait is counted by what CPUs executed of it, too.
    whole, executed = (
        [sum(row[name] for row in result["waits"]) for name in (f"{kind}waits", f"{kind}wait_cycles")]
        for kind in ("", "executed_")
    )
    assert executed[0] == whole[0] > 0
    assert 0 < executed[1] < whole[1]
    assert executed[1] <= sum(row["spinning_cycles"] for row in result["vcpus"])
    for row in filter(lambda row: row["waits"], result["waits"]):
        least = 2 ** row["log2_cycles"] if row["log2_cycles"] else 0
        assert least * row["waits"] <= row["wait_cycles"] < 2 * 2 ** row["log2_cycles"] * row["waits"]
    summed = sum(row["wait_sum_cycles"] for row in result["guests"][0]["locks"])
    assert sum(row["wait_cycles"] for row in result["waits"]) == summed


def test_a_guest_alone_runs_as_without_a_host(tmp_path: Path) -> None:
    result = run(write(tmp_path, rival=""))
    assert result["guests"][0]["code"] == 0
    assert all(row["steal_cycles"] <= 300 for row in result["vcpus"])
    reported = {(row["hart"], row["name"]): row["value"] for row in result["guests"][0]["reports"]}
    assert reported[0, "acquisitions"] == reported[1, "acquisitions"] == 1000


def test_the_same_file_writes_the_same_result(tmp_path: Path) -> None:
    file = write(tmp_path, policy="published", yield_after=13, acquisitions=200)
    for name in ("first", "second"):
        done = loiter_("vm", str(file), "--out", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    said = done.stdout.decode()
    assert "Virtual CPUs" in said
    assert "rival" in said
    first, second = (tmp_path / name / store.MANIFEST for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
    result = store.read(tmp_path / "first")
    rows = result.rows("vcpus")
    assert [row["hart"] for row in rows] == [0, 1, 0]
    assert result.manifest["file"]["helping"]["policy"] == "published"
    done = loiter_("vm", str(file), "--json", cwd=tmp_path)
    assert [row["name"] for row in json.loads(done.stdout)["guests"]] == ["work", "rival"]
    assert json.loads(done.stdout)["vcpus"] == rows


def test_a_guest_that_fails_is_named_and_the_others_are_heard(tmp_path: Path) -> None:
    hello = RIVAL.replace("rival=", "hello=").replace("virtual", "hello").replace("background = true", "")
    file = write(tmp_path, acquisitions=1, rival=hello)
    done = loiter_("vm", str(file), cwd=tmp_path)
    assert done.returncode == 1
    assert "guest work" in message(done)
    said = done.stdout.decode()
    assert "work: error: acquisitions=1" in said
    assert "rival: hello from hart 0" in said


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("memory_mib = 256", "memory_mib = 100", ["guest rival does not fit", "128 MiB", "host.memory_mib is 100"]),
        ('policy = "nobody"', 'policy = "oracle-of-delphi"', ["helping.policy", "nobody, next, published"]),
        ("slice_us", "slice_ms", ["scheduler.slice_ms", "scheduler.slice_us"]),
        ("background = true", "weight = 0", ["guests.rival.weight", "0 is out of range"]),
        ('program = "virtual"', 'program = "virtua"', ["guest work", "virtual"]),
        ("clock_mhz = 100", "clock_mhz = 101", ["timebase_hz"]),
        ("clock_mhz = 100", 'machine = "t9"\nclock_mhz = 100', ["t9"]),
        ("clock_mhz = 100", 'machine = "t1"\nclock_mhz = 100', ["its clock is 1000 MHz", "host.clock_mhz 100"]),
        ("clock_mhz = 100", 'machine = "virt"\nclock_mhz = 1000', ["not timed", "reference engine"]),
        ("clock_mhz = 100", 'machine_set = "core.contexts=1"\nclock_mhz = 100', ["host.machine_set", "names none"]),
        (
            'program = "virtual"',
            'lock_stats = true\nprogram = "virtual"',
            ["guest work", "lock_stats needs", "symbols"],
        ),
        ('program = "virtual"', 'machine_set = "hart.asid_bits=17"\nprogram = "virtual"', ["hart.asid_bits", "17"]),
        (
            'policy = "nobody"',
            'policy = "nobody"\ndetection = "pause_loops"',
            ["helping.detection", "pause_loop"],
        ),
        (
            "clock_mhz = 100",
            'machine = "t1"\nmachine_set = "core.contexts=1 system.cores=1"\nclock_mhz = 1000',
            ["it has 1 contexts", "host.cpus is 2"],
        ),
    ],
)
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, parts: list[str]) -> None:
    file = write(tmp_path)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    done = loiter_("vm", str(file), cwd=tmp_path)
    assert done.returncode == 2, message(done)
    for part in parts:
        assert part in message(done)


def test_a_file_that_is_not_there_and_a_disk_of_two_are_mistakes(tmp_path: Path) -> None:
    done = loiter_("vm", "none.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "none.toml" in message(done)
    guests = "".join(
        f'\n[[guests]]\nname = "{name}"\nimage = "debian"\ncommand = "true"\ndisk = "{disk}"\n'
        for name, disk in (("work", "d.img"), ("other", "./d.img"))
    )
    (tmp_path / "d.img").write_text("x")
    (tmp_path / "host.toml").write_text(
        f"[host]\ncpus = 1\nmemory_mib = 512\nrun_us = 1\n{guests}disk_writable = true\n"
    )
    done = loiter_("vm", "host.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "guests work and other have one disk" in message(done)


LINUX = """
[host]
cpus = 1
memory_mib = 512
run_us = 4_000_000

[[guests]]
name = "work"
image = "debian"
memory_mib = 512
put = "files/input.txt files/folder"
command = "cat input.txt folder/other.txt"
"""


def test_a_linux_guest_finds_files_beside_its_command(tmp_path: Path) -> None:
    images.ensure("debian", err())
    (tmp_path / "files/folder").mkdir(parents=True)
    (tmp_path / "files/input.txt").write_text("one\n")
    (tmp_path / "files/folder/other.txt").write_text("another\n")
    (tmp_path / "host.toml").write_text(LINUX)
    done = loiter_("vm", "host.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0, message(done)
    assert json.loads(done.stdout)["linux"]["work"]["stdout"] == "one\nanother\n"
    (tmp_path / "files/input.txt").unlink()
    missing = loiter_("vm", "host.toml", cwd=tmp_path)
    assert missing.returncode == 2
    assert "guest work: put: files/input.txt: No such file" in message(missing)


DISK = "first\n" + 300 * "text\n"


def with_a_disk(tmp_path: Path, command: str, *, writable: bool = False) -> Path:
    images.ensure("debian", err())
    disk, host = tmp_path / "d.img", tmp_path / "host.toml"
    disk.write_text(DISK)
    text = LINUX.replace(
        'put = "files/input.txt files/folder"', f'disk = "d.img"\ndisk_writable = {str(writable).lower()}'
    )
    host.write_text(text.replace("cat input.txt folder/other.txt", command))
    return disk


@pytest.mark.parametrize("writable", [False, True])
def test_a_linux_guest_has_a_disk_beside_that_of_its_image(tmp_path: Path, writable: bool) -> None:
    change = "printf other | dd of=/dev/vdc conv=notrunc,fsync status=none"
    disk = with_a_disk(tmp_path, f"blockdev --getsize64 /dev/vdc; {change}; head -n 2 /dev/vdc", writable=writable)
    done = loiter_("vm", "host.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0, message(done)
    # 1,506 bytes are three sectors.
    assert json.loads(done.stdout)["linux"]["work"]["stdout"] == "1536\nother\ntext\n"
    assert disk.read_text() == (DISK.replace("first", "other") if writable else DISK)
    disk.write_text("")
    empty = loiter_("vm", "host.toml", cwd=tmp_path)
    assert (empty.returncode, "guest work: disk: d.img: is empty" in message(empty)) == (2, True), message(empty)
    disk.unlink()
    missing = loiter_("vm", "host.toml", cwd=tmp_path)
    assert (missing.returncode, "guest work: disk: d.img: No such file" in message(missing)) == (2, True)


def test_what_a_guest_has_written_to_its_disk_is_in_a_snapshot(tmp_path: Path) -> None:
    change = "printf other | dd of=/dev/vdc conv=notrunc,fsync status=none"
    disk = with_a_disk(tmp_path, f"{change}; sleep 1; head -n 2 /dev/vdc")
    saved = loiter_("vm", "host.toml", "--save", "half.snap", "--at", "600000", "--json", cwd=tmp_path)
    assert saved.returncode == 0, message(saved)
    assert json.loads(saved.stdout)["linux"]["work"]["stdout"] == ""
    rest = loiter_("vm", "host.toml", "--from", "half.snap", "--json", cwd=tmp_path)
    assert json.loads(rest.stdout)["linux"]["work"]["stdout"] == "other\ntext\n", message(rest)
    disk.write_text(DISK.replace("text", "word"))
    other = loiter_("vm", "host.toml", "--from", "half.snap", cwd=tmp_path)
    assert other.returncode == 2
    assert "its disk of guest work is d.img of 1506 bytes" in message(other)


def test_what_a_linux_guest_waits_for_locks_shows_where_its_locks_are_followed(tmp_path: Path) -> None:
    images.ensure("debian", err())
    forks = "for i in 1 2 3 4; do (for j in 1 2 3 4 5; do /bin/true; done) & done; wait"
    host = f"""
[host]
cpus = 4
memory_mib = 512
run_us = 4_000_000

[[guests]]
name = "work"
image = "debian"
harts = 4
memory_mib = 512
command = "{forks}"
"""
    spun = {}
    for followed in (False, True):
        (tmp_path / "host.toml").write_text(host + ("lock_stats = true\n" if followed else ""))
        done = loiter_("vm", "host.toml", "--json", cwd=tmp_path)
        assert done.returncode == 0, message(done)
        told = json.loads(done.stdout)
        spun[followed] = [(row["spinning_cycles"], row["run_cycles"]) for row in told["vcpus"]]
    assert [spinning for spinning, _ in spun[False]] == [0] * 4
    assert all(0 < spinning < run for spinning, run in spun[True])
    assert [run for _, run in spun[False]] == [run for _, run in spun[True]], "the guest runs as without"


@pytest.mark.long
@pytest.mark.parametrize("machine", ["", "t1"])
def test_an_oracle_knows_the_locks_of_linux_and_its_guest_spins_less(tmp_path: Path, machine: str) -> None:
    images.ensure("debian", err())
    forks = "for i in 1 2 3 4; do (for j in 1 2 3 4 5; do /bin/true; done) & done; wait"
    found = {}
    for policy in ("nobody", "oracle"):
        (tmp_path / "host.toml").write_text(f"""
[host]
cpus = 4
machine = "{machine}"
memory_mib = 1024
run_us = 3_000_000
[scheduler]
slice_us = 3000
[helping]
policy = "{policy}"
[[guests]]
name = "work"
image = "debian"
harts = 4
memory_mib = 512
lock_stats = true
command = "{forks}"
[[guests]]
name = "rival"
program = "virtual"
arguments = "task.pausing_rival=0,1,2"
harts = 3
memory_mib = 64
background = true
""")
        done = loiter_("vm", "host.toml", "--json", cwd=tmp_path, limit_seconds=600)
        assert done.returncode == 0, message(done)
        told = json.loads(done.stdout)
        mine = [row for row in told["vcpus"] if row["guest"] == "work"]
        found[policy] = [sum(row[name] for row in mine) for name in ("run_cycles", "spinning_cycles")]
        assert told["guests"][0]["over_cycle"] is not None, "the guest has done its work"
        if machine:
            # The kernel's waits by its functions, and naps of its waiters, are about what its lock functions take.
            waits = sum(
                row["cycles"]
                for row in told["timed"]["activities"]
                if row["activity"] in ("spinning", "acquiring", "napping")
            )
            assert found[policy][1] / 2 < waits < found[policy][1] * 2
    (run, spinning), (run_with, spinning_with) = found["nobody"], found["oracle"]
    assert 0 < spinning_with < spinning / 2
    assert run_with < run
