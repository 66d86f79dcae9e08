"""Debian with the workloads of studies: seven integer programs with their inputs, and one that lives in the kernel."""

from __future__ import annotations

from pathlib import Path

from loiter import resources
from loiter.images import workloads
from loiter.images.kinds import Outcome, Work, debian
from loiter.images.progress import Step
from loiter.images.recipe import Recipe, files

DESCRIPTION = "Debian with the programs that studies run on Linux"
HAS_ROOT = True
FILES = (*debian.FILES, "workloads/**/*")
CODE = (*debian.CODE, "kinds/workloads.py", "workloads.py")
TOOLS = (*debian.TOOLS, "riscv64-linux-gnu-gcc")

# Beside what every Debian image has, which are perl, sqlite3, and gcc with cc1.
PACKAGES = ("gnugo", "ncompress", "newlisp", "spim")
# Where they are in the guest.
HOME = "usr/lib/loiter/bench"
_OURS = Path("workloads")


def steps(recipe: Recipe) -> list[Step]:
    """The steps of a build."""
    return [Step("inputs", 1), *debian.steps(recipe)]


def build(work: Work) -> Outcome:
    """Builds the image."""
    ours = [path for path in files(FILES) if _OURS in path.parents]
    written = {f"{HOME}/{path.relative_to(_OURS)}": resources.LINUX / path for path in ours if path.suffix != ".c"}
    programs = {f"{HOME}/{path.stem}": resources.LINUX / path for path in ours if path.suffix == ".c"}
    with work.steps.step("inputs"):
        made = {}
        for name, content in workloads.inputs().items():
            (work.scratch / name).write_bytes(content)
            made[f"{HOME}/input/{name}"] = work.scratch / name
    return debian.build_with(work, PACKAGES, {**written, **made}, programs)
