"""The room of replicas in a page: its bars, its axis, the keyboard and the table."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import widgets
from tests.browser.exhaustive import exhaustive
from tests.widgets.test_replica_timeline import AFTER, OVER, WARM, timeline
from widgets.draw import plots
from widgets.draw.theme import SCHEMES
from widgets.page import front_end

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("playwright", reason="BROWSER TESTS SKIPPED: playwright is not installed")
pytestmark = pytest.mark.browser

MODEL = """// What Jupyter gives a widget: a model whose kernel knows what draws.
const content = JSON.parse(document.getElementById("content").textContent), heard = [];
const signal = () => ({ connect() {}, disconnect() {} });
const alive = { statusChanged: signal(), disposed: signal() };
const raw = () => Uint8Array.from(atob(content.library), c => c.charCodeAt(0));
const answer = message => 
  heard.forEach(act => act({ id: message.id, data: {} }, [new DataView(raw().buffer)]));
const live = { comm_live: true, on() {}, off() {} };
page.render({ el: document.getElementById("room"), model: {
  on: (name, act) => { if (name === "msg:custom") heard.push(act); },
  off() {}, set() {}, save_changes() {},
  get: name => content[name], widget_manager: { kernel: alive, get_model: async () => live },
  send: message => setTimeout(answer, 0, message),
} });
"""


@pytest.mark.parametrize("scheme", ["dark", exhaustive("light")])
@pytest.mark.parametrize("width", [900, exhaustive(1280)])
def test_sums_stand_under_the_passes_and_reads_are_red(
    browser: Browser, tmp_path: Path, scheme: str, width: int
) -> None:
    from tests.browser.driver import Tab

    free = [timeline([WARM, OVER]), timeline([WARM, OVER], 0.001)]
    room = widgets.replicas({"sync-free": free, "ordinary": [timeline([WARM, AFTER])] * 2})
    told = {"html": room.html, "chart": room.chart, "name": room.name}
    told["library"] = base64.b64encode(plots.library()).decode()
    content = json.dumps(told).replace("</", "<\\/")
    path = tmp_path / "room.html"
    script = front_end.script().replace("export default", "const page =")
    path.write_text(
        f'<!doctype html><meta charset="utf-8"><style>{front_end.styles()}</style>'
        f'<div id="room"></div><script id="content" type="application/json">{content}</script>'
        f'<script type="module">{script}\n{MODEL}</script>',
        encoding="utf-8",
    )
    tab = Tab(browser, width, 760, scheme)
    page = tab.page
    page.goto(path.as_uri())
    page.wait_for_selector(".js-plotly-plot .xtitle")
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
