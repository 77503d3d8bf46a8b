"""A page with a house over a host that answers from the page itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser import by_hand
from widgets.page import front_end
from widgets.session.session import Session

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("playwright", reason="BROWSER TESTS SKIPPED: playwright is not installed")

HOST = (Path(__file__).parent / "live_host.js").read_text("utf-8")


@pytest.fixture
def live(browser: "Browser", tmp_path: Path, request: pytest.FixtureRequest) -> Iterator["Page"]:
    from tests.browser.driver import Tab

    content = by_hand.content(getattr(request, "param", True))
    script = front_end.script().replace("export default", "const page =")
    path = tmp_path / "live.html"
    path.write_text(
        f'<!doctype html><meta charset="utf-8"><style>{front_end.styles()}</style>'
        f'<div id="house"></div><script id="content" type="application/json">{content}</script>'
        f'<script type="module">{script}\n{HOST}</script>',
        encoding="utf-8",
    )
    tab = Tab(browser)
    tab.page.goto(path.as_uri())
    tab.page.wait_for_selector("#house .stage")
    tab.page.wait_for_timeout(200)
    tab.page.locator("#house .bar .name").click()
    yield tab.page
    assert not tab.faults and not tab.outside
    tab.close()


@pytest.fixture
def house(
    browser: "Browser", tmp_path: Path, session: Session, request: pytest.FixtureRequest
) -> Iterator["Page"]:
    """A house over the module's `session`, as wide and in the scheme that a test says."""
    from tests.browser.over_session import house

    width, scheme = getattr(request, "param", (1440, "light"))
    with house(browser, tmp_path, session, width=width, scheme=scheme) as page:
        page.wait_for_function("!document.querySelector('.house[aria-busy]')")
        yield page
