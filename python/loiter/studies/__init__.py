"""Studies: published experiments that loiter repeats, one folder a paper.

A study is a module with a `STUDY` (see `loiter.studies.base.Study`); the list below is all that registers it.
"""

from __future__ import annotations

import importlib

from loiter.errors import unknown
from loiter.studies.base import Study

NAMES = (
    *("anderson1990", "boyd2012", "cakarevic2008", "catnap2020", "friebel2008", "mcs1991", "opensparc_t1"),
    "redstone2002",
)


def load(name: str) -> Study:
    """A study by its name."""
    if name not in NAMES:
        raise unknown("study", name, NAMES)
    study: Study = importlib.import_module(f"loiter.studies.{name}").STUDY
    return study
