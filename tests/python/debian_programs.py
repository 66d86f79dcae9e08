"""Programs of Debian that a guest runs, and what they must answer."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from linux_guest import LIMIT_SECONDS, loiter_

HELLO = """\
#include <stdio.h>
int main(int count, char **words)
{
    char line[64];
    for (int n = 1; n < count; n++)
        printf("%d %s\\n", n, words[n]);
    while (fgets(line, sizeof line, stdin))
        printf("read %s", line);
    fprintf(stderr, "done\\n");
    return 3;
}
"""
SERVE = """\
apache2ctl start
echo "page $((6 * 7))" > /var/www/html/index.html
for try in 1 2 3 4 5 6 7 8 9; do curl --silent --fail http://127.0.0.1/ && break; sleep 0.2; done
"""


@dataclass(frozen=True)
class Program:
    """A program, its files, and its answer."""

    name: str
    words: tuple[str, ...]
    stdout: str
    stderr: str = ""
    status: int = 0
    stdin: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    def check(
        self, directory: Path, *options: str, limit_seconds: float = LIMIT_SECONDS
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs it in `directory` with `options` of `loiter exec`."""
        put = []
        for name, text in self.files.items():
            (directory / name).write_text(text)
            put += ["--put", name]
        words = ("exec", *options, *put, "--", *self.words)
        done = loiter_(*words, stdin=self.stdin.encode(), cwd=directory, limit_seconds=limit_seconds)
        assert (done.stdout.decode(), done.returncode) == (self.stdout, self.status), done.stderr
        return done


_PYTHON = "import hashlib, math; print(math.factorial(25), hashlib.sha256(b'loiter').hexdigest())"
PROGRAMS = [
    Program("perl", ("perl", "-e", r'print join(",", map { $_ ** 2 } 1 .. 5), "\n"'), "1,4,9,16,25\n"),
    Program(
        "python",
        ("python3", "-c", _PYTHON),
        f"15511210043330985984000000 {hashlib.sha256(b'loiter').hexdigest()}\n",
    ),
    Program(
        "sqlite",
        (
            *("sqlite3", ":memory:"),
            "create table t (a); insert into t values (1), (2), (39); select sum(a), count(*) from t;",
        ),
        "42|3\n",
    ),
    Program(
        "gcc",
        ("sh", "-c", "gcc -O2 -o hello hello.c && ./hello 'a b' c"),
        "1 a b\n2 c\nread one\nread two\n",
        stderr="done\n",
        status=3,
        stdin="one\ntwo\n",
        files={"hello.c": HELLO},
    ),
    Program("apache", ("sh", "-c", SERVE), "page 42\n"),
]
