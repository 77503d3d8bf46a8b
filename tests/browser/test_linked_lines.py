"""One line of a kernel is selected: those of the other languages light up and come into view."""

from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Page, TimeoutError

import explorer
from tests.browser.driver import Tab
from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import settle
from widgets.page.report import page
from widgets.session.session import Session

pytestmark = pytest.mark.browser

SAID = ".foot .said"
SUM = """(() => { const page = document.querySelector('#house .ironworks').ironworks;
    page.select(page.graph.graph.nodes.find(n => n.name.includes('sum_1')).ops[0]); })()"""
CLIPPED = (Path(__file__).parent / "clipped.js").read_text("utf-8").split("\n", 1)[1]
# Whether a lit line of a column lies in what the column shows.
IN_VIEW = """column => { const box = column.querySelector('.code').getBoundingClientRect();
 return [...column.querySelectorAll('.ln.lit')].some(n => { const r = n.getBoundingClientRect();
  return r.top >= box.top - 1 && r.bottom <= box.bottom + 1; }); }"""


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(explorer.compile("tests/data/tiny_skip.onnx"))


def enter(found: Page) -> None:
    """Every language beside the others, of the first operator that has a kernel."""
    found.evaluate("driver.select(content.parts.operators.findIndex(o => o[4].length))")
    found.evaluate("driver.stage('EMITTED')")
    found.evaluate("driver.go('lines')")
    found.locator(".linked button", has_text="LLVM").click()
    found.wait_for_function("document.querySelectorAll('.linked .column .ln').length > 20")
    found.wait_for_function("document.querySelectorAll('.linked .column').length === 3")
    settle(found)


def last_line(found: Page) -> None:
    """The last line of the source is selected: the call that does the work.

    A listing that arrives between the two ends of a click draws the lines anew, so the click is
    made again, as a reader would.
    """
    lines = found.locator(".linked .column").first.locator(".ln")
    for _ in range(5):
        lines.last.click(position={"x": 20, "y": 8})
        with suppress(TimeoutError):
            found.wait_for_selector(".linked .column .ln.at", timeout=6000)
            return
    raise AssertionError("no line is selected after five clicks")


@pytest.mark.parametrize(
    "house", [(900, "light"), *map(exhaustive, [(1600, "light"), (1280, "dark")])], indirect=True
)
def test_a_line_lights_its_lines_in_every_language_and_brings_them_into_view(house: Page) -> None:
    enter(house)
    last_line(house)
    columns = house.locator(".linked .column")
    for n in range(3):
        assert columns.nth(n).evaluate(IN_VIEW)
    assert columns.first.locator(".ln.at").count() == 1
    said = house.inner_text(SAID)
    assert said.startswith("Source line") and "of LLVM IR" in said and "of assembly" in said
    number = columns.first.locator(".ln.at .no").inner_text()
    data = house.evaluate("askPython('kernel', {call: 0, language: 'assembly'})")["data"]
    mine = {i for i, n in enumerate(data["from"]) if n == int(number)}
    lit = columns.nth(2).locator(".ln.lit")
    shown = {int(lit.nth(i).get_attribute("data-line") or -1) for i in range(lit.count())}
    assert shown and shown <= mine


@pytest.mark.parametrize("house", [(1440, "light")], indirect=True)
def test_arrows_go_from_line_to_line_and_escape_leaves_the_lines(house: Page) -> None:
    enter(house)
    last_line(house)
    assembly = house.locator(".linked .column").nth(2)
    before = house.inner_text(".linked .column .ln.at .no")
    house.locator(".linked .column .code").first.press("ArrowUp")
    settle(house)
    assert int(house.inner_text(".linked .column .ln.at .no")) == int(before) - 1
    assembly.locator(".code").focus()
    house.keyboard.press("ArrowDown")
    settle(house)
    assert assembly.locator(".ln.at").count() == 1
    assert house.inner_text(SAID).startswith("Assembly line")
    house.keyboard.press("Escape")
    assert house.locator(".ln.at").count() == 0
    assert house.locator(".node.lit").count() == 1, "the operator stays selected"
    house.keyboard.press("Escape")
    assert house.locator(".node.lit").count() == 0


