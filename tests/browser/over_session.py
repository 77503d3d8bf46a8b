"""Houses and rooms over a session, in one page of a browser: Python answers every question."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, Page

from explorer.errors import IronworksError
from tests.browser.driver import Tab
from widgets.page import front_end
from widgets.page.shell import CHANGES, refused
from widgets.rooms import gallery
from widgets.session.session import Session
from widgets.session.shown import Binary

HERE = Path(__file__).parent
HAS = "([where, text]) => document.querySelector(where)?.textContent.includes(text)"
SCRIPTS = ("over_session", "live_host", "house_page")


def encoded(buffers: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(body).decode() for name, body in buffers.items()}


class HousePage:
    """A page in which houses and rooms are mounted, one after another."""

    def __init__(self, browser: Browser) -> None:
        self.tab = Tab(browser)
        self.answer: Callable[[str, dict[str, Any]], dict[str, Any]] = lambda kind, args: {}
        self._folder = TemporaryDirectory()
        script = front_end.script().replace("export default", "const page =")
        hosts = "\n".join((HERE / f"{name}.js").read_text("utf-8") for name in SCRIPTS)
        path = Path(self._folder.name, "page.html")
        path.write_text(
            f'<!doctype html><meta charset="utf-8"><style>{front_end.styles()}</style>'
            f'<body></body><script type="module">{script}\n{hosts}</script>',
            encoding="utf-8",
        )
        self.page.expose_function("askSession", lambda kind, args: self.answer(kind, args))
        self.page.goto(path.as_uri())

    @property
    def page(self) -> Page:
        return self.tab.page

    def look(self, width: int, height: int, scheme: str) -> None:
        """Set the size of the window and the scheme of the system."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        self.page.mouse.move(0, 0)

    def mount(self, kind: str, content: str, place: str = "house") -> None:
        """Mount what `house_page.js` calls `kind` over the JSON `content`."""
        self.page.evaluate(
            "([kind, place, text]) => mountHouse(kind, place, JSON.parse(text))",
            [kind, place, content],
        )

    def clear(self) -> None:
        """Close what is mounted; it may not have failed or asked for anything outside."""
        self.page.evaluate("clearHouse()")
        faults, outside = [*self.tab.faults], [*self.tab.outside]
        assert not faults and not outside, (faults, outside)

    def close(self) -> None:
        self.tab.close()
        self._folder.cleanup()


_shared = cache(HousePage)


@contextmanager
def house_page(
    browser: Browser,
    width: int = 1440,
    height: int = 900,
    scheme: str = "light",
    alone: bool = False,
) -> Iterator[HousePage]:
    """The page of a browser that tests share, or one `alone`; after a failure the next test has a
    new page.
    """
    found = HousePage(browser) if alone else _shared(browser)
    try:
        found.look(width, height, scheme)
        yield found
        found.clear()
    except BaseException:
        if not alone:
            _shared.cache_clear()
        alone = True
        raise
    finally:
        if alone:
            found.close()


def answering(session: Session, whole: bool = True) -> Callable[[str, dict[str, Any]], Any]:
    """Return what answers a page's questions; a `whole` house hears what they changed."""

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
        if whole and changes and not refused(data):
            told["changed"] = changed()
        return told

    return ask


@contextmanager
def opened(
    browser: Browser,
    session: Session,
    kind: str,
    content: dict[str, Any],
    window: dict[str, Any],
) -> Iterator[Page]:
    """A page over a session."""
    with house_page(browser, **window) as found:
        found.answer = answering(session, whole=kind == "house")
        found.mount(kind, json.dumps({"answers": {}, "bytes": {}, **content}), "room")
        yield found.page


@contextmanager
def rooms(
    browser: Browser,
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
        "rooms": [gallery.find_picture(name).page_fields() for name in names],
        "title": title,
        "op": op,
    }
    if named:
        parts["names"] = [o.name for o in session.house.operators]
        parts["labels"] = [o.label for o in session.house.operators]
    window = {"width": 1000, "height": 800, **window}
    with opened(browser, session, "rooms", {"parts": parts}, window) as page:
        page.wait_for_selector(".room .picture :is(svg.pic, .chart)")
        yield page


@contextmanager
def house(browser: Browser, session: Session, **window: Any) -> Iterator[Page]:
    """The whole house."""
    parts = {**gallery.page_parts(), **session.parts()}
    content = {"parts": parts, "bytes": encoded(session.buffers())}
    with opened(browser, session, "house", content, window) as page:
        page.wait_for_selector("#room .house")
        settle(page)
        yield page


@contextmanager
def saved_house(browser: Browser, content: str, **window: Any) -> Iterator[Page]:
    """The house of a saved page, whose content is JSON."""
    with house_page(browser, **window) as found:
        found.mount("saved", content)
        found.page.wait_for_selector("#house .house")
        settle(found.page)
        yield found.page


def mount_live(found: HousePage, content: str) -> None:
    """Mount a house whose host answers from the page, and give it the focus."""
    found.mount("live", content)
    found.page.wait_for_selector("#house .house")
    settle(found.page)
    found.page.locator("#house .bar .name").click()


def settle(page: Page) -> None:
    """Wait until no question is under way and what was answered is drawn."""
    page.evaluate("settled()")


def enter(page: Page, title: str) -> None:
    """Go to a room by its tab."""
    page.locator(".room [role=tab]", has_text=title).click()
    page.wait_for_selector(f".room [role=tab][aria-selected=true]:has-text('{title}')")
    settle(page)
