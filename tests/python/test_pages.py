"""Pages in a browser: what is under the pointer, tables that are searched, links to runs, all sizes and schemes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, sync_playwright

import loiter
from fake_command import words as fake_words
from loiter.engine import Engine
from loiter.report import page
from loiter.results import Result

pytestmark = pytest.mark.slow

SIZES = {"phone": (390, 844), "tablet": (820, 1180), "desk": (1440, 900)}
SCHEMES = ("light", "dark")
MOST_BYTES = 5_000_000
KINDS = ("study", "curves", "wait", "sweep", "locks", "compare")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # A container has no sandbox to give.
        options: dict[str, Any] = {"executable_path": shutil.which("chromium"), "args": ["--no-sandbox"]}
        browser = playwright.chromium.launch(**options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind, of real runs."""
    home = tmp_path_factory.mktemp("pages")
    environment = os.environ | {"LOITER_CACHE": str(home / "cache")}

    def call(*words: str) -> None:
        command = [sys.executable, "-c", "from loiter.cli import main; main()", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=home, env=environment, timeout=300)
        assert done.returncode == 0, done.stderr

    call("study", "run", "cakarevic2008", "--scale", "quick", "--figure", "figure_6", "--out", "study")
    call("study", "run", "mcs1991", "--scale", "quick", "--figure", "figure_17", "--out", "curves")
    call("wait", "-m", "t1", "--scale", "quick", "--methods", "default,pause", "--beside", "add,sort", "--out", "wait")
    call(
        *("sweep", "-m", "t1", "-p", "spinloops", "--place", "add=0", "--grid", "argument.iterations=5..40+5"),
        *("--grid", "core.contexts=1,2,4", "--out", "sweep"),
    )
    call(
        *(
            "locks",
            "-m",
            "t1",
            "--locks",
            "ticket,test_and_set",
            "--threads",
            "1,2,4",
            "--cycles",
            "5000",
            "--seeds",
            "3",
        ),
        *("--out", "locks"),
    )
    for name in ("t1", "t2"):
        call("run", "-m", name, "spinloops", "--place", "add=0", "--out", name)
    call("compare", "t1", "t2", "--page", "compare.html")
    places = {"compare": "compare.html", "locks": "locks/locks.html"}
    return {kind: home / places.get(kind, f"{kind}/report.html") for kind in KINDS}


class Opened:
    """A page that is drawn, and what the console said."""

    def __init__(self, browser: Browser, path: Path, size: str = "desk", scheme: str = "light") -> None:
        width, height = SIZES[size]
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            offline=True,
        )
        self.page: Page = context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]", timeout=20_000)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_stands_alone_in_all_sizes_and_schemes(
    browser: Browser, pages: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    path = pages[kind]
    assert path.stat().st_size < MOST_BYTES
    colours = {}
    for size, (width, _) in SIZES.items():
        for scheme in SCHEMES:
            opened = Opened(browser, path, size, scheme)
            assert opened.said == [], f"{size} {scheme}"
            asked = [url for url in opened.asked if not url.startswith(("file:", "data:", "blob:"))]
            assert asked == []
            assert opened.page.evaluate("document.documentElement.scrollWidth") <= width, f"{size} {scheme}"
            charts = opened.page.locator("[data-chart][data-drawn] svg.marks").count()
            assert charts == opened.page.locator("[data-chart]").count() > 0
            colours[scheme] = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
            opened.page.context.close()
    assert colours["light"] != colours["dark"]


def test_a_bar_says_what_it_is_and_leads_to_its_run(browser: Browser, pages: dict[str, Path]) -> None:
    for kind in ("study", "wait"):
        page = Opened(browser, pages[kind]).page
        bars = page.locator("[data-chart] svg.marks g.mark-rect path")
        assert bars.count() > 4
        tall = max(range(bars.count()), key=lambda n: _box(bars.nth(n))["height"])
        bars.nth(tall).hover()
        tooltip = page.locator("#vg-tooltip-element.visible")
        tooltip.wait_for()
        said = tooltip.inner_text()
        assert "loiter run -m t1 spinloops -- task." in said.replace("--set system.cores=2 ", "")
        bars.nth(tall).click()
        marked = page.locator("tr.marked")
        marked.wait_for()
        label = marked.get_attribute("data-run")
        assert label is not None
        assert label in said
        link = marked.locator("a").get_attribute("href")
        assert link is not None
        assert (pages[kind].parent / link).is_file()
        page.context.close()


def _box(found: Locator) -> dict[str, float]:
    box: Any = found.bounding_box() or {"height": 0.0}
    return dict(box)


def test_a_scale_can_be_logarithmic(browser: Browser, pages: dict[str, Path]) -> None:
    # Shares of a whole, as of a comparison, have none.
    for kind in ("study", "wait", "sweep"):
        opened = Opened(browser, pages[kind])
        page = opened.page
        chart, box = page.locator("[data-chart]").first, page.locator("[data-log]").first
        before = chart.locator("svg.marks").inner_html()
        box.check()
        page.wait_for_function(
            "before => document.querySelector('[data-chart] svg.marks')?.innerHTML !== before", arg=before, timeout=5000
        )
        if kind != "sweep":
            heights = [
                bar["height"] for bar in map(_box, page.locator("[data-chart] svg.marks g.mark-rect path").all())
            ]
            assert max(heights) > 60, "bars are there"
        box.uncheck()
        page.wait_for_function(
            "before => document.querySelector('[data-chart] svg.marks')?.innerHTML.length === before", arg=len(before)
        )
        assert opened.said == []
        page.context.close()


