"""Harts with guests (extension H): what each mode may do, as QEMU has it, and by the manual where QEMU 7.2 differs.

The guest `hypervisor` prints a case a line. What QEMU 7.2 does otherwise is in `DEVIATIONS`, each with what the
privileged manual (1.12, chapter "Hypervisor Extension") says, which is then what loiter must print.
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

from loiter import resources

pytestmark = pytest.mark.simulator

QEMU = "qemu-system-riscv64"
# As many as QEMU and loiter agree on at least, word by word.
LEAST_WORDS = 3000
MODES = ("hs", "u", "vs", "vu")
# Of a line of pages, in this order: a load, a store, a reservation; then by hlv, hlvx and hsv.
LOADS, LOADS_CODE, HYPERVISOR_ACCESSES = (0, 2, 3), 4, range(3, 6)
# A line of the guest begins with one of these.
CASE = r"(keeps|csr|guest's|trap|interrupt|pages|table|address|as) |[a-z.]+/\d:"
VALID, READS, WRITES, EXECUTES, USERS = 1, 2, 4, 8, 16
MACHINE_TRAP = re.compile(
    r"m(?P<cause>[0-9a-f]+)/(?P<value>[0-9a-f]+)/(?P<virtual>\d):(?P<mode>\d):(?P<guest>[0-9a-f]+)(?P<rest>.*)"
)


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

    @property
    def is_of_pages(self) -> bool:
        return self.what.startswith("pages")

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
    return (
        case.mode == "vu"
        and ours.get("cause") == "16"
        and ours["virtual"] == "2"
        and same_but(case, "cause", "virtual")
    )


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
    return (
        case.what == "csr 680" and case.setting == "2" and case.mode == "hs" and fields(case.ours).get("cause") == "2"
    )


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


def lent_faults(case: Case) -> bool:
    """What machine mode accesses as a guest raises a page fault where tables grant nothing; QEMU, that of an access."""
    theirs, ours = fields(case.theirs), fields(case.ours)
    faults = (theirs.get("cause"), ours.get("cause"), ours.get("virtual")) == ("5", "d", "1")
    return case.what == "as vu" and faults and same_but(case, "cause", "virtual")


def hypervisors_access_as_guests(case: Case) -> bool:
    """Accesses by `hlv`, `hlvx` and `hsv` obey `vsstatus.SUM`, raise page faults, and `hlvx` asks for the right to
    execute; QEMU lets a hypervisor access what is the user's, has an access fault, and asks for the right to read."""
    return case.is_of_pages and case.column in HYPERVISOR_ACCESSES and kind(case.ours) == expected(case)


def execute_only(case: Case) -> bool:
    """`vsstatus.MXR` is of the guest's own translation, `sstatus.MXR` of both; QEMU takes the present one for both."""
    if not case.is_of_pages or case.column not in LOADS:
        return False
    own, memory = case.bits(1), case.bits(2)
    return not own & memory & READS and kind(case.ours) == expected(case)


def marks_with_the_access(case: Case) -> bool:
    """A page is marked by an access that is made; QEMU marks the guest's own entry before its memory refuses that."""
    if (
        not case.is_of_pages
        or kind(case.ours) != "memory"
        or not case.ours.endswith(f":{case.bits(1):x}:{case.bits(2):x}")
    ):
        return False
    return case.theirs.rsplit(":", 2)[0] == case.ours.rsplit(":", 2)[0]


def kind(word: str) -> str:
    """Nothing, or a page fault or one of the guest's memory, whoever hears of it."""
    cause = word.split("/")[0].lstrip("msg")
    return {"d": "page", "f": "page", "15": "memory", "17": "memory"}.get(cause, word.split(":")[0])


