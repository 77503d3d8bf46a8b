"""Slices of walls of any length, who waits for whom, and where the time goes."""

import re
import struct
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
import explorer.np as enp
from explorer.errors import BadOption
from explorer.ir.decisions.wall import Brick, Gap, RProgram, Run, Wait, Wall
from tests.examples import examples
from tests.widgets import many_bricks
from widgets.draw.svg import text_width
from widgets.model import brick_wall
from widgets.model.brick_wall import WallCall, WallRows
from widgets.rammer import brick_wall_picture, wall_slices, wall_table
from widgets.rammer.wall_lanes import lane_blocks
from widgets.rammer.wall_slices import Source, WallSlice
from widgets.session.session import Session
from widgets.session.shown import MORE_UNITS, shown

CALLS = tuple(WallCall(f"call{n}", "conv", (f"op{n}",), f"Conv {n}") for n in range(5))


@explorer.trace
def two_ways(a: explorer.tensor("float32", 96, 64), b: explorer.tensor("float32", 64, 128)):  # type: ignore[no-untyped-def,valid-type]
    x = enp.matmul(a, b)
    y = enp.matmul(a, b * 2.0)
    return enp.sum(enp.exp(x - enp.max(x, axis=-1, keepdims=True)) + y, axis=-1)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    found = Session(explorer.compile(explorer.load(two_ways)))
    found.run_once()
    yield found


def busy_us(rows: WallRows, start: float, end: float) -> float:
    inside = np.minimum(rows.end, end) - np.maximum(rows.start, start)
    return float(np.maximum(inside, 0).sum())


@settings(max_examples=examples(25))
@given(st.integers(1, 9), st.integers(10, 4000), st.floats(0, 0.9), st.floats(0.001, 1))
def test_blocks_hold_every_brick_once_and_fit_into_their_room(
    units: int, bricks: int, left: float, share: float
) -> None:
    rows = many_bricks.wall(units, bricks, CALLS)
    start = left * rows.total_us
    view = WallSlice(start, min(rows.total_us, start + share * rows.total_us), 300)
    room = 20_000
    found = lane_blocks(rows, view, 1, room)
    assert found.bytes <= room
    inside = (rows.end > view.start_us) & (rows.start < view.end_us)
    assert int(found.bricks.sum()) == int(inside.sum())
    alone = found.brick[found.brick >= 0]
    assert len(set(alone.tolist())) == len(alone)
    for lane in range(units):
        mine = found.lane == lane
        assert np.all(found.end[mine][:-1] <= found.start[mine][1:] + 1e-9)
    filled = float(((found.end - found.start) * found.share).sum())
    assert filled == pytest.approx(float((rows.end - rows.start)[inside].sum()), rel=1e-6)


