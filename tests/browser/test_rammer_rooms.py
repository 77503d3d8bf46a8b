"""Rammer's rooms over a session: policies, units and rKernels are chosen where they are seen;
tables say the same; narrow windows scroll.
"""

from collections.abc import Iterator
from itertools import combinations
from time import sleep
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

import explorer
from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import HAS, enter, rooms
from tests.widgets.of_family import of_family
from tests.widgets.test_rammer_rooms import UNITS, wide
from widgets.session.session import Session

pytestmark = pytest.mark.browser

NAMED = "said => document.querySelector('.drawn svg')?.ariaLabel.includes(said)"
TITLES = ("Policies", "Accept rule", "Versus op-by-op", "rTasks")


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(explorer.compile(explorer.load(wide), options=UNITS, until="PLANNED"))


@pytest.fixture
def room(browser: Browser, session: Session, request: pytest.FixtureRequest) -> Iterator[Page]:
    width, scheme = getattr(request, "param", (1000, "light"))
    names, look = of_family("walls"), {"width": width, "scheme": scheme}
    with rooms(browser, session, names, "Rammer", **look) as page:
        yield page


def test_what_is_chosen_holds_in_every_room(room: Page) -> None:
    room.locator(".rbar select[aria-label=policy]").select_option("critical-path")
    room.wait_for_function(NAMED, arg="critical-path on ")
    room.locator(".rbar select[aria-label=cores]").select_option("8")
    room.wait_for_function(NAMED, arg="critical-path on 8 cores")
    enter(room, "Versus op-by-op")
    room.wait_for_function(NAMED, arg="8 cores, predicted: critical-path")
    room.locator(".rbar select[aria-label=rKernels]").select_option("efficient")
    room.wait_for_function(HAS, arg=[".drawn svg", "critical-path, efficient rKernels"])


def test_a_bar_takes_its_policy_by_pointer_and_by_key(room: Page) -> None:
    policy = "document.querySelector('.rbar select[aria-label=policy]').value"
    room.locator(".drawn [data-value=gang] text").first.click()
    room.wait_for_function(f"{policy} === 'gang'")
    room.wait_for_function(NAMED, arg="gang on ")
    room.locator(".drawn [data-value=gang]").focus()
    room.keyboard.press("ArrowLeft")
    room.keyboard.press("Enter")
    room.wait_for_function(f"{policy} === 'weight-stationary'")
    room.wait_for_function(NAMED, arg="weight-stationary on ")


@pytest.mark.parametrize("room", [(700, "light"), exhaustive((1000, "dark"))], indirect=True)
def test_what_may_be_chosen_stands_side_by_side(room: Page) -> None:
    enter(room, "Accept rule")
    boxes = room.evaluate(
        "[...document.querySelectorAll('.rbar :is(span, select, button)')]"
        ".map(n => n.getBoundingClientRect().toJSON())"
    )
    assert len(boxes) > 6 and max(b["right"] for b in boxes) < room.viewport_size["width"]
    for a, b in combinations(boxes, 2):
        aside = a["right"] <= b["left"] or b["right"] <= a["left"]
        assert aside or a["bottom"] <= b["top"] or b["bottom"] <= a["top"]


def test_a_word_of_the_glossary_is_told_where_it_stands(room: Page) -> None:
    enter(room, "Versus op-by-op")
    share = room.locator(".rbar label span", has_text="chunks per core")
    share.hover()
    assert (share.get_attribute("title") or "").startswith("chunks per core: ")
    cause = room.locator(".drawn svg text", has_text="barrier").first
    cause.hover()
    assert "barrier: A point that no core or SM passes" in (
        cause.locator("title").text_content() or ""
    )
    device = room.locator(".rbar label", has_text="device")
    device.hover()
    assert not device.get_attribute("title")  # no word of the glossary, nothing to tell


@pytest.mark.exhaustive
def test_every_room_has_its_table_by_key(room: Page) -> None:
    for title in TITLES:
        enter(room, title)
        room.locator(".room.live").focus()
        room.keyboard.press("t")
        room.wait_for_selector(".room .picture table.tbl tr:nth-child(2)")
        room.keyboard.press("t")
        room.wait_for_selector(".room .picture :is(svg.pic, .chart)")
    room.keyboard.press("r")
    room.wait_for_selector(".room [role=tab][aria-selected=true]:has-text('Policies')")


@pytest.mark.parametrize("room", [(560, "dark"), exhaustive((1500, "dark"))], indirect=True)
def test_a_narrow_window_scrolls_and_nothing_shrinks(room: Page) -> None:
    for title in TITLES:
        enter(room, title)
        sizes = room.evaluate(
            "[...document.querySelectorAll('.picture svg.pic')].map(s => "
            "s.getBoundingClientRect().width / s.viewBox.baseVal.width)"
        )
        assert (sizes or title == "rTasks") and all(size >= 0.999 for size in sizes)


def test_what_cannot_be_measured_says_so(room: Page) -> None:
    enter(room, "rTasks")
    room.locator(".rbar .btn", has_text="Measure task times").click()
    room.wait_for_function(HAS, arg=[".room .said", "was compiled until PLANNED memory only"])


def test_measuring_task_times_goes_on_through_another_picture(
    room: Page, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(c: Any, inputs: Any, *, progress: Any) -> None:
        while True:
            progress("measure tasks", 1, 9)
            sleep(0.02)

    monkeypatch.setattr(type(session.now.compiled), "profiled", endless)
    enter(room, "rTasks")
    button = ".rbar [data-action=profile]"
    room.locator(button).click()
    room.wait_for_function(HAS, arg=[button, "Cancel: 1 of 9"])
    room.locator(".rbar select[aria-label=policy]").select_option("critical-path")
    enter(room, "Policies")
    room.wait_for_function(NAMED, arg="critical-path on ")
    assert room.locator(button).inner_text() == "Cancel: 1 of 9"
    room.locator(button).click()
    room.wait_for_function(HAS, arg=[".room .said", "cancelled"])
    room.wait_for_function(HAS, arg=[button, "Measure task times"])
