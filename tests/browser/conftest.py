"""Houses over a host that answers from the page itself, and over a session."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser import by_hand
from widgets.session.session import Session

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.browser.over_session import HousePage

pytest.importorskip("playwright", reason="BROWSER TESTS SKIPPED: playwright is not installed")


@pytest.fixture
def live(browser: "Browser", request: pytest.FixtureRequest) -> Iterator["Page"]:
    from tests.browser.over_session import house_page, mount_live

    with house_page(browser) as found:
        mount_live(found, by_hand.content(getattr(request, "param", True)))
        yield found.page


@pytest.fixture
def own_page(browser: "Browser") -> Iterator["HousePage"]:
    """A page of one test alone, which may load it anew."""
    from tests.browser.over_session import HousePage

    found = HousePage(browser)
    yield found
    found.clear()
    found.close()


@pytest.fixture
def house(browser: "Browser", session: Session, request: pytest.FixtureRequest) -> Iterator["Page"]:
    """A house over the module's `session`, as wide and in the scheme that a test says."""
    from tests.browser.over_session import house

    width, scheme = getattr(request, "param", (1440, "light"))
    with house(browser, session, width=width, scheme=scheme) as page:
        page.wait_for_function("!document.querySelector('.house[aria-busy]')")
        yield page