@settings(max_examples=15)
@given(st.integers(161, 700), st.floats(0, 0.8))
def test_many_units_share_lanes_and_lose_no_time(units: int, left: float) -> None:
    rows = many_bricks.wall(units, units * 20, CALLS)
    view = WallSlice(left * rows.total_us, rows.total_us, 400)
    group = -(-units // 160)
    found = lane_blocks(rows, view, group, 100_000)
    assert found.bytes <= 100_000 and int(found.lane.max()) < 160
    sizes = np.minimum(group, units - group * found.lane)
    filled = float(((found.end - found.start) * found.share * sizes).sum())
    assert filled == pytest.approx(busy_us(rows, view.start_us, view.end_us), rel=0.02)


@pytest.mark.few(1)
@pytest.mark.parametrize("units", [2, 64, 480])
def test_a_million_bricks_take_less_than_a_megabyte_a_view(units: int) -> None:
    session = many_bricks.session(units)
    assert session.walls.planned is not None and session.walls.planned.bricks > 990_000
    assert sum(map(len, session.buffers().values())) < wall_slices.VIEW_BYTES
    total = session.walls.planned.total_us
    for share in (0.1, 0.01):
        view = {"start_us": 0.3 * total, "end_us": (0.3 + share) * total, "pixels": 3000}
        found = [
            session.answer("wall", {"wall": wall, **view, "lit": [0, 1]})
            for wall in ("wall_planned", "wall_measured")
        ]
        assert sum(len(f.buffers[0]) for f in found) < wall_slices.VIEW_BYTES


def test_blocks_without_room_are_one_a_lane() -> None:
    rows = many_bricks.wall(3, 6000, CALLS)
    for room in (100, 0, -4000):
        assert lane_blocks(rows, Source(rows).full_window, 1, room).lane.tolist() == [0, 1, 2]


def test_a_wall_of_many_kernels_fits_into_its_bytes() -> None:
    calls = tuple(WallCall(f"call{n}", "conv", (f"op{n}",), f"Conv {n}") for n in range(5000))
    rows = many_bricks.wall(1, 60 * 5000, calls)
    assert wall_slices.spans(rows)[0] == wall_slices.MOST_SPANS
    head, body = wall_slices.pack_wall(Source(rows), 60_000)
    assert len(body) <= 60_000 and head["spans"] >= 750 and head["slice"]["blocks"] > 900


def test_a_large_program_is_not_planned_for_more_units(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = shown(session.now)
    assert (found.views.more is None) == (session.walls.planned.units >= MORE_UNITS)  # type: ignore[union-attr]
    monkeypatch.setattr("widgets.session.shown.MOST_CALLS", 0)
    assert shown(session.now).with_more_units().views.more is None


def test_the_tasks_of_calls_are_found_by_their_names() -> None:
    rows = many_bricks.wall(3, 600, CALLS)
    for names in (["call1"], ["call0", "call2", "elsewhere"], []):
        mine = [n for n in range(rows.bricks) if CALLS[rows.call[n]].name in names]
        assert rows.of_calls(names).tolist() == mine


def test_a_slice_is_its_columns() -> None:
    rows = many_bricks.wall(2, 40, CALLS)
    head, body = wall_slices.slice_wall(Source(rows), Source(rows).full_window)
    n, k, m, w = (head[name] for name in ("blocks", "singles", "gaps", "waits"))
    assert (n, k, w, head["least_us"]) == (40, 40, 0, 0.0)
    assert len(body) == 21 * n + 16 * k + 13 * m + 24 * w
    assert np.array_equal(np.frombuffer(body, "<u4", n), rows.unit)
    assert np.allclose(np.frombuffer(body, "<f4", n, 4 * n), rows.start, rtol=1e-6)
    long = rows.gap_end > rows.gap_start
    assert body[-m:] == rows.cause[long].astype(np.uint8).tobytes()


@pytest.mark.parametrize("bad", ["soon", float("inf"), float("nan"), None, []])
def test_a_window_that_is_none_is_refused(bad: object) -> None:
    session = many_bricks.session(2, 100)
    for name in ("start_us", "pixels"):
        view = {"start_us": 0, "end_us": 5, "pixels": 10, name: bad}
        with pytest.raises(BadOption):
            session.answer("wall", {"wall": "wall_planned", **view})
    with pytest.raises(BadOption, match="no wall"):
        session.answer("wall", {"wall": "garden", "start_us": 0, "end_us": 5})


def test_a_still_picture_of_a_million_bricks_is_small() -> None:
    session = many_bricks.session(2)
    planned, measured = session.walls.planned, session.walls.measured
    assert planned is not None
    assert len(brick_wall_picture.figure(planned, measured).text()) < 600_000
    wide, high = struct.unpack(">2I", brick_wall_picture.wall_png(planned, measured)[16:24])
    assert wide == brick_wall_picture.WIDTH and high < 100
    table = wall_table.table(planned, measured, "fc")
    assert len(table.rows) == wall_table.MOST_ROWS and "of 1,000,000 tasks" in table.caption
    assert {row[1] for row in table.rows} == {"fc"}


def test_an_arrow_goes_from_the_last_awaited_brick_to_the_one_that_waits() -> None:
    """Unit 1 waits for the second brick of unit 0, in each of two trips."""
    program = RProgram(
        ((Run(0, 0, 1), Run(0, 1, 2), Run(1, 0, 1)), (Run(0, 2, 3), Wait(0, 2), Run(1, 1, 2))),
        ("a", "b"),
    )
    origin = frozenset({"op"})
    bricks = []
    for trip in range(2):
        t = 10.0 * trip
        for unit, at, call, first in ((0, 0, "a", 0), (0, 2, "a", 1), (0, 4, "b", 0)):
            bricks.append(Brick(unit, t + at, t + at + 2, call, first, first + 1, origin, 0, trip))
        for unit, at, call, first in ((1, 0, "a", 2), (1, 5, "b", 1)):
            bricks.append(Brick(unit, t + at, t + at + 2, call, first, first + 1, origin, 0, trip))
    rows = brick_wall.data(Wall("measured", tuple(bricks), (), 2, 20.0), ())
    found = wall_slices.waits(rows, (program,))
    ends = [(float(rows.end[a]), float(rows.start[b])) for a, b in zip(found.awaited, found.reader)]
    assert ends == [(4.0, 5.0), (14.0, 15.0)]
    assert [rows.calls[rows.call[b]].name for b in found.reader] == ["b", "b"]


def test_waits_of_a_real_wall_point_forwards(session: Session) -> None:
    for source in session.shown.views.sources.values():
        rows, waits = source.rows, source.waits
        assert np.all(rows.end[waits.awaited] <= rows.start[waits.reader] + 0.05)
        assert np.all(rows.unit[waits.awaited] != rows.unit[waits.reader])


def test_named_gaps_and_bricks_make_up_units_times_time(session: Session) -> None:
    for rows in (session.walls.planned, session.walls.measured, session.shown.views.more):
        assert rows is not None
        areas = rows.areas_us()
        assert "not named" not in areas
        assert sum(areas.values()) == pytest.approx(rows.units * rows.total_us, rel=0.01)
        idle = sum(us for name, us in areas.items() if name != "busy")
        gaps = float((rows.gap_end - rows.gap_start).sum())
        assert idle == pytest.approx(gaps, rel=0.01)
        assert idle == pytest.approx(rows.area_us - areas["busy"], rel=0.01, abs=1e-6)
    table = wall_table.areas(session.walls.planned, session.walls.measured)
    assert table.rows[-1][0] == "all" and table.rows[-1][2] == table.rows[-1][4] == "100.0%"


def test_each_brick_knows_what_the_other_wall_says_of_it(session: Session) -> None:
    planned, measured, found = (
        session.walls.planned,
        session.walls.measured,
        session.walls.compared,
    )
    assert planned is not None and measured is not None and found is not None
    took, should, partner = wall_table.match_bricks(planned, measured, found)
    assert not np.isnan(took).any() and not np.isnan(should).any()
    for i, j in enumerate(partner.tolist()):
        assert planned.first[i] == measured.first[j] and planned.unit[i] == measured.unit[j]
        assert took[i] == pytest.approx(measured.end[j] - measured.start[j])
    caption = wall_table.caption(planned, measured, found)
    assert "predicted " in caption and "errors of tasks" in caption
    assert wall_table.table(planned, measured, "", found).rows[0][-1]


def test_what_python_runs_has_a_lane_of_the_host() -> None:
    origin = frozenset({"op0"})
    bricks = tuple(Brick(u, 0.0, 4.0, "call0", u, u + 1, origin) for u in (0, 1))
    gaps = tuple(Gap(u, 4.0, 10.0, "library") for u in (0, 1))
    host = (Brick(2, 4.0, 10.0, "call1", 0, 1, origin),)
    wall = Wall("measured", bricks, gaps, 2, 10.0, host=host)
    rows = brick_wall.data(wall, CALLS)
    assert (rows.units, rows.lanes, rows.bricks) == (2, 3, 3)
    assert [rows.lane_name(n) for n in range(rows.lanes)] == ["core 0", "core 1", "host"]
    assert rows.areas_us() == {"busy": 8.0, "library": 12.0}
    assert rows.busy_by_unit() == [0.4, 0.4, 0.6]
    blocks = lane_blocks(rows, WallSlice(0.0, 10.0, 300), 1, 20_000)
    assert blocks.lane.tolist() == [0, 1, 2]
    picture = str(brick_wall_picture.figure(rows, rows).body)
    assert ">host<" in picture and ">w2<" not in picture
    head, _ = wall_slices.pack_wall(Source(rows))
    assert (head["units"], head["slice"]["lanes"]) == (2, 3)
    assert [row[0] for row in wall_table.table(rows).rows] == ["core 0", "core 1", "host"]
    device = brick_wall.data(Wall("planned", bricks, (), 2, 4.0), CALLS)
    assert device.lanes == 2 and ">host<" not in str(brick_wall_picture.figure(device, rows).body)


@pytest.mark.parametrize("walls", [1, 2])
@pytest.mark.parametrize("units", [1, 65, 66, 80, 114, 1000])
def test_every_lane_of_a_still_picture_has_units(units: int, walls: int) -> None:
    rows = many_bricks.wall(units, 4 * units, CALLS)
    lanes = brick_wall_picture.lanes_of(rows, walls)
    held = [brick_wall_picture.units_of(lane, lanes, units) for lane in range(lanes)]
    assert [u for first, last in held for u in range(first, last + 1)] == list(range(units))
    assert all(first <= last for first, last in held)
    blocks = brick_wall_picture.blocks_of(rows, lanes)
    assert set(blocks.lane.tolist()) == set(range(lanes))


def test_eighty_units_share_forty_lanes() -> None:
    rows = many_bricks.wall(80, 800, CALLS)
    assert brick_wall_picture.lanes_of(rows, 1) == 40
    text = brick_wall_picture.figure(rows).text()
    assert "core 78–79" in text and "core 80" not in text and "core 100" not in text


def test_what_is_said_of_a_wall_is_never_cut(session: Session) -> None:
    planned, measured = session.walls.planned, session.walls.measured
    assert planned is not None and measured is not None
    found = session.walls.compared
    said = brick_wall_picture.caption(planned, measured, found)
    svg = brick_wall_picture.figure(planned, measured, "", found)
    lines = re.findall(r'<text x="12" y="([\d.]+)" class="i">([^<]+)</text>', svg.body)
    assert " ".join(line for _, line in lines) == said and "…" not in said
    assert all(float(y) < svg.height for y, _ in lines)
    assert all(text_width(line) <= brick_wall_picture.WIDTH - 20 for _, line in lines)


def test_every_hatch_of_idle_time_is_named_under_the_wall() -> None:
    def legend(*causes: str) -> list[str]:
        bricks = tuple(Brick(u, 0.0, 4.0, "call0", u, u + 1, frozenset({"op0"})) for u in (0, 1))
        gaps = tuple(Gap(u, 4.0, 10.0, cause) for u, cause in enumerate(causes))
        rows = brick_wall.data(Wall("measured", bricks, gaps, 2, 10.0), CALLS)
        body = brick_wall_picture.figure(rows, rows).body
        under = body.rsplit(">idle<", 1)[1:]
        return re.findall(r'url\(#p-g-(\w+)\)"[^>]*></rect><text[^>]*>([^<]+)', "".join(under))

    assert legend() == []
    assert legend("barrier", "tail") == [("tail", "wave tail"), ("barrier", "barrier")]
    assert legend("dependency", "dependency") == [("dependency", "dependency stall")]


def test_nothing_scheduled_is_a_picture_too() -> None:
    rows = brick_wall.data(Wall("planned", (), (), 2, 0.0), ())
    head, body = wall_slices.pack_wall(Source(rows))
    assert head["bricks"] == 0 and head["slice"]["blocks"] == 0 and body == b""
    assert brick_wall_picture.figure(rows).title and wall_table.table(rows).rows == ()
    assert rows.shares() == {"busy": 1.0}
