"""Inside a kernel, in a page: a button runs the instrumented copy; the bars and their table."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

import explorer
from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import house
from tests.widgets import made_by_hand as hand
from widgets.session.session import Session

pytestmark = pytest.mark.browser
SAYS = """words => [...document.querySelectorAll(".house :is(.see, .drawn :is(svg.pic,p.words))")]
    .some(n => (n.getAttribute("aria-label") ?? n.textContent).includes(words))"""
CLIPPED = (Path(__file__).parent / "clipped.js").read_text("utf-8").split("\n", 1)[1]


@pytest.mark.parametrize(
    ("width", "scheme"), [(900, "dark"), exhaustive(1280, "light"), exhaustive(1600, "light")]
)
def test_a_kernel_is_looked_into_from_the_page(browser: Browser, width: int, scheme: str) -> None:
    session = Session(explorer.compile("zoo:tiny_bert"), compare=hand.compare)
    session.measure()
    call = next(c for c in session.house.calls if c.name == "linear")
    op = session.house.order[call.ops[0]]
    with house(browser, session, width=width, scheme=scheme) as page:
        page.evaluate("driver.stage('EMITTED')")
        page.evaluate(f"driver.select({op})")
        page.evaluate("driver.go('inside')")
        page.wait_for_function(SAYS, arg="is not profiled yet")
        page.locator("#room .pw button", has_text="Look inside").click()
        page.wait_for_function(SAYS, arg="times as long", timeout=60_000)
        text = page.inner_text("#room .picture")
        assert "multiply" in text and "between them" in text and "%" in text
        assert page.evaluate(CLIPPED) == []
        box = "document.querySelector('#room .picture')"
        assert page.evaluate(f"{box}.scrollWidth <= {box}.clientWidth + 1")
        bars = page.locator("#room .picture svg.pic rect title").all_text_contents()
        assert sum(t.startswith("task 0, ") for t in bars) >= 3
        page.locator("#room .bar .name").click()
        page.keyboard.press("t")
        page.wait_for_selector("#room .pw table.tbl")
        head = page.locator("#room .pw table.tbl th").all_inner_texts()
        assert "share of the task" in head
