"""Knobs over a host that answers from this page: turns, refusals, a kernel that goes away."""

import pytest
from playwright.sync_api import Page

from tests.browser import by_hand
from tests.browser.over_session import HousePage

pytestmark = pytest.mark.browser
THREADS = "#house .knob[data-knob=threads] [aria-checked=true]"


def test_a_key_turns_a_knob_and_then_it_is_measured(live: Page) -> None:
    live.locator(THREADS).focus()
    live.keyboard.press("ArrowLeft")
    live.wait_for_function("asked.length >= 2")
    assert live.evaluate("asked.slice(0, 2)") == [
        ["turn", {"knob": "threads", "index": 0, "label": "1"}],
        ["measure", {}],
    ]
    assert live.get_attribute("#house .house", "aria-busy") is None
    assert live.inner_text("#house .foot .said") == "measured"


def test_a_refused_value_goes_back_and_says_why_at_the_knob(live: Page) -> None:
    live.evaluate("refuse('this machine has no such policy')")
    live.locator("#house .knob[data-knob=policy] select").select_option(index=1)
    live.wait_for_selector("#house .knob[data-knob=policy] .why:not([hidden])")
    assert "no such policy" in live.inner_text("#house .knob[data-knob=policy] .why")
    value = "document.querySelector('#house .knob[data-knob=policy] select').selectedIndex"
    assert live.evaluate(value) == 0
    assert "no such policy" in live.inner_text("#house .foot .said")


def test_a_slider_takes_arrows_and_its_ends(live: Page) -> None:
    live.keyboard.press("w")
    live.locator("#house .knob[data-knob='size batch'] [role=slider]").focus()
    live.keyboard.press("ArrowRight")
    live.keyboard.press("Shift+ArrowRight")
    live.wait_for_function("asked.length >= 1")
    assert live.evaluate("asked[0]") == [
        "turn",
        {"knob": "size batch", "index": 6, "label": "64"},
    ]


def test_of_turns_while_one_is_under_way_only_the_last_is_made(live: Page) -> None:
    live.evaluate("slow(2000)")
    live.locator(THREADS).focus()
    live.keyboard.press("ArrowLeft")
    live.wait_for_timeout(50)
    for index in (1, 2, 3):
        live.evaluate(f"void driver.turn('size batch', {index}, '')")
    live.wait_for_function("asked.length >= 3")
    live.wait_for_timeout(300)
    turns = [args["index"] for kind, args in live.evaluate("asked") if kind == "turn"]
    assert turns == [0, 3]


def test_compiling_says_how_far_it_is_and_can_be_cancelled(live: Page) -> None:
    for end in ("button", "Escape", "newer"):
        live.evaluate("compile(true)")
        live.locator(THREADS).focus()
        live.keyboard.press("ArrowLeft")
        live.wait_for_function(
            "/tile \\(Roller\\), \\d+ of 31/.test("
            "document.querySelector('#house .verdict').textContent)"
        )
        if end == "newer":
            live.evaluate("void driver.turn('size batch', 2, '')")
            live.wait_for_function("asked.length >= 1")
        elif end == "Escape":
            live.keyboard.press("Escape")
        else:
            live.locator("#house .verdict button", has_text="Cancel").click()
        live.wait_for_function("!document.querySelector('#house .house').hasAttribute('aria-busy')")
        if end != "newer":
            assert live.evaluate("asked") == []
            assert "stays as it was" in live.inner_text("#house .foot .said")
    assert live.evaluate("asked[0][1].knob") == "size batch"


@pytest.mark.exhaustive
def test_a_page_that_nobody_uses_lets_the_kernel_look_ahead(live: Page) -> None:
    looked = "read.filter(([kind]) => kind === 'look_ahead').length"
    live.wait_for_function(f"{looked} === 1")
    live.evaluate("slow(2500)")
    live.locator(THREADS).focus()
    live.keyboard.press("ArrowLeft")
    live.wait_for_timeout(2000)
    assert live.evaluate(looked) == 1 and live.get_attribute("#house .house", "aria-busy")
    live.evaluate("slow(0)")
    live.wait_for_function(f"{looked} === 2")


@pytest.mark.exhaustive
@pytest.mark.parametrize("live", [False], indirect=True)
def test_a_turn_during_a_measurement_is_made_after_it(live: Page) -> None:
    live.evaluate("slow(400)")
    live.keyboard.press("m")
    live.wait_for_timeout(50)
    assert live.get_attribute("#house .house", "aria-busy") == "true"
    live.evaluate("void driver.turn('size batch', 2, '')")
    live.wait_for_function("asked.some(([kind, args]) => kind === 'turn' && args.index === 2)")


def test_a_measurement_waits_for_the_other_timing(live: Page) -> None:
    live.evaluate("others(2)")
    live.evaluate("void driver.turn('size batch', 2, '')")
    live.wait_for_function(
        "document.querySelector('#house .foot .said').textContent.includes('the other timing')"
    )
    assert [kind for kind, _ in live.evaluate("asked")] == ["turn"]
    live.wait_for_function("asked.length === 2")
    assert live.evaluate("asked[1]") == ["measure", {}]


def test_a_link_is_restored_when_the_page_opens(own_page: HousePage) -> None:
    page = own_page.page
    page.goto(f"{page.url}#ironworks=abc")
    page.reload()
    own_page.mount("live", by_hand.content(True))
    page.wait_for_function("asked.length >= 1")
    assert page.evaluate("asked[0]") == ["restore", {"text": "abc"}]
    assert page.get_attribute("#house .stage[aria-current=step]", "data-stage") == "ROLLED"


def test_undo_pin_and_link_are_asked_for(live: Page) -> None:
    for key in ("u", "Shift+U", "p"):
        live.keyboard.press(key)
        live.wait_for_timeout(50)
    kinds = [kind for kind, _ in live.evaluate("asked")]
    assert kinds[:1] == ["undo"] and "redo" in kinds and "pin" in kinds


def test_a_kernel_that_stops_leaves_the_pictures_and_says_so(live: Page) -> None:
    live.evaluate("stop()")
    assert "Kernel stopped" in live.inner_text("#house .gone")
    assert live.locator("#house .head .knobs.off").count() == 1
    live.keyboard.press("j")
    assert live.locator("#house .node.lit").count() == 1
