"""The house in a page of its own, over values made by hand: drawing, selection, keys, widths,
schemes.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import by_hand
from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import house, saved_house, settle
from widgets.draw import theme
from widgets.model.glossary import meanings

pytestmark = pytest.mark.browser

WIDTHS = (640, 1152, *map(exhaustive, (833, 1000, 1408, 1440)))
CLIPPED, PIXELS, SPOT = (
    (Path(__file__).parent / f"{name}.js").read_text("utf-8").split("\n", 1)[1]
    for name in ("clipped", "pixels", "spot")
)


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open the house of a saved page; the one before is closed."""
    with ExitStack() as houses:

        def open_(width: int = 1440, scheme: str = "light") -> Page:
            houses.close()
            content = by_hand.content(True)
            found = houses.enter_context(saved_house(browser, content, width=width, scheme=scheme))
            found.evaluate("driver.select(-1)")
            settle(found)
            return found

        yield open_


def status(found: Page) -> str:
    return found.inner_text("#house .foot .said")


def test_the_wall_is_drawn_and_the_selection_is_lit_everywhere(opened: Callable[..., Page]) -> None:
    found = opened()
    assert found.evaluate(PIXELS, "f-conv") > 5000
    before = found.evaluate(PIXELS, "accent")
    found.locator("#house .node", has_text="fc").click()
    settle(found)
    assert found.evaluate(PIXELS, "accent") > before + 200
    assert status(found).startswith("fc: 1 node, 3 lines, 1 source line, 2 tasks")
    assert found.locator("#house .pp .ln.lit").count() == 3
    assert found.inner_text("#house .pi h2") == "fc"


def test_a_click_on_a_brick_selects_its_operator(opened: Callable[..., Page]) -> None:
    found = opened()
    x, y = found.evaluate(SPOT, 1)
    found.mouse.click(x, y)
    settle(found)
    assert "fc" in (found.locator("#house .node.lit").text_content() or "")
    assert found.locator("#house .ps .ln.lit").count() == 1
    for _ in range(2):  # the task that is held, then the operator
        found.keyboard.press("Escape")
    assert found.locator("#house .node.lit").count() == 0


def test_keys_walk_through_operators_stages_and_tables(opened: Callable[..., Page]) -> None:
    found = opened()
    found.locator("#house .bar .name").click()
    for name in ("conv", "relu", "fc"):
        found.keyboard.press("j")
        assert status(found).startswith(name)
    found.keyboard.press("k")
    assert status(found).startswith("relu")
    for stage, title in (
        ("ROLLED", "Roller's layouts through the memories"),
        ("WELDED", "Welder's fused pipeline"),
        ("TASKED", "Grinder's uTask tree"),
    ):
        found.keyboard.press("[")
        settle(found)
        assert found.get_attribute("#house .stage[aria-current=step]", "data-stage") == stage
        assert found.get_attribute("#house .pw", "aria-label") == title
        assert found.locator("#house .picture svg").first.is_visible()
    found.keyboard.press("t")
    settle(found)
    assert found.locator("#house .picture tr").count() > 2
    found.keyboard.press("?")
    assert found.locator("#house .sheet").is_visible()
    found.keyboard.press("Escape")
    assert not found.locator("#house .sheet").count()


def test_all_words_are_in_a_sheet_that_is_searched(opened: Callable[..., Page]) -> None:
    page = opened()
    page.locator(".house").focus()
    page.keyboard.press("/")
    page.keyboard.type("glossary")
    page.keyboard.press("Enter")
    sheet = page.locator(".glossary")
    assert sheet.locator("dt").count() == len(meanings())
    page.keyboard.type("opaq")
    assert sheet.locator("dt").all_text_contents() == ["Opaque", "pattern kind"]
    page.keyboard.press("Escape")
    assert not sheet.count() and page.evaluate("document.activeElement.matches('.house')")


def test_tab_comes_to_every_control_and_pane_and_leaves(opened: Callable[..., Page]) -> None:
    found = opened()
    found.locator("#house .house").focus()
    seen: list[str] = []
    active = "document.activeElement"
    while found.evaluate(f"document.querySelector('#house').contains({active})") and len(seen) < 60:
        seen.append(found.evaluate(f"{active}.getAttribute('aria-label') ?? {active}.innerText"))
        found.keyboard.press("Tab")
    assert len(seen) < 60, "nobody is kept in"
    panes = [
        "Dataflow graph",
        "Rammer's brick wall",
        "Program text",
        "Generated source",
        "Inspector",
    ]
    wanted = ["Keyboard map", *panes, "Ops", "Numba", "Code"]
    assert [name for name in wanted if name not in seen] == []
    assert sum(name.startswith("Schedule\nRammer") for name in seen) == 1
    found.locator("#house .stage[aria-current]").focus()
    found.keyboard.press("ArrowUp")
    found.keyboard.press("Enter")
    assert found.get_attribute("#house .stage[aria-current]", "data-stage") == "ROLLED"


