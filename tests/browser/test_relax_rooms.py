"""Relax's rooms in the house: several pictures of a stage, and symbols that light up."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import by_hand
from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import saved_house, settle
from widgets.draw import theme

pytestmark = pytest.mark.browser


@pytest.fixture
def opened(browser: Browser) -> Iterator[Page]:
    with saved_house(browser, by_hand.content(False)) as page:
        page.locator("#house .stage[data-stage=TYPED]").click()
        page.wait_for_selector("#house .picture [data-sym]")
        yield page


CLIPPED = (Path(__file__).parent / "clipped.js").read_text("utf-8").split("\n", 1)[1]


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", [900, *map(exhaustive, (1152, 1408))])
def test_the_tabs_of_a_stage_have_room(opened: Page, width: int) -> None:
    opened.set_viewport_size({"width": width + 32, "height": 900})
    for stage, tabs in (("TYPED", 5), ("LEGALIZED", 4), ("ROLLED", 10)):
        opened.locator(f"#house .stage[data-stage={stage}]").click()
        settle(opened)
        assert opened.locator("#house .pw [role=tab]").count() == tabs
        assert opened.evaluate(CLIPPED) == []


def rgb(token: str) -> str:
    text = theme.LIGHT[token]
    return "rgb({}, {}, {})".format(*(int(text[i : i + 2], 16) for i in (1, 3, 5)))


FILLS = """[...document.querySelectorAll('#house .picture [data-sym~="batch"]')]
    .filter(n => n.matches('text,tspan')).map(n => getComputedStyle(n).fill)"""
TOLD = "[...(CSS.highlights.get('iw-symbol') ?? [])].map(r => r.startContainer.data)"


def test_pointing_at_a_symbol_lights_its_marks_and_the_program(opened: Page) -> None:
    opened.mouse.move(2, 2)
    assert rgb("accent") not in opened.evaluate(FILLS)
    opened.locator("#house .picture text[data-sym=batch]").first.hover()
    fills = opened.evaluate(FILLS)
    assert len(fills) > 5 and set(fills) == {rgb("accent")}
    assert any("batch" in line for line in opened.evaluate(TOLD))
    opened.mouse.move(2, 2)
    assert rgb("accent") not in opened.evaluate(FILLS) and opened.evaluate(TOLD) == []


def test_the_keyboard_comes_to_a_symbol_and_to_the_next_picture(opened: Page) -> None:
    opened.mouse.move(2, 2)
    opened.locator("#house .house").focus()
    opened.keyboard.press("n")
    focused = "document.activeElement.getAttribute('aria-label')"
    assert opened.evaluate(focused).startswith("batch: 1 to 64")
    assert set(opened.evaluate(FILLS)) == {rgb("accent")}
    opened.keyboard.press("r")
    opened.wait_for_selector("#house .picture [data-wrong=slot]")
    assert opened.inner_text("#house .pw h2") == "Shape heap"
    tab = opened.locator("#house .pw [role=tab][aria-selected=true]")
    assert tab.inner_text() == "Shape heap"


def test_a_wrong_input_shows_the_slot_that_fails(opened: Page) -> None:
    opened.locator("#house .pw [role=tab]", has_text="Shape heap").click()
    opened.wait_for_selector("#house .picture [data-wrong=slot]")
    slot = "getComputedStyle(document.querySelector('#house .picture [data-wrong=slot]')).stroke"
    assert opened.evaluate(slot) == rgb("bad")
    words = opened.inner_text("#house .picture")
    assert "batch is 65 and was bounded to 1 .. 64" in words


def test_the_phases_of_fusion_are_walked(opened: Page) -> None:
    opened.locator("#house .stage[data-stage=LEGALIZED]").click()
    opened.locator("#house .pw [role=tab]", has_text="Fusion").click()
    opened.wait_for_selector("#house .stepper")
    opened.locator("#house .house").focus()
    opened.keyboard.press("<")
    assert opened.inner_text("#house .stepper .words").startswith("phase 0, anchors")
    assert opened.locator("#house .picture g.later").count() >= 1
    opened.keyboard.press(">")
    assert "refused, and why" in opened.inner_text("#house .stepper .words")
    assert opened.locator("#house .picture g.later").count() == 0


def test_a_picture_can_have_the_whole_height(opened: Page) -> None:
    high = "document.querySelector('#house .pw').clientHeight"
    before = opened.evaluate(high)
    opened.locator("#house .house").focus()
    opened.keyboard.press("e")
    assert opened.evaluate(high) > before + 150
    assert not opened.locator("#house .pp").is_visible()
    opened.keyboard.press("e")
    assert opened.evaluate(high) == before
