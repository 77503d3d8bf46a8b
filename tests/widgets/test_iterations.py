"""The trips of a loop one by one: what ran in each is what was counted in all."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import explorer
from explorer.errors import BadOption
from explorer.ir.decisions.control import TaskTree
from explorer.ir.decisions.wall import Brick, ControlFlowCounts, Trip, Wall
from tests.runtime.test_control_events import collatz, nested
from tests.widgets.drawn_geometry import ALL_SIZES, SIZES, problems
from widgets.draw.table import sentence_text
from widgets.grinder import iterations
from widgets.model import brick_wall
from widgets.model.brick_wall import WallCall
from widgets.session.handlers import time_shown
from widgets.session.session import Session


def measured(model: object, schedule: str, **inputs: np.ndarray) -> Session:
    c = explorer.compile(model)
    grinder = replace(c.options.grinder, schedule=schedule, inline_branches=False)
    session = Session(c.with_options(grinder=grinder), inputs=inputs)
    time_shown(session, iterations.PICTURE, "")
    return session


def drawn(session: Session) -> iterations.IterationRows:
    found: iterations.IterationRows = iterations.PICTURE.draw(session, "")[0]
    return found


@pytest.mark.parametrize("schedule", ["device", "host"])
def test_each_trip_holds_its_own_bricks_and_one_side_of_the_branch(schedule: str) -> None:
    rows = drawn(measured(collatz, schedule, n=np.array(27)))
    assert (rows.trips, rows.turn, len(rows.times_us)) == (111, 1, 111)
    turns = {n.name.rsplit("/", 1)[-1]: n.turns for n in rows.nodes}
    assert (turns["loop"], turns["then"], turns["else"]) == (111, 70, 41)
    number = 27
    path = []
    while number != 1:
        path.append(number % 2)
        number = 3 * number + 1 if number % 2 else number // 2
    for shown in rows.shown:
        assert shown.name == f"iteration {shown.at + 1}" and shown.bricks == len(
            shown.longest_bricks
        )
        assert all(0 <= b.start_us <= b.end_us <= shown.us for b in shown.longest_bricks)
        assert ("tanh" in shown.ran, "sub.2" in shown.ran) == (path[shown.at], not path[shown.at])


def test_the_picture_goes_through_trips_and_shows_one_at_a_time() -> None:
    session = measured(collatz, "device", n=np.array(6))
    rows, figure, table = iterations.PICTURE.draw(session, "")
    text = figure.text("light")
    assert len(rows.shown) == len(table.rows) == 8 and text.count("data-step") == 8
    assert 'data-scrub="iterations" data-first="0"' in text and 'data-name="iteration 8"' in text
    assert text.count('<g class="only">') == 1
    assert text.count('<g class="only" visibility="hidden">') == 7
    assert "2 of 8 iterations" in text and "8 iterations" in table.caption


def test_a_loop_inside_of_another_one_is_chosen_by_its_name() -> None:
    session = measured(nested, "device", x=np.ones((3, 4), np.float32), k=np.array(5))
    (choice,) = session.answer("picture", {"room": "iterations"})["controls"]["more"]
    found = {}
    for loop in choice[2]:
        answer = session.answer("picture", {"room": "iterations", "loop": loop})
        found[loop] = answer["table"]["caption"]
    assert sorted(text.split(" iterations")[0].rsplit(" ", 1)[-1] for text in found.values()) == [
        "15",
        "3",
    ]
    with pytest.raises(BadOption, match="no loop 'other' made an iteration"):
        session.answer("picture", {"room": "iterations", "loop": "other"})


@pytest.mark.parametrize("slow", [617, 0])
def test_of_many_trips_the_first_the_slowest_and_the_last_can_be_gone_to(slow: int) -> None:
    count = 1000
    times = np.where(np.arange(count) == slow, 9.0, 1.0)
    ends = np.cumsum(times).tolist()
    begins = [0.0, *ends[:-1]]
    spans = [*zip(begins, ends)]
    bricks = tuple(Brick(0, a + 0.1, b - 0.1, "loop/f", 0, 1, frozenset("f")) for a, b in spans)
    trips = tuple(Trip("loop", 4, a, b) for a, b in spans)
    wall = Wall(
        "measured",
        bricks,
        (),
        1,
        ends[-1],
        trips=trips,
        ran=(ControlFlowCounts("loop", "loop", 1, 4000),),
    )
    operator = TaskTree("operator", "loop/f", "device", binding="f")
    tree = TaskTree(
        "sequence", "", "device", (TaskTree("loop", "loop", "device", (operator,), "loop"),)
    )
    columns = brick_wall.data(wall, (WallCall("f", "elementwise", ("f",), "f"),))
    rows = iterations.data(columns, tree, "loop")
    places = [s.at for s in rows.shown]
    assert {0, 1, slow, count - 1} <= {*places} and 12 <= len(places) <= 48
    assert places == sorted(places) and rows.shown[1].name == "iterations 5 to 8"
    assert [n.turns for n in rows.nodes] == [count, count]
    figure = iterations.figure(rows).text()
    assert "4 unrolled iterations" in figure and "cut: it took 9.0 µs" in figure
    assert "4,000 iterations" in figure
    for size in ALL_SIZES:
        assert problems(iterations.figure(rows, size)) == []


@pytest.mark.parametrize("size", SIZES)
def test_every_iteration_is_drawn_for_the_pixels_of_its_page(size: tuple[int, int]) -> None:
    rows = drawn(measured(collatz, "device", n=np.array(6)))
    figure = iterations.figure(rows, size)
    assert (figure.width, figure.height) == size
    for n in range(len(rows.shown)):  # each in its turn
        parts = re.split(r'(<g class="only"[^>]*>)', figure.body)
        for at, number in zip(range(1, len(parts), 2), range(len(rows.shown))):
            parts[at] = '<g class="only"' + ("" if number == n else ' visibility="hidden"') + ">"
        assert problems(replace(figure, body="".join(parts))) == [], n


def test_the_sentences_of_iterations_are_counted_from_the_run() -> None:
    session = measured(collatz, "device", n=np.array(6))
    _, figure, table = iterations.PICTURE.draw(session, "")
    first, slowest, some = map(sentence_text, table.see)
    assert first.startswith("8 iterations took ") and slowest.startswith("The slowest began with")
    assert some.endswith(" ran in 2 of 8.")
    assert 'data-k="all"' in figure.body and 'data-k="uTask k:operator"' in figure.body


def test_before_a_run_there_are_no_trips() -> None:
    session = Session(explorer.compile(collatz))
    assert iterations.PICTURE.draw(session, "")[0] == ()
    assert "controls" in session.answer("picture", {"room": "iterations"})
