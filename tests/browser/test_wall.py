"""The brick wall over a session: slices as it is looked at from nearer, bricks moved by pointer and
by key, a move that bounces, and a moved wall that is run.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

import explorer
import explorer.np as enp
import widgets
from explorer.measure.compare import Comparison, Measurement
from explorer.rammer.manual_moves import PolicyWithMoves
from tests.browser.over_session import house
from tests.widgets import many_bricks
from tests.widgets.test_rammer_rooms import UNITS, wide
from widgets.model.brick_wall import CAUSES
from widgets.rammer import wall_slices
from widgets.session.session import Session

pytestmark = pytest.mark.browser

SHORT = explorer.Options(  # two kernels, one behind the other, whatever welding would gain
    rammer=explorer.rammer.Options(threads=2, bricks=3),
    welder=explorer.welder.Options(enabled=False),
)
CORES = explorer.Options(rammer=explorer.rammer.Options(threads=4))
ALIVE = "#room .foot .said"


@explorer.trace
def chain(a: explorer.tensor("float32", 96, 64), b: explorer.tensor("float32", 64, 128)):  # type: ignore[no-untyped-def,valid-type]
    x = enp.matmul(a, b)
    return enp.matmul(enp.exp(x - enp.max(x, axis=-1, keepdims=True)), enp.transpose(b))


def compare(first: Any, second: Any, inputs: Any, seconds: float) -> Comparison:
    """Rounds without a clock."""
    one, two = Measurement(10.0, 9.0, 11.0, 60), Measurement(12.0, 11.0, 13.0, 60)
    return Comparison(1.2, 1.15, 1.25, 60, "faster", one, two)


@pytest.fixture(scope="module")
def compiled() -> explorer.Compilation:
    return explorer.compile(explorer.load(chain), options=SHORT)


@pytest.fixture
def session(compiled: explorer.Compilation) -> Session:
    return Session(compiled, compare=compare)


@pytest.fixture
def page(browser: Browser, session: Session) -> Iterator[Page]:
    session.measure()
    planned = session.walls.planned
    assert planned is not None
    with house(browser, session) as found:
        found.wait_for_function("driver.wall.bricks() > 0")
        found.evaluate("driver.state.wall = 'planned'")
        # The plan fills the width however long a busy machine took: its bricks can be hit.
        found.evaluate(f"driver.wall.view = [0, {planned.total_us}]")
        yield found


@pytest.fixture
def million(browser: Browser) -> Iterator[Page]:
    with house(browser, many_bricks.session(2)) as found:
        found.wait_for_function("driver.wall.bricks() === 1_000_000")
        yield found


def said(page: Page, text: str) -> None:
    has = "([where, text]) => document.querySelector(where)?.textContent.includes(text)"
    page.wait_for_function(has, arg=[ALIVE, text])


def spot(page: Page, call: int) -> tuple[float, float]:
    """Where a call's first planned brick is on the page."""
    x, y = page.evaluate(f"driver.wall.spot({call}, true)")
    box = page.locator("#room .pw canvas").bounding_box()
    assert box is not None
    return box["x"] + x, box["y"] + y


def calls(session: Session) -> dict[str, int]:
    return {c.name: n for n, c in enumerate(session.house.calls)}


@pytest.mark.exhaustive
def test_a_million_bricks_cost_what_a_screen_shows(million: Page) -> None:
    million.evaluate("sent.length = 0")
    for act in ("whole()", "zoom(0.01)", "pan(0.3)", "zoom(0.01)", "pan(-0.5)", "zoom(50)"):
        million.evaluate(f"driver.wall.{act}")
        million.wait_for_timeout(250)
        assert 0 < million.evaluate("driver.wall.stats.blocks") < 8 * 1440
    sent = million.evaluate("sent")
    assert 4 <= len(sent) <= 12 and max(sent) < wall_slices.VIEW_BYTES / 2


