"""The tour in JupyterLab, as a reader sees it: nothing from outside, every cell run.

The house follows a theme that changes; that it also begins with a dark one is for `test-all`.
"""

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.driver import TOKEN, Lab, Tab
from tests.browser.exhaustive import exhaustive
from tests.browser.test_house import PIXELS
from widgets.draw import theme
from widgets.session.state import from_fragment

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("lab")]

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "notebooks"
HOUSE = ".jp-OutputArea .ironworks"
WALL = f"document.querySelector('{HOUSE}').ironworks.wall"
# On the first house of the page, as PIXELS.
LAB_PIXELS = PIXELS.replace("#house .ironworks", HOUSE)


# Two explorers and widgets of a reader's own, which are linked in the page and by the kernel.
# What Voila runs cells with sends an Output's contents back, and may lose a reply that comes at
# that moment (jupyter/nbclient#312): so the Output is filled before the longest work, not last.
LINKED = """
import ipywidgets, plotly.graph_objects as go, widgets
from IPython.display import display

model = "../tests/data/tiny_bert.onnx"
chart, other, seen = ipywidgets.Output(), ipywidgets.Output(), {}
second = widgets.explore(model, target="v100")
with other:
    display(second)
first = widgets.explore(model)
slider = ipywidgets.IntSlider(min=1, max=9999, continuous_update=False)
ipywidgets.link((first, "batch"), (slider, "value"))
field = ipywidgets.IntText()
ipywidgets.jslink((first, "batch"), (field, "value"))
ipywidgets.jslink((first, "selected"), (second, "selected"))

def follow(_):
    seen[first.batch] = first.time_us
    figure = go.Figure(go.Scatter(x=list(seen), y=list(seen.values()), mode="markers"))
    with chart:
        chart.clear_output(wait=True)
        figure.show()

first.observe(follow, "time_us")
display(ipywidgets.VBox([slider, field, chart, first, other]))
"""


@dataclass
class Tour:
    lab: Lab
    tab: Tab
    house: Locator

    @property
    def page(self) -> Page:
        return self.tab.page

    def driver(self, call: str) -> None:
        self.page.evaluate(f"void document.querySelector('{HOUSE}').ironworks.{call}")

    def verdict(self) -> str:
        return self.house.locator(".verdict .big").inner_text()

    def status(self) -> str:
        return self.house.locator(".foot .said").inner_text()

    def settled(self) -> None:
        """Nothing is compiling or measuring any more."""
        self.page.wait_for_function(
            f"!document.querySelector('{HOUSE} .house').hasAttribute('aria-busy')", timeout=120_000
        )


@pytest.fixture(
    scope="module",
    params=["JupyterLab Light", pytest.param("JupyterLab Dark", marks=pytest.mark.exhaustive)],
)
def tour(
    request: pytest.FixtureRequest, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tour]:
    root = tmp_path_factory.mktemp("tour")
    (root / "notebooks").mkdir()
    (root / "tests" / "data").mkdir(parents=True)
    shutil.copy(ROOT / "notebooks" / "00_tour.ipynb", root / "notebooks")
    shutil.copy(ROOT / "tests" / "data" / "tiny_bert.onnx", root / "tests" / "data")
    lab = Lab(root, root / "jupyter", request.param)
    tab = Tab(browser, 1720, 1100)
    try:
        linked = new_notebook(cells=[new_code_cell(LINKED)])
        nbformat.write(linked, root / "notebooks" / "linked.ipynb")
        lab.open(tab.page, "notebooks/00_tour.ipynb")
        tab.page.keyboard.press("Control+b")  # the file list gives its room to the notebook
        lab.run_all(tab.page, f"{HOUSE} .house >> nth=1")
        found = Tour(lab, tab, tab.page.locator(HOUSE).first)
        found.settled()
        yield found
    finally:
        tab.close()
        lab.close()


def test_every_cell_ran_and_nothing_was_asked_from_outside(tour: Tour) -> None:
    assert tour.tab.outside == [] and tour.tab.faults == []
    assert tour.page.locator(".jp-RenderedText[data-mime-type*=stderr]").count() == 0
    assert tour.page.locator(".jp-OutputArea .ironworks .room").count() == 2


