"""Charts in the house: linked to the selection, in the colours of the page, by pointer and key."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import explorer
import explorer.np as enp
from tests.browser.driver import Tab
from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import house as house_of
from tests.browser.over_session import settle
from widgets.draw.theme import DARK, LIGHT
from widgets.page.report import page as report
from widgets.session.session import Session

pytest.importorskip("playwright", reason="BROWSER TESTS SKIPPED: playwright is not installed")

pytestmark = pytest.mark.browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

W = np.ones((96, 96), np.float32)
CHARTS = {
    "waves": "ROLLED",
    "roofline": "ROLLED",
    "search": "ROLLED",
    "rtasks": "RAMMED",
    "errors": "RAMMED",
    "kernels": "EMITTED",
    "peaks": "PLANNED",
}


@explorer.trace
def model(x: explorer.tensor("float32", 63, 96)):  # type: ignore[no-untyped-def,valid-type]
    return enp.exp(x @ W) @ W @ W


@pytest.fixture(scope="module")
def session() -> Session:
    found = Session(explorer.compile(model))
    found.run_once()
    return found


def enter(page: Page, room: str) -> None:
    page.evaluate("room => driver.go(room)", room)
    page.wait_for_function(
        "room => driver.state.room === room && document.querySelector('.chart .plot-container')"
        " && document.querySelector('.picture .chart .js-plotly-plot')?._fullLayout.width > 200",
        arg=room,
    )
    settle(page)


def ink(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.querySelector('.xtitle')).fill"))


def rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"


@pytest.mark.exhaustive
@pytest.mark.parametrize("house", [(900, "light"), exhaustive((1600, "dark"))], indirect=True)
def test_each_chart_is_drawn_inside_its_room(house: Page) -> None:
    for room in CHARTS:
        enter(house, room)
        assert house.locator(".chart .xtitle").count() == 1
        over: list[str] = house.evaluate(
            """() => {
              const box = document.querySelector(".chart .main-svg").getBoundingClientRect();
              const out = r => r.left < box.left - 1 || r.right > box.right + 1
                || r.top < box.top - 1 || r.bottom > box.bottom + 1;
              return [...document.querySelectorAll(".chart .infolayer text, .chart .xtick text")]
                .filter(t => t.textContent && out(t.getBoundingClientRect()))
                .map(t => t.textContent);
            }"""
        )
        assert over == [], room
        wide = "[document.querySelector('.picture').clientWidth, "
        wide += "document.querySelector('.picture').scrollWidth]"
        assert len(set(house.evaluate(wide))) == 1, room


def test_a_chart_follows_the_theme(house: Page) -> None:
    enter(house, "roofline")
    assert ink(house) == rgb(LIGHT["ink2"])
    house.locator("[aria-label='Light or dark']").click()
    settle(house)
    assert ink(house) == rgb(DARK["ink2"])
    house.evaluate("document.body.setAttribute('data-jp-theme-light', 'true')")
    settle(house)
    assert ink(house) == rgb(LIGHT["ink2"])


@pytest.mark.exhaustive
def test_the_script_that_draws_comes_once_and_leads_nowhere(house: Page) -> None:
    house.evaluate("globalThis.ironworksPlotly = null")
    for room in CHARTS:
        enter(house, room)
    sizes = [n for n in house.evaluate("sent") if n > 1_000_000]
    assert len(sizes) == 1
    assert house.evaluate("window.Plotly === undefined")
    titles = house.evaluate(
        "[...document.querySelectorAll('.chart .modebar-btn')].map(b => b.dataset.title)"
    )
    assert {"Save as PNG", "Save as SVG", "Zoom", "Pan"} <= set(titles)
    assert not any("loud" in t for t in titles)


@pytest.mark.exhaustive
def test_a_selected_operator_is_marked_and_a_point_selects(house: Page, session: Session) -> None:
    enter(house, "kernels")
    marked = """(() => { const t = document.querySelector(".chart .js-plotly-plot").data[0];
      return t.selectedpoints.flatMap(n => t.meta.ops[n]); })()"""
    names = [o.name for o in session.house.operators]
    ops: list[list[str]] = house.evaluate(
        "document.querySelector('.chart .js-plotly-plot').data[0].meta.ops"
    )
    house.evaluate("driver.select(-1)")
    settle(house)
    assert house.evaluate(marked) == []
    chosen = names.index(next(filter(None, ops))[0])
    house.evaluate("op => driver.select(op)", chosen)
    settle(house)
    assert names[chosen] in house.evaluate(marked)
    house.locator(".chart").focus()
    house.keyboard.press("Home")
    for _ in range(len(ops) - 1):
        house.keyboard.press("ArrowRight")
    said = house.evaluate(
        "document.querySelector('.chart .js-plotly-plot').data[0].customdata.at(-1)"
    )
    assert said.split("<br>")[0] in house.inner_text(".foot .said")
    house.wait_for_selector(".chart .hoverlayer .hovertext")
    last = next(n for n in range(len(ops) - 1, -1, -1) if ops[n])
    for _ in range(len(ops) - 1 - last):
        house.keyboard.press("ArrowLeft")
    house.keyboard.press("Enter")
    settle(house)
    assert names[house.evaluate("driver.state.op")] in ops[last]


def test_the_words_of_a_chart_stand_over_it_and_stay_when_the_glossary_opens(house: Page) -> None:
    enter(house, "kernels")
    words = house.locator(".see").bounding_box()
    assert house.inner_text(".see").strip()
    plot = house.locator(".chart .js-plotly-plot").bounding_box()
    assert words and plot and words["y"] + words["height"] <= plot["y"] + 1
    house.locator(".house").focus()
    for key in ("/", *"glossary", "Enter"):
        house.keyboard.press(key)
    assert house.locator(".glossary dt").count() and house.locator(".chart .words").count()
    house.keyboard.press("Escape")
    assert not house.locator(".glossary").count() and house.locator(".chart .words").count()


@pytest.mark.exhaustive
@pytest.mark.parametrize("house", [(1280, "light")], indirect=True)
def test_titles_of_axes_that_lie_over_each_other_do_not_touch(house: Page) -> None:
    for room in ("errors", "kernels", "rtasks"):
        enter(house, room)
        titles = house.locator(".chart :is(.ytitle, .y2title)").all()
        boxes = sorted((b["y"], b["y"] + b["height"]) for t in titles if (b := t.bounding_box()))
        assert boxes and all(end <= begin for (_, end), (begin, _) in pairwise(boxes)), room


def test_a_line_is_turned_off_by_its_name_and_stays_so(house: Page) -> None:
    enter(house, "kernels")
    house.locator(".chart .legendtoggle").nth(1).click()
    off = "document.querySelector('.chart .js-plotly-plot').data[1].visible"
    house.wait_for_function(f"{off} === 'legendonly'")
    house.locator("[aria-label='Light or dark']").click()
    settle(house)
    assert house.evaluate(
        "document.querySelector('.chart .js-plotly-plot')._fullData[1].visible"
    ) == ("legendonly")


@pytest.mark.exhaustive
def test_a_chart_is_kept_as_an_image(house: Page) -> None:
    enter(house, "roofline")
    for kind in ("PNG", "SVG"):
        with house.expect_download() as download:
            house.locator(f".chart [data-title='Save as {kind}']").click()
        data = download.value.path().read_bytes()
        assert download.value.suggested_filename == f"ironworks-roofline.{kind.lower()}"
        assert data.startswith(b"\x89PNG") if kind == "PNG" else b"<svg" in data[:200]


@pytest.mark.exhaustive
@pytest.mark.parametrize("house", [(900, "dark"), exhaustive((1280, "light"))], indirect=True)
def test_the_words_of_a_kept_chart_lie_over_nothing(
    house: Page, browser: Browser, tmp_path: Path
) -> None:
    for room in ("kernels", "roofline", "errors"):
        enter(house, room)
        with house.expect_download() as download:
            house.locator(".chart [data-title='Save as SVG']").click()
        kept = tmp_path / f"{room}.svg"
        download.value.save_as(kept)
        page = browser.new_page()
        page.goto(kept.as_uri())
        ends = "[...document.querySelectorAll('{}')].map(n => n.getBoundingClientRect().{})"
        (words,) = page.evaluate(ends.format(".gtitle", "bottom"))
        parts = ".xtitle, .xtick text, .legendtext, .plot"
        assert words > 20 and words <= min(page.evaluate(ends.format(parts, "top"))), room
        page.close()


@pytest.mark.exhaustive
def test_a_saved_page_draws_its_charts(browser: Browser, tmp_path: Path, session: Session) -> None:

    path = tmp_path / "report.html"
    path.write_text(report(session, code=False), encoding="utf-8")
    tab = Tab(browser)
    tab.page.goto(path.as_uri())
    tab.page.wait_for_selector("#house .house")
    for room in CHARTS:
        where = f".rooms [data-room={room}]"
        tab.page.locator(where).scroll_into_view_if_needed()
        tab.page.wait_for_selector(f"{where} .xtitle")
    rooms: list[str] = tab.page.evaluate(
        "driver => [...document.querySelectorAll('.rooms .chart')]"
        ".map(c => c.closest('[data-room]').dataset.room)"
    )
    assert sorted(rooms) == sorted(CHARTS)
    assert not tab.faults and not tab.outside
    tab.close()


@explorer.trace
def sized(x: explorer.tensor("float32", "n", 96)):  # type: ignore[no-untyped-def,valid-type]
    return enp.exp(x @ W)


@pytest.mark.exhaustive
def test_a_button_measures_for_a_chart_tells_how_far_it_is_and_can_be_cancelled(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    from widgets.timed import sizes

    monkeypatch.setattr(sizes, "SECONDS", 0.0)
    monkeypatch.setitem(CHARTS, "sizes", "PLANNED")
    session = Session(explorer.compile(sized))
    with house_of(browser, session, width=900) as page:
        enter(page, "sizes")
        button = page.locator(".rbar [data-action=clock]")
        assert button.text_content() == "Measure the sizes"
        names = "document.querySelector('.chart .js-plotly-plot').data.map(t => t.name)"
        assert not any(name.startswith("measured") for name in page.evaluate(names))
        button.click()
        page.wait_for_function(f"{names}.some(name => name.startsWith('measured'))")
        every = session.clocked("sizes", "n")
        assert page.locator(".foot .said").inner_text().startswith(f"{len(every)} sizes measured")
        monkeypatch.setattr(sizes, "SECONDS", 0.4)
        button.click()
        page.wait_for_function(
            "/^Cancel: [1-9]/.test(document.querySelector('[data-action=clock]').textContent)"
        )
        button.click()
        page.wait_for_function(
            "document.querySelector('[data-action=clock]').textContent === 'Measure the sizes'"
        )
        settle(page)
        assert 0 < len(session.clocked("sizes", "n")) < len(every)


def deep(weights: Any, x: Any) -> Any:
    for w in weights:
        x = enp.tanh(x @ w)
    return (x * x).mean()


@pytest.mark.exhaustive
@pytest.mark.parametrize("scheme", ["dark", exhaustive("light")])
def test_a_training_step_has_rooms_of_its_own_and_code_begins_with_the_wall(
    browser: Browser, scheme: str
) -> None:

    kinds = [explorer.tensor("float32", 8, 8)] * 4, explorer.tensor("float32", 64, 8)
    session = Session(explorer.compile(explorer.trace(explorer.value_and_grad(deep))(*kinds)))
    with house_of(browser, session, width=1440, scheme=scheme) as page:
        page.evaluate("driver.stage('DIFFERENTIATED')")
        page.evaluate("driver.go('backward')")
        page.wait_for_selector(".see >> text=kept in between")
        page.evaluate("driver.go('memory_time')")
        page.wait_for_selector(".picture .chart .js-plotly-plot .xtitle")
        found = page.locator(".picture .xtitle").text_content()
        assert found == "intermediates at once, predicted (KiB)"
        assert page.locator(".picture .scatterlayer .trace").count() == 2
        page.evaluate("driver.stage('EMITTED')")
        page.evaluate("driver.go('cache')")
        page.wait_for_selector(".picture svg >> text=The key: a digest of these parts")