def expected(case: Case) -> str:
    """What an access to a page comes to, by the manual: the guest's own tables are asked first."""
    own, memory, setting = case.bits(1), case.bits(2), int(case.setting)
    sum_, own_mxr, all_mxr = bool(setting & 1), bool(setting & 6), bool(setting & 4)

    def grants(entry: int, mxr: bool) -> bool:
        if not entry & VALID or entry & (READS | WRITES) == WRITES:
            return False
        if case.column == LOADS_CODE:
            return bool(entry & EXECUTES)
        if case.column in LOADS:
            return bool(entry & READS or (mxr and entry & EXECUTES))
        return bool(entry & WRITES)

    if not grants(own, own_mxr) or (own & USERS and not sum_):
        return "page"
    return "ok" if grants(memory, all_mxr) and memory & USERS else "memory"


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
    lent_faults,
    hypervisors_access_as_guests,
    execute_only,
    marks_with_the_access,
    stores_say_so,
    marks_need_the_right_to_write,
]

# Bits that stay of all ones, and of none, where QEMU keeps others: reserved ones, and those of extensions that loiter
# does not have.
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
    command += ["--set", "hart.isa=+h", "--out", f"result-{machine}", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300)
    assert done.returncode == 0, done.stderr
    # What follows its console is the summary.
    return "\n".join(line for line in done.stdout.splitlines() if re.match(CASE, line))


@pytest.fixture
def guest() -> Path:
    return resources.GUESTS / "hypervisor.elf"


def of_qemu(elf: Path) -> str:
    command = [
        QEMU,
        "-cpu",
        "rv64,h=true,sstc=true",
        "-M",
        "virt",
        "-smp",
        "1",
        "-m",
        "512M",
        "-bios",
        "none",
        "-nographic",
    ]
    command += ["-monitor", "none", "-serial", "stdio", "-kernel", str(elf), "-append", "task.hypervisor=0"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
    return done.stdout


def cases(theirs: str, ours: str) -> list[Case]:
    """Word by word, of lines of a name, perhaps with the number of a setting, and words."""
    found = []
    for left, right in zip(theirs.splitlines(), ours.splitlines(), strict=True):
        name, colon, words = right.partition(":")
        if not colon:
            continue
        assert left.startswith(name + colon), f"{left!r} beside {right!r}"
        what, _, setting = name.partition("/")
        pairs = zip(left.removeprefix(name + colon).split(), words.split(), strict=True)
        found += [Case(what, setting, column, a, b) for column, (a, b) in enumerate(pairs)]
    return found


def test_each_mode_does_what_it_may(guest: Path, tmp_path: Path) -> None:
    ours = of_loiter("virt", tmp_path)
    compared = [case for case in cases(of_qemu(guest), ours) if not case.what.startswith("keeps")]
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
    pages = [case for case in compared if case.is_of_pages]
    assert len(pages) > 4000
    assert [case for case in pages if kind(case.ours) != expected(case)] == []
    assert not unexplained, f"{len(unexplained)}: {unexplained[:5]}"
    assert by["same"] >= LEAST_WORDS, by
    assert all(by[rule.__name__] for rule in DEVIATIONS), by


def test_registers_keep_what_there_is(guest: Path, tmp_path: Path) -> None:
    lines = of_loiter("virt", tmp_path).splitlines()
    kept = {line.split()[1].rstrip(":"): line.split(": ")[1] for line in lines if line.startswith("keeps")}
    assert len(kept) == 20
    assert {number: kept[number] for number in KEPT} == KEPT
    theirs = of_qemu(guest).splitlines()
    others = [line for line in theirs if line.startswith("keeps") and line.split()[1].rstrip(":") not in KEPT]
    assert others
    assert set(others) <= set(lines)


@pytest.mark.parametrize("machine", ["t1", "t2", "p-core", "knl"])
def test_timed_cores_say_the_same(machine: str, tmp_path: Path) -> None:
    assert of_loiter(machine, tmp_path, "--check") == of_loiter("virt", tmp_path)


def test_a_hart_without_the_extension_has_none_of_it(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from loiter.cli import main; main()",
        "run",
        "-m",
        "virt",
        "hypervisor",
        "--out",
        "result",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode != 0
    assert "put h into hart.isa" in done.stdout + done.stderr