def test_the_wall_is_drawn(tour: Tour) -> None:
    tour.house.scroll_into_view_if_needed()
    tour.page.wait_for_timeout(300)
    drawn = [tour.page.evaluate(LAB_PIXELS, f"f-{f}") for f in ("conv", "layout", "reduction")]
    assert sum(drawn) > 3000
    assert tour.page.evaluate(f"{WALL}.view") is None


def test_a_click_on_a_brick_selects_its_operator_in_graph_and_source(tour: Tour) -> None:
    tour.house.scroll_into_view_if_needed()
    spot = (
        f"(() => {{ const w = {WALL}, calls = document.querySelector('{HOUSE}').ironworks.calls();"
        " const at = calls.findIndex(c => c[1] === 'conv' && c[2].length > 1);"
        f" const box = document.querySelector('{HOUSE} .pw canvas').getBoundingClientRect();"
        " const [x, y] = w.spot(at); return [box.left + x, box.top + y]; })()"
    )
    tour.driver("open('code', true)")
    tour.driver("open('graph', true)")
    lit = tour.house.locator(".node.lit")
    for _ in range(5):  # a measurement that comes in draws the wall anew, and bricks move a little
        x, y = tour.page.evaluate(spot)
        tour.page.mouse.click(x, y)
        tour.page.wait_for_timeout(1500)
        if lit.count() and "source line" in tour.status():
            break
    assert lit.count() >= 1
    assert "source line" in tour.status()
    assert tour.house.locator(".ps .ln.lit").count() > 3
    assert tour.house.locator(".trail b").inner_text().startswith("Conv")


def test_a_knob_that_is_moved_by_keys_changes_the_wall_and_its_time(tour: Tour) -> None:
    tour.house.locator(".bar .name").click()
    bricks = f"{WALL}.bricks()"
    before, verdict = tour.page.evaluate(bricks), tour.verdict()
    tour.page.keyboard.press("w")
    tour.house.locator(".knob[data-knob=fusion] [aria-checked=true]").focus()
    tour.page.keyboard.press("ArrowLeft")
    tour.page.wait_for_function(f"{bricks} !== {before}", timeout=120_000)
    tour.settled()
    assert tour.verdict() != verdict
    assert "per run" in tour.verdict()
    assert "fusion gain → off" in tour.house.locator(".hist").inner_text()
    tour.page.keyboard.press("u")
    tour.page.wait_for_function(f"{bricks} === {before}", timeout=120_000)
    tour.settled()


def test_the_notebook_does_not_hear_the_keys_of_the_house(tour: Tour) -> None:
    cells = tour.page.locator(".jp-Notebook .jp-Cell").count()
    tour.house.locator(".bar .name").click()
    for key in ("d", "d", "x", "b", "a", "z", "Escape"):
        focus = tour.page.evaluate("document.activeElement.className")
        assert focus == "house", f"{focus!r} has the focus when {key} is pressed"
        tour.page.keyboard.press(key)
    assert tour.page.locator(".jp-Notebook .jp-Cell").count() == cells


def test_the_house_follows_the_theme_that_the_lab_is_set_to(tour: Tour) -> None:
    """As Settings, Theme does, with an explorer that is open: its ground, its wall and its code."""
    ground = f"getComputedStyle(document.querySelector('{HOUSE} .house')).backgroundColor"
    lines = f"document.querySelectorAll('{HOUSE} .pp .ln').length"
    dark = tour.page.get_attribute("body", "data-jp-theme-light") == "false"
    tour.driver("select(-1)")
    tour.driver("open('code', true)")
    for now in (not dark, dark):
        name, tokens = ("Dark", theme.DARK) if now else ("Light", theme.LIGHT)
        tour.page.evaluate(
            "theme => jupyterapp.commands.execute('apputils:change-theme', { theme })",
            f"JupyterLab {name}",
        )
        rgb = ", ".join(str(int(tokens["pane"][i : i + 2], 16)) for i in (1, 3, 5))
        tour.page.wait_for_function(f"{ground} === 'rgb({rgb})'")
        tour.page.wait_for_timeout(1500)
        assert tour.page.evaluate(LAB_PIXELS, "f-conv") > 1000
        assert tour.page.evaluate(LAB_PIXELS, "pane") > 1000 and tour.page.evaluate(lines) > 5
    tour.driver("open('code', false)")


