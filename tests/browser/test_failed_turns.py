"""A step that fails after a switch: the program before it is offered, shown with the error over it,
and left again.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import house as house_of
from tests.browser.over_session import settle
from tests.widgets.test_failed_compilations import own_registry, session
from widgets.session.session import Session

__all__ = ["own_registry", "session"]

pytestmark = pytest.mark.browser
CLIPPED = (Path(__file__).parent / "clipped.js").read_text("utf-8").split("\n", 1)[1]
OFFER, OVER = "#room .offer", "#room .pp .over"


def switch(page: Page) -> None:
    page.evaluate("driver.stage('LEGALIZED')")
    page.evaluate("driver.go('switchboard')")
    page.get_by_label("fold layout copies is on").click()


@pytest.mark.parametrize(("width", "scheme"), [(900, "dark"), exhaustive(1280, "light")])
def test_a_switch_with_which_compiling_fails_offers_the_program_before_the_error(
    browser: Browser, session: Session, width: int, scheme: str
) -> None:
    with house_of(browser, session, width=width, scheme=scheme) as page:
        page.wait_for_function("!document.querySelector('.house[aria-busy]')")
        switch(page)
        page.wait_for_selector(f"{OFFER}:visible")
        assert "a copy" in page.inner_text(f"{OFFER} [role=alert]")
        assert session.now.ended is None and not page.is_visible(OVER)
        page.locator(f"{OFFER} button", has_text="Leave it").click()
        assert not page.is_visible(OFFER)
        switch(page)
        page.locator(f"{OFFER} button", has_text="Look at the program").click()
        page.wait_for_selector(f"{OVER}:visible")
        assert not page.is_visible(OFFER) and session.now.ended is not None
        over = page.inner_text(OVER)
        assert over.startswith("Stopped at few: ") and "a copy" in over
        assert page.locator("#room .pp .ln").count() > 10  # the program as far as it came
        assert page.locator(".stage[data-stage=LEGALIZED] .ck.bad").count() == 1
        assert "not run" in (page.locator(".stage[data-stage=WELDED]").text_content() or "")
        assert page.locator("#room .verdict .far").inner_text() == session.verdict()["small"]
        page.evaluate("driver.select(12)")
        page.wait_for_selector("#room .pp .ln.lit, #room .pp .ln.sel, #room .pp .lit")
        page.evaluate("driver.open('code', true)")
        assert page.evaluate(CLIPPED) == []
        page.evaluate("driver.stage('TYPED')")
        page.wait_for_selector(OVER, state="hidden")
        page.locator("#room .bar .name").click()
        page.keyboard.press("u")
        page.wait_for_function("driver.wall.bricks() > 0")
        assert session.now.ended is None and not page.is_visible(OVER)
        page.evaluate("driver.stage('LEGALIZED')")
        settle(page)
        assert not page.is_visible(OVER)
