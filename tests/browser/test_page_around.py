"""What the page around a house does to it, and what it may not do to the page: kernels that stop,
links, themes, wheels, a second house.
"""

from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser import by_hand
from tests.browser.over_session import HousePage

pytestmark = pytest.mark.browser

MODEL = (Path(__file__).parent / "widget_model.js").read_text("utf-8")
NAMES = "['.trail b', '.pi h2'].map(at => document.querySelector('#house ' + at).textContent)"
GONE = "document.querySelector('#second .gone').textContent"


def mounted(live: Page, how: str = "") -> None:
    """A second house, over a widget's model."""
    live.evaluate(f"({MODEL})({{{how}}})")
    live.wait_for_selector("#second .house")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "event", ["kernel.emit('autorestarting')", "kernel.shut()", "model.drop()"]
)
def test_a_kernel_that_ends_is_noticed_and_what_was_set_can_be_brought_back(
    live: Page, event: str
) -> None:
    mounted(live)
    assert live.evaluate(GONE) == ""
    live.evaluate(f"widget.{event}")
    live.wait_for_function(f"{GONE}.includes('run the cell again')")
    assert live.locator("#second .knobs.off").count() == 1
    mounted(live)
    live.locator("#second button", has_text="Bring back what was set").click()
    sent = live.evaluate(
        "widget.model.sent.filter(m => m.kind === 'restore').map(m => m.args.text)"
    )
    assert len(sent) == 1 and '"stage":"RAMMED"' in sent[0] and '"ironworks":1' in sent[0]
    assert live.evaluate(GONE) == ""


def test_a_house_that_never_had_a_kernel_says_so(live: Page) -> None:
    mounted(live, "comm_live: false")
    live.wait_for_function(f"{GONE}.includes('Kernel stopped')")


def test_two_houses_share_no_pattern(live: Page) -> None:
    mounted(live)
    names = live.evaluate("[...document.querySelectorAll('pattern')].map(p => p.id)")
    assert len(names) == len(set(names)) and names


def test_thread_and_inspector_go_to_the_same_operator_however_fast_keys_are(live: Page) -> None:
    before = live.evaluate("read.filter(([kind]) => kind === 'operator').length")
    live.evaluate("slowReads(150)")
    names = live.evaluate(
        "() => { const house = document.querySelector('#house .house');"
        " return Array.from({ length: 10 }, () => { house.dispatchEvent("
        f"new KeyboardEvent('keydown', {{ key: 'j', bubbles: true }})); return {NAMES}; }}); }}"
    )
    assert len({thread for thread, _ in names}) > 1
    assert all(thread == inspector for thread, inspector in names)
    live.wait_for_function("!document.querySelector('#house .trail').textContent.includes('…')")
    asked = live.evaluate("read.filter(([kind]) => kind === 'operator').map(([, { op }]) => op)")
    # of the keys the first and the last, none that was only passed by
    assert len(asked) - before == 2
    assert asked[-1] == live.evaluate("driver.state.op")
    thread, inspector = live.evaluate(NAMES)
    assert thread == inspector == live.evaluate("driver.selected()")


def test_the_wheel_scrolls_the_page_and_with_control_zooms_the_wall(live: Page) -> None:
    live.evaluate("document.body.style.paddingBottom = '3000px'")
    live.locator("#house .pw canvas").hover()
    view = "driver.wall.view"
    for zoomed in (False, True):
        if zoomed:
            live.keyboard.down("Control")
            live.mouse.wheel(0, -300)
            live.keyboard.up("Control")
            live.wait_for_function(f"{view} !== null")
        at, before = live.evaluate(f"[scrollY, JSON.stringify({view})]")
        live.mouse.wheel(0, 120)
        live.wait_for_function(f"scrollY > {at}")
        assert live.evaluate(f"JSON.stringify({view})") == before


def test_a_house_set_to_dark_follows_the_page_that_changes_after(live: Page) -> None:
    ground = "getComputedStyle(document.querySelector('#house .house')).backgroundColor"
    light = live.evaluate(ground)
    live.locator("#house [aria-label='Light or dark']").click()
    assert live.evaluate(ground) != light
    for theme in ("false", "true"):
        live.evaluate(f"document.body.setAttribute('data-jp-theme-light', '{theme}')")
    live.wait_for_function(f"{ground} === '{light}'")


@pytest.mark.exhaustive
def test_a_link_outlives_the_end_of_the_address_and_can_be_pasted(own_page: HousePage) -> None:
    live, content = own_page.page, by_hand.content(True)
    own_page.mount("live", content)
    live.evaluate("history.replaceState(null, '', location.pathname + '?token=secret')")
    link = live.evaluate("driver.linkTo('abc')")
    assert link.endswith("#ironworks=abc") and "secret" not in link
    live.goto("about:blank")
    live.goto(link)
    own_page.mount("live", content)
    live.wait_for_function("asked.length >= 1")
    live.add_init_script("history.replaceState(null, '', location.pathname)")  # as JupyterLab does
    live.evaluate("sessionStorage.clear()")
    live.reload()
    own_page.mount("live", content)
    live.wait_for_function("asked.length >= 1")
    assert live.evaluate("asked[0]") == ["restore", {"text": "abc"}]
    live.reload()
    own_page.mount("live", content)
    live.wait_for_selector("#house .house")
    assert "restore" not in [kind for kind, _ in live.evaluate("asked")], "taken once"
    live.evaluate(
        "text => { const clipboardData = new DataTransfer(); clipboardData.setData('text', text);"
        " document.querySelector('#house .house').dispatchEvent("
        "new ClipboardEvent('paste', { clipboardData, bubbles: true })); }",
        link.replace("abc", "def"),
    )
    live.wait_for_function(
        "asked.some(([kind, args]) => kind === 'restore' && args.text === 'def')"
    )


def test_control_and_s_in_a_list_reach_the_notebook(live: Page) -> None:
    live.evaluate(
        "document.addEventListener('keydown', e => { (globalThis.heard ??= []).push(e.key); })"
    )
    live.locator("#house .knob[data-knob=policy] select").focus()
    live.keyboard.press("Control+s")
    live.keyboard.press("d")
    assert live.evaluate("heard") == ["Control", "s"] or live.evaluate("heard") == ["s"]
