"""`ironworks serve`: the house as a web page of its own, by Voila."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.driver import Tab, free_port

pytest.importorskip("voila", reason="VOILA IS NOT INSTALLED: nothing is served")

pytestmark = [pytest.mark.browser, pytest.mark.slow]
MODEL = str(Path(__file__).parents[1] / "data" / "tiny_skip.onnx")
START_SECONDS, IDLE_SECONDS = 60, 4


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port, own = free_port(), tmp_path_factory.mktemp("served")
    url = f"http://127.0.0.1:{port}"
    variables = {"JUPYTER_CONFIG_DIR": str(own / "config"), "JUPYTER_RUNTIME_DIR": str(own / "run")}
    command = [
        *(sys.executable, "-m", "explorer", "serve", MODEL, "--no-browser", f"--port={port}"),
        *("--set", "roller.top_k=3", "--", "--Voila.ip=127.0.0.1"),
        f"--MappingKernelManager.cull_idle_timeout={IDLE_SECONDS}",
        "--MappingKernelManager.cull_interval=1",
    ]
    log = own / "server.log"
    with log.open("w") as file:
        server = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **variables}
        )
    try:
        end = time.monotonic() + START_SECONDS
        while True:
            assert server.poll() is None, f"it ended:\n{log.read_text()[-3000:]}"
            try:
                urllib.request.urlopen(f"{url}/voila/static/voila.js", timeout=2).read()
                break
            except urllib.error.HTTPError:
                break  # it answers
            except (urllib.error.URLError, OSError):
                assert time.monotonic() < end, "it did not begin"
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        assert server.wait(20) == 0


def test_a_visitor_has_the_house_and_no_code(browser: Browser, served: str) -> None:
    tab = Tab(browser, 1440, 950)
    tab.page.goto(served)
    tab.page.wait_for_selector(".house .stage", timeout=60_000)
    tab.page.wait_for_function(
        "() => !document.querySelector('.house').hasAttribute('aria-busy')", timeout=60_000
    )
    assert tab.page.locator(".house .bar").inner_text().startswith("tiny_skip")
    assert tab.page.locator(".jp-InputArea, .jp-Cell-inputWrapper").count() == 0
    assert "widgets.page.serving" not in tab.page.content()
    tab.page.locator(".knob .seg [role=radio][aria-checked=false]").first.click()
    tab.page.wait_for_function("() => document.querySelectorAll('.hr').length === 2")
    tab.page.locator(".pw .ph [role=tab]", has_text="What if").click()
    tab.page.wait_for_selector(".settings tr.other")
    changed = tab.page.locator(".settings tr.other").all_inner_texts()
    assert any(row.startswith("top_k") for row in changed)
    assert tab.outside == [] and tab.faults == []
    tab.close()


def test_a_kernel_that_nobody_asks_ends_and_the_house_says_so(
    browser: Browser, served: str
) -> None:
    tab = Tab(browser, 1000, 800)
    tab.page.goto(served)
    tab.page.wait_for_selector(".house .stage", timeout=60_000)
    gone = tab.page.locator(".house .gone:not([hidden])")
    for _ in range(6):  # a kernel that still measures is not idle
        tab.page.wait_for_timeout(1000 * (IDLE_SECONDS + 4))
        if gone.count():
            break
        tab.page.locator(".knob .seg [role=radio][aria-checked=false]").first.click()
    gone.wait_for(timeout=30_000)
    tab.close()
