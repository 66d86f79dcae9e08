"""Fake commands of the host, for tests: small shell scripts in a directory that comes first in PATH."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


class FakeTools:
    """A directory of fake commands."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.calls = directory / "calls"
        directory.mkdir()
        monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")

    def add(self, name: str, script: str) -> None:
        """Puts a command in place of the host's; each call is written down."""
        path = self.directory / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> "{self.calls}"\n{script}\n')
        path.chmod(0o755)

    def called(self) -> list[str]:
        """Every call so far, as a line."""
        return self.calls.read_text().splitlines() if self.calls.exists() else []
