"""Parts of `loiter boot` that need no simulator: what is typed, what is heard, how sizes are written."""

from __future__ import annotations

import pytest

from loiter.cli.systems import memory_mib
from loiter.errors import UserFault
from loiter.systems.request import command_line
from loiter.systems.terminal import Command, EscapeKey
from loiter.systems.watch import Watch


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ([b"ls\r"], [b"ls\r"]),
        ([b"a\x01xb"], [b"a", Command("x"), b"b"]),
        ([b"\x01", b"h"], [Command("h")]),
        ([b"\x01a", b"\x01\x01"], [b"\x01", b"\x01"]),
        ([b"1\x01a2\x01s"], [b"1\x012", Command("s")]),
        ([b"\x03\x1a\x00"], [b"\x03\x1a\x00"]),
    ],
)
def test_the_escape_key_divides_what_is_typed(typed: list[bytes], found: list[object]) -> None:
    escape = EscapeKey()
    assert [each for data in typed for each in escape.split(data)] == found


@pytest.mark.parametrize(("said", "heard"), [([b"log", b"in:"], True), ([b"login", b":"], True), ([b"logn:"], False)])
def test_a_text_is_heard_in_pieces(said: list[bytes], heard: bool) -> None:
    watch = Watch("login:")
    for data in said:
        watch.hear(data)
    assert watch.said is heard


def test_a_panic_is_heard_when_its_line_is_whole() -> None:
    watch = Watch()
    watch.hear(b"[    1.5] Kernel panic - not syncing: VFS: Unable to mount root")
    assert watch.panic is None
    watch.hear(b" fs on unknown-block(0,0)\r\n")
    assert watch.panic == "VFS: Unable to mount root fs on unknown-block(0,0)"
    assert not watch.halted
    watch.hear(b"---[ end Kernel panic - not syncing: VFS: ...\r\n")
    assert watch.halted


@pytest.mark.parametrize(
    ("text", "mib"), [("512", 512), ("512M", 512), ("2G", 2048), ("1gib", 1024), ("65536K", 64), ("64 MB", 64)]
)
def test_sizes_of_memory(text: str, mib: int) -> None:
    assert memory_mib(text) == mib


@pytest.mark.parametrize("text", ["", "0", "-1M", "1.5G", "512X", "1000K", "G", "0x10"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(UserFault, match="--memory"):
        memory_mib(text)


def test_a_panic_ends_the_run_unless_told_otherwise() -> None:
    assert command_line("console=ttyS0", None) == "console=ttyS0 panic=-1"
    assert command_line("console=ttyS0", "panic=10 quiet") == "console=ttyS0 panic=10 quiet"
