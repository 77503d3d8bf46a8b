"""The flow of a kernel's code in a page: a folded loop is opened by a double click and by key."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

import explorer
from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import house
from tests.widgets import made_by_hand as hand
from widgets.program import flow_graph
from widgets.session.session import Session

pytestmark = pytest.mark.browser
MANY = 10_000  # blocks, more than any kernel has
FOLDS, BLOCKS = "#room .picture .block[data-loop]", "#room .picture .block"


@pytest.mark.exhaustive
@pytest.mark.parametrize(("width", "scheme"), [(900, "dark"), exhaustive(1280, "light")])
def test_a_folded_loop_is_opened_and_all_are_folded_again(
    browser: Browser, width: int, scheme: str
) -> None:
    session = Session(explorer.compile("zoo:small_mobilevit"), compare=hand.compare)
    blocks = {k: len(flow_graph.data(k, most=MANY).nodes) for k in session.now.compiled.kernels}
    largest = max(blocks, key=lambda k: blocks[k])
    assert blocks[largest] > flow_graph.MOST_NODES
    op = session.house.order[sorted(largest.origins)[0]]
    with house(browser, session, width=width, scheme=scheme) as page:
        page.evaluate("driver.stage('EMITTED')")
        page.evaluate(f"driver.select({op})")
        page.evaluate("driver.go('flow')")
        page.wait_for_selector(FOLDS)
        before, folds = page.locator(BLOCKS).count(), page.locator(FOLDS).count()
        assert before <= 60 and folds >= 1
        loop = page.locator(FOLDS).first.get_attribute("data-loop")
        page.locator(FOLDS).first.dblclick()
        page.wait_for_function(f"document.querySelectorAll('{BLOCKS}').length > {before}")
        assert page.locator(f"{BLOCKS}[data-loop='{loop}']").count() == 0
        focused = "document.activeElement.dataset.first"
        assert page.evaluate(focused) == loop
        page.keyboard.press("-")
        page.wait_for_function(f"document.querySelectorAll('{BLOCKS}').length === {before}")
        page.locator(FOLDS).first.focus()
        page.keyboard.press("+")
        page.wait_for_function(f"document.querySelectorAll('{BLOCKS}').length > {before}")
