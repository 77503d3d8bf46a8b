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
        page.evaluate("driver.stage('TYPED')")
        page.wait_for_selector("#house .picture [data-sym]")
        yield page


CLIPPED = (Path(__file__).parent / "clipped.js").read_text("utf-8").split("\n", 1)[1]


@pytest.mark.parametrize("width", [900, *map(exhaustive, (1152, 1408))])
def test_the_pictures_of_a_stage_are_listed_and_have_room(opened: Page, width: int) -> None:
    opened.set_viewport_size({"width": width + 32, "height": 900})
    for stage, titles in (("TYPED", ["Shapes", "Calls"]), ("LEGALIZED", ["Fusion"])):
        if width < 960:
            opened.locator("#house .dn").click()
        else:
            opened.locator(f"#house .rail [data-stage={stage}]").click()
        listed = opened.locator("#house .fly button").all_inner_texts()
        assert {*titles} <= {*listed}, listed
        assert opened.evaluate(CLIPPED) == []
        opened.locator("#house .fly button", has_text=titles[-1]).first.click()
        settle(opened)
        assert titles[-1] in opened.inner_text("#house .head h2")
        assert not opened.locator("#house .fly").is_visible()


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
    opened.locator("#house .picture [tabindex='0']").first.focus()
    focused = "document.activeElement.getAttribute('aria-label')"
    assert opened.evaluate(focused).startswith("batch: 1 to 64")
    assert set(opened.evaluate(FILLS)) == {rgb("accent")}
    opened.keyboard.press("r")
    opened.wait_for_selector("#house .picture [data-wrong=slot]")
    assert opened.get_attribute("#house .pw", "aria-label") == "Shape heap"


def test_a_wrong_input_shows_the_slot_that_fails(opened: Page) -> None:
    opened.evaluate("driver.go('heap')")
    opened.wait_for_selector("#house .picture [data-wrong=slot]")
    slot = "getComputedStyle(document.querySelector('#house .picture [data-wrong=slot]')).stroke"
    assert opened.evaluate(slot) == rgb("bad")
    words = opened.inner_text("#house .picture")
    assert "batch is 65 and was bounded to 1 .. 64" in words


def test_the_phases_of_fusion_are_walked(opened: Page) -> None:
    opened.evaluate("driver.stage('LEGALIZED')")
    opened.evaluate("driver.go('fusion')")
    opened.wait_for_selector("#house .play output")
    opened.locator("#house .house").focus()
    opened.keyboard.press("<")
    assert opened.inner_text("#house .see .step").startswith("phase 0, anchors")
    assert opened.locator("#house .picture g.later").count() >= 1
    opened.keyboard.press(">")
    assert "refused, and why" in opened.inner_text("#house .see .step")
    assert opened.locator("#house .picture g.later").count() == 0
