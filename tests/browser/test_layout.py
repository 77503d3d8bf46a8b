"""The explorer's layout: the picture has most of it, nothing scrolls or is cut, and what it shows
can be played, compared, found and saved.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

import explorer
from explorer.measure.compare import Comparison, Measurement
from explorer.process.cancellation import report_progress
from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import HAS, house, settle
from widgets.session.session import Session
from widgets.timed import sizes

pytestmark = pytest.mark.browser

CLIPPED = (Path(__file__).parent / "clipped.js").read_text("utf-8").split("\n", 1)[1]
NAMED = {"rammer": "Schedule", "roller": "Tiles", "welder": "Fusion", "grinder": "Control flow"}
CLOSE = "['graph', 'inspector', 'code'].forEach(name => driver.open(name, false))"
SHARE = """(() => { const area = at => { const { width, height } = document.querySelector(at)
    .getBoundingClientRect(); return width * height; };
    return (area('.pw > .fill') + area('.leg')) / area('.house'); })()"""
SCROLLS = """[...document.querySelectorAll('.house, .house *')].filter(n => {
    const { overflowX, overflowY } = getComputedStyle(n), bars = getComputedStyle(n).scrollbarWidth;
    return bars !== 'none' && n.getClientRects().length
        && (/auto|scroll/.test(overflowX) && n.scrollWidth > n.clientWidth + 1
        || /auto|scroll/.test(overflowY) && n.scrollHeight > n.clientHeight + 1);
}).map(n => n.className)"""


def compare(first: Any, second: Any, inputs: Any, seconds: float) -> Comparison:
    one, two = Measurement(10.0, 9.0, 11.0, 60), Measurement(12.0, 11.0, 13.0, 60)
    return Comparison(1.2, 1.15, 1.25, 60, "slower", one, two)


@pytest.fixture(scope="module")
def session() -> Session:
    found = Session(explorer.compile("zoo:tiny_bert"), compare=compare)
    found.measure()  # so that no page does: another run has another costliest operator
    return found


@pytest.fixture
def page(browser: Browser, session: Session) -> Iterator[Page]:
    with house(browser, session, width=1266, height=920) as found:
        found.wait_for_function("!document.querySelector('.house[aria-busy]')")
        found.evaluate(CLOSE)
        settle(found)
        yield found


@pytest.mark.parametrize("width", [960, 1250, 1920])
def test_the_picture_has_most_of_the_explorer(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width + 16, "height": 920})
    page.wait_for_timeout(200)
    assert page.evaluate("document.querySelector('.house').offsetWidth") == width
    assert page.evaluate(SHARE) >= 0.6
    assert page.evaluate(SCROLLS) == [] and page.evaluate(CLIPPED) == []


@pytest.mark.parametrize("width", [960, 1250])
@pytest.mark.parametrize("name", ["policies", "welder", "roller", "sizes"])
def test_controls_that_have_no_room_in_the_title_stand_under_what_if(
    page: Page, width: int, name: str
) -> None:
    page.set_viewport_size({"width": width + 16, "height": 920})
    page.evaluate(f"driver.go('{name}')")
    settle(page)
    page.wait_for_timeout(200)
    assert page.evaluate(SHARE) >= 0.6
    title = page.evaluate("[...document.querySelectorAll('.owns .rbar > *')].length")
    page.locator(".owns [aria-expanded]").click()
    more = page.evaluate("[...document.querySelectorAll('.pop .rbar > *')].length")
    drawn = page.evaluate("document.querySelector('.picture').dataset.room")
    if name == "policies":
        assert title + more == 6 and more >= 1
        page.locator(".pop select[aria-label='chunks per core']").select_option("4")
        settle(page)
        assert page.locator("select[aria-label='chunks per core']").input_value() == "4"
    assert drawn == name


@pytest.mark.parametrize("width", [400, *map(exhaustive, (520, 700, 880, 1100, 1500, 1900))])
def test_each_of_the_four_pictures_is_one_click_away(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width + 16, "height": 920})
    for name, title in NAMED.items():
        page.locator(f".thumb[data-picture={name}]").click()
        settle(page)
        page.wait_for_timeout(250)
        assert page.inner_text(".head h2").startswith(title)
        assert page.evaluate(CLIPPED) == [], name
        wide = "document.querySelector('.house')"
        assert page.evaluate(f"{wide}.scrollWidth <= {wide}.clientWidth")


def test_the_costliest_operator_is_selected_and_every_number_lights_its_marks(page: Page) -> None:
    name = page.inner_text(".trail b")
    call = page.evaluate("driver.wall.costliest()")
    assert page.evaluate(f"driver.calls()[{call}][0]") == name
    assert page.locator(".see .hl").count() >= 5
    page.locator(".see .hl", has_text="%").first.hover()
    assert page.evaluate("driver.wall.lit") == [["busy"]]
    page.mouse.move(2, 2)
    assert page.evaluate("driver.wall.lit") == []
    page.locator(".thumb[data-picture=welder]").click()
    settle(page)
    page.wait_for_timeout(400)  # drawn for the height that its sentences leave
    page.locator(".see .hl").first.hover()
    lit = page.evaluate("document.querySelectorAll('.picture svg.lighting [data-k].on').length")
    assert 0 < lit < page.evaluate("document.querySelectorAll('.picture [data-k]').length")


FADED = """[...document.querySelectorAll('.chart .cartesianlayer [data-k]')]
    .filter(n => getComputedStyle(n).opacity < 0.3).map(n => n.dataset.k)"""
SELECTED = """[...document.querySelectorAll('.chart .cartesianlayer .point > path')]
    .map(n => [n.style.fill, n.style.opacity])"""


def charted(page: Page, room: str) -> None:
    page.evaluate("room => driver.go(room)", room)
    page.wait_for_selector(".chart .cartesianlayer [data-k]")
    settle(page)


@pytest.mark.parametrize("room", ["sizes", "roofline"])
def test_a_number_lights_its_points_of_a_chart(page: Page, room: str) -> None:
    charted(page, room)
    every = page.evaluate("document.querySelectorAll('.chart .cartesianlayer [data-k]').length")
    marks = page.locator(".see .hl")
    assert marks.count() >= 3 and page.evaluate(FADED) == []
    for mark in marks.all():
        ways = [set(way.split()) for way in (mark.get_attribute("data-lights") or "").split("|")]
        mark.hover()
        faded = page.evaluate(FADED)
        assert 0 < len(faded) < every
        assert not any(way <= set(words.split()) for way in ways for words in faded)
        page.mouse.move(2, 2)
        assert page.evaluate(FADED) == []


def test_a_chart_shows_its_selection_again_when_nothing_is_pointed_at(page: Page) -> None:
    charted(page, "rtasks")
    before = page.evaluate(SELECTED)
    assert len({fill for fill, _ in before}) == 2  # the selected operator's and the others'
    page.locator(".see .hl").first.focus()
    assert page.evaluate(FADED)
    page.locator(".house").focus()
    assert page.evaluate(FADED) == [] and page.evaluate(SELECTED) == before


def test_a_chart_is_as_high_as_its_room_after_any_other(page: Page) -> None:
    page.set_viewport_size({"width": 1936, "height": 916})
    for room in ("peaks", "rtasks", "sizes", "peaks", "rtasks"):
        page.evaluate("room => driver.go(room)", room)
        settle(page)
        page.wait_for_timeout(600)
    assert (
        page.evaluate("""document.querySelector('.picture').clientHeight
        - document.querySelector('.chart .js-plotly-plot').offsetHeight""")
        <= 1
    )


@pytest.mark.parametrize("width", [960, 1920])
def test_a_chart_leaves_room_for_the_drawing_below_it(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width + 16, "height": 916})
    for room in ("waves", "peaks"):
        charted(page, room)
        page.wait_for_timeout(400)
        assert page.evaluate(SCROLLS) == [], room
        px = page.evaluate("""(() => { const svg = document.querySelector('.drawn svg.pic');
            return 11 * svg.clientWidth / svg.viewBox.baseVal.width; })()""")
        assert px >= 12.9, room


def test_sentences_stand_by_a_picture_that_was_waited_for(page: Page) -> None:
    page.evaluate("""() => {
        globalThis.atOnce = askSession;
        globalThis.askSession = async (kind, args) => {
            if (kind === "settings") await new Promise(done => setTimeout(done, 400));
            return atOnce(kind, args);
        };
    }""")
    try:
        page.evaluate("driver.go('hardware')")
        page.wait_for_selector(".picture .settings")
        settle(page)
        assert page.inner_text(".see")
    finally:
        page.evaluate("void (globalThis.askSession = atOnce)")


def test_the_wall_is_built_task_by_task_and_kept_as_pictures(page: Page) -> None:
    last = int(page.get_attribute(".play input", "max") or 0)
    assert last > 20 and page.inner_text(".play output") == f"task {last} of {last}"
    page.locator(".house").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(HAS, arg=[".play output", f"task {last - 2} of {last}"])
    page.keyboard.press("Space")
    page.wait_for_function(f"document.querySelector('.play input').valueAsNumber === {last}")
    with page.expect_download(timeout=120_000) as got:
        page.locator("[aria-label='Save what is shown']").select_option("zip")
    with zipfile.ZipFile(io.BytesIO(got.value.path().read_bytes())) as found:
        assert found.testzip() is None and len(found.namelist()) == last + 1
        assert found.read(found.namelist()[0]).startswith(b"\x89PNG")


@pytest.mark.exhaustive
def test_steps_are_kept_as_a_film(page: Page) -> None:
    page.locator(".thumb[data-picture=welder]").click()
    settle(page)
    with page.expect_download(timeout=60_000) as got:
        page.locator("[aria-label='Save what is shown']").select_option("webm")
    assert got.value.path().read_bytes().startswith(b"\x1a\x45\xdf\xa3")


def test_a_wall_is_kept_as_points_and_as_a_drawing(page: Page) -> None:
    wide = page.evaluate("document.querySelector('.pw canvas').clientWidth")
    for kind in ("png", "svg"):
        with page.expect_download(timeout=120_000) as got:
            page.locator("[aria-label='Save what is shown']").select_option(kind)
        body = got.value.path().read_bytes()
        if kind == "png":
            assert int.from_bytes(body[16:20], "big") == 2 * wide
        else:
            assert body.startswith(b"<svg") and b"var(--" not in body


def test_the_baseline_stands_over_now_on_one_axis(browser: Browser) -> None:
    session = Session(explorer.compile("zoo:tiny_bert"), compare=compare)
    with house(browser, session, width=1266, height=920) as page:
        page.wait_for_function("!document.querySelector('.house[aria-busy]')")
        assert not page.locator(".head button", has_text="A over B").count()
        page.evaluate("void driver.turn('threads', 0, '1')")
        page.wait_for_function("driver.wall.has_base")
        page.wait_for_function("!document.querySelector('.house[aria-busy]')")
        page.locator(".head button", has_text="A over B").click()
        assert page.evaluate("driver.wall.compare") is True
        page.keyboard.press("a")
        assert page.evaluate("driver.wall.compare") is False


def test_anything_is_found_by_its_name_or_its_old_one(page: Page) -> None:
    for words, title in (("roofline", "Roofline"), ("two layers", "op-by-op"), ("inside", "")):
        page.keyboard.press("Control+k")
        page.keyboard.type(words)
        assert title.lower() in page.locator(".find [role=option]").first.inner_text().lower()
        page.keyboard.press("Escape")
        assert not page.locator(".find").count()
    page.keyboard.press("/")
    page.keyboard.type("MatMul_72 operator")
    page.keyboard.press("Enter")
    assert page.inner_text(".trail b") == "MatMul_72"


def test_drawers_are_as_they_were_left(browser: Browser, page: Page) -> None:
    drawn = page.evaluate("document.querySelector('.pw > .fill').clientWidth")
    page.keyboard.press("i")
    settle(page)
    assert page.locator(".pi").is_visible()
    assert page.evaluate("document.querySelector('.pw > .fill').clientWidth") < drawn - 250
    page.keyboard.press("g")
    assert page.locator(".pg").is_visible() and not page.locator(".pi").is_visible()
    assert page.evaluate("JSON.parse(localStorage['ironworks-drawers']).graph") is True
    page.keyboard.press("g")
    page.set_viewport_size({"width": 1016, "height": 900})
    page.wait_for_timeout(100)
    assert not page.locator(".pg").is_visible()


def test_knobs_of_the_picture_are_in_its_title_and_others_under_what_if(page: Page) -> None:
    shown = page.locator(".head [data-knob]")
    assert {n.get_attribute("data-knob") for n in shown.all()} == {"threads", "policy"}
    page.keyboard.press("w")
    others = {n.get_attribute("data-knob") for n in page.locator(".pop [data-knob]").all()}
    assert "fusion" in others and "size batch" in others and "policy" not in others
    page.keyboard.press("Escape")
    assert not page.locator(".pop").is_visible()


def test_a_changed_size_is_named_and_undone_by_button_and_key(
    browser: Browser, session: Session
) -> None:
    with house(browser, session, width=1266, height=920) as page:
        page.wait_for_function("!document.querySelector('.house[aria-busy]')")
        assert not page.locator(".tools [aria-label=Undo]").count()
        for undo in ("button", "key"):
            page.evaluate("void driver.turn('size seq', 0, '1')")
            page.wait_for_selector(".head button:has-text('What if · seq 1')")
            page.wait_for_function("!document.querySelector('.house[aria-busy]')")
            if undo == "button":
                page.locator(".tools [aria-label=Undo]").click()
            else:
                page.locator(".bar .name").click()
                page.keyboard.press("Control+z")
            page.wait_for_selector(".head button:text-is('What if')")


def test_a_stage_is_a_click_and_its_pictures_another(page: Page) -> None:
    page.locator(".rail [data-stage=ROLLED]").click()
    settle(page)
    assert page.get_attribute(".pw", "aria-label") == "Roller's layouts through the memories"
    assert page.evaluate(SCROLLS) == []
    page.mouse.move(700, 500)  # on to the picture: the list goes
    assert not page.locator(".fly").is_visible()
    page.locator(".rail [data-stage=ROLLED]").click()
    page.locator(".fly [data-picture=roofline]").click()
    settle(page)
    assert page.get_attribute(".pw", "aria-label") == "Roofline"
    page.locator(".rail [data-stage=TASKED]").click()
    assert "appears" in page.inner_text(".fly") or "loop" in page.inner_text(".fly")


def test_a_picture_that_takes_a_while_says_how_far_it_is_and_is_cancelled(
    browser: Browser, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    told_of = Event()

    def slow(now: Any, symbol: str) -> Any:
        if not told_of.is_set():
            for n in range(600):
                report_progress("predict sizes", n, 600)
                told_of.wait(0.01)
        return data(now, symbol)

    data = sizes.data
    monkeypatch.setattr(sizes, "data", slow)
    session.house.cache.clear()
    with house(browser, session, width=1266, height=920) as page:
        page.evaluate("driver.go('relax')")
        settle(page)
        page.evaluate("void driver.go('sizes')")
        page.wait_for_function("document.querySelector('.stt').innerText.includes('of 600')")
        assert "Drawing “Sizes”" in page.inner_text(".stt")
        assert page.evaluate("document.querySelector('.picture').hidden")
        assert page.get_attribute(".pw", "aria-label") == "Sizes"
        page.locator(".house").press("Escape")
        assert "“Sizes” was cancelled" in page.inner_text(".stt")
        page.get_by_role("button", name="Back to “Shapes”").click()
        page.wait_for_selector(".picture[data-room=relax]:visible")

        page.evaluate("void driver.go('sizes')")  # another picture does not wait for it
        page.wait_for_function("document.querySelector('.stt').innerText.includes('of 600')")
        page.locator(".thumb[data-picture=welder]").click()
        page.wait_for_selector(".picture[data-room=welder]:visible", timeout=5_000)

        page.evaluate("void driver.go('sizes')")
        page.wait_for_selector(".stt >> text=Drawing")
        page.get_by_role("button", name="Cancel").click()
        told_of.set()
        page.get_by_role("button", name="Draw it").click()
        page.wait_for_selector(".picture[data-room=sizes]:visible", timeout=20_000)
        assert not page.locator(".stt").is_visible()
