"""A saved page that runs its programs on a GPU: Chromium's software adapter, from a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import explorer
from tests.browser.driver import Tab
from tests.browser.test_live_page import IDLE, Head, changed, until
from tests.targets.wgsl.in_browser import ARGUMENTS, chromium
from widgets.live.data import LivePage, live_page
from widgets.page.report import page as report
from widgets.session.session import Session

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("playwright")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine"),
    pytest.mark.xdist_group("live page"),
]
Open = Callable[..., Tab]


@pytest.fixture(scope="module")
def live() -> LivePage:
    return live_page(explorer.compile("zoo:tiny_skip"), names=("gpu", "fusion"))


@pytest.fixture(scope="module")
def text(live: LivePage) -> str:
    session = Session(explorer.compile("zoo:tiny_skip", until="planned"))
    return report(session, code=False, live=live)


@pytest.fixture
def opened(browser: Browser, tmp_path: Path, text: str, live: LivePage) -> Iterator[Open]:
    """Open the page with a GPU or without; `change` as in `test_live_page`."""
    browsers: list[Browser] = []

    def open_page(change: Callable[[Head], None] | str = "", gpu: bool = True) -> Tab:
        if isinstance(change, str):
            written = text.replace(', worker: "', f', worker: "{change}')
        else:
            written = text.replace(live.dense, changed(live, change).dense)
        path = tmp_path / "report.html"
        path.write_text(written, encoding="utf-8", newline="")
        arguments = list(ARGUMENTS) if gpu else ["--no-sandbox"]
        kind = browser.browser_type  # one driver a process
        browsers.append(kind.launch(executable_path=chromium(), args=arguments))
        tab = Tab(browsers[-1])
        tab.page.goto(path.as_uri())
        tab.page.wait_for_selector(".live-acts button")
        return tab

    yield open_page
    for opened_browser in browsers:
        opened_browser.close()


def run(tab: Tab) -> Page:
    tab.page.click("text=Run on this GPU")
    tab.page.wait_for_timeout(100)
    until(tab.page, IDLE)
    return tab.page


def test_a_page_runs_on_the_gpu_and_compares_it_with_the_processor(opened: Open) -> None:
    tab = opened()
    page = run(tab)
    if "no GPU" in page.inner_text(".live-problem"):
        pytest.skip("this Chromium offers no adapter for WebGPU")
    assert page.inner_text(".live-problem") == ""
    said = page.inner_text(".live-result")
    assert re.search(r"per run \(99 %: .*\)\. The output \S+ is right: .* It ran on \S+", said), (
        said
    )
    calls = page.locator(".live-calls tbody tr").count()
    assert calls > 3
    said = page.locator(".live-wall canvas").get_attribute("aria-label") or ""
    assert said.startswith("Wall of one GPU, predicted ") and "measured" in said
    page.select_option(".live-acts select", label="on this GPU")
    page.click("text=Compare >> nth=0")
    page.wait_for_timeout(100)
    until(page, IDLE)
    said = page.inner_text(".live-result")
    assert re.match(r"as compiled is .* on this GPU: .*Both are right\.$", said), said
    page.click("text=Run in this browser >> nth=0")
    page.wait_for_timeout(100)
    until(page, IDLE)
    said = page.locator(".live-wall canvas").get_attribute("aria-label") or ""
    assert said.startswith("Wall of one thread, predicted ") and "measured" in said
    assert tab.outside == [] and tab.faults == []


def test_a_run_on_the_gpu_is_cancelled_and_the_next_one_works(opened: Open) -> None:
    tab = opened()
    tab.page.click("text=Run on this GPU")
    tab.page.wait_for_timeout(300)
    tab.page.click("text=Cancel")
    assert tab.page.inner_text(".live-problem") in ("Cancelled.", "")
    page = run(tab)
    assert "is right" in page.inner_text(".live-result") and tab.faults == []


def needs_much(head: Head) -> None:
    program = next(v["program"] for v in head["variants"] if "shaders" in v["program"])
    program["limits"] = {"maxBufferSize": 10**15}


def wrong_weights(head: Head) -> None:
    row = next(v for v in head["variants"] if "shaders" in v["program"])
    blob: Any = head["blobs"][row["weights"]]
    blob["pieces"] = blob["pieces"][1:]


NO_CLOCK = "GPUSupportedFeatures.prototype.has = () => false;"
LOST = """GPUQueue.prototype.onSubmittedWorkDone = async function () {
  throw Error('the device was lost'); };""".replace("\n", "")


@pytest.mark.parametrize(
    ("change", "gpu", "place", "sentence"),
    [
        ("", False, "problem", "offers no GPU to pages, so the model does not run on one here."),
        (needs_much, True, "problem", "MB in one buffer, and this browser's GPU allows"),
        (wrong_weights, True, "problem", "on this GPU: The output"),
        (NO_CLOCK, True, "result", "offers no clock of its GPU"),
        (LOST, True, "problem", "the device was lost"),
    ],
)
def test_what_a_gpu_does_not_do_is_one_sentence_and_the_processor_still_runs(
    opened: Open, change: Callable[[Head], None] | str, gpu: bool, place: str, sentence: str
) -> None:
    tab = opened(change, gpu)
    page = run(tab)
    said = page.inner_text(f".live-{place}")
    assert sentence in said and "\n" not in said
    page.click("text=Run in this browser >> nth=0")
    page.wait_for_timeout(100)
    until(page, IDLE)
    assert "is right" in page.inner_text(".live-result") and tab.faults == []
