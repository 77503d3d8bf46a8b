"""The panel in Chromium, in a page from a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.live import hand_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("playwright", reason="BROWSER TESTS SKIPPED: playwright is not installed")
pytestmark = pytest.mark.browser

TWO = [("As compiled", 20), ("A tenth more", 22)]
Opened = Callable[..., "Page"]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    """A function that opens a page of variants; nothing was asked of the outside at the end."""
    from tests.browser.driver import Tab

    tabs = []

    def open_page(
        variants: list[dict[str, Any]],
        faults: bool = False,
        width: int = 900,
        scheme: str = "light",
        **options: str,
    ) -> Page:
        path = tmp_path / f"page{len(tabs)}.html"
        path.write_text(hand_page.page(hand_page.data(variants), **options))
        tab = Tab(browser, width, 700, scheme)
        tabs.append(tab)
        tab.page.goto(path.as_uri())
        return tab.page

    yield open_page
    for tab in tabs:
        assert not tab.outside and not tab.faults, (tab.outside, tab.faults)
        tab.close()


def two() -> list[dict[str, Any]]:
    return [hand_page.variant(name, tasks) for name, tasks in TWO]


def wait(page: Page, text: str, where: str = ".live-result", seconds: float = 20) -> None:
    page.locator(where, has_text=text).wait_for(timeout=1e3 * seconds)


def idle(page: Page) -> None:
    page.locator(".live-acts .pri:enabled").wait_for(timeout=20_000)


def test_a_run_is_checked_timed_and_its_calls_are_a_table(opened: Opened) -> None:
    page = opened(two())
    page.evaluate("""() => {
        const begin = performance.now();
        const seen = () => { window.first ??= performance.now() - begin; };
        const line = document.querySelector(".live-result");
        new MutationObserver(seen).observe(line, { childList: true }); }""")
    page.get_by_role("button", name="Run in this browser").click()
    wait(page, "per run (99 %:")
    assert page.evaluate("window.first") < 3000  # a busy machine; a quiet one: 0.1 s
    page.locator(".live-calls table").wait_for()
    text = page.locator(".live-result").inner_text()
    assert text.endswith("The output y is right: 4 elements, the largest difference is 0.")
    rows = page.locator(".live-calls tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == ["call_0", "call_1"] and "node_0" in rows[0]
    assert "±" in rows[0] and "Mean of" in page.locator(".live-calls caption").inner_text()
    idle(page)
    head = page.evaluate("window.walls[0].head")
    assert head["bricks"] == 2 and head["units"] == 1 and head["shares"]["busy"] > 0.5
    assert not page.locator(".live-problem").inner_text()


def test_a_tenth_more_is_found_by_keyboard_alone(opened: Opened) -> None:
    page = opened(two())
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Compare"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.textContent") == "Cancel"
    wait(page, "Both are right.")
    idle(page)
    assert page.evaluate("document.activeElement.textContent") == "Compare"
    text = page.locator(".live-result").inner_text()
    assert "slower than" not in text and "A tenth more: " in text, text


def test_a_job_is_cancelled_at_once_and_the_page_stays_responsive(opened: Opened) -> None:
    page = opened([hand_page.variant("Long", 4_000_000)])  # minutes
    page.get_by_role("button", name="Run in this browser").click()
    slow = page.evaluate("""async () => {
        let longest = 0, before = performance.now();
        for (let k = 0; k < 60; k++) {
          await new Promise(requestAnimationFrame);
          const now = performance.now();
          longest = Math.max(longest, now - before); before = now; }
        return longest; }""")
    assert slow < 3000  # on the page itself it would be minutes; a quiet machine: 20 ms
    begin = time.monotonic()
    page.get_by_role("button", name="Cancel").click()
    wait(page, "Cancelled.", ".live-problem")
    assert time.monotonic() - begin < 2
    idle(page)
    assert page.get_by_role("button", name="Cancel").is_disabled()


def test_after_a_cancelled_job_the_next_one_runs(opened: Opened) -> None:
    page = opened(two())
    for _ in range(2):
        page.get_by_role("button", name="Run in this browser").click()
        page.get_by_role("button", name="Cancel").click()
        wait(page, "Cancelled.", ".live-problem")
        idle(page)
    page.get_by_role("button", name="Run in this browser").click()
    wait(page, "per run (99 %:")
    idle(page)


@pytest.mark.parametrize(
    ("variant", "options", "sentence"),
    [
        (
            hand_page.variant("Wrong", 2, right=False),
            {},
            "Wrong: The output y is wrong: 4 of 4 elements differ from the recorded ones at all",
        ),
        (hand_page.variant("Trap", 2, kernel="trap"), {}, "The call call_0 stopped: unreachable."),
        (
            hand_page.variant("x", 2),
            {"prepared": "delete window.Worker;"},
            "This browser started no Worker",
        ),
        (
            hand_page.variant("x", 2),
            {"policy": hand_page.POLICY.replace("worker-src blob:", "worker-src 'none'")},
            "This browser started no Worker",
        ),
        (
            hand_page.variant("x", 2),
            {"policy": hand_page.POLICY.replace(" 'wasm-unsafe-eval'", "")},
            "The content security policy of this page forbids WebAssembly",
        ),
        (hand_page.variant("Large", 2) | {"arena": 3 << 30}, {}, "Large"),
    ],
)
def test_what_fails_is_one_sentence_and_is_announced(
    opened: Opened, variant: dict[str, Any], options: dict[str, str], sentence: str
) -> None:
    if "arena" in variant:
        variant["program"]["arena"] = 5 << 30
        variant["program"]["name"] = "Large"
        sentence = "Large needs 5,369 MB of memory in one piece"
    page = opened([variant], **options)
    page.get_by_role("button", name="Run in this browser").click()
    wait(page, sentence, "[role=alert]")
    idle(page)
    assert not page.locator(".live-calls table").count()


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1920, "dark")])
def test_axe_objects_to_nothing_and_nothing_is_wider_than_the_page(
    opened: Opened, width: int, scheme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = opened(two(), width=width, scheme=scheme)
    page.get_by_role("button", name="Run in this browser").click()
    page.locator(".live-calls table").wait_for()
    idle(page)
    page.evaluate(
        """text => { const node = document.createElement("script"); node.textContent = text;
        document.head.append(node); }""",
        axe.Axe().axe_script,
    )
    found = page.evaluate("axe.run()")
    assert not [(v["id"], [n["html"] for n in v["nodes"]]) for v in found["violations"]]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
