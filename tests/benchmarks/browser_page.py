"""A page of Chromium that holds several runtimes, and the local server of its files."""

from __future__ import annotations

import base64
import mimetypes
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from tests.conftest import find_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[2]
FOLDERS = {"browser": Path(__file__).parent / "browser", "live": ROOT / "widgets" / "live"}
PACKAGES = {  # of npm, with what each needs
    "onnxruntime-web": "1.30.0",
    "@jax-js/jax": "0.1.25",
    "@jax-js/onnx": "0.1.2",
    "onnx-buf": "1.20.0-1",
    "@bufbuild/protobuf": "2.10.2",
}
GPU = (  # Chromium's WebGPU on its software renderer
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--enable-features=Vulkan",
)
WARM_MS = 3000  # of calls before the first turn; chosen
PATIENCE_MS = 600_000.0  # for a runtime to load
mimetypes.add_type("text/javascript", ".mjs")
mimetypes.add_type("application/wasm", ".wasm")


class MissingRuntime(Exception):
    """A runtime that the page cannot run, with the reason."""


def fetch_packages(folder: Path) -> Path:
    """Fetch the packages with `npm pack` that a folder lacks, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, version in PACKAGES.items():
        target = folder / name
        if not target.is_dir():
            command = ["npm", "pack", "--silent", f"{name}@{version}", "--pack-destination"]
            done = subprocess.run(
                [*command, str(folder)], check=True, stdout=subprocess.PIPE, text=True
            )
            archive = folder / done.stdout.split()[-1]
            with tarfile.open(archive) as packed:
                packed.extractall(folder / "unpacked", filter="data")
            target.parent.mkdir(parents=True, exist_ok=True)
            (folder / "unpacked" / "package").rename(target)
            archive.unlink()
    return folder


class _Files(BaseHTTPRequestHandler):
    """Files of folders by the first part of their path."""

    folders: Mapping[str, Path]

    def do_GET(self) -> None:
        first, _, rest = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
        folder = self.folders.get(first)
        path = folder / rest if folder else Path()
        if folder is None or not path.is_file() or ".." in path.parts:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header(
            "Content-Type", mimetypes.guess_type(path)[0] or "application/octet-stream"
        )
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")  # a clock with finer steps
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Content-Length", str(path.stat().st_size))
        self.end_headers()
        with path.open("rb") as file:
            shutil.copyfileobj(file, self.wfile)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing."""


@contextmanager
def served(folders: Mapping[str, Path]) -> Iterator[str]:
    """Serve files on this machine alone; yield the address."""
    handler = type("Files", (_Files,), {"folders": folders})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class RacePage:
    """Runtimes by name, each loaded and warm in one page."""

    def __init__(self, page: Page, browser: Browser, warm_ms: int) -> None:
        self.page, self.browser_version, self.warm_ms = page, browser.version, warm_ms
        devtools = browser.new_browser_cdp_session()
        processes = devtools.send("SystemInfo.getProcessInfo")["processInfo"]
        self.processes = [p["id"] for p in processes if p["type"] == "renderer"]
        devtools.detach()

    def load(
        self, name: str, kind: str, settings: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], dict[str, bytes]]:
        """Load a runtime; return its version and times, and the bytes of its outputs.

        Raises MissingRuntime with the page's reason.
        """
        from playwright.sync_api import Error

        try:
            arguments = [name, kind, dict(settings), self.warm_ms]
            loaded = self.page.evaluate("(a) => race.load(...a)", arguments)
        except Error as problem:
            first = next(iter(str(problem.message).splitlines()), "")
            raise MissingRuntime(first.removeprefix("Page.evaluate: ")) from problem
        return loaded, {n: base64.b64decode(text) for n, text in loaded.pop("answer").items()}

    def turn(self, name: str, calls: int) -> list[float]:
        """Return the seconds of each of so many calls."""
        times: list[float] = self.page.evaluate("(a) => race.turn(...a)", [name, calls])
        return [time / 1e3 for time in times]

    def processor_turn(self, name: str, calls: int) -> list[float]:
        """Return the mean processor time of so many calls, by Linux's account of the page."""
        begin = self._processor_seconds()
        self.turn(name, calls)
        return [(self._processor_seconds() - begin) / calls]

    def _processor_seconds(self) -> float:
        """Return what the main threads of the browser's pages have used."""
        threads = (Path(f"/proc/{p}/task/{p}/schedstat") for p in self.processes)
        return sum(int(t.read_text("ascii").split()[0]) for t in threads) / 1e9

    def close(self, name: str) -> None:
        """Release a runtime."""
        self.page.evaluate("(name) => race.close(name)", name)


@contextmanager
def chromium(gpu: bool = False) -> Iterator[Browser]:
    """Start a headless Chromium; `gpu`: with WebGPU. Raises MissingRuntime where there is none."""
    from playwright.sync_api import sync_playwright

    from tests.browser.driver import ARGUMENTS

    path = find_chromium()
    if path is None:
        raise MissingRuntime("there is no Chromium: set $IRONWORKS_CHROMIUM")
    arguments: Sequence[str] = ARGUMENTS
    if gpu:
        arguments = (*(a for a in ARGUMENTS if a != "--disable-gpu"), *GPU)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, headless=True, args=list(arguments))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def race_page(
    browser: Browser, folders: Mapping[str, Path], warm_ms: int = WARM_MS
) -> Iterator[RacePage]:
    """Open the page; its files are those of `folders` and of this project."""
    with served({**FOLDERS, **folders}) as address:
        page = browser.new_page()
        try:
            page.set_default_timeout(PATIENCE_MS)
            page.goto(f"{address}/browser/page.html")
            page.wait_for_function("window.race")
            yield RacePage(page, browser, warm_ms)
        finally:
            page.close()
