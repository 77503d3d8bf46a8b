"""Grinder's crossing point: its rows are the costs' own numbers, and a timing beside is taken."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import pytest

import explorer
import widgets
from explorer import np as xp
from explorer.errors import BadOption
from explorer.plain_text import counted
from explorer.runtime.planning.schedule_times import TimedSchedule
from tests.widgets.drawn_geometry import SIZES, problems
from widgets.grinder import crossing, crossing_picture
from widgets.rooms import gallery
from widgets.session.handlers import time_shown
from widgets.session.session import Session

tensor = explorer.tensor


@explorer.trace
def rows(x: tensor("float32", "n", 16)) -> Any:
    h = x[0]
    for row in x:
        h = xp.tanh(h + row)
    return h


@pytest.fixture(scope="module")
def session() -> Session:
    c = explorer.compile(rows)
    return Session(c, sizes={"n": 30}, inputs={"x": np.ones((30, 16), "f4")})


def drawn(session: Session) -> crossing.CrossingRows:
    found: crossing.CrossingRows = crossing_picture.PICTURE.draw(session, "")[0]
    return found


def test_the_rows_are_what_the_costs_say(session: Session) -> None:
    found = drawn(session)
    x = session.now.compiled.crossing(sizes={"n": 30})
    assert found.counts[0] == 0 and found.counts[-1] == 10**6 and found.counts[found.first] == 30
    for way in found.schedules:
        assert way.times_us == tuple(x.find(way.label).at(n).us for n in found.counts)
        assert way.label == "on the host" or way.from_trips in found.counts
    for i, n in enumerate(found.counts):
        assert found.schedules[found.least[i]].label == x.least(n).label
    assert [w.label for w in found.schedules if w.chosen] == [
        w.label for w in x.open if w.schedule == x.chosen
    ]


def test_the_picture_scrubs_through_its_counts_and_names_its_constants(session: Session) -> None:
    found, figure, table = crossing_picture.PICTURE.draw(session, "")
    text = figure.text("light")
    assert f'data-scrub="iterations" data-first="{found.first}"' in text
    for i, n in enumerate(found.counts):
        assert f'data-step="{i}" data-name="' + counted(n, "iteration") + '"' in text
    assert f"a launch {found.constants.launch_us:g} µs" in text and "predicted for this-cpu" in text
    assert "it makes 30 iterations (n)" in text
    assert len(table.rows) == len(found.counts) and "launch" in table.caption


@pytest.mark.parametrize("size", SIZES)
def test_the_picture_is_drawn_for_the_pixels_of_its_page(
    session: Session, size: tuple[int, int]
) -> None:
    given = drawn(session)
    longest = replace(given.schedules[0], label="unrolled by 16, all of the units", chosen=True)
    timed = tuple(
        TimedSchedule(w.label, 30, w.times_us[given.first], 1.0, 99.0, 60) for w in given.schedules
    )
    others = replace(given, schedules=(longest, *given.schedules[1:])), replace(given, timed=timed)
    for rows in (given, *others):
        figure = crossing_picture.figure(rows, size)
        assert (figure.width, figure.height) == size and problems(figure) == []


def test_each_schedule_is_a_line_of_ratios_with_one_marked(session: Session) -> None:
    found = drawn(session)
    body = crossing_picture.figure(found).body
    host = next(w for w in found.schedules if w.label == crossing.HOST)
    heights = []
    for n, way in enumerate(found.schedules):
        line = re.search(rf'data-k="way:{n}"><path d="M([^"]+)"', body)
        assert line is not None
        points = [tuple(map(float, p.split())) for p in line[1].split("L")]
        known = [i for i, count in enumerate(found.counts) if count and way.times_us[i] > 0]
        assert len(points) == len(known)
        ratios = [way.times_us[i] / host.times_us[i] for i in known]
        heights += [(round(r, 6), y) for r, (_, y) in zip(ratios, points) if 0.01 < r < 100]
    heights.sort(key=lambda h: (h[0], -h[1]))
    assert all(b <= a for (_, a), (_, b) in pairwise(heights))  # less time stands lower
    (one,) = {y for r, y in heights if r == 1}
    (tick,) = re.findall(r'y="([\d.]+)" class="i w" text-anchor="end">1×<', body)
    assert float(tick) == pytest.approx(one + 4.5, abs=0.1)


def test_the_chart_s_lines_are_the_rows_and_their_share_of_the_fastest(session: Session) -> None:
    found = drawn(session)
    chart = gallery.chart(crossing_picture.PICTURE, session, "", "light")
    known = [(i, k) for i, k in enumerate(found.least) if found.schedules[k].times_us[i]]
    for way in found.schedules:
        above, below = [t for t in chart.data if t.legendgroup == way.label]
        assert list(above.y) == [us for us in way.times_us if us > 0] and below.yaxis == "y2"
        shares = [
            way.times_us[i] / found.schedules[k].times_us[i] for i, k in known if way.times_us[i]
        ]
        assert below.y == pytest.approx(shares) and min(below.y) >= 1
    for axis in (chart.layout.xaxis, chart.layout.yaxis, chart.layout.yaxis2):
        assert "(" in axis.title.text and axis.type == "log"
    (own,) = [t for t in chart.data if t.name.startswith("as it runs")]
    assert own.name == "as it runs: 30 iterations" and list(own.x) == [30, 30]


def trips(svg: str) -> float:
    """From how many trips on the program takes less than the host; for ever where it says so."""
    found = re.search(r"from (\d+) iterations? on the program takes less", svg)
    if found is None:
        assert "the host takes less than the program" in svg or "the program takes less" in svg
        return inf if "the host takes less than the program" in svg else 0
    return int(found[1])


def test_what_is_supposed_moves_the_crossing_point(session: Session) -> None:
    dear = {"room": "crossing", "launch": "0.1 µs", "barrier": "20 µs"}
    answer = session.answer("picture", dear)
    assert trips(answer["svg"]) > trips(session.answer("picture", {"room": "crossing"})["svg"])
    assert "as supposed here" in answer["svg"]
    (loop,) = answer["controls"]["more"][0][2]
    assert answer["controls"]["action"][2] == {"loop": loop}
    for wrong in ({"launch": "2 ms"}, {"barrier": "-1"}, {"loop": "other"}):
        with pytest.raises(BadOption):
            session.answer("picture", {"room": "crossing", **wrong})


def test_a_timing_goes_on_beside_and_its_points_are_drawn(session: Session) -> None:
    (loop,) = session.answer("picture", {"room": "crossing"})["controls"]["more"][0][2]
    with pytest.raises(BadOption, match="was not timed"):
        session.answer("crossing", {"loop": loop})
    with pytest.raises(BadOption, match="no loop is named"):
        session.answer("begin_crossing", {"loop": "other"})
    job = session.answer("begin_crossing", {"loop": loop})["job"]
    assert session.bench.jobs.wait(job)["error"] is None
    assert "with 30 iterations" in session.answer("crossing", {"loop": loop})["said"]
    timed = drawn(session).timed
    assert {t.trips for t in timed} == {1, 10, 30}
    chart = gallery.chart(crossing_picture.PICTURE, session, "", "light")
    points = [t for t in chart.data if t.name.startswith("measured")]
    assert sorted(y for t in points for y in t.y) == sorted(t.median_us for t in timed)
    assert all("99% interval" in words for t in points for words in t.customdata)
    job = session.answer("begin_crossing", {"loop": loop})["job"]
    session.answer("cancel", {"job": job})
    assert "cancelled" in session.bench.jobs.wait(job)["error"]["sentence"]
    assert drawn(session).timed == timed


def test_a_model_without_a_loop_says_so() -> None:
    c = explorer.compile(explorer.trace(lambda x: xp.tanh(x))(x=tensor("float32", 4)))
    session = Session(c)
    time_shown(session, gallery.find_picture("crossing"), "")
    assert "No loop" in crossing_picture.PICTURE.draw(session, "")[1].title
    assert widgets.data(c, "crossing") == ()


def test_a_page_without_a_kernel_has_what_was_asked_for_first_and_whole(session: Session) -> None:
    """With what the clock said, which stands at the end of its table."""
    c = session.now.compiled
    given = {"x": np.ones((30, 16), "f4")}
    room: Any = widgets.show(c, "crossing", sizes={"n": 30}, inputs=given, measured=True)
    bundle: Any = room._repr_mimebundle_()
    text = (bundle[0] if isinstance(bundle, tuple) else bundle)["text/plain"]
    assert text.startswith("loop: ") and ", measured" in text.partition("\n\n")[0]
