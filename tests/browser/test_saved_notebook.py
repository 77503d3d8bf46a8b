"""A notebook that was run and saved, opened again with a kernel that knows nothing of it."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser

from tests.browser.driver import TOKEN, Lab, Tab

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("lab")]

MODEL = Path(__file__).parents[1] / "data" / "tiny_skip.onnx"
CELLS = ("import widgets", "widgets.explore('tiny_skip.onnx')")
STILL, WIDE = ".jp-OutputArea .ironworks-still img", 400


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    root = tmp_path_factory.mktemp("saved")
    shutil.copy(MODEL, root)
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, CELLS)))
    nbformat.write(notebook, root / "saved.ipynb")
    found = Lab(root, root / "jupyter")
    yield found
    found.close()


def _end_kernels(lab: Lab) -> None:
    sessions = f"{lab.url}/api/sessions"
    with urllib.request.urlopen(f"{sessions}?token={TOKEN}", timeout=10) as answer:
        for session in json.load(answer):
            asked = f"{sessions}/{session['id']}?token={TOKEN}"
            urllib.request.urlopen(urllib.request.Request(asked, method="DELETE"), timeout=20)


def test_a_saved_notebook_shows_the_picture_until_its_cell_is_run(
    browser: Browser, lab: Lab
) -> None:
    tab = Tab(browser, 1400, 1000)
    page = tab.page
    try:
        lab.open(page, "saved.ipynb")
        lab.run_all(page, ".jp-OutputArea .ironworks .house")
        assert not page.locator(STILL).first.is_visible()  # the live page stands in its place
        page.keyboard.press("Control+s")
        page.wait_for_function("!document.querySelector('.jp-mod-dirty')", timeout=30_000)
        _end_kernels(lab)
        lab.open(page, "saved.ipynb")
        image = page.locator(STILL).first
        image.wait_for(timeout=30_000)
        page.wait_for_timeout(2_000)  # the widget manager gives up on the model meanwhile
        box = image.bounding_box()
        assert box is not None and box["width"] >= WIDE and box["height"] > 60
        assert page.evaluate(f"document.querySelector('{STILL}').naturalWidth") >= WIDE
        lost = page.get_by_text("model not found")
        assert not any(lost.nth(n).is_visible() for n in range(lost.count()))
    finally:
        tab.close()