def test_zoom_and_pan_move_the_wall(opened: Callable[..., Page]) -> None:
    found = opened()
    found.locator("#house .bar .name").click()
    view = "document.querySelector('#house .ironworks').ironworks.wall.view"
    assert found.evaluate(view) is None
    found.keyboard.press("z")
    left, right = found.evaluate(view)
    found.keyboard.press("Shift+ArrowRight")
    moved, _ = found.evaluate(view)
    assert 0 < left < moved < right
    found.keyboard.press("Escape")
    assert found.evaluate(view) is None


@pytest.mark.exhaustive
def test_a_refused_tile_says_why(opened: Callable[..., Page]) -> None:
    found = opened()
    found.locator("#house .node", has_text="conv").first.click()
    found.wait_for_selector("#house .pi table")
    found.keyboard.press("n")
    assert "80 KiB in L1, has 48" in found.inner_text("#house .whynot")


@pytest.mark.exhaustive
def test_llvm_and_assembly_stand_beside_the_source(opened: Callable[..., Page]) -> None:
    found = opened()
    found.locator("#house .node", has_text="fc").click()
    found.locator("#house .ps .tabs button", has_text="Asm").click()
    settle(found)
    assert "vfmadd231ps" in found.inner_text("#house .ps .code")
    found.locator("#house .ps .tabs button", has_text="LLVM").click()
    settle(found)
    assert "define void" in found.inner_text("#house .ps .code")


@pytest.mark.exhaustive
def test_an_operator_without_a_kernel_is_found_and_says_why(opened: Callable[..., Page]) -> None:
    found = opened()
    found.locator("#house .bar .name").click()
    found.keyboard.press("/")
    found.keyboard.type("shape operator")
    found.keyboard.press("Enter")
    settle(found)
    assert "folded into the dims" in found.inner_text("#house .trail")


def test_names_of_a_wide_layer_are_written_in_full(browser: Browser) -> None:
    names = [f"attn_head_{i}" for i in range(5)]
    graph = {
        "nodes": [
            {"name": n, "label": n, "kind": "operator", "family": "conv", "ops": [], "note": ""}
            for n in names
        ],
        "edges": [],
        "routes": {},
        "rows": [list(range(5))],
    }
    session = by_hand.session()
    with house(browser, session) as found:
        found.evaluate(
            "graph => { content.parts.graph_operators = content.parts.graph_kernels = graph;"
            " driver.graph.load('graph_operators'); }",
            graph,
        )
        assert found.locator("#room .node text.i").all_text_contents() == names


@pytest.mark.few(1)
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_clipped_and_nothing_overlaps(opened: Callable[..., Page], width: int) -> None:
    found = opened(width + 32)
    found.evaluate("['graph', 'inspector', 'code'].forEach(name => driver.open(name, false))")
    found.locator("#house .pw canvas").click(position={"x": 200, "y": 80})
    for drawer in ("", "graph", "inspector", "code"):
        for other in ("graph", "inspector", "code"):
            found.evaluate("([name, on]) => driver.open(name, on)", [other, other == drawer])
        settle(found)
        assert found.evaluate(CLIPPED) == [], drawer


def test_light_and_dark_follow_the_system_and_the_button(opened: Callable[..., Page]) -> None:
    def ground(found: Page) -> Any:
        style = "getComputedStyle(document.querySelector('#house .house')).backgroundColor"
        return found.evaluate(style)

    rgb = [
        tuple(int(s["pane"][i : i + 2], 16) for i in (1, 3, 5)) for s in (theme.LIGHT, theme.DARK)
    ]
    light, dark = (f"rgb({r}, {g}, {b})" for r, g, b in rgb)
    assert ground(opened()) == light
    found = opened(scheme="dark")
    assert ground(found) == dark
    assert found.evaluate(PIXELS, "f-conv") > 5000
    bars = "getComputedStyle(document.querySelector('#house .code')).colorScheme"
    assert found.evaluate(bars) == "dark"
    found.locator("#house [aria-label='Light or dark']").click()
    assert found.evaluate(bars) == "light"
    assert ground(found) == light


def test_a_saved_page_disables_its_knobs_and_says_so(opened: Callable[..., Page]) -> None:
    found = opened()
    assert "nothing can be compiled again" in found.inner_text("#house .gone")
    assert found.locator("#house .head .knobs.off").count() == 1
