"""The explorer in notebooks that are not JupyterLab: VS Code's, and those like Colab's.

Neither is installed here, so a frame stands for each. It has the sandbox, theme marks, styles and
height of the host, a widget manager without a kernel, no storage, no clipboard, no full screen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from html import escape
from typing import Any

import pytest
from playwright.sync_api import Browser, Frame, Page

import explorer
from explorer.measure.compare import Comparison, Measurement
from tests.browser.driver import Tab
from tests.browser.over_session import HERE, answering, encoded
from tests.browser.test_layout import CLIPPED, NAMED, SCROLLS
from widgets.draw import theme
from widgets.page import front_end
from widgets.rooms import gallery
from widgets.session.session import Session

pytestmark = pytest.mark.browser

SCRIPTS = ("over_session", "live_host", "house_page", "framed_widget")
WIDTH, SCREEN = 700, 900
# VS Code shows all outputs in one frame that is as high as the notebook, and rules its tables.
VSCODE_HIGH = 12_000
VSCODE = """<meta http-equiv="Content-Security-Policy" content="default-src 'none';
script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src https: data:;
font-src https:; connect-src https: blob:"><style>
body { margin: 0; overflow: hidden; color: var(--vscode-editor-foreground);
    font-family: sans-serif; font-size: 13px }
