"""The explorer at 400 % of 1,280 pixels, and in a column of 400: nothing is cut, nothing goes
sideways out of the window, and a key comes to everything.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

import explorer
from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import HERE, house, settle
from tests.browser.test_layout import CLIPPED
from tests.browser.trained_loop import house as trained
from widgets.rooms import gallery
from widgets.session.session import Session

pytestmark = pytest.mark.browser

REACHABLE = (HERE / "reachable.js").read_text("utf-8").split("\n", 1)[1]
SIDEWAYS = "document.documentElement.scrollWidth - innerWidth"
WINDOWS = {"400 %": (320, 256, 4), "a column": (400, 800, 1)}
LAID = {"the picture": "Escape", "graph": "g", "inspector": "i", "code": "c", "what if": "w",
        "find": "Control+k", "keys": "?"}  # fmt: skip
MODELS = {
    "bert": lambda: Session(explorer.compile("zoo:tiny_bert")),
    "training": lambda: trained().session,
}
STILL = "() => !document.querySelector('.stt:not([hidden])')"


@pytest.fixture(scope="module", params=["bert", exhaustive("training")])
def session(request: pytest.FixtureRequest) -> Session:
    found = MODELS[request.param]()
    found.run_once()
    return found


@pytest.fixture(params=["400 %", exhaustive("a column")])
def page(browser: Browser, session: Session, request: pytest.FixtureRequest) -> Iterator[Page]:
    width, height, scale = WINDOWS[request.param]
    with house(browser, session, width=width, height=height, alone=True) as found:
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        devtools = found.context.new_cdp_session(found)
        devtools.send("Emulation.setDeviceMetricsOverride", size)
        found.wait_for_function("!document.querySelector('.house[aria-busy]')")
        yield found


def problems(page: Page) -> list[str]:
    settle(page)
    found = [*page.evaluate(CLIPPED), *page.evaluate(REACHABLE)]
    wide = page.evaluate(SIDEWAYS)
    return [*found, *([f"{wide} px wider than the window"] if wide > 0 else [])]


@pytest.mark.exhaustive
def test_every_picture_is_whole_and_all_of_it_is_reached(page: Page) -> None:
    absent, found = page.evaluate("driver.absent()"), {}
    for picture in gallery.PICTURES:
        if picture.name in absent or picture.name not in gallery.choices():
            continue
        if picture.stage is not None:
            page.evaluate("stage => driver.stage(stage)", picture.stage.name)
        page.evaluate("name => driver.go(name)", picture.name)
        settle(page)
        page.wait_for_function(STILL, timeout=60_000)
        page.wait_for_timeout(250)
        found[picture.name] = problems(page)
    assert len(found) > 20 and {name: said for name, said in found.items() if said} == {}


def test_what_lies_over_the_picture_is_whole_and_reached(page: Page) -> None:
    found = {}
    for name, key in LAID.items():
        page.locator(".house").focus()
        page.keyboard.press(key)
        page.wait_for_timeout(250)
        found[name] = problems(page)
        if name == "find":
            page.locator(".find input").focus()
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.matches('.find input')")
        page.locator(".house").focus()
        page.keyboard.press("Escape")
        if name in ("graph", "inspector", "code"):
            page.evaluate("name => driver.open(name, false)", name)
        page.evaluate("document.querySelectorAll('.ov').forEach(node => node.remove())")
    assert {name: said for name, said in found.items() if said} == {}
