"""Options and hardware in a page: typed, doubled, refused, undone."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

import explorer
from explorer.process.cancellation import raise_if_cancelled
from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import HAS, settle
from tests.browser.over_session import house as house_of
from tests.browser.test_axe import objections
from widgets.model.knobs import Setting, turn_knob
from widgets.session import compiling
from widgets.session.session import Session

pytestmark = pytest.mark.browser
NAMED = """([name, part]) => document.activeElement.dataset.name === name
    && document.activeElement.dataset.part === part"""
OVER = """() => document.querySelector(".picture").scrollWidth
    - document.querySelector(".picture").clientWidth"""


CLIPPED = (Path(__file__).parent / "clipped.js").read_text("utf-8").split("\n", 1)[1]


def field(page: Page, name: str, part: str = "value") -> str:
    return f'.settings [data-name="{name}"][data-part="{part}"]'


def open_(page: Page, room: str) -> None:
    page.evaluate("room => driver.go(room)", room)
    page.wait_for_selector(".settings td.control")


@pytest.mark.exhaustive
@pytest.mark.parametrize(("width", "scheme"), [(900, "dark"), exhaustive(1440, "light")])
def test_settings_are_typed_doubled_refused_and_undone(
    browser: Browser, width: int, scheme: str
) -> None:
    session = Session(explorer.compile("zoo:tiny_skip", "v100", until="planned"))
    with house_of(browser, session, width=width, scheme=scheme) as page:
        open_(page, "options")
        page.fill(".settings input[type=search]", "tiles that")
        shown = page.locator(".settings tr[data-words]:not([hidden])")
        assert shown.count() == 1 and "top_k" in shown.inner_text()
        top = field(page, "roller.top_k")
        page.fill(top, "3")
        page.press(top, "Enter")
        page.wait_for_selector(".settings tr.other")
        assert session.now.compiled.options.roller.top_k == 3
        page.fill(top, "none")
        page.press(top, "Enter")
        why = page.locator(".settings .control .wrong")
        why.wait_for()
        assert "roller.top_k is a whole number from 1 to 10000, found 'none'" in why.inner_text()
        assert page.input_value(top) == "none" and why.get_attribute("role") == "alert"
        assert page.get_attribute(top, "aria-invalid") == "true"
        page.evaluate("driver.go('options')")  # drawn anew, as after a measurement
        settle(page)
        assert page.input_value(top) == "none" and "found 'none'" in why.inner_text()
        page.press(top, "Escape")
        assert page.input_value(top) == "3" and not why.count()
        open_(page, "hardware")
        page.fill(field(page, "hardware.L2 capacity"), "much")
        page.press(field(page, "hardware.L2 capacity"), "Enter")
        page.wait_for_function("() => document.querySelector('.settings .wrong')")
        assert "a size such as 256 KiB" in page.locator(".settings .wrong").inner_text()
        page.press(field(page, "hardware.L2 capacity"), "Escape")
        twice = field(page, "hardware.units", "×2")
        page.focus(twice)
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.querySelector('.settings tr.other')")
        assert session.now.compiled.device.units == 160
        assert page.input_value(field(page, "hardware.units")) == "160"
        page.wait_for_function(NAMED, arg=["hardware.units", "×2"])
        page.click(field(page, "hardware.units", "back"))
        page.wait_for_function("() => !document.querySelector('.settings tr.other')")
        assert session.now.compiled.device.base is None
        assert page.evaluate(OVER) <= 1, "all columns have room"


@pytest.mark.exhaustive
def test_the_same_program_is_drawn_on_other_hardware_until_that_is_compiled(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    may = Event()

    def late(now: Setting, *args: Any) -> Setting:
        while not may.wait(0.05):
            raise_if_cancelled("held")
        return turn_knob(now, *args)

    monkeypatch.setattr(compiling, "turn_knob", late)
    session = Session(explorer.compile("zoo:tiny_skip", "v100", until="planned"))
    with house_of(browser, session) as page:
        open_(page, "hardware")
        verdict = page.locator(".verdict")
        before = verdict.inner_text()
        page.click(field(page, "hardware.clock_ghz", "÷2"))
        page.wait_for_function(HAS, arg=[".verdict .sm", "the same program on v100, changed"])
        page.wait_for_function(HAS, arg=[".verdict .sm", "compiling"])
        assert "predicted (+" in verdict.locator(".big").inner_text()
        verdict.locator("button", has_text="Cancel").click()
        page.wait_for_function(HAS, arg=[".foot .said", "Cancelled: it stays as it was."])
        assert verdict.inner_text() == before and session.now.compiled.device.base is None
        page.click(field(page, "hardware.clock_ghz", "÷2"))
        page.wait_for_function(HAS, arg=[".verdict .sm", "the same program on v100, changed"])
        may.set()
        page.wait_for_function(HAS, arg=[".verdict .big", "on v100, changed"])
        assert session.now.compiled.device.base is not None and session.behind is None


@pytest.mark.exhaustive
def test_what_each_figure_is_worth_is_drawn_below_them(browser: Browser) -> None:
    session = Session(explorer.compile("zoo:tiny_skip", "v100", until="planned"))
    with house_of(browser, session) as page:
        open_(page, "hardware")
        page.click("[data-action=clock]")
        page.wait_for_selector(".picture .chart .plotly", timeout=120_000)
        said = page.locator(".picture .chart .words").inner_text()
        assert said.startswith("per run on v100: predicted") and "matters most" in said
        assert page.locator(".settings td.control").count() > 20


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (900, "light"),
        exhaustive(1000, "dark"),
        exhaustive(1280, "light"),
        exhaustive(1600, "dark"),
    ],
)
def test_nothing_is_clipped_and_axe_objects_to_nothing(
    browser: Browser, width: int, scheme: str
) -> None:
    session = Session(explorer.compile("zoo:tiny_skip", until="planned"))
    with house_of(browser, session, width=width, scheme=scheme) as page:
        for drawer in ("graph", "inspector", "code"):  # one at a time is open below 1,600
            page.evaluate("name => driver.open(name, false)", drawer)
        for room in ("options", "hardware"):
            open_(page, room)
            assert page.evaluate(CLIPPED) == [] and page.evaluate(OVER) <= 1
            assert objections(page) == []


@pytest.mark.exhaustive
def test_a_refused_merge_is_forced_from_the_inspector(browser: Browser) -> None:
    session = Session(explorer.compile("zoo:tiny_bert", until="planned"))
    rows = [session.answer("operator", {"op": n})["fusion"]["rows"] for n in range(90)]
    op = next(n for n, found in enumerate(rows) if any(len(r["acts"]) > 1 for r in found))
    with house_of(browser, session) as page:
        page.evaluate("op => driver.select(op)", op)
        page.locator(".pi [role=tab]", has_text="Fusion").click()
        flip = page.locator(".pi .acts .btn", has_text="capacity").first
        flip.click()
        page.wait_for_function(
            "() => document.querySelector('.hist')?.textContent.includes('capacity')"
        )
        assert session.now.compiled.device.base is not None
        assert objections(page) == []
