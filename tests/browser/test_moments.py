"""The main picture of each chapter in JupyterLab, as a class sees it: it comes, and without faults.

The tour's is looked at in `test_tour_in_lab`. `test-all` has the others, in light and in dark.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser

from tests.browser.driver import Lab, Tab

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.exhaustive]

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CHAPTERS = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))[1:]
LAST = ".jp-Notebook .jp-Cell:last-child .jp-OutputArea-output"


@pytest.fixture(scope="module", params=["Light", "Dark"])
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Lab, str, Path]]:
    root = tmp_path_factory.mktemp("course")
    found = Lab(root, root / "jupyter", f"JupyterLab {request.param}")
    try:
        yield found, request.param, root
    finally:
        found.close()


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_picture_of_a_chapter_comes(
    chapter: str, lab: tuple[Lab, str, Path], browser: Browser
) -> None:
    server, theme, root = lab
    notebook = nbformat.read(NOTEBOOKS / f"{chapter}.ipynb", as_version=4)
    roles = [c.metadata.get("ironworks", {}).get("role") for c in notebook.cells]
    until = notebook.cells[: roles.index("moment") + 1]
    notebook.cells = [c for c in until if c.cell_type == "code"]
    for cell in notebook.cells:
        cell.source = re.sub(r"\bseconds=[\d.]+", "seconds=0.05", cell.source)
    nbformat.write(notebook, root / f"{chapter}.ipynb")
    tab = Tab(browser, 1500, 1000, theme.lower())
    try:
        server.open(tab.page, f"{chapter}.ipynb")
        server.run_all(tab.page, LAST)
        picture = tab.page.locator(LAST).last
        picture.scroll_into_view_if_needed()
        tab.page.wait_for_function(
            f"() => [...document.querySelectorAll('{LAST}')].at(-1)"  # behind what it printed
            ".getBoundingClientRect().height > 100"
        )
        stderr = tab.page.locator(".jp-RenderedText[data-mime-type*=stderr]")
        assert stderr.all_inner_texts() == []
        assert not tab.faults and not tab.outside
    finally:
        tab.close()
