"""The guest program `multiuser`: its jobs, and the mixes as Re-aim has them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from linux_guest import loiter_
from loiter import resources

SOURCE = Path(__file__).parents[2] / "guests/linux/multiuser"
MIXES = {"compute": 820, "dbase": 550, "fserver": 595, "shared": 780}
"""Weights of all jobs together, which Re-aim's files of the mixes name too."""
FILES = {"compute": ("100", "250 << 10"), "dbase": ("1 << 10", "25 << 10")}
FILES |= {"fserver": ("10 << 10", "20 << 10"), "shared": ("1 << 10", "10 << 10")}


def table(mix: str) -> tuple[tuple[str, str], dict[str, int]]:
    """Sizes and weights of a mix, as the source has them."""
    text = (SOURCE / "multiuser.c").read_text()
    found = re.search(rf'\{{"{mix}",\s*([^,]+),\s*([^,]+),\s*\{{(.*?)\}}\}},', text, re.DOTALL)
    assert found is not None
    jobs = re.findall(r'\{"(\w+)", (\d+)\}?', f"{found[3]}}}")
    assert len({name for name, _ in jobs}) == len(jobs)
    return (found[1], found[2]), {name: int(weight) for name, weight in jobs}


def jobs_of(source: str) -> set[str]:
    text = (SOURCE / source).read_text()
    text = text[text.index("_jobs[] = {") :]
    return {name or short for name, short in re.findall(r'\{"(\w+)", \w+\}|JOB\((\w+)\)', text)}


JOBS = set().union(*(jobs_of(f"{each}.c") for each in ("arithmetic", "numeric", "memory", "files", "processes")))


@pytest.mark.parametrize("mix", MIXES)
def test_a_mix_has_the_jobs_of_re_aim(mix: str) -> None:
    files, weights = table(mix)
    assert sum(weights.values()) == MIXES[mix]
    assert files == FILES[mix]
    assert set(weights) <= JOBS


def test_every_job_is_in_a_mix() -> None:
    assert len(JOBS) == 54
    assert set().union(*(table(mix)[1] for mix in MIXES)) == JOBS


# ---- the guest -------------------------------------------------------------------------------------------------------


def put(directory: Path) -> None:
    (directory / "multiuser").write_bytes((resources.GUESTS / "multiuser").read_bytes())
    (directory / "multiuser").chmod(0o755)


@pytest.mark.slow
@pytest.mark.simulator
def test_each_job_finds_what_it_expects_and_leaves_nothing(tmp_path: Path) -> None:
    put(tmp_path)
    lines = [f"./multiuser {job} 2 2 16 || echo failed {job}" for job in sorted(JOBS)]
    script = "\n".join(["#!/bin/sh", "set -e", *lines, "rm -r multiuser common tree work.sh", "ls -a", "ipcs -ms"])
    (tmp_path / "work.sh").write_text(script)
    (tmp_path / "work.sh").chmod(0o755)
    done = loiter_("exec", "-n", "--harts", "2", "--put", "multiuser", "--", "./work.sh", cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    said = done.stdout.decode()
    assert "failed" not in said + done.stderr.decode()
    left = [line for line in said.split("------")[0].split() if not line.startswith(".")]
    assert left == []
    assert not re.findall(r"^0x", said, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.simulator
def test_each_user_does_so_many_jobs(tmp_path: Path) -> None:
    put(tmp_path)
    users, jobs = 3, 20
    words = ("exec", "-m", "t1", "--harts", "4", "-n", "--phases", "reference until probe:roi_end, timing")
    done = loiter_(*words, "--out", "out", "--", "./multiuser", "fserver", str(users), str(jobs), "16", cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    marks = pq.read_table(tmp_path / "out" / "marks.parquet").to_pylist()
    ends = Counter(mark["value"] for mark in marks if mark["kind"] == "work_end")
    assert ends == dict.fromkeys(range(users), jobs)


@pytest.mark.slow
@pytest.mark.simulator
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("./multiuser nobody 2", 2, "usage: multiuser"),
        ("./multiuser fserver 0", 2, "usage: multiuser"),
        ("./multiuser fserver 2 x", 2, "usage: multiuser"),
        ("./multiuser fserver 2 1 0", 2, "usage: multiuser"),
        # One user's file cannot be made: the others end too, though they would work for ever.
        ("mkdir rr1; ./multiuser disk_rr 2 0 16", 1, "rr1: Is a directory"),
    ],
)
def test_words_that_it_does_not_understand_and_jobs_that_fail(
    words: str, status: int, said: str, tmp_path: Path
) -> None:
    put(tmp_path)
    done = loiter_("exec", "-n", "--put", "multiuser", "--", "sh", "-c", words, cwd=tmp_path)
    assert done.returncode == status
    assert said in done.stderr.decode()
