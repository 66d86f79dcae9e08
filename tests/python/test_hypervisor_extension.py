"""Harts with guests (extension H): what each mode may do, as QEMU has it, and by the manual where QEMU 7.2 differs.

The guest `hypervisor` prints a case a line. What QEMU 7.2 does otherwise is in `DEVIATIONS`, each with what the privileged manual
(1.12, chapter "Hypervisor Extension") says, which is then what loiter must print.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from loiter import programs

pytestmark = pytest.mark.simulator

QEMU = "qemu-system-riscv64"
# As many as QEMU and loiter agree on at least, word by word.
LEAST_WORDS = 3000
MODES = ("hs", "u", "vs", "vu")
HYPERVISOR_ACCESSES = range(3, 6)  # of a line of pages: those by hlv, hlvx and hsv
READS, EXECUTES = 2, 8
MACHINE_TRAP = re.compile(r"m(?P<cause>[0-9a-f]+)/(?P<value>[0-9a-f]+)/(?P<virtual>\d):(?P<mode>\d):(?P<guest>[0-9a-f]+)(?P<rest>.*)")


@dataclass(frozen=True)
class Case:
    """A word of a line: what an attempt came to."""

    what: str
    setting: str
    column: int
    theirs: str
    ours: str

    @property
    def mode(self) -> str:
        return MODES[self.column] if self.column < len(MODES) else ""

    def bits(self, word: int) -> int:
        """Of a line of pages, those of the guest's entry or of its memory's."""
        return int(self.what.split()[word], 16)


def fields(word: str) -> dict[str, str]:
    found = MACHINE_TRAP.fullmatch(word)
    return found.groupdict() if found else {}


def same_but(case: Case, *names: str) -> bool:
    theirs, ours = fields(case.theirs), fields(case.ours)
    return bool(theirs and ours) and all(theirs[key] == ours[key] for key in theirs if key not in names)


def only_guest_address(case: Case) -> bool:
    """The bit that says so is set for addresses only; QEMU sets it for every value that is not 0."""
    value = fields(case.ours).get("cause") in ("2", "16")
    return value and same_but(case, "virtual") and fields(case.ours)["virtual"] in ("0", "2")


def virtual_in_user_mode(case: Case) -> bool:
    """What a hypervisor could do, but no user of a guest, is a virtual instruction; QEMU has an illegal one."""
    ours = fields(case.ours)
    return case.mode == "vu" and ours.get("cause") == "16" and ours["virtual"] == "2" and same_but(case, "cause", "virtual")


def guest_fences(case: Case) -> bool:
    """`hstatus.VTVM` makes an access of a guest to `satp` a virtual instruction; QEMU lets it pass."""
    wanted = (case.what, case.setting, case.mode) == ("csr 180", "1", "vs")
    return wanted and case.theirs == "ok" and fields(case.ours).get("cause") == "16"


def machine_traps_spare_guests(case: Case) -> bool:
    """`mstatus.TVM` and `TSR` concern the supervisor, not the guest's; QEMU takes them for both."""
    concerned = case.what in ("csr 180", "sret", "sfence") and case.setting == "2" and case.mode == "vs"
    return concerned and case.ours == "ok" and fields(case.theirs).get("cause") == "2"


def guest_tables_trap(case: Case) -> bool:
    """`mstatus.TVM` concerns `hgatp` too; QEMU forgets it."""
    return case.what == "csr 680" and case.setting == "2" and case.mode == "hs" and fields(case.ours).get("cause") == "2"


def tells_the_instruction(case: Case) -> bool:
    """The value is the instruction; that of one which QEMU runs in a helper function is an earlier one."""
    return case.what.startswith(("hlv", "hsv")) and same_but(case, "value", "virtual")


def breakpoint_value(case: Case) -> bool:
    """The value of a breakpoint may be 0 or the pc."""
    values = re.compile(r"(?<=[msg]3/)[0-9a-f]+/(\d)")
    return bool(values.search(case.ours)) and values.sub("", case.theirs) == values.sub("", case.ours)


def exceptions_keep_their_number(case: Case) -> bool:
    """The guest hears of interrupts under another number, not of exceptions; QEMU changes 2 to 1."""
    return case.what.startswith("trap") and case.ours.startswith("g2/") and case.theirs == "g1" + case.ours[2:]


def page_faults_of_hypervisors(case: Case) -> bool:
    """Where the guest's own tables grant nothing, an access of its hypervisor raises a page fault; QEMU, that of an access."""
    if case.what.split()[0] not in ("pages", "as") or case.what.startswith("pages") and case.column not in HYPERVISOR_ACCESSES:
        return False
    shown = str.maketrans({"d": "5", "f": "7"})
    numbers = re.compile(r"(?<=^[ms])[0-9a-f](?=/)")
    ours, theirs = case.ours, case.theirs
    return numbers.sub(lambda it: it[0].translate(shown), without_guest_bit(ours)) == without_guest_bit(theirs)


def without_guest_bit(word: str) -> str:
    return re.sub(r"/([0-9a-f]):", lambda it: f"/{int(it[1], 16) & (2 if word[0] == 'm' else 6)}:", word, count=1)


def loads_code(case: Case) -> bool:
    """`hlvx` asks for the right to execute in both translations, and for no other; QEMU asks for that to read."""
    if not case.what.startswith("pages") or case.column != 4:
        return False
    own, memory = case.bits(1), case.bits(2)
    reachable = own & 1 and memory & 17 == 17 and (not own & 16 or int(case.setting) & 1)
    executable = bool(own & memory & EXECUTES and reachable)
    return (case.ours.split(":")[0] == "ok") == (executable and own & 6 != 4)


