#!/usr/bin/env python3
"""Installs a wheel into an environment of its own, and runs the tutorial and a study there, without any compiler.

    tools/check_wheel.py DIST/loiter-*.whl

Nothing of the checkout is used but the text of docs/tutorial.md: `PATH` has the environment alone.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import doc_commands

TUTORIAL = Path(__file__).resolve().parents[1] / "docs" / "tutorial.md"
STUDY = "loiter study run cakarevic2008 --scale quick --out results/whole"


def main(words: list[str]) -> int:
    """Returns the exit code."""
    if len(words) != 1 or not Path(words[0]).is_file():
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as directory:
        return check(Path(words[0]).resolve(), Path(directory))


def check(wheel: Path, directory: Path) -> int:
    """Installs it in a directory and runs everything; the exit code of the first that fails."""
    home = directory / "home"
    home.mkdir()
    venv.create(directory / "env", with_pip=True)
    binaries = directory / "env" / "bin"
    subprocess.run([binaries / "pip", "install", "--quiet", "--disable-pip-version-check", wheel], check=True)
    environment = {"PATH": str(binaries), "HOME": str(home), "LANG": "C.UTF-8"}
    commands = list(doc_commands.of_page(TUTORIAL.read_text(encoding="utf-8"), home, "python"))
    assert len(commands) > 8, "the tutorial has lost its commands"
    for words in [*commands, ["/bin/sh", "-c", STUDY]]:
        began = time.monotonic()
        done = subprocess.run(words, cwd=home, env=environment, capture_output=True, text=True)
        print(f"{time.monotonic() - began:6.1f} s  {words[-1].strip().splitlines()[0][:100]}", flush=True)
        if done.returncode != 0:
            print(done.stdout[-3000:] + done.stderr[-3000:], file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
