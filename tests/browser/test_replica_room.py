"""The room of replicas in a page: its bars, its axis, the keyboard and the table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import widgets
from tests.browser.exhaustive import exhaustive
from tests.browser.room_page import room_tab
from tests.widgets.test_replica_timeline import AFTER, OVER, WARM, timeline
from widgets.draw.theme import SCHEMES

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("playwright", reason="BROWSER TESTS SKIPPED: playwright is not installed")
pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["dark", exhaustive("light")])
@pytest.mark.parametrize("width", [900, exhaustive(1280)])
def test_sums_stand_under_the_passes_and_reads_are_red(
    browser: Browser, tmp_path: Path, scheme: str, width: int
) -> None:
    free = [timeline([WARM, OVER]), timeline([WARM, OVER], 0.001)]
    room = widgets.replicas({"sync-free": free, "ordinary": [timeline([WARM, AFTER])] * 2})
    tab = room_tab(browser, room, tmp_path, width, scheme)
    page = tab.page
    assert page.locator(".xtitle").text_content() == "time since the step began (ms), measured"
    bars = page.locator(".barlayer .point path")
    assert bars.count() == sum(len(t["x"]) for t in room.chart["figure"]["data"])
    bad = SCHEMES[scheme]["bad"]
    red = f"rgb({', '.join(str(int(bad[n : n + 2], 16)) for n in (1, 3, 5))})"
    fills = bars.evaluate_all("all => all.map(one => getComputedStyle(one).fill)")
    assert fills.count(red) == 2
    page.locator(".chart").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    drawn = room.chart["figure"]["data"]
    words = [text for trace in drawn for text in trace["customdata"]]
    assert page.locator("[aria-live]").text_content() == words[2]
    labels = page.locator(".ytick text").all_text_contents()
    assert labels == ["replica 0", "sums", "replica 1", "sums"] * 2
    page.locator("summary").click()
    assert page.locator("table.tbl tr").count() == 1 + len(room.table.rows)
    assert not tab.faults and not tab.outside
    tab.close()
