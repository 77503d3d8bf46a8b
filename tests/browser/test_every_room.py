"""Every room of the house: it is drawn, what is selected in it by pointer and by key is what every
pane is about, and nothing that is written is cut or under other words.

`make test` looks at a page over a session, in light, at 1280 points and at 400 %; `make test-all`
also at JupyterLab and at Voila, in both themes and at every width.

The rooms are those of `gallery.PICTURES`: one that is added is looked at here. What a canvas draws
(the wall, a graph's lines) is points, so of its words geometry sees nothing: the pictures that
`make test-all` leaves in `build/rooms`, HOST-ROOM-WIDTH-THEME.png, are for that.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="BROWSER TESTS SKIPPED: playwright is not installed")

from playwright.sync_api import Browser, CDPSession, Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from explorer.ir.stage import Stage
from tests.browser import trained_loop
from tests.browser.driver import Lab, Tab, Voila
from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import house as house_over
from widgets.draw import theme
from widgets.model.picture import Picture
from widgets.rooms import gallery

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("rooms")]

HERE = Path(__file__).parent
KEPT = HERE.parents[1] / "build" / "rooms"
CLIPPED = (HERE / "clipped.js").read_text("utf-8").split("\n", 1)[1]
SEEN = (HERE / "room_seen.js").read_text("utf-8")

PAGE = "a page"
HOSTS = (PAGE, "JupyterLab", "Voila")
SERVED = "zoo:tiny_bert"
WALLS = tuple(p.name for p in gallery.PICTURES if p.live == "wall")  # which a canvas draws
ROOMS = tuple(p for p in gallery.PICTURES if p.name in gallery.choices())
SCHEMES = {"light": theme.LIGHT, "dark": theme.DARK}
# Width, height and points of the screen to one of the page; the last is 1280 at 400 %.
WINDOWS = {1600: (1100, 1), 1280: (1000, 1), 900: (1000, 1), 320: (256, 4)}
FIRST = (("light", 1280), ("light", 320))
# What has only words, before a button is pressed, or for want of a GPU, of a loop, of a language
# model, whose rooms `test_language_model_rooms` looks at, or of a constant matrix.
WORDS_ALONE = {
    PAGE: {"inside", "banks", "low_bit", "one_token"},
    "JupyterLab": {"inside", "banks", "low_bit", "one_token"},
    "Voila": {"inside", "banks", "iterations", "crossing", "one_token"},
}
LAST_TRIES = 4
PRESSES = 24  # of J, to an operator of another kernel that has what the room shows
STAGES = "[...document.querySelectorAll('.stage')].map(n => n.dataset.stage)"
EMPTY = "document.querySelector('.stt:not([hidden]) .none') !== null"
STATE = """(() => { const box = document.querySelector('.picture'), { state } =
    document.querySelector('.ironworks').ironworks; return [seen.drawn(), state.room, state.table,
    box.dataset.room, box.hidden, seen.frames, seen.last]; })()"""
LISTED = "[...document.querySelectorAll('.fly [data-picture]')].map(n => n.dataset.picture)"


@dataclass
class Opened:
    """A house in a host, whose window is made wider and narrower."""

    host: str
    page: Page
    devtools: CDPSession
    scheme: str = "light"
    place: tuple[str, str] = ("", "")

    @property
    def ask(self) -> Callable[..., Any]:
        return self.page.evaluate

    def wait(self, condition: str, ms: int = 30_000) -> None:
        self.page.wait_for_function(condition, timeout=ms)

    def happens(self, condition: str, ms: int) -> bool:
        try:
            self.wait(condition, ms)
        except PlaywrightTimeout:
            return False
        return True

    def window(self, width: int, height: int = 0) -> None:
        high, scale = WINDOWS[width]
        size = {"width": width, "height": height or high, "deviceScaleFactor": scale}
        self.devtools.send("Emulation.setDeviceMetricsOverride", {**size, "mobile": False})

    def still(self, at: str) -> None:
        """The room is drawn, to its end."""
        still = f"seen.still('{self.place[0]}', {json.dumps(self.place[0] in WALLS)})"
        assert self.happens(still, 30_000), f"{at}: {self.ask(STATE)}"

    def paint(self, scheme: str) -> None:
        if scheme != self.scheme:
            self.ask("document.querySelector('[aria-label=\"Light or dark\"]').click()")
            self.scheme = scheme

    def enter(self, room: Picture, stage: str) -> None:
        """Go to a room at a stage."""
        if self.place == (room.name, stage):
            return
        self.ask(
            "([room, stage]) => { const page = document.querySelector('.ironworks').ironworks;"
            " page.stage(stage); page.go(room); }",
            [room.name, stage],
        )
        self.place = (room.name, stage)

    def flip(self) -> None:
        """Show the table, or the picture again."""
        self.ask("document.querySelector('.house').focus()")
        self.page.keyboard.press("t")

    def clicked(self, where: str, done: str, pointed: str = "true") -> bool:
        """Whether a click where the page says did this; before it, what is pointed at is known."""
        place = self.ask(where)
        if place is None:
            return False
        self.page.mouse.move(*place)
        if not self.happens(pointed, 1500):
            return False
        self.page.mouse.click(*place)
        return self.happens(done, 1500)

    def kept(self, room: Picture, width: int) -> None:
        """A picture of the house, or at 400 % of the room, is left."""
        self.window(width, 1400)
        self.still("a higher window")
        box = self.ask(
            "at => { const node = document.querySelector(at); node.scrollIntoView();"
            " const { x, y, width, height } = node.getBoundingClientRect();"
            " return { x: x + scrollX, y: y + scrollY, width, height }; }",
            ".pw" if width == 320 else ".house",
        )
        told = {"format": "png", "captureBeyondViewport": True, "clip": {**box, "scale": 1}}
        image = self.devtools.send("Page.captureScreenshot", told)["data"]
        KEPT.mkdir(parents=True, exist_ok=True)
        path = KEPT / f"{self.host}-{room.name}-{width}-{self.scheme}.png"
        path.write_bytes(base64.b64decode(image))


def notebook(folder: Path) -> None:
    cell: dict[str, Any] = {
        "cell_type": "code", "execution_count": None, "id": "house", "metadata": {}, "outputs": [],
        "source": "import trained_loop\ntrained_loop.house()",
    }  # fmt: skip
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    found = {"cells": [cell], "metadata": {"kernelspec": kernel}, "nbformat": 4}
    (folder / "house.ipynb").write_text(json.dumps({**found, "nbformat_minor": 5}))
    shutil.copy(HERE / "trained_loop.py", folder)


@contextmanager
def house(browser: Browser, host: str, own: Path) -> Iterator[Opened]:
    """A house in this host, whose page may have no fault and ask for nothing outside."""
    with in_page(browser) if host == PAGE else served(browser, host, own) as page:
        found = Opened(host, page, page.context.new_cdp_session(page))
        found.wait("!document.querySelector('.house[aria-busy]')", 120_000)
        found.ask(SEEN)
        yield found


@contextmanager
def in_page(browser: Browser) -> Iterator[Page]:
    """A house without a server, in a tab of its own: the size of its screen is changed."""
    with house_over(browser, trained_loop.house().session, alone=True) as page:
        yield page


@contextmanager
def served(browser: Browser, host: str, own: Path) -> Iterator[Page]:
    """A house in JupyterLab or of Voila."""
    tab = Tab(browser, 1600, 1100)
    server: Lab | Voila
    if host == "JupyterLab":
        notebook(own)
        server = Lab(own, own / "jupyter")
    else:
        pytest.importorskip("voila", reason="VOILA IS NOT INSTALLED: nothing is served")
        server = Voila(SERVED, own)
    try:
        if isinstance(server, Lab):
            server.open(tab.page, "house.ipynb")
            tab.page.keyboard.press("Control+b")  # the file list gives its room to the notebook
            server.run_all(tab.page, ".house .stage")
        else:
            tab.page.goto(server.url)
            tab.page.wait_for_selector(".house", timeout=120_000)
        yield tab.page
        assert tab.outside == [] and tab.faults == []
    finally:
        tab.close()
        server.close()


@pytest.fixture(scope="module")
def houses(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Opened]]:
    """One in each host, from when a test first asks for it."""
    with ExitStack() as open_ones:

        @cache
        def found(host: str) -> Opened:
            own = tmp_path_factory.mktemp(host)
            return open_ones.enter_context(house(browser, host, own))

        yield found


@pytest.fixture
def opened(houses: Callable[[str], Opened], host: str) -> Opened:
    return houses(host)


def linked(opened: Opened, at: str) -> None:
    """Every pane is about what was selected."""
    agree = opened.happens("seen.apart().length === 0", 5000)
    assert agree, f"{at}: {opened.ask('seen.apart()')}"


def selected_by_pointer(opened: Opened, room: Picture, at: str) -> str:
    """What was clicked: a brick, a mark, a point, a line or a row of the room; of a room that has
    nothing to click, what is beside it; "" where there is nothing either.
    """
    if opened.ask("seen.op()") < 0:  # what is taken in a chart selects nothing
        opened.ask("document.querySelector('.house').focus()")
        opened.page.keyboard.press("j")
        opened.wait("seen.op() >= 0")
    another = f"seen.op() !== {opened.ask('seen.op()')} && seen.op() >= 0"
    tile = f"seen.controls() !== {json.dumps(opened.ask('seen.controls()'))}"
    line = f"{another} || document.querySelector('.picture .ln.at') !== null"
    tries = {"mark": another, "point": another, "tile": tile, "tile_before": tile, "line": line}
    if room.live == "wall":
        tries = {"brick": another}
    found = False
    for kind, done in {**tries, "row": another, "beside": another}.items():
        if kind == "row":
            opened.flip()
            opened.still(at)
        over = "document.querySelector('.picture .hovertext') !== null"
        pointed = over if kind in ("point", "tile", "tile_before") else "true"
        times = LAST_TRIES if kind == "beside" else 1  # what is beside may move while it is drawn
        found = found or opened.ask(f"seen.{kind}()") is not None
        clicked = any(opened.clicked(f"seen.{kind}()", done, pointed) for _ in range(times))
        if kind == "row":
            opened.flip()
            opened.still(at)
        if clicked:
            linked(opened, f"{at}: {kind}")
            opened.ask("seen.uncover()")
            return kind
    assert not found, f"{at}: nothing can be selected"
    return ""


def selected_by_key(opened: Opened, room: Picture, at: str) -> None:
    """J goes to the next operator, and the room with it where it is about one."""
    opened.ask("document.querySelector('.house').focus()")
    said = json.dumps(opened.ask("seen.said()"))
    for _ in range(PRESSES):
        before = opened.ask("seen.op()")
        opened.page.keyboard.press("j")
        opened.wait(f"seen.op() !== {before}")
        linked(opened, f"{at}: J")
        if not room.about or opened.ask(EMPTY) or opened.happens(f"seen.follows({said})", 600):
            return
    raise AssertionError(f"{at}: the room does not follow the selection")


def looked_at() -> Iterator[Any]:
    """Each room in a page, and at every stage and width in each other host."""
    for host, room in product(HOSTS, ROOMS):
        full = host != PAGE
        marks = [pytest.mark.exhaustive] if full else []
        yield pytest.param(host, room, full, id=f"{host}-{room.name}", marks=marks)


@pytest.mark.parametrize(("host", "room", "full"), tuple(looked_at()))
def test_a_room_is_drawn_linked_and_legible(opened: Opened, room: Picture, full: bool) -> None:
    stages = opened.ask(STAGES)
    number = ROOMS.index(room)
    own = [room.stage.name] if room.stage is not None else [s for s in stages]
    if own == ["DIFFERENTIATED"] and own[0] not in stages:
        pytest.skip("this model has no gradient")
    windows = tuple(product(SCHEMES, WINDOWS)) if full else FIRST
    chosen = windows[number % len(windows)]  # where something is selected in it
    problems: list[str] = []
    kinds: set[str] = set()
    for stage, (scheme, width) in product(own if full else own[number % len(own) :][:1], windows):
        opened.paint(scheme)
        tokens = json.dumps([c for c in SCHEMES[scheme].values() if c.startswith("#")])
        at = f"{opened.host}, {stage}, {room.title}, {width} wide, {scheme}"
        opened.window(width)
        opened.enter(room, stage)
        opened.still(at)
        kind, _ = opened.ask("seen.drawn()")
        alone = kind == "sentence"  # of steps there may be nothing to tell at any stage
        assert room.every or alone == (room.name in WORDS_ALONE[opened.host]), f"{at}: {kind}"
        problems += [f"{at}: {found}" for found in opened.ask(CLIPPED)]
        problems += [f"{at}: {c} is no token" for c in opened.ask(f"seen.strange({tokens})")]
        if full or (scheme, width) == chosen:
            kinds.add(selected_by_pointer(opened, room, at))
            selected_by_key(opened, room, at)
            opened.still(at)
            problems += [f"{at}, selected: {found}" for found in opened.ask(CLIPPED)]
        if full:
            opened.kept(room, width)
    assert not problems, "\n".join(problems)
    assert any(kinds), f"{opened.host}, {room.title}: nothing can be selected at any width"


@pytest.mark.parametrize("host", [PAGE, *map(exhaustive, HOSTS[1:])])
def test_the_list_of_rooms_is_that_of_the_house(opened: Opened) -> None:
    """Each stage lists its pictures, but those that have nothing to show."""
    opened.window(1280)
    absent = opened.ask("document.querySelector('.ironworks').ironworks.absent()")
    for stage in opened.ask(STAGES):
        opened.page.locator(f".rail [data-stage={stage}]").click()
        listed = opened.ask(LISTED)
        assert {p.name for p in gallery.pictures_of_stage(Stage[stage])} - {*absent} <= {*listed}
        assert not {*absent} & {*listed}
        opened.page.locator(f".rail [data-stage={stage}]").click()
    opened.place = ("", "")
