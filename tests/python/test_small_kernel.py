"""The small kernel's ways to wait: that every one of them waits rightly, in QEMU and here.

The kernel takes minutes to build, so all but what needs none is for `make test-long`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from linux_guest import loiter_, message
from loiter import images, resources
from loiter.images import Image, Recipe, tools
from loiter.images.kinds import workloads
from qemu_guest import run

PATCHES = sorted((resources.LINUX / "kernel/patches").glob("*.patch"))
# Each is applied where its fragment is chosen.
OF_FRAGMENTS = sorted((resources.LINUX / "kernel/fragments").glob("*.patch"))
# The name that studies have it by.
NAME = "workloads-small-kernel"
MIX = f"/{workloads.HOME}/kernelmix 8 40"
RIGHT = "kernelmix: 8 processes, 40 rounds each, right\n"
LIMIT_SECONDS = 1800

# What a kernel says of a way, by what was asked.
TAKEN = {
    "default": "default, an acquire fails for 0 cycles, idle stock",
    "idiv": "idiv, an acquire fails for 0 cycles, idle stock",
    "casx,fail=100": "casx, an acquire fails for 100 cycles, idle stock",
    "fdiv": "fdiv, an acquire fails for 0 cycles, idle stock",
    "l2miss,ring=9x64K,fail=500": "l2miss, an acquire fails for 500 cycles, idle stock",
    "pause,idle=poll": "pause, an acquire fails for 0 cycles, idle poll",
    "nop,fail=300": "nop, an acquire fails for 300 cycles, idle stock",
    "nop,idle=flags": "nop, an acquire fails for 0 cycles, idle flags",
    "stock,fail=70,idle=wfi": "stock, an acquire fails for 70 cycles, idle wfi",
}
REFUSED = {
    "bogus": 'no way "bogus"',
    "nop,fale=3": '"fale=3" is not understood',
    "nop,fail=3x": '"fail=3x" is not understood',
    "l2miss,ring=3x1000": '"ring=3x1000" is not understood',
    "smt_lock": "the hardware lock needs the extension Xloiterlock",
    "stock,idle=block": "the hardware lock needs the extension Xloiterlock",
}

needs_images = pytest.mark.skipif(tools.find("apt-get") is None, reason="images are built with apt")


def said(messages: str) -> list[str]:
    """The kernel's own lines about waiting."""
    return re.findall(r"\] loiter\.wait: (.*?)\r?$", messages, re.MULTILINE)


@pytest.mark.parametrize("path", [*PATCHES, *OF_FRAGMENTS], ids=lambda path: path.name)
def test_a_patch_says_why(path: Path) -> None:
    head, _, rest = path.read_text().partition("\ndiff --git a/")
    assert rest
    subject, blank, *reasons = head.splitlines()
    assert subject.startswith("riscv: ")
    assert blank == ""
    assert len(" ".join(reasons).split()) > 30


def test_a_call_from_inline_assembly_gives_up_the_register_that_the_assembler_takes() -> None:
    """GNU as makes `call t0, far` of `auipc t1` and `jalr t0, t1`; a compiler that is not told keeps a value in t1."""
    text = "".join(path.read_text() for path in PATCHES)
    calls = re.findall(r"asm volatile\(\"call t0,.*?;", text, re.DOTALL)
    assert len(calls) == 2
    for call in calls:
        assert '"t0", "t1"' in call, call


def test_patches_have_an_order() -> None:
    assert [path.name[:4] for path in PATCHES] == [f"{number:04}" for number in range(1, len(PATCHES) + 1)]
    assert len(PATCHES) > 0


@pytest.fixture(scope="module")
def image() -> Image:
    """The workloads on our kernel, in the user's own cache."""
    return images.build(NAME, Recipe("workloads", kernel="small-kernel"))


