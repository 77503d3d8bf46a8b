"""A page with one room, as Jupyter shows it, without Jupyter."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.browser.driver import Tab
from widgets.draw import plots
from widgets.page import front_end

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from widgets.page.shell import Room

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


def room_tab(browser: Browser, room: Room, folder: Path, width: int, scheme: str) -> Tab:
    """Open a room in a tab and wait for its chart; the caller closes it."""
    content = {"html": room.html, "chart": room.chart, "name": room.name}
    content["library"] = base64.b64encode(plots.library()).decode()
    packed = json.dumps(content).replace("</", "<\\/")
    path = folder / "room.html"
    script = front_end.script().replace("export default", "const page =")
    path.write_text(
        f'<!doctype html><meta charset="utf-8"><style>{front_end.styles()}</style>'
        f'<div id="room"></div><script id="content" type="application/json">{packed}</script>'
        f'<script type="module">{script}\n{MODEL}</script>',
        encoding="utf-8",
    )
    tab = Tab(browser, width, 760, scheme)
    tab.page.goto(path.as_uri())
    tab.page.wait_for_selector(".js-plotly-plot .xtitle")
    return tab
