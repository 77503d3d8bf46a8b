"""The source of a kernel is edited in the house, tried, left and found again."""

import pytest
from playwright.sync_api import Page

import explorer
from explorer.process.sandbox import CAN_FORK
from tests.browser.exhaustive import exhaustive
from widgets.session.session import Session

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CAN_FORK, reason="there is no fork here"),
]
NOTE = ".linked .edit .note[role=status]"
LOOP = "    for task in range(first, last):\n"


@pytest.fixture
def session() -> Session:
    return Session(explorer.compile("tests/data/tiny_skip.onnx"))


def enter(found: Page) -> str:
    """The editor of the first operator that has a kernel; the source that stands in it."""
    found.evaluate("driver.select(content.parts.operators.findIndex(o => o[4].length))")
    found.evaluate("driver.stage('EMITTED')")
    found.evaluate("driver.go('lines')")
    found.locator(".linked .ch button", has_text="Edit").click()
    found.wait_for_selector(".linked textarea")
    found.wait_for_function("document.querySelector('.linked textarea').value.length > 100")
    return found.locator(".linked textarea").input_value()


def told(found: Page, start: str) -> str:
    found.wait_for_function(
        "([where, start]) => document.querySelector(where).textContent.startsWith(start)"
        " && document.querySelector('.linked .edit button').textContent === 'Try'",
        arg=[NOTE, start],
        timeout=60_000,
    )
    return found.inner_text(NOTE)


@pytest.mark.parametrize("house", [(900, "dark"), exhaustive((1440, "light"))], indirect=True)
def test_an_edit_is_tried_and_kept_while_one_looks_elsewhere(house: Page) -> None:
    text = enter(house)
    area = house.locator(".linked textarea")
    assert area.evaluate("node => node.getRootNode().activeElement === node")
    area.fill(text.replace(LOOP, f"    st_float32(0, 16, 1.0)\n{LOOP}"))
    house.keyboard.press("Control+Enter")
    house.wait_for_selector(".linked .edit button:has-text('Trying')")
    assert "SIGSEGV" in told(house, "The edited kernel crashed its process")
    mine = text.replace(LOOP, f"    pass\n{LOOP}")
    area.fill(mine)
    house.locator(".linked .edit button", has_text="Try").click()
    assert "n = " in told(house, "Right, and ")
    house.locator(".linked .edit button", has_text="Close").click()
    house.wait_for_selector(".linked .column .ln")
    house.evaluate("driver.go('kernels')")
    house.evaluate("driver.go('lines')")
    house.locator(".linked .ch button", has_text="Edit").click()
    house.wait_for_selector(".linked textarea")
    assert area.input_value() == mine
    house.locator(".linked .edit button", has_text="Back to ours").click()
    house.wait_for_function(
        "!document.querySelector('.linked textarea').value.includes('    pass')"
    )
    assert area.input_value() == text
    house.locator(".linked .edit button", has_text="Bring back").click()
    house.wait_for_function("document.querySelector('.linked textarea').value.includes('    pass')")
    house.locator(".linked .edit button", has_text="Back to ours").click()
    house.wait_for_function(
        "!document.querySelector('.linked textarea').value.includes('    pass')"
    )


def test_the_editor_has_numbers_and_begins_at_the_kernel(house: Page) -> None:
    text = enter(house)
    area, lines = house.locator(".linked textarea"), text.split("\n")
    numbers = house.locator(".linked .nums").inner_text().split("\n")
    assert [int(n) for n in numbers if n] == list(range(1, len(lines) + 1))
    begin = next(n for n, line in enumerate(lines) if line.startswith("def kernel"))
    first = begin - 1 if lines[begin - 1].startswith("@") else begin
    place = area.evaluate("node => node.selectionStart")
    assert text[:place].count("\n") == first
    top, line = area.evaluate(
        "node => [node.scrollTop, parseFloat(getComputedStyle(node).lineHeight)]"
    )
    seen = area.evaluate("node => node.clientHeight") / line
    last = max(0, len(lines) - seen)
    assert abs(top / line - min(first, last)) < 2
    assert house.locator(".linked .nums").evaluate("node => node.scrollTop") == top
    area.press("Enter")
    house.wait_for_function(
        "n => document.querySelector('.linked .nums').textContent.trim().endsWith(n)",
        arg=str(len(lines) + 1),
    )
