"""JupyterLab, Voila and Chromium under a test's hands; nothing outside of this machine can be
reached.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from playwright.sync_api import Browser, Page, Route, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from widgets.page import jupyter

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--force-color-profile=srgb",
    # plotly throws six errors as it is loaded; for the line of each V8 reads its function again,
    # which is all of plotly: half of the time that the first chart of a page takes.
    "--js-flags=--no-enable-lazy-source-positions",
)
INSIDE = ("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:", "file:")
TOKEN = "test"
START_SECONDS = 90


@contextmanager
def chromium_browser(path: str) -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, headless=True, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A page, the requests that it made to the outside (all refused), and its faults."""

    def __init__(
        self, browser: Browser, width: int = 1440, height: int = 900, scheme: str = "light"
    ) -> None:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        self.outside: list[str] = []
        self.faults: list[str] = []
        context.route("**/*", self._route)
        self.page: Page = context.new_page()
        self.page.on("pageerror", lambda fault: self.faults.append(str(fault)))

    def _route(self, route: Route) -> None:
        if route.request.url.startswith(INSIDE):
            route.continue_()
        else:
            self.outside.append(route.request.url)
            route.abort()

    def close(self) -> None:
        self.page.context.close()


class Lab:
    """A JupyterLab server on a free port, with settings of its own."""

    def __init__(self, root: Path, own: Path, theme: str = "JupyterLab Light") -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.dialogs: list[str] = []
        folders = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "run",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        }
        variables = {name: str(own / folder) for name, folder in folders.items()}
        command = [
            *jupyter.command("jupyterlab"),
            "--no-browser",
            "--ip=127.0.0.1",
            f"--port={self.port}",
            "--ServerApp.port_retries=0",
            "--allow-root",
            f"--IdentityProvider.token={TOKEN}",
            f"--ServerApp.root_dir={root}",
            "--LabApp.news_url=",
            "--LabApp.expose_app_in_browser=True",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        ]
        settings = own / "settings" / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True, exist_ok=True)
        for name, value in (("themes", {"theme": theme}), ("notification", {"fetchNews": "false"})):
            (settings / f"{name}.jupyterlab-settings").write_text(json.dumps(value))
        self.log = own / "server.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=root,
                env={**os.environ, "JUPYTER_PREFER_ENV_PATH": "1", **variables},
            )
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            assert self.process.poll() is None, f"JupyterLab ended:\n{self.log.read_text()[-3000:]}"
            try:
                urllib.request.urlopen(f"{self.url}/api/status?token={TOKEN}", timeout=2).read()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        self.close()
        raise TimeoutError(f"JupyterLab did not start in {START_SECONDS} s")

    def open(self, page: Page, notebook: str) -> None:
        """The notebook with an idle kernel."""
        page.goto(f"{self.url}/lab/tree/{notebook}?token={TOKEN}&reset")
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=60_000)
        page.wait_for_selector(
            ".jp-NotebookPanel-toolbar [data-status=idle], "
            ".jp-Notebook-ExecutionIndicator[data-status=idle]",
            timeout=60_000,
        )

    def run_all(self, page: Page, until: str, timeout_s: float = 240) -> None:
        """Run all cells, to the last, until something is there.

        A busy machine may lose what was asked while the kernel came up: where no cell is waiting
        any more, and it is not there, all are asked for again.
        """
        end = time.monotonic() + timeout_s
        self._ask_for_all(page, end)
        while not page.locator(until).count():
            assert time.monotonic() < end, f"{until} did not come within {timeout_s:.0f} s"
            page.wait_for_timeout(500)
            if not page.evaluate(WAITS):
                page.wait_for_timeout(2000)  # what the last cell gave may still be drawn
                if not page.locator(until).count() and not page.evaluate(WAITS):
                    self._ask_for_all(page, end)
        page.wait_for_selector(until, timeout=max(1.0, end - time.monotonic()) * 1000)
        page.wait_for_function(f"!{WAITS}", timeout=max(1.0, end - time.monotonic()) * 1000)

    def _ask_for_all(self, page: Page, end: float) -> None:
        """The first click on the menu may be ignored, or only be slow: then all cells run twice."""
        while time.monotonic() < end:
            self._accept_dialogs(page)
            with suppress(PlaywrightTimeout):  # a question came up just now
                page.click(".jp-Notebook .jp-Cell >> nth=0", timeout=3000)
                page.locator(".lm-MenuBar-itemLabel", has_text="Run").first.click(timeout=3000)
                page.locator(".lm-Menu-itemLabel", has_text="Run All Cells").first.click(
                    timeout=3000
                )
            page.wait_for_timeout(1500)
            if page.locator(".jp-InputPrompt", has_text="[").count() and page.evaluate(STARTED):
                break

    def _accept_dialogs(self, page: Page) -> None:
        """A slow start may end in a question, such as which kernel; its default is right."""
        for dialog in page.locator(".jp-Dialog").all():
            self.dialogs.append(dialog.inner_text())
            dialog.locator(".jp-mod-accept").click()

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Voila:
    """`ironworks serve` of a model on a free port; `given` follows the model."""

    def __init__(self, model: str, own: Path, given: Sequence[str] = ()) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [
            *(sys.executable, "-m", "explorer", "serve", model, "--no-browser", f"--port={port}"),
            *given,
        ]
        folders = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_RUNTIME_DIR": "run"}
        variables = {name: str(own / folder) for name, folder in folders.items()}
        self.log = own / "server.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **variables}
            )
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            assert self.process.poll() is None, f"Voila ended:\n{self.log.read_text()[-3000:]}"
            try:
                urllib.request.urlopen(f"{self.url}/voila/static/voila.js", timeout=2).read()
                return
            except urllib.error.HTTPError:
                return  # it answers
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        self.close()
        raise TimeoutError(f"Voila did not start in {START_SECONDS} s")

    def close(self) -> int:
        """Its exit code."""
        self.process.terminate()
        return self.process.wait(20)


_PROMPTS = "[...document.querySelectorAll('.jp-InputPrompt')]"
# Some cell has a number or a star at its side; some cell still has a star.
STARTED = f"{_PROMPTS}.some(p => /\\[[\\d*]+\\]/.test(p.textContent))"
WAITS = f"{_PROMPTS}.some(p => p.textContent.includes('*'))"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
