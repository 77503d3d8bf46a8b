"""A saved page that runs its programs: from a file, with no request, by mouse and by keyboard."""

from __future__ import annotations

import gzip
import json
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import explorer
from tests.browser.driver import Tab
from tests.browser.exhaustive import exhaustive
from tests.browser.test_axe import objections
from widgets.live.data import LivePage, live_page
from widgets.page.report import page as report
from widgets.session.session import Session

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("live page")]

PATIENCE_S = 60
MOST_MS = 1000  # from the click to the first answer
ANSWERED = """!!document.querySelector('.live-calls table')
  || !!document.querySelector('.live-problem').textContent"""
IDLE = "!document.querySelector('.live-acts button').disabled"
WATCH = """() => {
  const result = document.querySelector(".live-result");
  const look = () => { if (result.textContent) globalThis.first ??= performance.now() - begun; };
  document.querySelector(".live-acts button").addEventListener(
    "click", () => { globalThis.begun = performance.now(); }, { capture: true });
  new MutationObserver(look).observe(result, { childList: true, subtree: true });
}"""
Head = dict[str, Any]


@pytest.fixture(scope="module")
def live() -> LivePage:
    return live_page(explorer.compile("zoo:tiny_bert"), names=("fusion", "memory", "convolution"))


@pytest.fixture(scope="module")
def text(live: LivePage) -> str:
    session = Session(explorer.compile("zoo:tiny_bert"))
    session.measure()
    return report(session, code=False, live=live)


@pytest.fixture
def opened(
    browser: Browser, tmp_path: Path, text: str, live: LivePage
) -> Iterator[Callable[..., Tab]]:
    tabs = []

    def open_page(change: Callable[[Head], None] | str = "", **look: Any) -> Tab:
        """`change`: of the programs' head, or what the Worker runs first."""
        path = tmp_path / "report.html"
        if isinstance(change, str):
            written = text.replace(', worker: "', f', worker: "{change}')
            assert (written != text) == bool(change)
        else:
            written = text.replace(live.dense, changed(live, change).dense)
        path.write_text(written, encoding="utf-8", newline="")
        tab = Tab(browser, **look)
        tabs.append(tab)
        requests: list[str] = []
        tab.page.on("request", lambda request: requests.append(request.url))
        tab.page.goto(path.as_uri())
        tab.page.wait_for_selector(".live-acts button")
        tab.page.evaluate(WATCH)
        tab.requests = requests  # type: ignore[attr-defined]
        return tab

    yield open_page
    for tab in tabs:
        tab.close()


