"""The commands and examples of the tutorial and of the how-tos, as they stand there; the site of all pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import doc_commands
import nbformat
import pytest
from nbclient import NotebookClient

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
PAGES = (
    "tutorial.md",
    "howto/add-a-guest.md",
    "howto/add-a-waiting-method.md",
    "howto/add-a-lock.md",
    "howto/add-an-out-of-order-processor.md",
    "howto/course-lab.md",
)
pytestmark = pytest.mark.simulator


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    shim = tmp_path / "bin" / "loiter"
    shim.parent.mkdir()
    shim.write_text(f"#!{sys.executable}\nfrom loiter.cli import main\nmain()\n")
    shim.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    environment = os.environ | {
        "PATH": f"{shim.parent}{os.pathsep}{os.environ['PATH']}",
        "LOITER_CACHE": str(tmp_path / "cache"),
        "LOITER": str(REPOSITORY),
        "PYTHONPATH": str(REPOSITORY / "python"),
    }
    commands = 0
    for command in doc_commands.of_page((DOCS / page).read_text(encoding="utf-8"), home):
        done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        assert done.stdout.strip() or "gcc" in command[-1], command[-1]
        commands += 1
    assert commands >= 3


@pytest.mark.parametrize("path", sorted((DOCS / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "cache"))
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are made, not kept"
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    kinds = [output["output_type"] for cell in notebook.cells for output in cell.get("outputs", [])]
    assert "display_data" in kinds, "a picture"
    assert "execute_result" in kinds, "a table"


def test_the_site_is_built_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    pages = {
        page.relative_to(tmp_path / "site").as_posix(): page.read_text() for page in (tmp_path / "site").rglob("*.html")
    }
    assert len(pages) > 30
    for name, words in {
        "reference/counters.html": ("invalidations", "Lines lost because another core's store"),
        "reference/parameters.html": ("core.reorder_entries", "[llvm]"),
        "reference/metrics.html": ("useful_per_thread_ipc",),
        "reference/commands.html": ("loiter sweep", "--cluster"),
        "reference/api.html": ("loiter.api.sweep", "half_width"),
    }.items():
        for word in words:
            assert word in pages[name], f"{name}: {word}"
    broken = []
    for name, text in pages.items():
        for target in re.findall(r'href="([^"#:?]+)[#"]', text):
            # The page for what is not found names all by their place on a server.
            if name != "404.html" and not (tmp_path / "site" / name).parent.joinpath(target).exists():
                broken.append(f"{name}: {target}")
    assert broken == []
