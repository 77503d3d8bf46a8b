from collections.abc import Iterator

import pytest

pytest.importorskip("playwright", reason="BROWSER TESTS SKIPPED: playwright is not installed")

from playwright.sync_api import Browser

from tests.browser.driver import chromium_browser


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    with chromium_browser(chromium) as found:
        yield found
