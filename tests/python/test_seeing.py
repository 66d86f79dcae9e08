"""Pipeline logs and timelines of real runs, read back by readers of their formats; the live line at a terminal."""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pexpect
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto

import kanata
from loiter.cli.live import LiveLine
from test_simulator import expect_user_fault, loiter_, write_elf

pytestmark = pytest.mark.simulator

LOITER = "from loiter.cli import main; main()"
SPIN = ("spinloops", "--set", "system.cores=1", "--place", "add=0", "--place", "spin_default=1,2,3")
# Each waits for the one before it, through registers x5 to x15.
CHAIN = [
    0x00100293,  # addi x5,x0,1
    0x00128313,  # addi x6,x5,1
    0x026283B3,  # mul x7,x5,x6
    0x00738433,  # add x8,x7,x7
    0x00000497,  # auipc x9,0
    0x0004B583,  # ld x11,0(x9)
    0x00B58633,  # add x12,x11,x11
    0x00C646B3,  # xor x13,x12,x12
    0x009686B3,  # add x13,x13,x9
    0x0006B703,  # ld x14,0(x13)
    0x00E707B3,  # add x15,x14,x14
    0x0000006F,  # j .
]


def run(tmp_path: Path, machine: str, *arguments: str) -> dict[str, Any]:
    """A run in a folder; its result."""
    done = loiter_("run", "-m", machine, "--json", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("machine", ["t1", "t2", "smt8"])
def test_every_instruction_is_in_the_log(machine: str, tmp_path: Path) -> None:
    result = run(tmp_path, machine, "hello", "--set", "system.cores=1", "--pipeline", "log")
    log = kanata.read(tmp_path / "log")
    assert sum(one.retired for one in log) == result["instructions"]
    by_context: dict[int, list[kanata.Instruction]] = defaultdict(list)
    for one in log:
        by_context[one.context].append(one)
    assert len(by_context) == (4 if machine == "t1" else 8)
    for own in by_context.values():
        assert own[0].label.startswith("80000000: ")
        assert own[0].detail == f"hart {own[0].context} <_start>"
        assert [one.number for one in own] == sorted({one.number for one in own})
        if machine == "smt8":
            ends = [one.end for one in own if one.retired]
            assert ends == sorted(ends, key=int), "a context retires in order"
    if machine == "smt8":
        counters = {each["name"]: each["value"] for each in result["counters"] if each["component"] == "core0"}
        assert len(log) == counters["fetched"]
        # What is in flight where the run ends was not squashed.
        left = sum("in flight" in one.detail for one in log)
        assert sum(not one.retired for one in log) == counters["squashed"] + left
        assert sum("Is" in one.begins() for one in log) == counters["issued"]


def test_stages_of_a_chain_stand_where_the_rules_put_them(tmp_path: Path) -> None:
    elf = write_elf(tmp_path / "chain.elf", CHAIN)
    sets = {
        "system.cores": 1,
        "core.contexts": 1,
        "core.fetch_contexts": 1,
        "core.front_cycles": 3,
        "core.register_read_cycles": 2,
        "latency.alu_cycles": 1,
        "latency.mul_cycles": 8,
        "latency.load_cycles": 2,
    }
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    run(tmp_path, "smt8", elf, *words, "--max-cycles", "2000", "--pipeline", "log")
    log = kanata.read(tmp_path / "log")
    one, next_, multiply, sum_, address, load = log[:6]
    # Renamed three cycles behind fetch, issued in the next, executed behind two of register read. Each adds one, eight
    # or two cycles for who waits for it.
    assert one.begins() == {"F": 0, "De": 1, "Rn": 3, "Is": 4, "X": 6}
    assert next_.begins() == {"F": 0, "De": 1, "Rn": 3, "Iq": 4, "Is": 5, "X": 7}
    assert multiply.begins() == {"F": 0, "De": 1, "Rn": 3, "Iq": 4, "Is": 6, "X": 8}
    assert sum_.begins() == {"F": 0, "De": 1, "Rn": 3, "Iq": 4, "Is": 14, "X": 16}
    assert address.begins() == {"F": 0, "De": 1, "Rn": 3, "Is": 4, "X": 6, "Cm": 7}
    assert {"X": 7, "Mem": 8}.items() <= load.begins().items()
    ends = [(each.end or 0) - each.begin for each in log[:5]]
    assert ends == [7, 8, 16, 17, 17], "in order, up to twelve a cycle"
    assert [each.producers for each in log[:6]] == [[], [0], [0, 1], [2], [], [4]]
    # What has waited for a line executes when it is there; a hit takes a cycle behind the address.
    assert log[6].stage("X")[0] == load.stage("Mem")[1] > load.stage("Mem")[0] + 1
    hit, behind = log[9], log[10]
    (executes, accesses), (_, there) = hit.stage("X"), hit.stage("Mem")
    assert (accesses - executes, there - accesses, behind.stage("X")[0]) == (1, 1, there)
    # The jump to itself goes on to the end of the run.
    assert log[-1].detail.endswith("in flight where the log ends")
    assert not log[-1].retired


def test_an_instruction_of_an_in_order_core_takes_its_latency(tmp_path: Path) -> None:
    elf = write_elf(tmp_path / "chain.elf", CHAIN)
    sets = ("--set", "system.cores=1", "--set", "core.contexts=1", "--set", "latency.mul_cycles=11")
    run(tmp_path, "t1", elf, *sets, "--set", "latency.load_cycles=3", "--max-cycles", "2000", "--pipeline", "log")
    log = kanata.read(tmp_path / "log")
    first = log[0].stage("X")[0]
    assert [one.stage("X")[0] - first for one in log[:6]] == [0, 1, 2, 13, 14, 15]
    assert log[5].text == "ld a1,0(s1)"
    begin, end = log[5].stage("Mem")
    assert begin == first + 16
    assert log[6].stage("X")[0] == end
    (hit, behind) = log[9].stage("X"), log[10].stage("X")
    assert (hit[1] - hit[0], behind[0]) == (3, hit[1])


def test_a_log_begins_and_ends_where_it_is_told_to(tmp_path: Path) -> None:
    def log(name: str, *options: str) -> tuple[dict[str, Any], list[kanata.Instruction]]:
        result = run(tmp_path, "t1", *SPIN, "--pipeline", name, *options, "--", "iterations=5")
        return result, kanata.read(tmp_path / name)

    whole, everything = log("whole")
    result, part = log("part.gz", "--pipeline-from", "probe:work_begin=2", "--pipeline-to", "probe:work_end=2")
    assert result["cycles"] == whole["cycles"]
    marks = {mark["kind"]: mark["cycle"] for mark in whole["marks"] if mark["value"] == 2 and mark["hart"] == 0}
    begin, end = marks["work_begin"], marks["work_end"]
    assert begin < part[0].begin <= begin + 20
    assert end - 20 <= part[-1].begin <= end
    inside = [one for one in everything if part[0].begin < one.begin < part[-1].begin]
    some = [one for one in part if part[0].begin < one.begin < part[-1].begin]
    assert [(one.context, one.label, one.stages) for one in inside] == [
        (one.context, one.label, one.stages) for one in some
    ]
    assert len(some) > 100

    _, part = log("cycles", "--pipeline-from", str(begin), "--pipeline-to", str(begin + 50))
    expected = [one for one in everything if begin <= one.begin < begin + 50]
    assert [one.label for one in part] == [one.label for one in expected]
    assert max(one.end or 0 for one in part) >= begin + 50, "they are followed to their end"

    _, part = log("symbol", "--pipeline-from", "fame_run")
    assert 0 < len(part) < len(everything)
    _, part = log("never", "--pipeline-from", "probe:acquired=12345")
    assert part == []


def events_of(trace: perfetto.Trace) -> dict[str, list[tuple[int, perfetto.TrackEvent]]]:
    """The events of each track, by its name, with their times."""
    tracks = {each.track_descriptor.uuid: each.track_descriptor for each in trace.packet if each.track_descriptor.uuid}
    assert all(packet.trusted_packet_sequence_id for packet in trace.packet)
    found: dict[str, list[tuple[int, perfetto.TrackEvent]]] = defaultdict(list)
    for packet in trace.packet:
        if packet.HasField("track_event"):
            track = tracks[packet.track_event.track_uuid]
            assert tracks[track.parent_uuid].name == "core 0"
            assert (packet.track_event.type == perfetto.TrackEvent.TYPE_COUNTER) == track.HasField("counter")
            found[track.name].append((packet.timestamp, packet.track_event))
    return found


def note(event: perfetto.TrackEvent, name: str) -> int:
    """A number that is said of an event."""
    (value,) = [each.uint_value for each in event.debug_annotations if each.name == name]
    return int(value)


@pytest.mark.parametrize("machine", ["t1", "t2", "smt8"])
def test_slices_of_a_timeline_are_the_accounts(machine: str, tmp_path: Path) -> None:
    result = run(tmp_path, machine, *SPIN, "--timeline", "trace", "--", "iterations=3")
    events = events_of(perfetto.Trace.FromString((tmp_path / "trace").read_bytes()))
    clock, end = result["clock_mhz"], result["cycles"]
    accounts: Counter[tuple[int, str]] = Counter()
    for row in result["accounts"]:
        accounts[row["context"], row["activity"]] += row["cycles"]
    found: Counter[tuple[int, str]] = Counter()
    for context in range(4 if machine == "t1" else 8):
        own = events[f"context {context} (hart {context})"]
        begins = [(at, event) for at, event in own if event.type == perfetto.TrackEvent.TYPE_SLICE_BEGIN]
        ends = [at for at, event in own if event.type == perfetto.TrackEvent.TYPE_SLICE_END]
        cycles = [note(event, "cycle") for _, event in begins] + [end]
        assert [at for at, _ in begins[1:]] == ends[:-1], "a slice begins where the one before ends"
        assert [at for at, _ in begins] + ends[-1:] == [cycle * 1000 // clock for cycle in cycles]
        for (_, event), begin, next_ in zip(begins, cycles[:-1], cycles[1:], strict=True):
            found[context, event.name] += next_ - begin
    assert found == accounts
    assert {name for _, name in found} >= {"machine", "spinning", "idle"}
    instants = Counter(
        event.name for own in events.values() for _, event in own if event.type == perfetto.TrackEvent.TYPE_INSTANT
    )
    for kind in ("work_begin", "work_end", "acquire", "acquired"):
        assert instants[kind] == sum(mark["kind"] == kind for mark in result["marks"]) > 0


@pytest.mark.parametrize("machine", ["t1", "smt8"])
def test_instructions_a_cycle_add_up_to_the_instructions(machine: str, tmp_path: Path) -> None:
    result = run(tmp_path, machine, *SPIN, "--timeline", "trace", "--pipeline", "log", "--", "iterations=3")
    events = events_of(perfetto.Trace.FromString((tmp_path / "trace").read_bytes()))
    ends = Counter((one.context, (one.end or 0) // 10_000) for one in kanata.read(tmp_path / "log") if one.retired)
    intervals = result["cycles"] // 10_000 - 1
    assert intervals > 5
    for context in range(4):
        levels = {at: event.double_counter_value for at, event in events[f"context {context} IPC"]}
        ipc = 0.0
        for interval in range(intervals):
            ipc = levels.get(interval * 10_000 * 1000 // result["clock_mhz"], ipc)
            assert ipc == pytest.approx(ends[context, interval] / 10_000, abs=0.002)
    assert sum(ends.values()) == result["instructions"]


def test_traps_are_instants(tmp_path: Path) -> None:
    # A handler eight instructions on skips the ecall; a loop of three in it; wfi at the end.
    code = [0x00000297, 0x02028293, 0x30529073, 0x00000073, 0x0100000F, 0x10500073, 0xFFDFF06F, 0x00000013]
    code += [0x00300313, 0xFFF30313, 0xFE031EE3, 0x341023F3, 0x00438393, 0x34139073, 0x30200073]
    elf = write_elf(tmp_path / "trap.elf", code)
    for machine in ("t1", "superscalar"):
        sets = ("--set", "system.cores=1", "--set", "core.contexts=1", "--set", "wait.pause_cycles=50")
        done = loiter_("run", "-m", machine, elf, *sets, "--timeline", "trace.gz", "--pipeline", "log", cwd=tmp_path)
        assert "wfi" in done.stderr, "the watchdog ends it"
        trace = perfetto.Trace.FromString(gzip.decompress((tmp_path / "trace.gz").read_bytes()))
        events = [packet.track_event for packet in trace.packet if packet.HasField("track_event")]
        names = [event.name for event in events if event.type == perfetto.TrackEvent.TYPE_INSTANT]
        assert names == ["environment call from machine mode"]
        slices = [event.name for event in events if event.type == perfetto.TrackEvent.TYPE_SLICE_BEGIN]
        # It sleeps from the cycle on in which it ends, or the one before.
        assert slices[:3] == ["machine", "pausing", "machine"]
        assert slices[3:] in ([], ["idle"])
        log = kanata.read(tmp_path / "log")
        assert [one.text for one in log if one.text == "ecall" and not one.retired] == ["ecall"]
        assert sum(one.text == "mret" and one.retired for one in log) == 1


def test_a_log_that_cannot_be_is_said(tmp_path: Path) -> None:
    def fault(*arguments: str, machine: str = "t1") -> Any:
        return loiter_("run", "-m", machine, "hello", *arguments, cwd=tmp_path)

    expect_user_fault(fault("--pipeline", "log", machine="virt"), "--pipeline", "-m smt8")
    expect_user_fault(fault("--timeline", "log", machine="virt"), "--timeline", "-m smt8")
    expect_user_fault(fault("--pipeline-from", "7"), "--pipeline-from 7: there is no pipeline log")
    expect_user_fault(fault("--pipeline", "log", "--timeline", "log"), "--timeline log: --pipeline goes there already")
    expect_user_fault(fault("--pipeline", "nowhere/log"), "there is no directory nowhere")
    log = ("--pipeline", "log")
    expect_user_fault(fault(*log, "--pipeline-from", "probe:roy_begin"), 'no probe "roy_begin"; known: roi_begin, ')
    expect_user_fault(fault(*log, "--pipeline-to", "probe:acquire=me"), 'a number, not "me"')
    expect_user_fault(fault(*log, "--pipeline-from", "no_such"), "--pipeline-from no_such: neither a cycle")
    expect_user_fault(fault(*log, "--pipeline-from", "9", "--pipeline-to", "9"), "it must end in a later one")
    assert not (tmp_path / "log").exists()
    for option in ("--pipeline", "--timeline"):
        done = fault(option, "/dev/full")
        assert done.returncode == 1, done.stderr
        assert "host time" in done.stdout, "the summary is there"
        assert "/dev/full: " in done.stderr
        assert "is not whole: No space left" in done.stderr


def at_terminal(*arguments: str, cwd: Path) -> pexpect.spawn:
    return pexpect.spawn(sys.executable, ["-c", LOITER, *arguments], cwd=str(cwd), timeout=30, dimensions=(24, 120))


def test_a_long_run_says_at_a_terminal_how_far_it_is(tmp_path: Path) -> None:
    arguments = ("run", "-m", "t1", "coremix", "--set", "system.cores=1", "--place", "intmix=0,1")
    with at_terminal(*arguments, "--", "iterations=1000000", cwd=tmp_path) as terminal:
        terminal.expect(
            r"\r\x1b\[Kcoremix on t1: [\d.]+ ms simulated, 0:0\d host, [\d.]+ M instr/s, "
            r"IPC 0\.\d\d \(0: 0\.\d\d, 1: 0\.\d\d"
        )
        terminal.sendintr()
        terminal.expect(r"\r\x1b\[K[^\r]*interrupted; nothing was written")
    with at_terminal(*arguments, "--json", "--", "iterations=1000000", cwd=tmp_path) as terminal:
        assert terminal.expect(["simulated", pexpect.TIMEOUT], timeout=6) == 1
        terminal.sendintr()
        terminal.expect("interrupted")


class _Interrupted:
    """A terminal at which somebody presses Ctrl-C as soon as the live line is there."""

    def __init__(self) -> None:
        self.written = ""

    def write(self, text: str) -> None:
        self.written += text
        if "half way" in text:
            raise KeyboardInterrupt

    def flush(self) -> None:
        pass


def test_an_interrupt_while_the_live_line_is_drawn_takes_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Interrupted()
    line = LiveLine()
    line._shown, line._last_sign = True, -1e9
    monkeypatch.setattr("loiter.cli.live.sys.stderr", terminal)
    monkeypatch.setattr("loiter.cli.live._columns", lambda: 80)
    with pytest.raises(KeyboardInterrupt), line:
        line.update(lambda: "half way")
    assert terminal.written == "\r\x1b[Khalf way\r\x1b[K"


def test_a_run_says_how_long_cores_were_in_which_idle_state(tmp_path: Path) -> None:
    placed = ("--place", "add=0", "--place", "spin_wrs_nto=1,2,3")
    named = ("--set", "idle.state1_name=light")
    done = loiter_("run", "-m", "server", "spinloops", *placed, *named, "--", "iterations=100", cwd=tmp_path)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("idle states"))
    name, share, *rest = line.split()[2:]
    assert (name, " ".join(rest)) == ("light", "of the cycles of all cores")
    # All of its 112 cores but the two of the four contexts that run something.
    assert 100 * 110 / 112 >= float(share.rstrip("%")) > 90
    assert "idle states" not in loiter_("run", "-m", "t1", "hello", cwd=tmp_path).stdout
