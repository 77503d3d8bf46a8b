"""A chapter of the course whose experiment runs in the page, opened from a file."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.driver import Tab
from tests.browser.test_axe import objections
from tests.browser.test_live_page import ANSWERED, IDLE, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
CHAPTER = "09_control_flow"


def test_the_experiment_of_a_chapter_runs_without_a_server(
    browser: Browser, tmp_path: Path
) -> None:
    written = tmp_path / "recorded" / f"{CHAPTER}.js"
    runpy.run_path(str(ROOT / "docs/live.py"))["write_experiment"](CHAPTER, written)
    course = runpy.run_path(str(ROOT / "docs/course.py"))
    section = course["live_section"]
    section.__globals__["LIVE"] = written.parent
    assert section("01_graphs") == ""  # of which nothing was written
    for name, text in course["live_files"]().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    page = tmp_path / "page.html"
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Chapter</title>'
    page.write_text(f"{head}<main>{section(CHAPTER)}</main></html>", encoding="utf-8")
    tab = Tab(browser, 1024, 900, "dark")
    tab.page.goto(page.as_uri())
    tab.page.wait_for_selector(".live-acts button")
    assert objections(tab.page, "main") == []
    tab.page.click(".live-acts button >> nth=0")
    until(tab.page, ANSWERED)
    until(tab.page, IDLE)
    assert tab.page.inner_text(".live-problem") == ""
    assert "The output answers is right" in tab.page.inner_text(".live-result")
    tab.page.click(".live-acts button >> nth=1")
    until(tab.page, IDLE)
    assert tab.page.inner_text(".live-result").endswith("Both are right.")
    assert objections(tab.page, "main") == []
    assert tab.faults == [] and tab.outside == []
    tab.close()
