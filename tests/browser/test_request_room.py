"""The room of requests in a page: its bricks, its axes, its legend, the keyboard and the table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import widgets
from tests.browser.exhaustive import exhaustive
from tests.widgets.test_request_wall import RESULT
from widgets.draw.theme import SCHEMES

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("playwright", reason="BROWSER TESTS SKIPPED: playwright is not installed")
pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["dark", exhaustive("light")])
@pytest.mark.parametrize("width", [900, exhaustive(1280)])
def test_rows_are_shared_by_requests_of_different_colours(
    browser: Browser, tmp_path: Path, scheme: str, width: int
) -> None:
    from tests.browser.room_page import room_tab

    room = widgets.requests(RESULT)
    tab = room_tab(browser, room, tmp_path, width, scheme)
    page = tab.page
    assert page.locator(".xtitle").text_content() == "time since the start (ms), measured"
    assert page.locator(".ytitle").text_content() == "row of the caches"
    assert page.locator(".ytick text").all_text_contents() == ["row 0", "row 1"]
    traces = room.chart["figure"]["data"]
    bricks = [words for trace in traces for words in trace.get("customdata") or ()]
    fills = page.locator(".barlayer .point path").evaluate_all(
        "all => all.map(one => getComputedStyle(one).fill)"
    )
    colours = SCHEMES[scheme]
    for token, steps in (("f-conv", 2), ("f-control-flow", 1), ("f-matmul", 1)):
        red, green, blue = (int(colours[token][n : n + 2], 16) for n in (1, 3, 5))
        assert fills.count(f"rgb({red}, {green}, {blue})") == steps  # the others are hatched
    assert sum("url" in fill for fill in fills) == 1 + 4  # of the legend's entry, and of prefills
    names = page.locator(".legendtext").all_text_contents()
    assert names == ["prefill, a chunk", "decode, a token", *(f"request {n}" for n in range(3))]
    page.locator(".chart").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.locator("[aria-live]").text_content() == bricks[2]
    page.locator("summary").click()
    assert page.locator("table.tbl tr").count() == 1 + len(RESULT.schedule)
    assert not tab.faults and not tab.outside
    tab.close()