def test_a_picture_of_the_house_is_taken(tour: Tour, request: pytest.FixtureRequest) -> None:
    """Kept beside the notebooks with `--update-snapshots`: it is the README's."""
    tour.house.locator(".bar .name").click()
    tour.page.keyboard.press("Escape")
    for _ in range(9):
        tour.page.keyboard.press("j")
    tour.page.wait_for_timeout(1500)
    tour.page.mouse.move(5, 5)
    image = tour.house.locator(".house").screenshot()
    assert image.startswith(b"\x89PNG") and len(image) > 40_000
    dark = tour.page.get_attribute("body", "data-jp-theme-light") == "false"
    if request.config.getoption("--update-snapshots"):
        (PICTURES / ("house_dark.png" if dark else "house.png")).write_bytes(image)


def test_a_tile_changed_the_reason_seen_and_the_link_shared_in_twelve_actions(tour: Tour) -> None:
    done = ["make lab", "the menu Run", "Run All Cells"]  # the tour is open, and was run

    def press(key: str) -> None:
        tour.page.keyboard.press(key)
        done.append(key)

    tour.house.locator(".bar .name").click()
    done.append("click the explorer")
    press("w")
    knob = tour.house.locator(".pop .knob[data-knob=tile] select")
    tour.house.locator(".pop h2").click()
    while knob.locator("option").count() < 2 and len(done) < 12:
        press("j")
        tour.page.wait_for_timeout(500)
    knob.select_option(index=1)
    done.append("choose a tile")
    tour.page.wait_for_function(
        f"document.querySelector('{HOUSE} .hist').innerText.includes('tile of ')", timeout=120_000
    )
    tour.settled()
    assert "the baseline" in tour.house.locator(".verdict").inner_text()
    tour.house.locator(".bar .name").click()
    done.append("click the explorer")
    press("n")
    tour.page.wait_for_function(
        f"/^Why not |No candidate/.test(document.querySelector('{HOUSE} .foot .said').innerText)",
        timeout=20_000,
    )
    tour.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    press("l")
    tour.page.wait_for_function(
        f"document.querySelector('{HOUSE} .foot .said').innerText.includes('on the clipboard')"
    )
    assert len(done) <= 12, done
    link = str(tour.page.evaluate("navigator.clipboard.readText()"))
    assert "tile" in from_fragment(link.rsplit("=", 1)[1]).knobs
    tour.page.keyboard.press("u")
    tour.settled()


@pytest.mark.parametrize("host", ["lab", exhaustive("voila")])
def test_widgets_of_the_reader_are_one_with_the_explorer(
    tour: Tour, browser: Browser, host: str
) -> None:
    with closing(Tab(browser, 1440, 1000)) as tab:
        page = tab.page
        if host == "lab":
            tour.lab.open(page, "notebooks/linked.ipynb")
            tour.lab.run_all(page, ".ironworks .house >> nth=1")
        else:
            address = f"{tour.lab.url}/voila/render/notebooks/linked.ipynb?token={TOKEN}"
            page.goto(address, timeout=120_000, wait_until="commit")
            page.wait_for_selector(".ironworks .house >> nth=1", timeout=120_000)
        first, second = (page.locator(".ironworks").nth(n) for n in (0, 1))
        settled = "() => !document.querySelector('.house[aria-busy]')"
        page.wait_for_function(settled, timeout=120_000)

        # The plan follows the reader's slider, the field is told in the page, the chart by a time.
        page.locator(".widget-slider .noUi-handle").focus()
        page.keyboard.press("ArrowRight")
        field = page.locator(".widget-text input[type=number]")
        expect(field).to_have_value("2", timeout=20_000)
        expect(first.locator(".result")).to_contain_text("has other sizes", timeout=20_000)
        page.wait_for_selector(".js-plotly-plot .point", timeout=60_000)
        page.wait_for_function(settled, timeout=60_000)

        # What is refused goes back, and the explorer says why.
        field.fill("-1")
        field.press("Enter")
        expect(field).to_have_value("2")
        expect(first.locator(".foot .said")).to_have_text("batch is 1 or more, not -1")

        # The selection of one is the other's.
        first.locator(".bar .name").click()
        page.keyboard.press("j")
        name = first.locator(".trail b").first.inner_text()
        expect(second.locator(".trail b").first).to_have_text(name)
        assert tab.faults == [] and (host == "voila" or tab.outside == [])  # its frame's icons