def execute_only(case: Case) -> bool:
    """`vsstatus.MXR` is of the guest's own translation, `sstatus.MXR` of both; QEMU takes the present one for both."""
    if not case.what.startswith("pages") or case.column in (1, 4, 5):
        return False
    own, memory, setting = case.bits(1), case.bits(2), int(case.setting)
    first = own & READS or own & EXECUTES and setting & 6
    second = memory & READS or memory & EXECUTES and setting & 4
    reachable = own & 1 and memory & 17 == 17 and (not own & 16 or setting & 1)
    concerned = (own | memory) & EXECUTES and not own & memory & READS
    return bool(concerned) and (case.ours.split(":")[0] == "ok") == bool(first and second and reachable)


def stores_say_so(case: Case) -> bool:
    """A fault on the way to a store is a store's, also at the guest's own tables; QEMU has that of the load there."""
    return case.what.startswith("table") and case.ours.replace("s17/", "s15/") == case.theirs


def marks_need_the_right_to_write(case: Case) -> bool:
    """An entry of the guest's tables is marked by a write, for which its memory must grant that; QEMU does not ask."""
    return (case.what, case.setting) == ("table d3", "0") and case.theirs.startswith("ok") and ":3020:" in case.ours


DEVIATIONS: list[Callable[[Case], bool]] = [
    only_guest_address,
    virtual_in_user_mode,
    guest_fences,
    machine_traps_spare_guests,
    guest_tables_trap,
    tells_the_instruction,
    breakpoint_value,
    exceptions_keep_their_number,
    page_faults_of_hypervisors,
    loads_code,
    execute_only,
    stores_say_so,
    marks_need_the_right_to_write,
]

# Bits that stay of all ones, and of none, where QEMU keeps others: reserved ones, and those of extensions that loiter does not have.
KEPT = {
    "302": "f0b7ff 0",
    "303": "1666 1444",
    "304": "1eee 0",
    "600": "2007003c0 200000000",
    "606": "ffffffff 0",
    "200": "80000002000c6122 200000000",
    "205": "fffffffffffffffd 0",
    "241": "fffffffffffffffe 0",
}


def of_loiter(machine: str, cwd: Path, *options: str) -> str:
    command = [sys.executable, "-c", "from loiter.cli import main; main()", "run", "-m", machine, "hypervisor"]
    command += ["--set", "hart.isa=+h", "--out", "result", "--replace", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300)
    assert done.returncode == 0, done.stderr
    return "\n".join(line for line in done.stdout.splitlines() if re.match(CASE, line))


def of_qemu(elf: Path) -> str:
    command = [QEMU, "-cpu", "rv64,h=true,sstc=true", "-M", "virt", "-smp", "1", "-m", "512M", "-bios", "none", "-nographic"]
    command += ["-monitor", "none", "-serial", "stdio", "-kernel", str(elf), "-append", "task.hypervisor=0"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
    return done.stdout


CASE = r"(keeps|csr|guest's|s?h?[a-z.]+/\d|trap|interrupt|pages|table|address|as) ?.*[: ]"


def cases(theirs: str, ours: str) -> list[Case]:
    lines = list(zip(theirs.splitlines(), ours.splitlines(), strict=True))
    found = []
    for left, right in lines:
        name, ours_of = right.split(":", 1) if ":" in right else (right.rsplit(" ", 1)[0], right)
        theirs_of = left[len(name) + 1 :]
        assert left.startswith(name), f"{left!r} beside {right!r}"
        what, _, setting = name.partition("/")
        words = zip(theirs_of.split(), right[len(name) + 1 :].split() if ":" in right else ours_of.split(), strict=False)
        found += [Case(what, setting, column, a, b) for column, (a, b) in enumerate(words)]
    return found


def test_each_mode_does_what_it_may(tmp_path: Path) -> None:
    ours = of_loiter("virt", tmp_path)
    compared = [case for case in cases(of_qemu(programs.path("hypervisor")), ours) if not case.what.startswith(("keeps", "guest's"))]
    by: Counter[str] = Counter()
    unexplained = []
    for case in compared:
        if case.theirs == case.ours:
            by["same"] += 1
            continue
        known = next((rule for rule in DEVIATIONS if rule(case)), None)
        if known is None:
            unexplained.append(case)
        else:
            by[known.__name__] += 1
    assert not unexplained, f"{len(unexplained)}: {unexplained[:5]}"
    assert by["same"] >= LEAST_WORDS, by
    assert all(by[rule.__name__] for rule in DEVIATIONS), by


def test_registers_keep_what_there_is(tmp_path: Path) -> None:
    lines = of_loiter("virt", tmp_path).splitlines()
    kept = {line.split()[1].rstrip(":"): line.split(": ")[1] for line in lines if line.startswith("keeps")}
    assert len(kept) == 20
    assert {number: kept[number] for number in KEPT} == KEPT
    theirs = of_qemu(programs.path("hypervisor")).splitlines()
    others = [line for line in theirs if line.startswith("keeps") and line.split()[1].rstrip(":") not in KEPT]
    assert others
    assert set(others) <= set(lines)


@pytest.mark.parametrize("machine", ["t1", "t2", "p-core", "knl"])
def test_timed_cores_say_the_same(machine: str, tmp_path: Path) -> None:
    assert of_loiter(machine, tmp_path, "--check") == of_loiter("virt", tmp_path)


def test_a_hart_without_the_extension_has_none_of_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from loiter.cli import main; main()", "run", "-m", "virt", "hypervisor", "--out", "result"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode != 0
    assert "put h into hart.isa" in done.stdout + done.stderr