@pytest.mark.parametrize("house", [(1440, "light")], indirect=True)
def test_a_line_of_the_pane_stays_selected_in_its_other_languages(house: Page) -> None:
    house.evaluate("driver.select(content.parts.operators.findIndex(o => o[4].length))")
    house.wait_for_function("document.querySelectorAll('.ps .ln').length > 10")
    house.locator(".ps .code").evaluate("box => { box.scrollTop = box.scrollHeight; }")
    settle(house)
    house.locator(".ps .ln").last.click(position={"x": 20, "y": 8})
    house.locator(".ps .tabs button", has_text="Asm").click()
    house.wait_for_function("document.querySelectorAll('.ps .ln.lit').length > 3")
    lit = house.evaluate(
        "[...document.querySelectorAll('.ps .ln')].filter(n => n.className === 'ln')"
    )
    assert house.locator(".pp .ln.lit").count() > 0 and lit, "some lines are of no single line"


@pytest.mark.exhaustive
def test_a_saved_page_links_lines_too(browser: object, tmp_path: object, session: Session) -> None:
    path = tmp_path / "saved.html"  # type: ignore[operator]
    path.write_text(page(session), encoding="utf-8")
    tab = Tab(browser)  # type: ignore[arg-type]
    found = tab.page
    found.goto(path.as_uri())
    found.wait_for_selector("#house .house")
    found.evaluate("globalThis.driver = document.querySelector('#house .ironworks').ironworks")
    found.evaluate(SUM)
    found.evaluate("driver.stage('EMITTED')")
    found.evaluate("driver.go('lines')")
    found.wait_for_selector("#house .linked .column .ln")
    last_line(found)
    assert found.locator("#house .linked .column").nth(1).evaluate(IN_VIEW)
    assert not tab.faults and not tab.outside
    tab.close()


@pytest.mark.parametrize("house", [(1440, "light")], indirect=True)
def test_what_an_instruction_does_is_told_on_hover_and_by_keyboard(house: Page) -> None:
    enter(house)
    last_line(house)
    assembly = house.locator(".linked .column").nth(2)
    words = assembly.locator(".ln.lit .k")
    told = words.first.get_attribute("title")
    assert told and told.endswith(".")
    assert assembly.locator(".ln", has_text=".p2align").locator("[title]").count() == 0
    assembly.locator(".ln.lit").first.click(position={"x": 20, "y": 8})
    assert f"{words.first.inner_text()}: {told}" in house.inner_text(SAID)
    house.keyboard.press("ArrowDown")
    settle(house)
    assert house.inner_text(SAID).startswith("Assembly line")


@pytest.mark.parametrize("house", [(900, "dark"), exhaustive((1440, "light"))], indirect=True)
def test_a_block_selects_its_lines_and_a_line_lights_its_block(house: Page) -> None:
    house.evaluate("driver.select(content.parts.operators.findIndex(o => o[4].length))")
    house.evaluate("driver.stage('EMITTED')")
    house.evaluate("driver.go('flow')")
    house.wait_for_selector(".picture .block")
    blocks = house.locator(".picture .block")
    blocks.first.click()
    house.wait_for_selector(".picture .block.own")
    assert blocks.first.get_attribute("aria-pressed") == "true"
    first, last = (blocks.first.get_attribute("data-lines") or "").split("-")
    assert house.inner_text(SAID).startswith(f"Assembly lines {int(first) + 1} to {int(last) + 1}")
    house.keyboard.press("ArrowDown")
    house.keyboard.press("Enter")
    settle(house)
    assert house.locator(".picture .block.own").count() == 1
    assert blocks.nth(1).get_attribute("aria-pressed") == "true"
    house.keyboard.press("Escape")
    assert house.locator(".picture .block.lit").count() == 0
    house.evaluate("driver.open('code', true), document.querySelector('.codes').dataset.tab = 's'")
    house.locator(".ps .tabs button", has_text="Asm").click()
    house.wait_for_function("document.querySelectorAll('.ps .ln').length > 10")
    house.evaluate("document.querySelector('.ps .code').scrollTop = 0")
    house.locator(f'.ps .ln[data-line="{first}"]').click(position={"x": 20, "y": 8})
    house.wait_for_selector(".picture .block.own")
    assert blocks.first.get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize(
    "house",
    [(900, "light"), *map(exhaustive, [(1000, "light"), (1280, "dark"), (1600, "light")])],
    indirect=True,
)
def test_nothing_is_clipped_in_the_rooms_of_code(house: Page) -> None:
    enter(house)
    assert house.evaluate(CLIPPED) == []
    house.locator(".linked .ch button", has_text="Edit").click()
    house.wait_for_selector(".linked textarea")
    assert house.evaluate(CLIPPED) == []
    house.evaluate("driver.go('flow')")
    house.wait_for_selector(".picture .block")
    assert house.evaluate(CLIPPED) == []
    wide = "document.querySelector('.linked, .picture').scrollWidth"
    assert house.evaluate(f"{wide} <= document.querySelector('.picture').clientWidth + 1")
