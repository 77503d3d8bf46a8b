"""The cost over a symbol's sizes: plans, breaks and measured points are what a compilation says."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

import explorer
import explorer.np as enp
import widgets
from explorer.errors import BadOption
from widgets.rooms import gallery
from widgets.session.session import Session
from widgets.timed import sizes

PICTURE = gallery.find_picture("sizes")


@explorer.trace
def model(x: explorer.tensor("float32", "n", 256), w: explorer.tensor("float32", 256, 256)):  # type: ignore[no-untyped-def,valid-type]
    return enp.tanh(enp.softmax(x @ w) @ w)


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(explorer.compile(model), sizes={"n": 40})


def test_each_size_is_planned_as_its_wall_says(session: Session) -> None:
    rows, _, table = PICTURE.draw(session, "")
    c = session.now.compiled
    assert rows.symbol == "n" and rows.now == 40 and rows.at.us == session.shown.planned_us
    assert len(rows.planned) >= 12 and [p.size for p in rows.planned] == sorted(
        {p.size for p in rows.planned}
    )
    for p in rows.planned:
        assert p.us == c.planned_wall({"n": p.size}).total_us
        done: dict[str, int] = {}
        for b in c.planned_wall({"n": p.size}).bricks:
            done[b.call] = done.get(b.call, 0) + b.last - b.first
        assert {n: k for n, k in p.shape.tasks.items() if k} == done
    assert len(table.rows) == len(rows.planned) and "none measured yet" in table.caption
    assert f"tiles are chosen for {rows.tiled[0]};" in table.caption


def test_a_break_is_between_neighbours_and_says_what_changes(session: Session) -> None:
    rows = PICTURE.draw(session, "")[0]
    by = {p.size: p for p in rows.planned}
    assert rows.breaks
    for b in rows.breaks:
        before, after = by[b.size - 1].shape, by[b.size].shape
        assert before != after and b.kind == sizes.kind_of(before, after) and b.words
        if b.kind == sizes.TASKS:
            assert before.tiles == after.tiles and before.programs == after.programs
    named = {b.size for b in rows.breaks}
    for one, other in pairwise(rows.planned):
        assert one.shape == other.shape or other.size in named or other.size - one.size > 1
    assert len(rows.planned) <= sizes.MOST_PLANS


def test_every_break_of_a_short_range_is_found() -> None:
    @explorer.trace
    def made(x: explorer.tensor("float32", "n", 64)):  # type: ignore[no-untyped-def,valid-type]
        return enp.tanh(x) + 1.0

    short = explorer.load(made, bounds={"n": (1, 24)})
    now = Session(explorer.compile(short, until="planned")).now
    rows = sizes.data(now, "n")
    shapes = {p.size: p.shape for n in range(1, 25) for p in [planned(now, n)]}
    expected = {n for n in range(2, 25) if shapes[n] != shapes[n - 1]}
    found = {b.size for b in rows.breaks}
    assert found <= expected and (found == expected or rows.left)


def planned(now: Any, n: int) -> sizes.PlannedSize:
    known: dict[int, sizes.PlannedSize] = {}
    sizes._plan(now, "n", n, known)
    return known[n]


def test_measured_sizes_have_their_interval_and_stay_while_the_slider_moves(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "SECONDS", 0.0)
    with pytest.raises(BadOption, match="was not measured"):
        session.answer("clock", {"room": "sizes"})
    job = session.answer("begin_clock", {"room": "sizes", "symbol": "n"})["job"]
    assert session.bench.jobs.wait(job)["error"] is None
    assert "sizes measured" in session.answer("clock", {"room": "sizes"})["said"]
    rows = PICTURE.draw(session, "")[0]
    assert len(rows.measured) > 4 and all(m.n >= 8 for _, m in rows.measured)
    figure = gallery.chart(PICTURE, session, "", "light")
    points = [t for t in figure.data if t.name.startswith("measured")]
    (points,) = points
    assert list(zip(points.x, points.y)) == [(n, m.median_us) for n, m in rows.measured]
    assert all("n = " in words for words in points.customdata)
    (line,) = [t for t in figure.data if t.name == "predicted"]
    assert list(line.y) == [p.us for p in rows.planned]
    marks = {t.name: list(t.x) for t in figure.data if t.name in sizes.KINDS}
    assert sorted(x for xs in marks.values() for x in xs) == [b.size for b in rows.breaks]
    knob = next(k for k in session.knobs() if k.name == "size n")
    session.answer("turn", {"knob": "size n", "index": knob.values.index(64)})
    moved = PICTURE.draw(session, "")[0]
    assert moved.now == 64 and moved.measured == rows.measured


def test_symbols_are_chosen_by_name_and_a_fixed_model_has_none() -> None:
    two = explorer.trace(lambda x: enp.tanh(x))(x=explorer.tensor("float32", "rows", "columns"))
    session = Session(explorer.compile(two, until="planned"))
    told = session.answer("picture", {"room": "sizes", "symbol": "rows"})
    assert told["controls"]["more"] == [["symbol", "symbol", ["rows", "columns"], 0]]
    assert told["figure"]["layout"]["xaxis"]["title"]["text"] == "rows (elements)"
    with pytest.raises(BadOption, match="no symbol 'depth'"):
        session.answer("picture", {"room": "sizes", "symbol": "depth"})
    fixed = explorer.trace(lambda x: enp.tanh(x))(x=explorer.tensor("float32", 4))
    early = explorer.compile(fixed, until="planned")
    said = PICTURE.draw(Session(early), "")[2].caption
    assert said == "every size of this model is fixed"
    with pytest.raises(BadOption, match="no chart 'sizes'"):
        widgets.figure(early, "sizes")