def test_what_is_looked_at_from_near_stands_brick_by_brick(million: Page) -> None:
    million.evaluate("driver.wall.view = [5000, 5040]")
    million.wait_for_function("driver.wall.stats.slices >= 2")
    million.wait_for_timeout(100)
    box = million.locator("#room .pw canvas").bounding_box()
    assert box is not None
    million.mouse.move(box["x"] + 400, box["y"] + 50)
    tip = million.inner_text("#room .pw .tip")
    assert "task " in tip and " µs" in tip and "bricks" not in tip


@pytest.mark.exhaustive
def test_a_brick_is_dragged_to_another_unit_and_undone(page: Page, session: Session) -> None:
    bricks = session.walls.planned
    assert bricks is not None and bricks.units == 2
    before = session.now.compiled.options.rammer.policy
    x, y = spot(page, int(bricks.call[0]))
    page.mouse.click(x, y)
    page.wait_for_function("driver.wall.hand.picked !== null")
    start, pitch = page.evaluate("[driver.wall.hand.picked.unit, driver.wall.pitch]")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 3, y + (pitch if start == 0 else -pitch), steps=4)
    assert page.evaluate("driver.wall.hand.ghost.unit") == 1 - start
    page.mouse.up()
    said(page, f"to unit {1 - start}")
    policy = session.now.compiled.options.rammer.policy
    assert isinstance(policy, PolicyWithMoves) and policy.moves[0].unit == 1 - start
    assert session.walls.measured is None and "predicted" in page.inner_text(ALIVE)
    page.wait_for_timeout(1000)  # a wall that is drawn anew takes the focus with it
    page.locator("#room .bar .name").click()
    page.keyboard.press("u")
    said(page, "Undone")
    assert session.now.compiled.options.rammer.policy == before


def test_an_illegal_move_bounces_with_the_dependency_in_words(page: Page, session: Session) -> None:
    rows = session.walls.planned
    assert rows is not None
    last = int(rows.call[rows.rows[1] - 1])
    assert last != rows.call[0]
    x, y = spot(page, last)
    first, _ = spot(page, int(rows.call[0]))
    page.mouse.click(x, y)
    page.wait_for_function("driver.wall.hand.picked !== null")
    page.mouse.down()
    page.mouse.move(first - 4, y, steps=4)
    page.mouse.up()
    page.wait_for_selector("#room .bounce:not([hidden])")
    text = page.inner_text("#room .bounce")
    assert text.startswith("Not legal: ")
    if len({*rows.launch.tolist()}) > 1:  # a busy machine's overheads may plan it as several
        assert "are in launch" in text or " reads " in text
    else:
        assert " reads " in text and "would stand" in text
        assert page.evaluate("driver.wall.hand.broken.arrow.toStart") > 0
    assert session.walls.measured is not None and len(session.steps.past) == 1


def test_keys_pick_a_brick_and_move_it_and_the_moved_wall_is_run(
    page: Page, session: Session
) -> None:
    page.locator("#room .bar .name").click()
    page.keyboard.press("j")
    page.keyboard.press(".")
    said(page, "Shift and an arrow move it")
    unit = page.evaluate("driver.wall.hand.picked.unit")
    page.keyboard.press("Shift+ArrowDown" if unit == 0 else "Shift+ArrowUp")
    said(page, f"to unit {1 - unit}")
    assert page.evaluate("driver.wall.hand.picked.unit") == 1 - unit
    page.locator("#room .result .btn", has_text="Measure").click()
    page.wait_for_function("driver.wall.measured")
    assert session.walls.measured is not None
    c, inputs = session.now.compiled, session.inputs
    moved, straight = c.run(inputs), session.steps.pinned.setting.compiled.run(inputs)  # type: ignore[attr-defined]
    for name, value in straight.items():
        assert (moved[name] == value).all()


def test_of_too_many_waits_those_of_the_selection_are_drawn(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wall_slices, "MOST_WAITS", 1)
    session = Session(explorer.compile(explorer.load(wide), options=UNITS, until="PLANNED"))
    source = session.shown.views.sources["wall_planned"]
    assert len(source.waits) > 1
    reader = session.house.calls[int(source.rows.call[source.waits.reader[0]])].ops[0]
    with house(browser, session) as page:
        page.wait_for_function("driver.wall.bricks() > 0")
        page.evaluate("driver.select(-1)")
        page.wait_for_function("driver.wall.stats.arrows === 0")
        slices = page.evaluate("driver.wall.stats.slices")
        page.evaluate(f"driver.select({session.house.order[reader]})")
        page.wait_for_function("driver.wall.stats.arrows > 0", timeout=10000)
        page.wait_for_timeout(300)
        assert page.evaluate("driver.wall.stats.slices") == slices + 1  # and then none


