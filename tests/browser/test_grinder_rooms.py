"""Grinder's rooms in the house: sliders by key, what they light, and the wall that follows."""

from dataclasses import replace

import numpy as np
import pytest
from playwright.sync_api import Browser

import explorer
from tests.browser.over_session import HAS, house
from tests.runtime.test_control_events import collatz
from widgets.session.session import Session

pytestmark = pytest.mark.browser

VISIBLE = (
    "[...document.querySelectorAll('.drawn .only')]"
    ".filter(n => getComputedStyle(n).visibility === 'visible').map(n => "
    "n.closest('[data-step]').dataset.step)"
)


def test_sliders_walk_through_trips_and_counts_and_the_wall_follows(
    browser: Browser,
) -> None:
    c = explorer.compile(collatz)
    c = c.with_options(grinder=replace(c.options.grinder, inline_branches=False))
    session = Session(c, inputs={"n": np.array(27)})
    session.measure()
    assert session.walls.measured is not None
    trips = session.walls.measured.trips
    with house(browser, session) as page:
        page.evaluate("driver.stage('TASKED')")
        page.wait_for_function(HAS, arg=[".pw .drawn", "×111 iterations"])
        page.evaluate("driver.go('iterations')")
        page.wait_for_function(HAS, arg=[".play output", "iteration 1"])
        assert page.evaluate(VISIBLE) == ["0"] and page.evaluate("driver.wall.view") is None
        page.locator(".house").focus()
        page.keyboard.press(".")
        page.wait_for_function(HAS, arg=[".play output", "iteration 2"])
        assert page.evaluate(VISIBLE) == ["1"]
        left, right = page.evaluate("driver.wall.view")
        assert left <= trips[1].begin_us < trips[1].end_us <= right
        page.locator(".play input").focus()
        page.keyboard.press("End")
        page.wait_for_function(HAS, arg=[".play output", "iteration 111"])
        page.evaluate("driver.go('crossing')")
        page.wait_for_function(HAS, arg=[".play output", "1,000 iterations"])
        page.locator(".play input").focus()
        page.keyboard.press("Home")
        page.wait_for_function(HAS, arg=[".play output", "0 iterations"])
        page.wait_for_function(HAS, arg=[".see .step", "the fastest is on the host"])
        assert {*page.evaluate(VISIBLE)} == {"0"}
