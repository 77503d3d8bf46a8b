"""The course where there is no kernel: a page of a chapter, as it was recorded, in Chromium.

`make test` records a chapter of two pictures, `make test-all` every chapter.
"""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import nbformat
import pytest
from nbformat import v4
from playwright.sync_api import Browser

from tests.browser.driver import Tab
from tests.browser.exhaustive import exhaustive

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
SHORT = (  # a picture of ours, a chart of the notebook's own, and one that grows
    "import plotly.graph_objects as go\nimport explorer, widgets\n"
    "widgets.show(explorer.compile('zoo:tiny_skip', 'v100', until='planned'), 'memory')",
    "widgets.styled(go.Figure(go.Scatter(x=[1, 2, 3], y=[3, 1, 2])), 'Drawn').show()",
    "growing = go.FigureWidget(go.Scatter(x=[1, 2], y=[1, 2]))\ngrowing",
    "growing.data[0].y = [2, 3]",
)
CHAPTERS = [path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb"))]
DRAWN = {"image/svg+xml", "application/vnd.plotly.v1+json"}
THEME = ".md-typeset figure { display: flow-root; width: fit-content; text-align: center; }"
PICTURES = """figures => figures.map(figure => {
  const image = figure.querySelector("img");
  const chart = figure.querySelector(".chart");
  figure.querySelector("details").open = true;
  const table = figure.querySelector("details pre");
  return {
    drawn: image ? image.naturalWidth : chart.querySelectorAll("svg.main-svg").length,
    high: figure.firstElementChild.getBoundingClientRect().height,
    wide: figure.firstElementChild.getBoundingClientRect().width,
    begins: getComputedStyle(table).textAlign,
    about: image ? image.alt : table.textContent,
    table: table.textContent.trim().split("\\n").length,
    seen: table.getBoundingClientRect().height,
  };
})"""


def short_chapter(folder: Path) -> Path:
    cells = [v4.new_markdown_cell("# 0. Short"), *map(v4.new_code_cell, SHORT)]
    path = folder / "short.ipynb"
    nbformat.write(v4.new_notebook(cells=cells), path)
    return path


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["", *map(exhaustive, CHAPTERS)])
def test_every_picture_of_a_chapter_stands_still_with_its_table(
    name: str, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No kernel, nothing from outside: `Tab` refuses what is asked for there."""
    from nbconvert.filters.markdown_mistune import markdown2html_mistune
    from plotly.offline import get_plotlyjs

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    chapter = NOTEBOOKS / f"{name}.ipynb" if name else short_chapter(tmp_path)
    recorded = tmp_path / "recorded" / chapter.name
    runpy.run_path(str(ROOT / "docs/record.py"))["record"](chapter, recorded)
    ran = json.loads(recorded.read_text("utf-8"))
    page = runpy.run_path(str(ROOT / "docs/course.py"))["chapter"](ran, chapter.name)
    assert "was recorded, on " in page and ran["metadata"]["recorded"]["machine"] in page
    (tmp_path / "plotly.min.js").write_text(get_plotlyjs(), encoding="utf-8")
    html = tmp_path / "page.html"
    html.write_text(
        f'<!doctype html><meta charset="utf-8"><style>{THEME}</style>'
        f'<div class="md-typeset">{markdown2html_mistune(page)}</div>',
        encoding="utf-8",
    )
    bundles = [o["data"] for c in ran["cells"] for o in c.get("outputs", ()) if "data" in o]
    pictures = [d for d in bundles if d.keys() & DRAWN]
    tab = Tab(browser)
    try:
        tab.page.goto(html.as_uri())
        tab.page.wait_for_load_state("networkidle")
        found = tab.page.locator("figure.picture").evaluate_all(PICTURES)
        assert len(found) == len(pictures) > 0
        for one in found:
            assert one["drawn"] and one["high"] > 30 and one["seen"] > 10, one
            assert one["about"].strip() and one["table"] > 1, one
            assert one["wide"] > 300 and one["begins"] == "left", one
        assert not tab.page.locator("text=widget-view").count()
        assert not tab.faults and not tab.outside
    finally:
        tab.close()
