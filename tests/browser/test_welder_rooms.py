"""Welder's rooms over a session: tiles of the curve, values moved by pointer and by key, a move
that bounces, a timing with its progress, and a window that is narrow.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

import explorer
import explorer.np as enp
from explorer.measure.compare import Comparison, Measurement
from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import HAS, enter, rooms
from tests.widgets.of_family import of_family
from widgets.model.compiled import Compiled
from widgets.model.picture import Move
from widgets.session.jobs import Job
from widgets.session.move_editor import MoveEditor
from widgets.session.session import Session

pytestmark = pytest.mark.browser

ROOMS = (*of_family("groups"), "groups")


@explorer.trace
def scores(a: explorer.tensor("float32", 96, 64), b: explorer.tensor("float32", 64, 128)):  # type: ignore[no-untyped-def,valid-type]
    x = enp.matmul(a, b)
    e = enp.exp(x - enp.max(x, axis=-1, keepdims=True))
    return e / enp.sum(e, axis=-1, keepdims=True)


def slowly(c: Compiled, moves: Sequence[Move], job: Job) -> Compiled:
    """A compiler that takes its time and changes nothing."""
    for step in range(10):
        job.what = f"Compiling: step {step + 1} of 10"
        job.report(0)
        time.sleep(0.03)
    return c


def compare(first: Any, second: Any, inputs: Any, seconds: float) -> Comparison:
    """Rounds of 5 ms without a clock."""
    for n in range(60):
        first._rounds.job.report(n)
        time.sleep(0.005)
    one, two = Measurement(10.0, 9.0, 11.0, 60), Measurement(12.0, 11.0, 13.0, 60)
    return Comparison(1.2, 1.15, 1.25, 60, "faster", one, two)


@pytest.fixture(scope="module")
def compiled() -> explorer.Compilation:
    return explorer.compile(explorer.load(scores))


@pytest.fixture
def session(compiled: explorer.Compilation) -> Session:
    return Session(compiled, compare=compare, move_editor=MoveEditor(compiler=slowly))


@pytest.fixture
def room(browser: Browser, session: Session, request: pytest.FixtureRequest) -> Iterator[Page]:
    width, scheme = getattr(request, "param", (1000, "light"))
    with rooms(browser, session, ROOMS, "Welder", width=width, scheme=scheme) as page:
        yield page


def said(page: Page, text: str) -> None:
    page.wait_for_function(HAS, arg=[".weld .note", text])


def level(page: Page, value: str) -> str | None:
    return page.get_attribute(f"[data-value={value}]", "data-level")


def test_a_point_of_the_curve_is_taken_by_pointer_and_by_key(room: Page) -> None:
    enter(room, "Tile curve")
    tile = "document.querySelectorAll('.rbar select')[1].selectedIndex"
    shown = room.evaluate(tile)
    other = 0 if shown != 1 else 1
    room.locator(f".drawn [data-rank='{other}'] rect").click()
    room.wait_for_function(f"{tile} === {other + 1}")
    room.locator(f".drawn [data-rank='{other}']").focus()
    room.keyboard.press("ArrowRight")
    room.keyboard.press("Enter")
    room.wait_for_function(f"{tile} === {other + 2}")
    chosen = room.evaluate("document.querySelectorAll('.rbar select')[1].value")
    enter(room, "fused pipeline")
    said = room.locator(".drawn svg").first.get_attribute("aria-label") or ""
    assert f"tile {chosen.split(': ')[1]}:" in said


def test_arrows_move_a_value_and_undo_brings_it_back(room: Page, session: Session) -> None:
    enter(room, "Connections")
    before = level(room, "mat_mul")
    room.locator("[data-value=mat_mul]").focus()
    room.keyboard.press("Shift+ArrowDown")
    said(room, "mat_mul in DRAM: predicted")
    room.wait_for_function("document.activeElement.dataset.value === 'mat_mul'")
    assert level(room, "mat_mul") == "DRAM" and session.manual_moves.moves == (("mat_mul", "DRAM"),)
    cells = room.inner_text(".weld .tbl")
    assert "to and from memory" in cells and "predicted" in cells and "+1" in cells
    room.locator(".weld .btn", has_text="Undo").click()
    said(room, "where the compiler put them")
    assert level(room, "mat_mul") == before


def test_a_value_is_dragged_to_another_level(room: Page, session: Session) -> None:
    enter(room, "Connections")
    box = room.locator("[data-value=mat_mul] rect").bounding_box()
    lane = room.locator("[data-lane=DRAM]").first.bounding_box()
    assert box is not None and lane is not None
    x = box["x"] + box["width"] / 2
    room.mouse.move(x, box["y"] + box["height"] / 2)
    room.mouse.down()
    room.mouse.move(x, lane["y"] + lane["height"] / 2, steps=5)
    assert room.locator(".lane.over").get_attribute("data-lane") == "DRAM"
    room.mouse.up()
    said(room, "mat_mul in DRAM: predicted")
    assert level(room, "mat_mul") == "DRAM"


def test_an_illegal_move_bounces_with_the_change_that_would_flip_it(
    room: Page, session: Session
) -> None:
    enter(room, "Connections")
    before = level(room, "reduce_max")
    room.locator("[data-value=reduce_max]").focus()
    room.keyboard.press("Shift+ArrowUp")
    room.wait_for_selector(".weld .note.bad")
    text = room.inner_text(".weld .note")
    assert text.startswith("Not legal: ") and "smallest change that would flip it: connect" in text
    assert level(room, "reduce_max") == before and not session.manual_moves.moves


def test_split_and_join_stand_for_a_move(room: Page, session: Session) -> None:
    enter(room, "Connections")
    assert room.locator(".weld .btn", has_text="Split").is_disabled()
    room.locator("[data-value=exp]").focus()
    room.locator(".weld .btn", has_text="Split").click()
    said(room, "exp in DRAM: predicted")
    room.locator("[data-value=exp]").focus()
    room.locator(".weld .btn", has_text="Join").click()
    room.wait_for_function("document.querySelector('[data-value=exp]').dataset.level !== 'DRAM'")
    room.locator(".weld .btn", has_text="Reset").click()
    said(room, "where the compiler put them")


def test_what_was_moved_is_measured_with_its_progress(room: Page) -> None:
    enter(room, "Connections")
    room.locator("[data-value=mat_mul]").focus()
    room.keyboard.press("Shift+ArrowDown")
    said(room, "mat_mul in DRAM: predicted")
    room.locator(".weld .btn", has_text="Measure").click()
    said(room, "Compiling: step")
    said(room, "Measuring: n = ")
    said(room, "0.83× the present fusion's time: 99 %: 0.80 to 0.87, n = 60")
    assert "predicted" in room.inner_text(".weld .note")


def test_a_measurement_can_be_cancelled(room: Page) -> None:
    enter(room, "Connections")
    room.locator("[data-value=mat_mul]").focus()
    room.keyboard.press("Shift+ArrowDown")
    said(room, "mat_mul in DRAM: predicted")
    room.locator(".weld .btn", has_text="Measure").click()
    said(room, "Compiling: step")
    room.locator(".weld .btn", has_text="Cancel").click()
    said(room, "cancelled")
    assert room.locator(".weld .btn", has_text="Measure").is_enabled()


@pytest.mark.exhaustive
def test_a_table_says_the_same_in_words(room: Page) -> None:
    for title in ("fused pipeline", "Tile curve", "Connections", "Tile graph"):
        enter(room, title)
        room.locator(".room header button.btn").click()
        room.wait_for_selector(".room .picture table.tbl tr:nth-child(2)")
        room.locator(".room header button.btn").click()
        room.wait_for_selector(".room .picture svg.pic")


@pytest.mark.parametrize(
    "room", [(560, "light"), *map(exhaustive, [(560, "dark"), (1500, "dark")])], indirect=True
)
def test_a_narrow_window_scrolls_and_nothing_shrinks(room: Page) -> None:
    for title in ("fused pipeline", "Tile curve", "Connections", "Tile graph"):
        enter(room, title)
        sizes = room.evaluate(
            "[...document.querySelectorAll('.picture svg.pic')].map(s => "
            "s.getBoundingClientRect().width / s.viewBox.baseVal.width)"
        )
        assert all(size >= 0.999 for size in sizes)
        wide = "document.querySelector('.room').getBoundingClientRect().right"
        assert room.evaluate(wide) <= room.evaluate("innerWidth")


def test_a_picture_is_enlarged_by_key(room: Page) -> None:
    wide = "document.querySelector('.picture svg.pic').getBoundingClientRect().width"
    before = room.evaluate(wide)
    room.locator(".room.live").focus()
    room.keyboard.press("z")
    room.wait_for_timeout(50)
    assert room.evaluate(wide) > 1.1 * before
    room.keyboard.press("x")
    room.wait_for_timeout(50)
    assert room.evaluate(wide) == pytest.approx(before)


def test_a_group_that_is_chosen_is_shown_in_every_room(room: Page, session: Session) -> None:
    session.turn("fusion", 0)
    enter(room, "Tile graph")
    before = groups_told(room)
    enter(room, "Tile graph")
    room.locator(".drawn text[data-op]").last.click()
    room.wait_for_selector(".drawn text.lit")
    after = groups_told(room)
    assert len(before) == len(after) == 1 and before != after


def groups_told(page: Page) -> set[str]:
    """Which groups the pictures are about."""
    found = set()
    for title in ("fused pipeline", "Tile curve", "Connections"):
        enter(page, title)
        said = page.locator(".drawn svg").first.get_attribute("aria-label") or ""
        found.add(said.partition(": ")[2].partition(" on this-cpu")[0])
    return found


def test_a_policy_is_chosen_where_its_groups_are_seen(room: Page, session: Session) -> None:
    enter(room, "Connections")
    room.locator(".weld select").select_option("off")
    said(room, "Welded by off.")
    assert not session.now.compiled.options.welder.enabled
    room.locator(".weld select").select_option("two_step")
    said(room, "Welded by two_step.")
    assert session.now.compiled.options.welder.policy == "two_step"
