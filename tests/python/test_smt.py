"""Threads that compute apart from one another, on Redstone's machines with more and more contexts."""

from __future__ import annotations

import itertools

import pytest

from loiter import engine as engines
from loiter import machines, programs
from loiter.runs.request import Request

pytestmark = pytest.mark.simulator

PRESETS = {"superscalar": 1, "smt2": 2, "smt4": 4, "smt8": 8}


def throughput(preset: str, contexts: int) -> float:
    """Instructions a cycle with the integer mix on each context."""
    engine = engines.load()
    machine = machines.load(engine, preset, ["system.ram_mib=256"])
    program = programs.load(engine, "coremix")
    places = programs.place([f"intmix={','.join(map(str, range(contexts)))}"], program, machine)
    result = engine.run(Request(machine, program, places, ("iterations=1",)).native(), program.elf)
    assert result["exit"]["code"] == 0
    assert result["console"].count("intmix: hart") == contexts
    return float(result["instructions"]) / float(result["cycles"])


def test_throughput_grows_with_contexts_and_levels_off() -> None:
    """One thread leaves units idle behind its branches and loads, others fill them; six integer units are the end."""
    found = [throughput(preset, contexts) for preset, contexts in PRESETS.items()]
    gains = [more / less for less, more in itertools.pairwise(found)]
    assert all(gain > 1 for gain in gains), found
    assert sorted(gains, reverse=True) == gains, "each doubling of contexts brings less than the one before"
    assert found[-1] <= machines.load(engines.load(), "smt8").count("units.integer", 0)