def test_an_idle_core_says_whom_it_waits_for(browser: Browser) -> None:
    session = Session(explorer.compile("zoo:tiny_bert", options=CORES))
    rows = session.walls.planned
    assert rows is not None
    waiting = [n for n, cause in enumerate(rows.cause) if CAUSES[cause] != "launch"]
    gap = max(waiting, key=lambda n: rows.gap_end[n] - rows.gap_start[n])
    with house(browser, session) as page:
        page.wait_for_function("driver.wall.bricks() > 0")
        page.evaluate(f"driver.wall.view = [{rows.gap_start[gap]}, {rows.gap_end[gap]}]")
        box = page.locator("#room .pw canvas").bounding_box()
        assert box is not None
        tips = list[str]()
        for share in range(20):
            y = box["y"] + box["height"] * (share + 0.5) / 20
            page.mouse.move(box["x"] + box["width"] / 2, y)
            tips.append(page.inner_text("#room .pw .tip"))
    told = re.findall(
        r"core (\d+) idle.*\nwaits for (.+) on core (\d+), which ends at ([\d.]+) µs",
        "\n".join(tips),
    )

    def is_planned(idle: str, name: str, unit: str, end: str) -> bool:
        """Of the plan: the same lanes as they ran stand below."""
        mine = (rows.unit == int(unit)) & (abs(rows.end - float(end)) < 0.06)
        held = (rows.gap_unit == int(idle)) & (rows.gap_start < float(end))
        held &= float(end) <= rows.gap_end + 0.06
        names = {rows.calls[c].label for c in rows.call[mine]}
        return idle != unit and name in names and bool(held.any())

    assert any(is_planned(*t) for t in told), tips


def test_a_wall_without_bricks_says_so(browser: Browser) -> None:
    with house(browser, many_bricks.session(2, 0)) as found:
        label = found.get_attribute("#room .pw canvas", "aria-label")
        assert label is not None and label.endswith("nothing is scheduled")


def test_a_recording_stands_under_the_plan_and_is_named_as_one(
    browser: Browser,
) -> None:
    session = widgets.explore("zoo:small_bert", target="h200").session
    with house(browser, session, width=1280) as page:
        page.evaluate("driver.stage('RAMMED')")
        page.wait_for_function("driver.wall.said")
        kinds = page.evaluate("driver.wall.kinds.map(([name]) => name)")
        assert kinds == ["planned", "recorded", "both"]
        page.evaluate("driver.state.wall = 'both'; driver.wall.draw()")
        box = page.locator("#room .pw canvas").bounding_box()
        assert box is not None
        # 132 units: the whole plan above the whole recording, each brick where it is pointed at
        tips = []
        for plan in ("true", "false"):
            x, y = page.evaluate(f"driver.wall.spot(3, {plan})")
            page.mouse.move(box["x"] + x, box["y"] + y)
            tips.append(page.inner_text("#room .pw .tip"))
        assert "predicted" in tips[0] and "recorded on NVIDIA H200, 2026-11-28:" in tips[1]
        assert "recorded" in tips[0].split("(predicted")[0] and "predicted" in tips[1]
        label = page.get_attribute("#room .pw canvas", "aria-label")
        assert label is not None and "recorded on NVIDIA H200, 2026-11-28 46.5 µs" in label
        head = page.inner_text("#room .pw .head .tag") + page.inner_text("#room .see") + label
        assert "measured" not in head.lower() and not any("measured" in tip for tip in tips)
        page.locator("#room .head select[aria-label=show]").select_option("recorded")
        alone = page.evaluate("driver.wall.spot(3)")
        assert alone[1] != y
        page.mouse.move(box["x"] + alone[0], box["y"] + alone[1])
        assert "recorded on NVIDIA H200" in page.inner_text("#room .pw .tip")
