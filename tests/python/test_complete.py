"""What a shell completes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.simulator


def completed(line: str) -> list[str]:
    """What bash is told for a line whose last word is being typed."""
    words = line.split(" ")
    environment = os.environ | {
        "_LOITER_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'loiter'; from loiter.cli import main; main()"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("loiter run -m t", ["t1", "t2"]),
        ("loiter run -m p", ["p-core"]),
        ("loiter machine show sup", ["superscalar"]),
        ("loiter run -m t1 core", ["coremix"]),
        ("loiter run -m t1 spinloops --place spin_w", ["spin_wfi=", "spin_wrs_nto=", "spin_wrs_sto="]),
        ("loiter run -m t1 --set l2.hit", ["l2.hit_latency_cycles="]),
        ("loiter sweep -m t1 --grid pro", ["program="]),
        ("loiter sweep -m smt8 --grid core.reor", ["core.reorder_entries="]),
        ("loiter study run red", ["redstone2002"]),
        ("loiter exec --image work", ["workloads"]),
        ("loiter exec -m virt --set core.reor", []),
        ("loiter run -m nosuch --set core.", []),
    ],
)
def test_names_are_completed(line: str, found: list[str]) -> None:
    assert set(found) <= set(completed(line))
    assert len(completed(line)) < 12 or found
    if not found:
        assert completed(line) == []
