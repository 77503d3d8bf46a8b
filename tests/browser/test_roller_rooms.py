"""Roller's rooms over a session: steps by key, other devices, a tile edited, timed and pinned."""

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from explorer.ir.decisions.tiling import Tiling
from explorer.measure.compare import Comparison, Measurement
from tests.browser.over_session import HAS, enter, rooms
from tests.widgets import made_by_hand as hand
from tests.widgets.of_family import of_family
from widgets.session.bench import Subject
from widgets.session.jobs import Job
from widgets.session.session import Session

pytestmark = pytest.mark.browser

CONV, FC = 0, 4  # among the operators


def timer(s: Subject, tiling: Tiling, job: Job) -> Comparison:
    """Sixty rounds of 5 ms without a clock."""
    for n in range(job.of):
        job.report(n)
        time.sleep(0.005)
    one, two = Measurement(10.0, 9.0, 11.0, 60), Measurement(12.0, 11.0, 13.0, 60)
    return Comparison(1.2, 1.15, 1.25, 60, "faster", one, two)


@pytest.fixture
def session() -> Session:
    return Session(hand.HandMade(), compare=hand.compare, timer=timer)


@pytest.fixture
def room(browser: Browser, session: Session, request: pytest.FixtureRequest) -> Iterator[Page]:
    op, names = getattr(request, "param", FC), (*of_family("tiles"), "layout")
    with rooms(browser, session, names, "Roller", op, named=False, width=900) as page:
        yield page


@pytest.mark.parametrize("room", [CONV], indirect=True)
def test_a_tile_of_the_staircase_is_taken_by_key_and_by_click(room: Page) -> None:
    shown = "document.querySelector('.rbar select[aria-label=Tile]')?.selectedIndex"
    for title, mark in (("Staircase", ".choice"), ("layouts", ".bar")):
        enter(room, title)
        key = mark.removeprefix(".")
        first = room.locator(f".drawn g[data-k~='{key}'][data-rank='0']").first
        first.focus()
        room.keyboard.press("ArrowRight")
        room.keyboard.press("Enter")
        room.wait_for_function(f"{shown} === 1")
        room.locator(f".drawn g[data-k~='{key}'][data-rank='0']").first.click()
        room.wait_for_function(f"{shown} === 0")


@pytest.mark.exhaustive
def test_every_device_has_its_pictures(room: Page) -> None:
    titles = ("layouts", "Staircase", "Roofline", "Waves")
    for title, device in zip(titles, ("v100", "mi50", "h100", "a100"), strict=True):
        room.locator(".rbar select").first.select_option(device)
        enter(room, title)
        room.wait_for_function(HAS, arg=[".picture", device])
    room.locator(".chart").focus()  # a bar of the waves is a tile
    room.keyboard.press("Home")
    room.keyboard.press("ArrowRight")
    room.keyboard.press("Enter")
    room.wait_for_function("document.querySelectorAll('.rbar select')[1].selectedIndex === 1")


def test_an_illegal_size_says_its_rule_at_the_field(room: Page) -> None:
    enter(room, "Tune")
    rows = room.locator(".tune input[data-field=rows]")
    assert rows.input_value() == "14"
    rows.fill("40")
    rows.press("Enter")
    why = room.locator("label:has([data-field=rows]) .wrong")
    why.wait_for()
    assert "the register tile needs 83 vector registers, this-cpu has 32" in why.inner_text()
    assert rows.get_attribute("aria-invalid") == "true"
    rows.fill("14")
    assert not why.count() and rows.get_attribute("aria-invalid") is None


def test_a_tile_is_timed_and_pinned(room: Page, session: Session) -> None:
    enter(room, "Tune")
    size = room.locator(".tune input[data-field=n]")
    size.fill("2")
    size.press("Enter")
    room.wait_for_function(HAS, arg=[".tune .note", "predicted"])
    room.locator(".tune .btn", has_text="Time it").click()
    room.wait_for_function(HAS, arg=[".tune .note", " of 60"])
    room.wait_for_function(HAS, arg=[".tune .note", "0.83×"])
    assert "99 %: 0.80 to 0.87, n = 60" in room.inner_text(".tune .note")
    assert "0.83×" in room.inner_text(".tune .cands")
    room.locator(".tune .btn", has_text="Use it").click()
    room.wait_for_function(HAS, arg=[".room .said", "tile of"])
    binding, tiling = session.now.compiled.options.roller.pinned[0]
    assert binding == "fc_out" and tiling.size("n") == 2


def test_a_timing_can_be_cancelled(room: Page, session: Session) -> None:
    enter(room, "Tune")
    room.locator(".tune .btn", has_text="Time it").click()
    room.wait_for_function(HAS, arg=[".tune .note", " of 60"])
    room.locator(".tune .btn", has_text="Cancel").click()
    room.wait_for_selector(".tune .btn:not([disabled]):has-text('Time it')")
    assert "cancelled" in room.inner_text(".room .said")
    assert not session.times("fc_out")
