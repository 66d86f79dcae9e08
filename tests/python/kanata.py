"""A reader of pipeline logs that takes nothing for granted: by the format's description, not by how ours is written."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Instruction:
    """An instruction of a log."""

    number: int
    context: int
    begin: int
    label: str = ""
    detail: str = ""
    stages: list[tuple[str, int, int]] = field(default_factory=list)
    producers: list[int] = field(default_factory=list)
    open: tuple[str, int] | None = None
    end: int | None = None
    retired: bool = False

    @property
    def text(self) -> str:
        """The instruction without its address."""
        return self.label.partition(": ")[2]

    def begins(self, origin: int | None = None) -> dict[str, int]:
        """When each stage begins, after `origin` or after the instruction itself."""
        origin = self.begin if origin is None else origin
        return {stage: begin - origin for stage, begin, _ in self.stages}

    def stage(self, name: str) -> tuple[int, int]:
        """When a stage begins and ends."""
        ((begin, end),) = [(begin, end) for stage, begin, end in self.stages if stage == name]
        return begin, end


def read(path: Path) -> list[Instruction]:
    """The instructions of a log, in order. Fails where the log breaks a rule."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    assert text.endswith("\n")
    header, start, *lines = text.splitlines()
    assert header == "Kanata\t0004"
    command, first = start.split("\t")
    assert command == "C="
    log = _Log(int(first))
    for line in lines:
        command, *words = line.split("\t")
        if command == "C":
            log.pass_(*words)
        elif command == "I":
            log.begin(*words)
        else:
            one = log.found[int(words[0])]
            assert one.end is None, f"nothing comes behind the end: {line}"
            {"L": log.label, "S": log.start, "E": log.leave, "W": log.wake, "R": log.end}[command](one, *words[1:])
    for one in log.found:
        assert one.end is not None, one
        assert one.label
        assert one.stages[0][1] == one.begin
        assert one.stages[-1][2] == one.end
        assert all(last[2] == then[1] for last, then in zip(one.stages, one.stages[1:], strict=False))
    return log.found


@dataclass
class _Log:
    now: int
    found: list[Instruction] = field(default_factory=list)
    retired: int = 0

    def pass_(self, cycles: str) -> None:
        assert int(cycles) > 0
        self.now += int(cycles)

    def begin(self, id_: str, number: str, context: str) -> None:
        assert int(id_) == len(self.found), "ids follow each other"
        self.found.append(Instruction(int(number), int(context), self.now))

    def label(self, one: Instruction, kind: str, said: str) -> None:
        assert kind in ("0", "1")
        assert said.isprintable()
        if kind == "0":
            one.label += said
        else:
            one.detail += said

    def start(self, one: Instruction, lane: str, stage: str) -> None:
        assert (lane, one.open) == ("0", None), (one, stage)
        one.open = (stage, self.now)

    def leave(self, one: Instruction, lane: str, stage: str) -> None:
        assert lane == "0"
        assert one.open is not None
        opened, begin = one.open
        assert stage == opened
        assert begin < self.now, f"a stage of no cycle: {one}"
        one.stages.append((stage, begin, self.now))
        one.open = None

    def wake(self, one: Instruction, producer: str, kind: str) -> None:
        assert kind == "0"
        assert self.found[int(producer)] is not one
        assert int(producer) not in one.producers
        one.producers.append(int(producer))

    def end(self, one: Instruction, order: str, flushed: str) -> None:
        assert one.open is None
        assert one.stages
        assert flushed in ("0", "1")
        one.end, one.retired = self.now, flushed == "0"
        assert int(order) == self.retired
        self.retired += one.retired
