"""Threads over banks in a page: drawn, walked through by key, as a table, at every width."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

import explorer
from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import house
from widgets.session.session import Session

pytestmark = pytest.mark.browser
CLIPPED = (Path(__file__).parent / "clipped.js").read_text("utf-8").split("\n", 1)[1]


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(explorer.compile("zoo:tiny_bert", target="h100", until="planned"))


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (900, "dark"),
        exhaustive(1280, "light"),
        exhaustive(1280, "dark"),
        exhaustive(1600, "light"),
    ],
)
def test_banks_are_drawn_walked_through_and_a_table(
    browser: Browser, session: Session, width: int, scheme: str
) -> None:
    with house(browser, session, width=width, scheme=scheme) as page:
        page.evaluate("driver.stage('ROLLED')")
        page.evaluate("driver.select(-1)")
        page.evaluate("driver.go('banks')")
        page.wait_for_selector("#room .picture svg.pic [data-step]")
        rows = len(page.locator("#room .picture [data-step]").all())
        assert rows >= 3
        assert page.evaluate(CLIPPED) == []
        box = "document.querySelector('#room .picture')"  # no scrolling sideways
        assert page.evaluate(f"{box}.scrollWidth <= {box}.clientWidth + 1")
        page.locator("#room .bar .name").click()
        page.keyboard.press("<")
        heard = page.locator("#room .see .step").first
        first = heard.inner_text()
        assert first.startswith("phase 1: warp ") and "cycle" in first
        page.keyboard.press(".")
        assert heard.inner_text() != first
        page.keyboard.press("t")
        page.wait_for_selector("#room .pw table.tbl")
        head = page.locator("#room .pw table.tbl th").all_inner_texts()
        assert "cycles" in head and "without conflicts" in head
        assert page.locator("#room .pw table.tbl tr").count() > rows
