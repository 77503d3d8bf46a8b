"""`ironworks serve`: the house as a web page of its own, by Voila."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.driver import Tab, Voila
from widgets.draw.theme import DARK, LIGHT

pytest.importorskip("voila", reason="VOILA IS NOT INSTALLED: nothing is served")

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("served")]
MODEL = str(Path(__file__).parents[1] / "data" / "tiny_skip.onnx")
IDLE_SECONDS = 4


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = (
        *("--set", "roller.top_k=3", "--", "--Voila.ip=127.0.0.1"),
        f"--MappingKernelManager.cull_idle_timeout={IDLE_SECONDS}",
        "--MappingKernelManager.cull_interval=1",
    )
    voila = Voila(MODEL, tmp_path_factory.mktemp("served"), given)
    try:
        yield voila.url
    finally:
        assert voila.close() == 0


def test_a_visitor_has_the_house_and_no_code(browser: Browser, served: str) -> None:
    tab = Tab(browser, 1440, 950)
    tab.page.goto(served)
    tab.page.wait_for_selector(".house", timeout=60_000)
    tab.page.wait_for_function(
        "() => !document.querySelector('.house').hasAttribute('aria-busy')", timeout=60_000
    )
    assert tab.page.locator(".house .bar").inner_text().startswith("tiny_skip")
    assert tab.page.locator(".jp-InputArea, .jp-Cell-inputWrapper").count() == 0
    assert "widgets.page.serving" not in tab.page.content()
    tab.page.locator(".knob .seg [role=radio][aria-checked=false]").first.click()
    tab.page.wait_for_function("() => document.querySelectorAll('.hr').length === 2")
    tab.page.evaluate("document.querySelector('.ironworks').ironworks.go('options')")
    tab.page.wait_for_selector(".settings tr.other")
    changed = tab.page.locator(".settings tr.other").all_inner_texts()
    assert any(row.startswith("top_k") for row in changed)
    assert tab.page.evaluate("crossOriginIsolated && typeof SharedArrayBuffer === 'function'")
    assert tab.outside == [] and tab.faults == []
    tab.close()


def test_a_served_page_follows_the_system_and_offers_nothing_that_it_refuses(
    browser: Browser, served: str
) -> None:
    tab = Tab(browser, 1440, 950)
    page = tab.page
    page.emulate_media(color_scheme="dark")
    page.goto(served)
    page.wait_for_selector(".house .bar", timeout=60_000)
    ground = "node => getComputedStyle(node).backgroundColor"
    assert page.locator(".house").evaluate(ground) == rgb(DARK["pane"])
    assert page.locator("body").evaluate(ground) == rgb(DARK["app"])
    page.emulate_media(color_scheme="light")
    page.wait_for_function(
        "light => getComputedStyle(document.querySelector('.house')).backgroundColor === light",
        arg=rgb(LIGHT["pane"]),
    )
    page.evaluate("document.querySelector('.ironworks').ironworks.go('lines')")
    page.wait_for_selector(".linked .column .ln", timeout=60_000)
    assert not page.locator(".linked button", has_text="Edit").is_visible()
    tab.close()


def rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"


@pytest.mark.exhaustive
def test_a_kernel_that_nobody_asks_ends_and_the_house_says_so(
    browser: Browser, served: str
) -> None:
    tab = Tab(browser, 1000, 800)
    tab.page.goto(served)
    tab.page.wait_for_selector(".house", timeout=60_000)
    gone = tab.page.locator(".house .gone:not([hidden])")
    for _ in range(6):  # a kernel that still measures is not idle
        tab.page.wait_for_timeout(1000 * (IDLE_SECONDS + 4))
        if gone.count():
            break
        tab.page.locator(".knob .seg [role=radio][aria-checked=false]").first.click()
    gone.wait_for(timeout=30_000)
    tab.close()
