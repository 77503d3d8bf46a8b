"""A page over a session, the house or some rooms: every question is answered in the test."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from explorer.errors import IronworksError
from tests.browser.driver import Tab
from widgets.page import front_end
from widgets.page.shell import CHANGES, refused
from widgets.rooms import gallery
from widgets.session.session import Session
from widgets.session.wall_views import Binary

HOST = (Path(__file__).parent / "over_session.js").read_text("utf-8")
HAS = "([where, text]) => document.querySelector(where)?.textContent.includes(text)"


def encoded(buffers: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(body).decode() for name, body in buffers.items()}


@contextmanager
def opened(
    browser: Browser,
    folder: Path,
    session: Session,
    content: dict[str, Any],
    *,
    width: int = 1000,
    height: int = 800,
    scheme: str = "light",
) -> Iterator[Page]:
    """The page; nothing of it may fail or reach outside."""
    script = front_end.script().replace("export default", "const page =")
    text = json.dumps({"answers": {}, "bytes": {}, **content}).replace("</", "<\\/")
    path = folder / "page.html"
    path.write_text(
        f'<!doctype html><meta charset="utf-8"><style>{front_end.styles()}</style>'
        f'<div id="room"></div><script id="content" type="application/json">{text}</script>'
        f'<script type="module">{script}\n{HOST}</script>',
        encoding="utf-8",
    )

    def changed() -> dict[str, Any]:
        return {"parts": session.parts(), "bytes": encoded(session.buffers())}

    def ask(kind: str, args: dict[str, Any]) -> dict[str, Any]:
        before = session.revision
        try:
            data = session.answer(kind, args)
        except IronworksError as problem:
            gone = {"changed": changed()} if session.revision != before else {}
            return {"error": problem.fields(), **gone}
        found = data if isinstance(data, Binary) else Binary(data)
        told: dict[str, Any] = {"data": found.data}
        if found.buffers:
            told["buffers"] = [base64.b64encode(b).decode() for b in found.buffers]
        changes = kind in CHANGES or session.revision != before
        if content.get("mount") == "house" and changes and not refused(data):
            told["changed"] = changed()
        return told

    tab = Tab(browser, width, height, scheme)
    tab.page.expose_function("askPython", ask)
    tab.page.goto(path.as_uri())
    yield tab.page
    assert not tab.faults and not tab.outside
    tab.close()


@contextmanager
def rooms(
    browser: Browser,
    folder: Path,
    session: Session,
    names: Sequence[str],
    title: str,
    op: int = 0,
    *,
    named: bool = True,
    **window: Any,
) -> Iterator[Page]:
    """Rooms alone. `named`: the page knows the operators."""
    parts: dict[str, Any] = {
        **gallery.page_parts(),
        "rooms": [gallery.named(name).told() for name in names],
        "title": title,
        "op": op,
    }
    if named:
        parts["names"] = [o.name for o in session.house.operators]
        parts["labels"] = [o.label for o in session.house.operators]
    with opened(browser, folder, session, {"parts": parts}, **window) as page:
        page.wait_for_selector(".room .picture :is(svg.pic, .chart)")
        yield page


@contextmanager
def house(browser: Browser, folder: Path, session: Session, **window: Any) -> Iterator[Page]:
    """The whole house."""
    parts = {**gallery.page_parts(), **session.parts()}
    content = {"mount": "house", "parts": parts, "bytes": encoded(session.buffers())}
    with opened(
        browser, folder, session, content, **{"width": 1440, "height": 900, **window}
    ) as page:
        page.wait_for_selector("#room .stage")
        page.wait_for_timeout(200)
        yield page


def enter(page: Page, title: str) -> None:
    """Go to a room by its tab."""
    page.locator(".room [role=tab]", has_text=title).click()
    page.wait_for_selector(f".room [role=tab][aria-selected=true]:has-text('{title}')")
    page.wait_for_timeout(150)
