"""A saved page whose programs use threads: served, where it is isolated, and from a file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import explorer
from tests.browser.driver import Tab, free_port
from tests.browser.test_live_page import IDLE, until
from widgets.live.data import live_page
from widgets.page.report import page as report
from widgets.session.session import Session

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("live page")]
MODELS = ("tiny_bert", "small_looped_lstm")


@pytest.fixture(scope="module", params=MODELS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    c = explorer.compile(f"zoo:{request.param}")
    live = live_page(c, names=("threads", "memory"))
    assert "2 threads" in live.variants
    path = tmp_path_factory.mktemp("threads") / "report.html"
    session = Session(explorer.compile(f"zoo:{request.param}", until="planned"))
    path.write_text(report(session, code=False, live=live), encoding="utf-8", newline="")
    return path


@pytest.fixture
def served(saved: Path) -> Iterator[str]:
    port = free_port()
    words = [sys.executable, "-m", "explorer", "serve", str(saved)]
    server = subprocess.Popen(
        [*words, "--port", str(port), "--no-browser"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    assert server.stdout.readline() == f"report.html at http://127.0.0.1:{port}/, until Ctrl-C\n"
    yield f"http://127.0.0.1:{port}/"
    server.terminate()
    assert server.wait(20) == 0


def compare(page: Page) -> None:
    page.select_option(".live-acts select", label="2 threads")
    page.click("text=Compare >> nth=0")
    page.wait_for_timeout(100)


def test_threads_run_in_a_served_page_and_are_cancelled(browser: Browser, served: str) -> None:
    tab = Tab(browser)
    page = tab.page
    page.goto(served)
    page.wait_for_selector(".live-acts button")
    assert page.evaluate("crossOriginIsolated")
    assert "One thread runs" not in page.inner_text("#live")
    compare(page)
    page.wait_for_timeout(400)
    page.click("text=Cancel")
    until(page, IDLE)
    assert page.inner_text(".live-problem") == "Cancelled."
    compare(page)
    until(page, IDLE)
    said = page.inner_text(".live-result")
    assert page.inner_text(".live-problem") == "" and "Both are right." in said, said
    assert " 2 threads: " in said
    response = page.request.get(f"{served}pyproject.toml")
    assert response.status == 404
    assert tab.faults == []
    tab.close()


def test_a_file_offers_one_thread_and_says_why(browser: Browser, saved: Path) -> None:
    tab = Tab(browser)
    tab.page.goto(saved.as_uri())
    tab.page.wait_for_selector(".live-acts button")
    option = tab.page.locator(".live-acts option", has_text="2 threads")
    assert option.is_disabled()
    assert "One thread runs: browsers let threads share memory" in tab.page.inner_text("#live")
    tab.close()


def test_a_file_with_nothing_else_to_compare_has_no_such_button(
    browser: Browser, tmp_path: Path
) -> None:
    c = explorer.compile("zoo:tiny_while")
    live = live_page(c, names=("threads",))
    assert live.variants == ("as compiled", "2 threads")
    path = tmp_path / "report.html"
    session = Session(explorer.compile("zoo:tiny_while", until="planned"))
    path.write_text(report(session, code=False, live=live), encoding="utf-8", newline="")
    tab = Tab(browser)
    tab.page.goto(path.as_uri())
    tab.page.wait_for_selector(".live-acts button")
    assert tab.page.locator(".live-acts select").count() == 0
    assert tab.page.locator(".live-acts button", has_text="Compare").count() == 0
    tab.close()