body.vscode-dark { --vscode-editor-foreground: #d4d4d4 }
body.vscode-light { --vscode-editor-foreground: #1f1f1f }
code { color: #d7ba7d; background: #3338 }
kbd { border: 1px solid #888; padding: 1px 3px }
table, thead, tr, th, td, tbody { border: none !important; border-spacing: 0 }
table, th, tr { text-align: right; vertical-align: middle }
th, td { padding: 4px 8px }
tr:nth-child(even) { background: rgba(130, 130, 130, 0.08) }
#output { overflow-x: auto }
</style>"""
# Colab shows an output in a frame of its own, as high as what is in it.
COLAB = "<style>body { margin: 8px; font: 14px Roboto, sans-serif }</style>"
FITTED = """new ResizeObserver(() => parent.postMessage(
    document.documentElement.offsetHeight, "*")).observe(document.documentElement);"""
FITS = """addEventListener("message", event => {
    document.querySelector("iframe").style.height = `${event.data}px`; });"""
MARKS = {  # attributes of the page and of its body
    ("vscode", "light"): ("", 'class="vscode-light" data-vscode-theme-kind="vscode-light"'),
    ("vscode", "dark"): ("", 'class="vscode-dark" data-vscode-theme-kind="vscode-dark"'),
    ("colab", "light"): ("", ""),
    ("colab", "dark"): ('theme="dark"', ""),
}
TURNED = {  # from light to dark in a page that is open
    "vscode": "document.body.className = document.body.dataset.vscodeThemeKind = 'vscode-dark'",
    "colab": "document.documentElement.setAttribute('theme', 'dark')",
}
GROUND = "getComputedStyle(document.querySelector('.house')).backgroundColor"
WALL = """(() => { const canvas = document.querySelector('.pw canvas'), hex = getComputedStyle(
    document.querySelector('.ironworks')).getPropertyValue('--pane').trim(), [r, g, b] = [1, 3, 5]
    .map(i => parseInt(hex.slice(i, i + 2), 16)), data = canvas.getContext('2d')
    .getImageData(0, 0, canvas.width, canvas.height).data; let count = 0;
for (let i = 0; i < data.length; i += 4)
    count += data[i] === r && data[i + 1] === g && data[i + 2] === b;
return count; })()"""
SAVED = """() => { globalThis.files = []; document.addEventListener("click", event => {
    const link = event.target.closest("a[download]");
    if (link) { event.preventDefault(); fetch(link.href).then(found => found.blob())
        .then(body => files.push([link.download, body.size])); } }); }"""


def compare(first: Any, second: Any, inputs: Any, seconds: float) -> Comparison:
    one, two = Measurement(10.0, 9.0, 11.0, 60), Measurement(12.0, 11.0, 13.0, 60)
    return Comparison(1.2, 1.15, 1.25, 60, "slower", one, two)


@pytest.fixture(scope="module")
def session() -> Session:
    found = Session(explorer.compile("zoo:tiny_bert"), compare=compare)
    found.run_once()
    return found


def rgb(scheme: str) -> str:
    pane = theme.SCHEMES[scheme]["pane"]
    return f"rgb({', '.join(str(int(pane[i : i + 2], 16)) for i in (1, 3, 5))})"


@dataclass
class Notebook:
    """A page with a frame in which an explorer is mounted."""

    page: Page
    frame: Frame

    @property
    def ask(self) -> Callable[..., Any]:
        return self.frame.evaluate

    def idle(self) -> None:
        self.frame.wait_for_function("!document.querySelector('.house[aria-busy]')")
        self.ask("settled()")

    def go(self, name: str) -> None:
        self.ask("name => driver.go(name)", name)
        self.idle()
        self.page.wait_for_timeout(300)


def framed(host: str, scheme: str, width: int = WIDTH) -> str:
    page, body = MARKS[host, scheme]
    script = front_end.script().replace("export default", "const page =")
    more = "\n".join((HERE / f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    element, close = ("<colab-lumino-adapter>", "</colab-lumino-adapter>")
    inner = (
        f'<!doctype html><html {page}><meta charset="utf-8">{VSCODE if host == "vscode" else COLAB}'
        f"<style>{front_end.styles()}</style><body {body}>{element if host == 'colab' else ''}"
        f'<div id="output"></div>{close if host == "colab" else ""}'
        f'<script type="module">{script}\n{more}\n{FITTED if host == "colab" else ""}</script>'
    )
    high = VSCODE_HIGH if host == "vscode" else 150
    ground = "#1e1e1e" if scheme == "dark" else "#ffffff"
    return (
        f'<!doctype html><body style="margin:0;background:{ground}"><iframe scrolling="no" '
        f'sandbox="allow-scripts allow-forms allow-pointer-lock allow-downloads" '
        f'style="border:0;width:{width}px;height:{high}px" srcdoc="{escape(inner)}"></iframe>'
        f"<script>{FITS}</script>"
    )


@pytest.fixture
def notebook(browser: Browser, session: Session) -> Iterator[Callable[..., Notebook]]:
    """Open an explorer in a host; in the end nothing was thrown, logged as an error or asked for
    outside.
    """
    with ExitStack() as tabs:
        errors: list[str] = []

        def open_(
            host: str,
            scheme: str = "light",
            *,
            system: str = "",
            kernel: Any = None,
            times: int = 1,
            width: int = WIDTH,
        ) -> Notebook:
            tab = Tab(browser, width, SCREEN, system or scheme)
            tabs.callback(tab.close)
            tabs.callback(lambda: errors.extend([*tab.faults, *tab.outside]))
            page = tab.page
            page.on(
                "console",
                lambda said: errors.append(said.text) if said.type == "error" else None,
            )
            page.expose_function("askSession", answering(session))
            page.set_content(framed(host, scheme, width))
            frame = page.frames[1]
            frame.wait_for_function("globalThis.mountWidget !== undefined")
            parts = {**gallery.page_parts(), **session.parts()}
            content = {"parts": parts, "bytes": encoded(session.buffers())}
            for _ in range(times):
                frame.evaluate(
                    "([text, host, kernel]) => mountWidget(JSON.parse(text), host, kernel)",
                    [json.dumps(content), host, kernel],
                )
            found = Notebook(page, frame)
            found.idle()
            return found

        yield open_
    assert errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("host", ["vscode", "colab"])
def test_each_picture_is_whole_in_the_frame_of_a_notebook(
    notebook: Callable[..., Notebook], host: str, scheme: str
) -> None:
    found = notebook(host, scheme)
    assert found.ask("document.querySelector('.house').offsetWidth") >= WIDTH - 16
    for name, title in NAMED.items():
        found.frame.locator(f".thumb[data-picture={name}]").click()
        found.idle()
        found.page.wait_for_timeout(300)
        assert found.frame.inner_text(".head h2").startswith(title)
        assert found.ask(SCROLLS) == [] and found.ask(CLIPPED) == [], name
    assert found.ask(GROUND) == rgb(scheme)


@pytest.mark.parametrize("host", ["vscode", "colab"])
def test_the_theme_is_that_of_the_notebook_and_not_of_the_system(
    notebook: Callable[..., Notebook], host: str
) -> None:
    found = notebook(host, "light", system="dark")
    assert found.ask(GROUND) == rgb("light") and found.ask(WALL) > 1000
    found.ask(TURNED[host])
    found.frame.wait_for_function(f"{GROUND} === '{rgb('dark')}'")
    found.page.wait_for_timeout(500)
    assert found.ask(WALL) > 1000, "the wall keeps the theme before"
    found.frame.locator("[aria-label='Light or dark']").click()
    assert found.ask(GROUND) == rgb("light"), "the reader's own choice is the later one"


@pytest.mark.parametrize("host", ["vscode", "colab"])
def test_a_chart_follows_the_theme_of_the_notebook(
    notebook: Callable[..., Notebook], host: str
) -> None:
    found = notebook(host)
    found.go("roofline")
    axis = "getComputedStyle(document.querySelector('.chart .xtick text')).fill"
    light = found.ask(axis)
    found.ask(TURNED[host])
    found.frame.wait_for_function(f"{axis} !== '{light}'")


@pytest.mark.parametrize("host", ["vscode", "colab"])
def test_a_knob_is_turned_and_what_it_changes_is_drawn(
    notebook: Callable[..., Notebook], host: str
) -> None:
    found = notebook(host)
    before = found.ask("driver.wall.bricks()")
    found.frame.locator(".head [data-knob=threads] button", has_text="1").click()
    found.frame.wait_for_function(f"driver.wall.bricks() !== {before}")
    found.idle()
    assert "per run" in found.frame.inner_text(".result")
    found.frame.locator(".tools [aria-label=Undo]").click()
    found.frame.wait_for_function(f"driver.wall.bricks() === {before}")
    found.idle()


@pytest.mark.parametrize("host", ["vscode", "colab"])
def test_files_are_handed_to_the_notebook(notebook: Callable[..., Notebook], host: str) -> None:
    """VS Code takes a click on a link for a download, where the click comes to its page."""
    found = notebook(host)
    found.ask(SAVED)
    choice = found.frame.locator("[aria-label='Save what is shown']")
    for name in ("rammer", "roller"):
        found.go(name)
        for kind in ("png", "svg"):
            count = found.ask("files.length")
            choice.select_option(kind)
            found.frame.wait_for_function(f"files.length > {count}")
            assert found.ask("files.at(-1)[1]") > 5000, (name, kind)
    found.frame.locator(".bar .name").click()
    found.page.keyboard.press("s")
    found.frame.wait_for_function("files.length === 5 && files.at(-1)[1] > 20")


@pytest.mark.parametrize("host", ["vscode", "colab"])
def test_a_link_is_shown_where_no_clipboard_takes_it(
    notebook: Callable[..., Notebook], host: str
) -> None:
    found = notebook(host)
    found.frame.locator(".bar .name").click()
    found.page.keyboard.press("l")
    field = found.frame.locator("[role=dialog] input[readonly]")
    field.wait_for()
    assert "#ironworks=" in field.input_value()
    selected = "(n => n.value.slice(n.selectionStart, n.selectionEnd))(document.activeElement)"
    assert found.ask(selected) == field.input_value()
    found.page.keyboard.press("Escape")
    assert not field.count() and found.ask("document.activeElement.className") == "house"
    found.page.keyboard.press("f")
    found.frame.wait_for_function(
        "document.querySelector('.foot .said').textContent.includes('may not fill the screen')"
    )


def test_an_explorer_is_no_higher_than_the_screen(notebook: Callable[..., Notebook]) -> None:
    """VS Code's frame is as high as the notebook, Colab's as what is in it: neither is the view."""
    high = "[...document.querySelectorAll('.house')].map(n => n.offsetHeight)"
    assert 620 <= notebook("vscode").ask(high)[0] <= SCREEN - 200
    several = notebook("colab", times=3, width=1000)
    several.page.wait_for_timeout(500)
    assert all(620 <= one <= SCREEN - 200 for one in several.ask(high))


def test_a_kernel_without_a_server_is_not_asked_for(notebook: Callable[..., Notebook]) -> None:
    """VS Code's manager may have a stand-in for a kernel, which names no server."""
    found = notebook("vscode", kernel={"id": "k"})
    found.ask(
        "() => { const asked = askSession; globalThis.askSession = async (...args) => {"
        " await new Promise(done => setTimeout(done, 3500)); return asked(...args); }; }"
    )
    found.ask("void driver.go('roller')")
    found.page.wait_for_timeout(4200)
    assert not found.frame.locator(".gone[role=status]").is_visible()