@needs_images
@pytest.mark.long
@pytest.mark.skipif(shutil.which("qemu-system-riscv64") is None, reason="needs QEMU")
class TestInQemu:
    @pytest.mark.parametrize("words", TAKEN)
    def test_a_way_waits_rightly(self, image: Image, tmp_path: Path, words: str) -> None:
        ran = run(image, tmp_path, MIX, append=f"loiter.wait={words}")
        assert said(ran.messages) == [TAKEN[words]]
        assert (ran.talk, ran.out.decode()) == (["ready", "exit 0"], RIGHT), ran.err.decode()

    @pytest.mark.parametrize("words", REFUSED)
    def test_what_cannot_be_is_said_and_left(self, image: Image, tmp_path: Path, words: str) -> None:
        ran = run(image, tmp_path, MIX, append=f"loiter.wait={words}")
        lines = said(ran.messages)
        assert lines[0].startswith(REFUSED[words])
        assert lines[-1] == "this kernel waits as ever"
        assert (ran.talk, ran.out.decode()) == (["ready", "exit 0"], RIGHT), ran.err.decode()

    def test_without_a_word_it_says_nothing(self, image: Image, tmp_path: Path) -> None:
        ran = run(image, tmp_path, MIX)
        assert said(ran.messages) == []
        assert (ran.talk, ran.out.decode()) == (["ready", "exit 0"], RIGHT), ran.err.decode()


@needs_images
@pytest.mark.long
@pytest.mark.simulator
class TestHere:
    @pytest.mark.parametrize("words", [*TAKEN, "wrs", "wrs,fail=200"])
    def test_a_way_waits_rightly(self, image: Image, words: str) -> None:
        self._mix(image, words)

    @pytest.mark.parametrize("words", ["smt_lock", "smt_lock,fail=70", "smt_lock,idle=wfi", "nop,idle=block"])
    def test_the_hardware_lock_waits_rightly(self, image: Image, words: str) -> None:
        self._mix(image, words, "--set", "hart.isa=+xloiterlock")

    @pytest.mark.parametrize("idle", ["poll", "wfi", "block", "flags"])
    @pytest.mark.parametrize("relax", ["stock", "bare", "pause"])
    def test_ways_change_while_it_runs(self, image: Image, idle: str, relax: str) -> None:
        # While others wait, in all orders; then everything is done again.
        change = f"echo {relax} > relax; echo {idle} > idle; {MIX}"
        script = f"cd /sys/module/loiter_wait/parameters; {MIX} & sleep 0.05; {change}; wait"
        done = self._run(image, script, "--set", "hart.isa=+xloiterlock")
        assert (done.returncode, done.stdout.decode()) == (0, RIGHT * 2), done.stderr.decode()

    def test_there_is_no_way_back_and_mistakes_are_refused(self, image: Image) -> None:
        lines = ["bogus > idle", "bogus > relax", "block > idle", "wfi > idle", "block > idle", "bare > relax"]
        lines += ["pause > relax", "stock > relax"]
        script = "cd /sys/module/loiter_wait/parameters; " + "; ".join(f"echo {line}; echo $?" for line in lines)
        done = self._run(image, script, "--set", "hart.isa=+xloiterlock")
        assert done.stdout.decode().split() == ["1", "1", "0", "1", "0", "0", "1", "1"], done.stderr.decode()

    def test_polling_the_flags_is_no_way_to_block(self, image: Image) -> None:
        lines = ["flags > idle", "flags > idle", "block > idle", "wfi > idle"]
        script = "cd /sys/module/loiter_wait/parameters; " + "; ".join(f"echo {line}; echo $?" for line in lines)
        done = self._run(image, script)
        assert done.stdout.decode().split() == ["0", "0", "1", "1"], done.stderr.decode()

    def test_who_has_no_lock_cannot_block(self, image: Image) -> None:
        done = self._run(image, "echo block > /sys/module/loiter_wait/parameters/idle; echo $?")
        assert done.stdout.decode().split() == ["1"], done.stderr.decode()

    def _run(self, image: Image, script: str, *options: str) -> subprocess.CompletedProcess[bytes]:
        return loiter_(
            *("exec", "--image", image.name, "--harts", "4", *options, "--", "sh", "-c", script),
            limit_seconds=LIMIT_SECONDS,
        )

    def _mix(self, image: Image, words: str, *options: str) -> None:
        append = f"loiter.wait={words}"
        script = f"{MIX}; dmesg | grep -o 'loiter.wait: .*'"
        done = loiter_(
            *("exec", "--image", image.name, "--harts", "4", "--append", append, *options, "--", "sh", "-c", script),
            limit_seconds=LIMIT_SECONDS,
        )
        if done.returncode == 2 and "xloiterlock" in message(done):
            pytest.skip("this engine has no hardware lock")
        way = words.partition(",")[0]
        assert done.stdout.decode().startswith(f"{RIGHT}loiter.wait: {way}, an acquire fails for "), (
            done.stderr.decode()
        )
