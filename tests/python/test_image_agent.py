"""The Debian image for real: its agent, in QEMU, runs Debian's own programs for the host.

Cold, the image takes a minute to build; a boot and the programs take half a minute.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from loiter import images
from loiter.images import Image, agent, tools
from qemu_guest import run

pytestmark = [
    pytest.mark.skipif(tools.find("apt-get") is None, reason="images are built with apt"),
    pytest.mark.skipif(shutil.which("qemu-system-riscv64") is None, reason="needs QEMU"),
]


@pytest.fixture(scope="module")
def image() -> Image:
    """The Debian image in the user's own cache."""
    return images.ensure("debian")


PROGRAMS = r"""
perl -e 'print join(",", map { $_ * $_ } 1 .. 5), "\n"'
python3 -c 'import json, ssl, sqlite3; print(json.dumps({"sum": sum(range(100))}))'
sqlite3 :memory: 'create table t(a); insert into t values (1), (2), (39); select sum(a) from t;'
gcc -O2 -o square square.c -lpthread && ./square 12
apachectl start
for wait in 1 2 3 4 5 6 7 8; do curl -s -o page http://localhost/ && break; sleep 1; done
grep -o 'It works!' page
apachectl -V | grep -o 'event'
echo 1 2 3 | awk '{ print $2 }'
"""

SQUARE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *square(void *n) { return (void *)((long)n * (long)n); }
int main(int count, char **words)
{
    pthread_t thread;
    void *result;
    if (count != 2 || pthread_create(&thread, 0, square, (void *)atol(words[1])) || pthread_join(thread, &result))
        return 1;
    printf("%ld\n", (long)result);
}
"""


@pytest.mark.slow
def test_debians_programs_run(image: Image, tmp_path: Path) -> None:
    (tmp_path / "square.c").write_text(SQUARE)
    ran = run(image, tmp_path, PROGRAMS, [tmp_path / "square.c"])
    assert ran.talk == ["ready", "exit 0"], ran.messages
    assert ran.out.decode().splitlines() == [
        *("1,4,9,16,25", '{"sum": 4950}', "42", "144", "It works!", "event", "2"),
    ], ran.err.decode()
    assert ran.err == b""
    assert "Power down" in ran.messages


def test_bytes_and_status_come_through_unchanged(image: Image, tmp_path: Path) -> None:
    # Every byte, line ends of all kinds, and more than the pipes and consoles hold.
    data = bytes(range(256)) * 1024 + b"\r\n\n\r\x03\x04end without a line"
    (tmp_path / "put").mkdir()
    (tmp_path / "put/file").write_bytes(os.urandom(1 << 20))
    script = """
        cat
        cmp put/file - < put/file && pwd >&2
        sh -c 'kill -SEGV $$'
        [ -t 1 ] || echo "no terminal" >&2
        sleep 1000 &
        exit 7
    """
    ran = run(image, tmp_path, script, [tmp_path / "put"], data)
    assert ran.talk == ["ready", "exit 7"], ran.messages
    assert ran.out == data
    assert b"/put\n" in ran.err
    assert b"Segmentation fault" in ran.err
    assert b"no terminal\n" in ran.err
    assert agent.ended(ran.talk[-1]) == agent.Ended(7)


def test_an_archive_that_is_none_is_said_so(image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "write_archive", lambda out, *rest: out.write(b"no archive at all".ljust(1024, b"!")))
    ran = run(image, tmp_path, "true")
    assert len(ran.talk) == 2
    ended = agent.ended(ran.talk[1])
    assert ended is not None
    assert ended.status is None
    assert "cannot unpack the archive" in ended.fault
