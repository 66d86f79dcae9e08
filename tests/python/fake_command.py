"""The `loiter` command on the fake simulator, as a program of its own."""

from __future__ import annotations

import sys
from pathlib import Path

# Without a guard for its main program, as a script of a user's need not have one.
_SCRIPT = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
import conftest
from loiter import cli, engine as engines, resources
resources.MACHINES, resources.GUESTS = Path({data!r}, "machines"), Path({data!r}, "guests")
load = engines.load
engines.load = lambda name="fake_native": load(name)
cli.main(sys.argv[1:])
"""


def words(tmp_path: Path) -> list[str]:
    """How it is called; machines and guests are those of the fixture `engine`."""
    script = tmp_path / "command.py"
    script.write_text(_SCRIPT.format(paths=sys.path, data=str(tmp_path / "data")))
    return [sys.executable, str(script)]