def changed(live: LivePage, change: Callable[[Head], None]) -> LivePage:
    """The programs with another head; bytes stay where they are."""
    raw = gzip.decompress(live.packed)
    (length,) = struct.unpack_from("<I", raw)
    head = json.loads(raw[4 : 4 + length])
    change(head)
    written = json.dumps(head).encode()
    begin = -(-(4 + length) // 8) * 8
    filled = struct.pack("<I", len(written)) + written
    data = raw[begin:]
    return replace(live, packed=gzip.compress(filled + bytes(-len(filled) % 8) + data))


def until(page: Page, true: str) -> None:
    """The policy of the page forbids what `wait_for_function` does."""
    for _ in range(PATIENCE_S * 20):
        if page.evaluate(true):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{true} did not come true: {page.inner_text('.live-page')}")


def run(tab: Tab) -> Page:
    tab.page.click(".live-acts button >> nth=0")
    until(tab.page, ANSWERED)
    until(tab.page, IDLE)
    return tab.page


def test_a_saved_page_answers_within_a_second_and_asks_nothing_of_any_server(
    opened: Callable[..., Tab],
) -> None:
    tab = opened()
    page = run(tab)
    assert page.inner_text(".live-problem") == ""
    said = page.inner_text(".live-result")
    assert re.search(r"per run \(99 %: .*\)\. The output layer_norm_4 is right: 8,192", said), said
    assert page.evaluate("first") <= MOST_MS
    assert page.locator(".live-calls tbody tr").count() == 22
    assert "measured" in (page.locator(".live-wall canvas").get_attribute("aria-label") or "")
    page.select_option(".live-acts select", label="memory not shared")
    page.click(".live-acts button >> nth=1")
    until(page, IDLE)
    said = page.inner_text(".live-result")
    assert said.startswith("as compiled is ") and said.endswith("Both are right."), said
    assert "direct convolution: the same program as 'as compiled'." in (
        page.text_content("#live") or ""
    )
    outside = [u for u in tab.requests if not u.startswith(("file:", "blob:"))]  # type: ignore[attr-defined]
    assert outside == [] and tab.outside == [] and tab.faults == []


def test_the_policy_allows_wasm_and_the_worker_and_no_more(text: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "'wasm-unsafe-eval'" in policy[1] and "worker-src blob:" in policy[1]
    assert "default-src 'none'" in policy[1] and "'unsafe-eval'" not in policy[1]
    still = report(Session(explorer.compile("zoo:tiny_skip", until="planned")), code=False)
    assert "wasm-unsafe-eval" not in still and "worker-src" not in still
    assert "ironworksLive" not in still.partition("<script id=")[0]


def test_all_of_it_by_keyboard(opened: Callable[..., Tab]) -> None:
    tab = opened()
    page = tab.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Run in this browser"
    page.keyboard.press("Enter")
    until(page, ANSWERED)
    until(page, IDLE)
    assert page.evaluate("document.activeElement.textContent") == "Run in this browser"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_timeout(50)
    assert page.evaluate("document.activeElement.textContent") == "Cancel"
    page.keyboard.press("Enter")
    until(page, IDLE)
    assert page.inner_text(".live-problem") == "Cancelled."
    for name in ("Compare with", "Times of calls, scrolls"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.ariaLabel") == name
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.localName") == "summary"


def test_the_button_beside_the_wall_runs_the_programs_above(opened: Callable[..., Tab]) -> None:
    tab = opened()
    tab.page.click("[data-runs] button")
    until(tab.page, ANSWERED)
    assert "is right" in tab.page.inner_text(".live-result")
    assert tab.page.evaluate("document.getElementById('live').getBoundingClientRect().top < 100")


def broken_module(head: Head) -> None:
    place, size = head["blobs"][head["variants"][0]["code"]]
    head["blobs"][head["variants"][0]["code"]] = [place, size - 9]


def wrong_answers(head: Head) -> None:
    recorded = head["variants"][0]["recorded"][0]
    place, size = head["blobs"][recorded["bytes"]]
    head["blobs"][recorded["bytes"]] = [place + 4, size]  # an element further


NO_SIMD = "WebAssembly.validate = () => false;"
NO_MEMORY = "WebAssembly.Memory = class { constructor() { throw new RangeError(); } };"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (NO_SIMD, "This browser's WebAssembly has no SIMD"),
        (broken_module, "This browser does not accept the compiled module of tiny_bert"),
        (wrong_answers, "The output layer_norm_4 is wrong: "),
        (NO_MEMORY, "MB of memory in one piece, and this browser did not give it"),
    ],
)
def test_what_does_not_run_is_one_sentence_and_the_pictures_stay(
    opened: Callable[..., Tab], change: Callable[[Head], None] | str, sentence: str
) -> None:
    tab = opened(change)
    page = run(tab)
    said = page.inner_text(".live-problem")
    assert sentence in said and "\n" not in said
    assert page.locator(".live-calls table").count() == 0
    assert page.locator(".house").count() == 1 and page.locator(".rooms .picture").count() > 5
    assert tab.faults == []


def test_damaged_programs_are_reported_and_the_explorer_opens(
    browser: Browser, tmp_path: Path, text: str, live: LivePage
) -> None:
    path = tmp_path / "report.html"
    path.write_text(text.replace(live.dense, live.dense[:-999]), encoding="utf-8", newline="")
    tab = Tab(browser)
    tab.page.goto(path.as_uri())
    tab.page.wait_for_selector(".house")
    tab.page.wait_for_selector("text=The programs of this page are damaged")
    assert tab.faults == []
    tab.close()


def test_a_model_that_does_not_run_in_a_page_says_so() -> None:
    session = Session(explorer.compile("zoo:tiny_skip", until="planned"))
    refused = LivePage(refusal="Nothing of this page runs in a browser: it calls <blas>.")
    text = report(session, code=False, live=refused)
    assert "Nothing of this page runs in a browser: it calls &lt;blas&gt;." in text
    assert "wasm-unsafe-eval" not in text


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (400, "light"),
        (1024, "dark"),
        *(exhaustive(w, s) for w in (400, 1024, 1920) for s in ("light", "dark")),
    ],
)
def test_axe_objects_to_nothing_and_nothing_is_wider_than_the_page(
    opened: Callable[..., Tab], width: int, scheme: str
) -> None:
    tab = opened(width=width, scheme=scheme)
    page = tab.page
    assert objections(page, "#live") == []
    run(tab)
    for summary in page.locator("#live summary").all():
        summary.click()
    assert objections(page, "#live") == []
    wide = "document.scrollingElement.scrollWidth - innerWidth"
    assert page.evaluate(wide) <= 0
    drawn = page.locator(".live-wall canvas").bounding_box()
    assert drawn is not None and drawn["height"] > 200 and drawn["width"] > width / 2
