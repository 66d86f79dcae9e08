"""The workloads of studies: that what they are checked against is right, and, when asked for, that all of them are.

Results that scripts carry are computed here by other means than the programs'.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import sqlite3
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from linux_guest import loiter_
from loiter import resources
from loiter.images import tools, workloads
from loiter.images.kinds import workloads as kind

HERE = resources.LINUX / "workloads"
PROGRAMS = ("cc1", "gnugo", "ncompress", "newlisp", "perl", "spim", "sqlite3")
LIMIT_SECONDS = 1800


def result(name: str) -> str:
    """What a script says that a round prints."""
    words = shlex.split((HERE / name).read_text(), comments=True)
    found = [word.removeprefix("result=") for word in words if word.startswith("result=")]
    assert len(found) == 1
    return found[0]


def is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def test_inputs_are_the_same_bytes_everywhere() -> None:
    hashes = {name: hashlib.sha256(content).hexdigest()[:16] for name, content in workloads.inputs().items()}
    assert hashes == {"text": "ebdfaddd38d4227b", "program.c": "f3ea060f8dd0070e"}
    assert len(workloads.text()) == pytest.approx(workloads.TEXT_BYTES, rel=0.001)


def test_perl_counts_what_the_text_has() -> None:
    words = Counter(re.findall(r"[a-z]+", workloads.text().lower()))
    families: dict[str, list[str]] = {}
    for word in words:
        families.setdefault("".join(sorted(word)), []).append(word)
    largest = min(families, key=lambda letters: (-len(families[letters]), letters))
    common = min(words, key=lambda word: (-words[word], word))
    primes = sum(map(is_prime, range(1, 401)))
    assert result("perl").splitlines() == [
        # The text is read four times.
        f"{4 * words.total()} words, {len(words)} different, {len(families)} families, most often {common}, "
        f"primes {primes}",
        " ".join(sorted(families[largest])),
    ]


def test_spim_counts_primes_and_sorts() -> None:
    numbers = [1]
    for _ in range(200):
        numbers.append((numbers[-1] * 75 + 74) % 65537)
    ordered = sorted(numbers[1:])
    assert result("spim") == f"{sum(map(is_prime, range(40000)))} {ordered[0]} {ordered[100]} {ordered[199]}"


def test_newlisp_places_queens() -> None:
    # Known (OEIS A000170); the function of Takeuchi is z where x > y.
    assert result("newlisp").splitlines() == ["2 10 4 40 92 352", str(tak(18, 12, 6))]


def tak(x: int, y: int, z: int) -> int:
    return z if y >= x else tak(tak(x - 1, y, z), tak(y - 1, z, x), tak(z - 1, x, y))


def test_sqlite3_returns_what_another_sqlite_returns() -> None:
    database = sqlite3.connect(":memory:")
    said: list[str] = []
    script = re.sub(r"^--.*$", "", (HERE / "input/parts.sql").read_text(), flags=re.MULTILINE)
    for statement in script.split(";"):
        said += ["|".join(map(str, row)) for row in database.execute(statement)]
    database.close()
    assert said[0] == f"50000|{sum(range(50000))}"
    assert result("sqlite3").splitlines() == said


def test_cc1_has_a_program_that_compilers_take() -> None:
    source = workloads.program()
    assert result("cc1") == str(len(re.findall(r"^unsigned function_\d+\(", source, re.MULTILINE)) + 1)
    assert int(result("cc1")) == workloads.FUNCTIONS + 1


@pytest.mark.parametrize("name", [*PROGRAMS, "mix"])
def test_scripts_are_shell(name: str) -> None:
    assert (HERE / name).stat().st_mode & 0o111
    for path in (HERE / name, HERE / "common"):
        subprocess.run(["sh", "-n", path], check=True)


def test_every_script_is_listed() -> None:
    assert {path.name for path in HERE.iterdir() if path.suffix == ""} == {*PROGRAMS, "mix", "common", "input"}


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler")
def test_the_program_is_without_undefined_behaviour(tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(workloads.program())
    said = []
    for flags in (["-O0", "-fsanitize=undefined", "-fno-sanitize-recover"], ["-O1"]):
        out = tmp_path / "program"
        subprocess.run(["cc", *flags, "-o", out, tmp_path / "program.c"], check=True)
        said.append(subprocess.run([out], check=True, capture_output=True).stdout)
    assert said[0] == said[1]
    assert said[0].strip().isdigit()


@pytest.mark.long
@pytest.mark.simulator
@pytest.mark.skipif(tools.find("apt-get") is None, reason="images are built with apt")
class TestInTheGuest:
    """On the reference engine; the image is built first if it is not there."""

    @pytest.mark.parametrize("name", PROGRAMS)
    def test_a_round_is_right_and_long_enough(self, name: str) -> None:
        done = loiter_(
            *("exec", "--image", "workloads", "--stats", "--", f"/{kind.HOME}/{name}", "--cpu", "0"),
            limit_seconds=LIMIT_SECONDS,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.decode() == f"{name}: 1 rounds, right\n"
        found = re.search(r"([\d,]+) instructions", done.stderr.decode())
        assert found is not None
        # From the snapshot on, whose start and end of a program take a hundredth of it.
        assert int(found[1].replace(",", "")) > 2_000_000_000

    def test_what_cc1_makes_runs(self, tmp_path: Path) -> None:
        (tmp_path / "program.c").write_text(workloads.program())
        subprocess.run(["cc", "-O1", "-o", tmp_path / "native", tmp_path / "program.c"], check=True)
        native = subprocess.run([tmp_path / "native"], check=True, capture_output=True).stdout
        script = f"gcc -O2 -o program /{kind.HOME}/input/program.c && ./program"
        done = loiter_("exec", "--image", "workloads", "--", "sh", "-c", script, limit_seconds=LIMIT_SECONDS)
        assert (done.returncode, done.stdout) == (0, native), done.stderr.decode()

    @pytest.mark.parametrize("meeting", ["shared", "apart", "narrow"])
    @pytest.mark.parametrize("processes", [1, 8, 40])
    def test_kernelmix_leaves_what_it_should(self, processes: int, meeting: str) -> None:
        command = (f"/{kind.HOME}/kernelmix", str(processes), "20", meeting)
        done = loiter_("exec", "--image", "workloads", "--harts", "4", "--", *command, limit_seconds=LIMIT_SECONDS)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.decode() == f"kernelmix: {processes} processes, 20 rounds each, right\n"

    def test_mistakes_are_said(self) -> None:
        mistakes = ("perl --rounds x", "perl --cpu 99", "mix", "mix perl lisp")
        mistakes += ("kernelmix 0", "kernelmix 2 no", "kernelmix 2 3 alone")
        script = "; ".join(f"/{kind.HOME}/{words}; echo $?" for words in mistakes)
        done = loiter_("exec", "--image", "workloads", "--", "sh", "-c", script, limit_seconds=LIMIT_SECONDS)
        assert done.stdout.decode().split() == ["2"] * len(mistakes)
        assert 'no workload "lisp"' in done.stderr.decode()