def test_tables_are_searched_and_sorted(browser: Browser, pages: dict[str, Path]) -> None:
    page = Opened(browser, pages["study"]).page
    table = page.locator("table.explore", has=page.locator("th", has_text="verdict"))
    box = page.locator("div.dt-container", has=table).locator("input[type=search]")
    all_rows = table.locator("tbody tr").count()
    box.fill("cpi_alone.t1")
    page.wait_for_function("n => document.querySelectorAll('table.explore tbody tr').length !== n", arg=0)
    found = table.locator("tbody tr")
    assert 0 < found.count() < all_rows
    assert all("cpi_alone.t1" in text for text in found.all_inner_texts())
    page.context.close()
    page = Opened(browser, pages["sweep"]).page
    head = page.locator("table.explore th", has_text="cycles").first
    number = page.locator("table.explore th").evaluate_all(
        "heads => heads.findIndex(it => it.innerText.startsWith('cycles'))"
    )
    cells = page.locator(f"table.explore tbody tr td:nth-child({number + 1})")
    head.click()
    page.locator("table.explore th[aria-sort=ascending]").wait_for()
    values = [int(text.replace(",", "")) for text in cells.all_inner_texts()]
    assert values == sorted(values)
    assert len(set(values)) > 4
    page.context.close()


def test_a_sweep_shows_the_measure_that_is_chosen(browser: Browser, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["sweep"])
    page = opened.page
    chosen = page.locator(".vega-bindings select")
    assert chosen.input_value() == "ipc"
    before = page.locator("[data-chart] svg.marks").inner_html()
    assert "ipc, instructions/cycle" in before
    chosen.focus()
    chosen.select_option("cycles")
    page.wait_for_function(
        "before => document.querySelector('[data-chart] svg.marks').innerHTML !== before", arg=before
    )
    page.locator("[data-chart] svg.marks").get_by_text("cycles", exact=True).wait_for()
    assert chosen.input_value() == "cycles"
    page.wait_for_function("document.activeElement.tagName === 'SELECT'", timeout=5000)
    assert page.locator("table.explore a").first.get_attribute("href", timeout=1000)
    assert opened.said == []
    page.context.close()


def test_what_seeds_differ_by_is_drawn(browser: Browser, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["locks"])
    page = opened.page
    chosen = page.locator(".vega-bindings select")
    marks = "[data-chart] svg.marks g.role-mark"
    heights = {}
    for measure in chosen.locator("option").evaluate_all("options => options.map(it => it.value)"):
        chosen.select_option(measure)
        page.locator("[data-chart] svg.marks").get_by_text(measure).first.wait_for()
        bars = page.locator(f"{marks}.mark-rule line")
        assert bars.count() == page.locator(f"{marks}.mark-symbol path").count() > 0
        heights[measure] = max(_box(bar)["height"] for bar in bars.all())
    assert max(heights.values()) > 5, heights
    assert opened.said == []
    page.context.close()


def test_an_axis_of_few_values_has_its_ticks_there(
    browser: Browser, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "cache"))
    axes = {"core.contexts": [1, 2]}
    loiter.sweep(axes, "t1", "spinloops", place="add=0", out=tmp_path / "out", quiet=True, workers=1)
    opened = Opened(browser, tmp_path / "out" / "report.html")
    labels = opened.page.locator("[data-chart] .role-axis-label").first.locator("text").all_text_contents()
    assert set(labels) == {"1", "2"}
    assert opened.said == []
    opened.page.context.close()


def test_failed_points_are_in_the_table_and_not_in_the_picture(
    browser: Browser, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "cache"))
    for places, charted in ((["add=0", "add=99", "mulx=0"], 1), (["add=99"], 0)):
        loiter.sweep({"place": places}, "t1", "spinloops", out=tmp_path / str(charted), quiet=True, workers=1)
        opened = Opened(browser, tmp_path / str(charted) / "report.html")
        assert opened.page.locator("[data-chart]").count() == charted
        assert "there is no 99" in opened.page.locator("table.explore .bad").inner_text()
        assert opened.said == []
        opened.page.context.close()


def test_a_text_cannot_leave_its_place(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "cache"))
    evil = "</script><script>alert(1)</script>"
    loiter.sweep({"place": ["add=0", evil]}, "t1", "spinloops", out=tmp_path / "out", quiet=True, workers=1)
    text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert evil not in text


def test_a_run_on_linux_says_what_ran() -> None:
    machine = {"name": "smt8", "set": ["core.contexts=4"]}
    request = {"bootargs": "console=ttyS0", "script": "set -e\n./work &\nwait\n", "phases": None}
    manifest = {"machine": machine, "image": {"name": "workloads"}, "request": request}
    said = page._command(Result(Path("nowhere"), manifest))
    assert said == "image workloads on -m smt8 --set core.contexts=4: set -e; ./work &; wait"


def test_a_comparison_page_needs_a_file(engine: Engine, tmp_path: Path) -> None:
    done = subprocess.run(
        [*fake_words(tmp_path), "compare", "t1", "t2", "--page", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "a directory; name a file" in done.stderr
