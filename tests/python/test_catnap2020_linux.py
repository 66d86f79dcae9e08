"""The half of the study of naps that runs on Linux: its grid, its scripts, and its rules on both sides."""

from __future__ import annotations

from typing import Any

import pytest

from linux_guest import loiter_
from loiter import energy, images, resources
from loiter.images import tools
from loiter.studies import catnap2020
from loiter.studies.catnap2020 import linux, torture, torture_findings
from loiter.studies.catnap2020.grid import CORES, LONG, ON_LINUX, SHORT
from loiter.studies.catnap2020.torture import ALL, AUTOMATIC, LIST, NONE, Cell, Tortured

SCALE = torture.SCALES["default"]


class Told(Tortured):
    """Measurements as they are expected, but for what a test changes: by selection, threads and cycles held."""

    def __init__(self, **changed: Any) -> None:
        super().__init__({}, SCALE)
        self._changed = {"speed": as_expected, "power": power_as_expected} | changed

    def rate(self, selection: str, threads: int, hold_cycles: int) -> float:
        return float(self._changed["speed"](selection, threads, hold_cycles)) / hold_cycles

    def watts(self, selection: str, threads: int, hold_cycles: int) -> energy.Value:
        value = 100 * float(self._changed["power"](selection, threads, hold_cycles))
        return energy.Value(value, value, value, "")

    def hold(self, selection: str, threads: int, hold_cycles: int) -> float:
        return float(hold_cycles)

    def acquisitions(self, each: Cell) -> int:
        return 100


def as_expected(selection: str, threads: int, hold: int) -> float:
    """Throughput over that without naps."""
    gain = 0.002 * max(0, threads - CORES)
    naps = (0.9 if hold == SHORT and threads <= CORES else 1.0) + gain
    return {NONE: 1.0, ALL: naps, LIST: naps, AUTOMATIC: max(1.0, naps)}[selection]


def power_as_expected(selection: str, threads: int, hold: int) -> float:
    """Power over that without naps."""
    return 1.0 if selection == NONE else 0.99 - threads / 5000


# A change, and the statement that it breaks, by words that are in no other.
BROKEN = {
    "short sections": {"speed": lambda who, n, hold: 1.0 if n == 4 else as_expected(who, n, hold)},
    "never slower": {"speed": lambda who, n, hold: 0.97 if (who, n) == (ALL, 16) else as_expected(who, n, hold)},
    "grows with threads": {
        "speed": lambda who, n, hold: as_expected(who, min(n, 128), hold) if who == ALL else as_expected(who, n, hold)
    },
    "mean power": {
        "power": lambda who, n, hold: 1.01 if (who, n, hold) == (ALL, 4, LONG) else power_as_expected(who, n, hold)
    },
    "automatic selection": {
        "speed": lambda who, n, hold: 0.97 if (who, n) == (AUTOMATIC, 4) else as_expected(who, n, hold)
    },
}


def test_what_is_expected_holds() -> None:
    assert all(each.holds for each in torture_findings.statements(Told()))


@pytest.mark.parametrize("words", BROKEN)
def test_each_statement_can_fail(words: str) -> None:
    failed = [each.text for each in torture_findings.statements(Told(**BROKEN[words])) if not each.holds]
    assert any(words in text for text in failed), failed
    assert sum(words in text for text in torture_findings.RULES) == 1


def test_tables_and_curves_have_every_run() -> None:
    found = Told()
    table = torture_findings.table(found)
    assert len(table.rows) == len(SCALE.threads) * 2
    assert {len(row) for row in table.rows} == {len(table.columns)}
    labels = {label for figure in torture_findings.curves(found) for label in figure.runs.values()}
    assert labels == {cell.label for cell in torture.cells(SCALE)}
    assert {row["run"] for row in torture_findings.rows(found)} == labels


@pytest.mark.parametrize("scale", torture.SCALES.values())
def test_windows_are_long_enough(scale: torture.Scale) -> None:
    for cell in torture.cells(scale):
        assert cell.cycles >= scale.least_acquisitions * cell.hold_cycles * 1.1
        # One CPU is left for all else.
        assert cell.threads < scale.harts <= linux.MOST_HARTS


def test_a_script_writes_parameters_that_the_patches_have() -> None:
    patches = "".join(path.read_text() for path in sorted((resources.LINUX / "kernel/patches").glob("*.patch")))
    lines = [*linux.waits(["a", "b"]), linux.write("locktorture", "begin", "4 1200")]
    assert lines[1] == "echo 'a,b' > /sys/module/loiter_catnap/parameters/list"
    assert lines[3] == "echo 'none' > /sys/module/loiter_catnap/parameters/selection"
    for line in lines:
        parameter = line.rpartition("/")[2]
        assert f"+module_param_cb({parameter}, " in patches, line
    words = ", ".join(f'"{each}"' for each in linux.SELECTIONS)
    numbers = ", ".join(f"CATNAP_{each.upper()}" for each in linux.SELECTIONS)
    assert f"catnap_selections[] = {{ {words} }};" in patches
    assert f"+enum catnap_selection {{ {numbers} }};" in patches


@pytest.mark.skipif(tools.find("apt-get") is None, reason="images are built with apt")
@pytest.mark.long
class TestHere:
    """On the reference engine, where waiters wait in turns of the harts and naps are whole turns."""

    def test_locktorture_finds_nothing_while_selections_change(self) -> None:
        directory = "cd /sys/module"
        begin = "echo '4 500' > locktorture/parameters/begin"
        change = "echo $each > loiter_catnap/parameters/selection; sleep 0.01"
        script = (
            f"{directory}; {linux.write('loiter_catnap', 'list', torture.SITE)}; {begin}; "
            f"for each in {' '.join(linux.SELECTIONS)} none; do {change}; done; "
            "dmesg | grep -c 'Start of test'; dmesg | grep -c -E 'WARNING|BUG|!!!'"
        )
        assert self._said(script) == ["1", "0"]

    def test_mistakes_are_refused(self) -> None:
        lines = ["bogus > selection", "all > selection", "no_such_function > list", "schedule,vfs_read > list"]
        script = "cd /sys/module/loiter_catnap/parameters; " + "; ".join(f"echo {line}; echo $?" for line in lines)
        assert self._said(script) == ["1", "0", "1", "0"]

    def test_naps_need_the_extension(self) -> None:
        script = "echo all > /sys/module/loiter_catnap/parameters/selection; echo $?"
        assert self._said(script, "--set", "hart.isa=-zawrs") == ["1"]

    def _said(self, script: str, *options: str) -> list[str]:
        image = images.build(linux.IMAGE, linux.recipe())
        append = ("--append", linux.APPEND.replace("pin_stride=4", "pin_stride=1"))
        done = loiter_(
            *("exec", "--image", image.name, "--harts", "4", *append, *options, "--", "sh", "-c", script),
            limit_seconds=1800,
        )
        assert done.returncode in (0, 1), done.stderr.decode()
        return done.stdout.decode().split()


@pytest.mark.parametrize(
    ("there", "scale", "exhibits"),
    [
        (True, "default", ON_LINUX),
        (True, "quick", (torture_findings.EXHIBIT,)),
        (False, "default", ()),
        (False, "quick", ()),
    ],
)
def test_with_the_image_all_of_linux_is_run_but_programs_at_the_quick_scale(
    there: bool, scale: str, exhibits: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linux, "is_there", lambda: there)
    assert tuple(catnap2020._on_linux(None, scale)) == exhibits
    for named in ON_LINUX:
        assert catnap2020._on_linux(named, scale) == [named], "who names one has its image built"
    assert catnap2020._on_linux("figure_9", scale) == []
