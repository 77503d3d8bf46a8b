"""Charts of rooms as plotly figures: the rows of `widgets.data`, in words, with units."""

from __future__ import annotations

import gzip
import itertools
import json
import re
from functools import cache
from math import log10
from typing import Any

import plotly.graph_objects as go
import pytest
from plotly.offline import get_plotlyjs

import explorer
import explorer.np as enp
import widgets
from explorer.errors import AnswerMismatch, BadOption
from explorer.ir.decisions.wall import Brick, Wall
from explorer.measure.compare import Measurement
from explorer.tuning.race import RaceResult, Runner
from widgets.draw.plots import log_ticks, number_text, spread_axis
from widgets.draw.table import rate_text, speed_text
from widgets.draw.theme import SCHEMES
from widgets.model import brick_wall
from widgets.model.brick_wall import WallCall
from widgets.rammer import rtasks_picture
from widgets.roller import roofline, staircase
from widgets.roller.roofline import Roof
from widgets.rooms import gallery
from widgets.session.handlers import time_shown
from widgets.session.session import Session
from widgets.timed import kernel_table
from widgets.timed import search as tile_search

CHARTS = tuple(gallery.CHARTS)
OF_ANY = tuple(
    room for room in CHARTS if room not in ("crossing", "errors", "sizes", "left_out", "hardware")
)  # they need a loop, a run, a symbol, a question


@explorer.trace
def model(x: explorer.tensor("float32", 63, 96), w: explorer.tensor("float32", 96, 96)):  # type: ignore[no-untyped-def,valid-type]
    return enp.exp(x @ w) @ w @ w


@pytest.fixture(scope="module", params=["cpu", "v100"])
def c(request: pytest.FixtureRequest) -> Any:
    return explorer.compile(model, target=request.param, until="planned")


@cache
def rows_of(c: Any, room: str) -> Any:
    """A room's rows, which take a while to find and never change."""
    return widgets.data(c, room)


@cache
def figure_of(c: Any, room: str) -> go.Figure:
    """A room's chart, to be looked at."""
    return widgets.figure(c, room)


def marks(figure: go.Figure, *names: str) -> list[tuple[float, float]]:
    """The points of the traces whose names begin with one of these."""
    found = [t for t in figure.data if t.name.startswith(names)]
    return sorted(pair for t in found for pair in zip(t.x, t.y, strict=True))


@pytest.mark.parametrize("speeds", [(240, 144, 72, 20), (120, 60, 30, 15), (400, 399, 10), (7,)])
def test_labels_of_roofs_never_overlap(speeds: tuple[float, ...]) -> None:
    """On a machine with 144, 72 and 20 GB/s they did."""
    roofs = [Roof(f"L{n}", 2, gb) for n, gb in enumerate(speeds)]
    groups = roofline.label_groups([(r, log10(r.gb_per_s)) for r in reversed(roofs)])
    assert [r for members, _ in groups for r in members] == roofs
    for (members, top), (_, below) in itertools.pairwise(groups):
        assert top - roofline.LINE * len(members) >= below


def test_the_roofline_s_points_are_the_rows(c: Any) -> None:
    rows, figure = rows_of(c, "roofline"), figure_of(c, "roofline")
    assert marks(figure, "predicted") == sorted((p.intensity, p.modelled) for p in rows.points)
    assert marks(figure, "measured") == [] and "predicted" in figure.layout.yaxis.title.text
    shown = rows.points[rows.rank]
    assert marks(figure, "current") == [(shown.intensity, shown.modelled)]
    peaks = dict(rows.peaks)
    for r in rows.roofs:
        units = brick_wall.units_text(r.units, rows.device)
        (line,) = [t for t in figure.data if t.customdata[0].startswith(f"{r.level} of {units}:")]
        assert line.name.startswith(f"roofs of {units}")
        expected = [min(peaks[r.units], r.gb_per_s * x) for x in line.x]
        assert list(line.y) == pytest.approx(expected)
        assert max(line.y) == peaks[r.units] or line.y[-1] == pytest.approx(r.gb_per_s * line.x[-1])


@pytest.mark.exhaustive
def test_tiles_that_were_timed_are_filled_points() -> None:
    here = explorer.compile(model, until="emitted")
    figure = widgets.figure(here, "roofline", measured=True)
    assert len(marks(figure, "measured")) == len(marks(figure, "predicted")) > 0
    assert "predicted" not in figure.layout.yaxis.title.text
    filled = [t for t in figure.data if t.name.startswith("measured")]
    assert all("-open" not in t.marker.symbol and "measured" in t.customdata[0] for t in filled)


def test_the_tile_curve_s_points_are_the_rows(c: Any) -> None:
    rows, figure = rows_of(c, "curve"), figure_of(c, "curve")
    fits = sorted((p.elements, p.traffic) for p in rows.points if p.fits)
    assert marks(figure, "fits") == fits and fits
    assert marks(figure, "does not fit") == sorted(
        (p.elements, p.traffic) for p in rows.points if not p.fits
    )
    assert marks(figure, "the least") == [(p.elements, p.traffic) for p in rows.frontier]
    assert {x for x, _ in marks(figure, "capacity of")} == ({rows.cut} if rows.cut else set())


def test_a_policy_s_parts_add_up_to_its_wall(c: Any) -> None:
    rows, figure = rows_of(c, "policies"), figure_of(c, "policies")
    assert [list(t.y) for t in figure.data] == [[s.policy for s in rows.by_policy]] * len(
        figure.data
    )
    *parts, ends = figure.data
    for n, s in enumerate(rows.by_policy):
        assert sum(t.x[n] for t in parts) == pytest.approx(s.statistics.total_us)
        assert parts[0].x[n] == pytest.approx(s.statistics.busy * s.statistics.total_us)
        assert ends.x[n] == s.statistics.total_us
        assert ("chosen" in ends.text[n]) == (s is rows.chosen)
        assert all(t.meta["take"][n] == {"more": {"policy": s.policy}} for t in parts)
    assert rows.kind in figure.layout.xaxis.title.text
    hatches = [t.marker.pattern.shape for t in parts]
    assert hatches[0] == "" and len(set(hatches)) == len(hatches)


def test_memory_over_time_is_what_lives(c: Any) -> None:
    (rows, policies), figure = rows_of(c, "memory"), figure_of(c, "memory")
    live, *lines = figure.data
    assert [round(y * 2**20) for y in live.y] == list(rows.live)
    assert [t.name for t in lines] == [p.name for p in policies.policies if p.curve]
    for line, policy in zip(lines, [p for p in policies.policies if p.curve], strict=True):
        assert [round(y * 2**20) for y in line.y] == list(policy.curve)
    begun = {op for ops in live.meta["ops"] for op in ops}
    assert begun == {op for b in (*rows.buffers, *rows.aliases) for op in b.origin}


def test_each_policy_of_memory_has_its_bytes_beside_what_lives_at_once(c: Any) -> None:
    rows, figure = widgets.data(c, "peaks"), widgets.figure(c, "peaks")
    bars, words, line = figure.data
    assert list(bars.y) == [p.name for p in rows.policies]
    size = {"KiB": 1024, "MiB": 1024**2}[figure.layout.xaxis.title.text.split("(")[1][:-1]]
    assert [round(x * size) for x in bars.x] == [p.bytes for p in rows.policies]
    assert [round(x * size) for x in line.x] == [max(rows.live)] * 2
    assert ["in use" in text for text in words.text] == [p.used for p in rows.policies]


def test_the_staircase_has_every_state_that_leads_to_a_result(c: Any) -> None:
    rows, figure = rows_of(c, "staircase"), figure_of(c, "staircase")
    states = [t for t in figure.data if t.type == "scatter" and "markers" in t.mode]
    drawn = sorted(w for t in states for w in t.customdata)
    leading = {staircase.sentence(s, rows.score) for s in rows.steps if s.leads}
    assert leading and leading <= set(drawn) and len(drawn) == min(48, len(rows.steps))
    (loading,) = [t for t in figure.data if t.name == "loading"]
    (computing,) = [t for t in figure.data if t.name == "computing"]
    assert set(computing.y) == {1.0} and loading.yaxis == computing.yaxis == "y2"
    by = {staircase.sentence(s, rows.score): s.ratio for s in rows.steps}
    assert list(loading.y) == [by[words] for words in loading.customdata]


def test_a_result_of_the_staircase_can_be_taken_where_it_is_a_choice(c: Any) -> None:
    rows, figure = rows_of(c, "staircase"), figure_of(c, "staircase")
    (results,) = [t for t in figure.data if t.name == "a result, by rank"]
    ranks = sorted(s.rank for s in rows.steps if s.rank >= 0)
    assert sorted(int(text) - 1 for text in results.text) == ranks
    takes = None if rows.own else [{"rank": int(text) - 1} for text in results.text]
    assert (results.meta or {}).get("take") == takes


def test_waves_in_use_and_idle_are_all_time(c: Any) -> None:
    rows, figure = rows_of(c, "waves"), figure_of(c, "waves")
    used, idle = figure.data
    assert [round(a + b, 6) for a, b in zip(used.x, idle.x)] == [100] * len(rows.tiles)
    assert list(used.x) == [100 * w.efficiency for w in rows.waves]
    assert used.meta["take"] == [{"rank": n} for n in range(len(rows.tiles))]


def test_rtasks_are_their_count_times_the_time_of_one(c: Any) -> None:
    found, figure = rows_of(c, "rtasks"), figure_of(c, "rtasks")
    known = {row.label: row for row in rtasks_picture.selected_kernels(found)}
    drawn = {y.split("  ")[1]: x for t in figure.data for x, y in zip(t.x, t.y)}
    assert drawn == {name: row.us for name, row in known.items()} and drawn
    assert all(ops for t in figure.data for ops in t.meta["ops"])


def test_each_call_is_planned_against_measured_and_what_is_left_over_stands_below() -> None:
    c = explorer.compile(model)
    with pytest.raises(BadOption, match="nothing has run here yet"):
        widgets.figure(explorer.compile(model, until="planned"), "errors")
    session = Session(c)
    time_shown(session, gallery.find_picture("errors"), "")
    rows, _, table = gallery.find_picture("errors").draw(session, "")
    walls = session.walls
    assert walls.planned is not None and walls.measured is not None
    assert {r.call for r in rows.calls} == {call.name for call in walls.measured.calls}
    for r in rows.calls:
        for wall, us in ((walls.planned, r.planned_us), (walls.measured, r.us)):
            mine = [n for n in range(wall.bricks) if wall.calls[wall.call[n]].name == r.call]
            assert us == pytest.approx(sum(wall.end[n] - wall.start[n] for n in mine) / len(mine))
    figure = gallery.chart(gallery.find_picture("errors"), session, "", "either")
    families = {r.family for r in rows.calls}
    above = [t for t in figure.data if t.name in families and t.yaxis == "y"]
    below = [t for t in figure.data if t.name in families and t.yaxis == "y2"]
    points = [pair for t in above for pair in zip(t.x, t.y, strict=True)]
    left = [pair for t in below for pair in zip(t.x, t.y, strict=True)]
    assert sorted(points) == sorted((r.planned_us, r.us) for r in rows.calls)
    assert sorted(left) == sorted((x, y / x) for x, y in points)
    assert table.caption.startswith(f"{len(rows.calls)} call") and len(table.rows) == len(points)
    assert all(ops for t in (*above, *below) for ops in t.meta["ops"])
    assert all("(" in a.title.text for a in (figure.layout.xaxis, figure.layout.yaxis2))
    assert widgets.figure(c, "errors", measured=True).data


def test_the_floor_on_a_gpu_is_that_of_its_units_not_of_their_resident_blocks() -> None:
    from widgets.timed.kernel_table import data

    session = Session(explorer.compile(model, "v100"))
    now, wall = session.now, session.walls.planned
    assert wall is not None
    device = now.compiled.device
    rows = data(now, session.house, wall, {})
    assert rows.units == device.units < wall.units
    k = rows.kernels[0]
    peak = device.peak_gflops_per_unit * device.units
    assert k.floor is not None and k.floor.us >= k.floor.operations / peak / 1e3


def test_each_kernel_stands_beside_its_floor_its_plan_and_its_clock() -> None:
    session = Session(explorer.compile(model, until="emitted"))
    picture, wall, device = (
        gallery.find_picture("kernels"),
        session.walls.planned,
        session.now.compiled.device,
    )
    assert wall is not None
    plain = picture.draw(session, "")
    assert not plain[0].measured and "none measured yet" in plain[2].caption
    time_shown(session, picture, "")
    rows, _, table = picture.draw(session, "")
    assert len(rows.kernels) == len(table.rows) == 3 and rows.units == wall.units
    product, result, count = 2 * 63 * 96 * 96, 63 * 96, 4 * (2 * 63 * 96 + 96 * 96)
    peak = 2 * device.lanes * device.fma_per_cycle * device.clock_ghz * wall.units * 1e3
    level = next(m for m in device.levels if count <= m.capacity_bytes * (m.shared or wall.units))
    moving = count / device.all_gb_per_s(level) / 1e3
    assert sorted(k.floor.operations for k in rows.kernels) == [product] * 2 + [product + result]
    for k in rows.kernels:
        spent = dict.fromkeys(range(wall.units), 0.0)
        for n in range(wall.bricks):
            if wall.calls[wall.call[n]].name == k.call:
                spent[int(wall.unit[n])] += wall.end[n] - wall.start[n]
        assert k.planned_us == pytest.approx(max(spent.values()))
        assert k.measured is not None and k.measured.n >= 8
        assert k.measured.low_us <= k.measured.median_us <= k.measured.high_us
        assert k.floor.bytes == count
        assert k.floor.us == pytest.approx(max(k.floor.operations / peak, moving))
        assert k.share == pytest.approx(k.floor.us / k.measured.median_us)
    assert [k.us for k in rows.kernels] == sorted((k.us for k in rows.kernels), reverse=True)
    planned, measured, floors, _ = gallery.chart(picture, session, "", "light").data
    assert list(planned.x) == [k.planned_us for k in rows.kernels]
    assert list(measured.x) == [k.measured.median_us for k in rows.kernels]
    assert list(floors.x) == [k.floor.us for k in rows.kernels]
    ends = [x + up for x, up in zip(measured.x, measured.error_x.array, strict=True)]
    assert ends == pytest.approx([k.measured.high_us for k in rows.kernels])
    assert all("n = " in words and "floor" in words for words in measured.customdata)
    lines = [line for words in measured.customdata for line in words.split("<br>")]
    assert max(map(len, lines)) <= 60  # wider than that they would lie over the names


def test_one_wide_interval_leaves_room_for_all_kernels() -> None:
    wide, narrow = Measurement(50, 45, 9000, 8), Measurement(40, 39, 41, 8)
    rows = kernel_table.KernelRows(
        "here",
        "default",
        2,
        True,
        tuple(
            kernel_table.KernelRow(name, name, "matmul", (), None, 30, m)
            for name, m in (("a", wide), ("b", narrow))
        ),
    )
    figure = kernel_table.chart(rows, "", "light")
    assert figure.layout.xaxis.range[1] < 3 * 50
    assert list(figure.data[-1].x) == [100, 41]
    assert list(figure.data[-1].text) == ["to 9,000 µs; no floor", "  no floor"]
    assert "9" in figure.data[1].customdata[0] and figure.data[1].error_x.array[0] == 8950


def test_a_kernel_that_a_loop_runs_again_has_the_time_of_one_trip() -> None:
    times = ((0, 0.0, 1.0, 0), (0, 2.0, 5.0, 0), (1, 0.0, 2.0, 1), (1, 3.0, 4.0, 1))
    bricks = tuple(Brick(u, a, b, "k", n, n + 1, frozenset()) for u, a, b, n in times)
    wall = brick_wall.data(
        Wall("measured", bricks, (), 2, 5.0), (WallCall("k", "matmul", (), "MatMul 1"),)
    )
    assert kernel_table.tasks_of(wall) == {"k": 4}
    assert kernel_table.busiest_us(wall) == {"k": 4.0}
    assert kernel_table.busiest_us(wall, {"k": 2}) == {"k": 2.0}


def test_measuring_for_a_picture_goes_on_beside_and_keeps_what_it_found() -> None:
    session = Session(explorer.compile(model, until="emitted"))
    told = session.answer("picture", {"room": "kernels"})["controls"]
    assert told["action"] == ["clock", "Measure the kernels", {"room": "kernels", "op": -1}]
    with pytest.raises(BadOption, match="was not measured as it is now"):
        session.answer("clock", {"room": "kernels"})
    job = session.answer("begin_clock", {"room": "kernels"})["job"]
    assert session.bench.jobs.wait(job)["error"] is None
    assert session.answer("clock", {"room": "kernels"})["said"] == "3 kernels measured"
    before = gallery.find_picture("kernels").draw(session, "")[0]
    job = session.answer("begin_clock", {"room": "kernels"})["job"]
    session.answer("cancel", {"job": job})
    assert session.bench.jobs.wait(job)["error"] is None
    assert gallery.find_picture("kernels").draw(session, "")[0].measured and before.measured
    with pytest.raises(BadOption, match="measures nothing"):
        session.answer("begin_clock", {"room": "policies"})
    sheet = Session(explorer.compile(model, target="v100", until="planned"))
    assert "action" not in sheet.answer("picture", {"room": "kernels"})["controls"]
    with pytest.raises(BadOption, match="can be measured here"):
        sheet.answer("begin_clock", {"room": "kernels"})


@pytest.mark.exhaustive
def test_a_search_has_its_trials_in_order_and_the_best_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tile_search, "FIRST", 3)
    monkeypatch.setattr(tile_search, "MORE", 4)
    session = Session(explorer.compile(model, until="emitted"))
    picture = gallery.find_picture("search")
    plain, _, table = picture.draw(session, "")
    assert plain.tried == plain.best_us == () and "none tried yet" in table.caption
    time_shown(session, picture, "")
    rows, _, table = picture.draw(session, "")
    tilings = session.now.compiled.program.decisions.tilings
    binding = next(d for d in tilings if session.house.label(d.binding) == rows.kernel)
    legal = [c for c in binding.candidates if not c.refused]
    assert [t.by for t in rows.trials] == [tile_search.MODEL] * 3 + [tile_search.SEARCH] * 4
    assert [t.tile for t in rows.trials[:3]] == [c.value.words for c in legal[:3]]
    assert len({t.tile for t in rows.trials}) == 7 == len(table.rows)
    least, took = float("inf"), [t.measured for t in rows.trials]
    for best, m in zip(rows.best_us, took, strict=True):
        least = min(least, m.median_us)
        assert best == least and m.n >= 8 and m.low_us <= m.median_us <= m.high_us
    assert rows.first is rows.trials[0] and rows.best.measured.median_us == least
    figure = gallery.chart(picture, session, "", "light")
    by = {t.name: t for t in figure.data}
    assert list(by["predicted"].y) == [t.modelled_us for t in rows.trials]
    measured = [t for t in figure.data if t.name.startswith("measured")]
    points = sorted((x, y) for t in measured for x, y in zip(t.x, t.y, strict=True))
    assert points == [(n + 1, m.median_us) for n, m in enumerate(took)]
    assert list(by["best so far"].y) == list(rows.best_us)
    (guess,) = [t for t in figure.data if t.name.startswith("the model's guess")]
    assert set(guess.y) == {took[0].median_us}
    assert all("n = " in words for t in measured for words in t.customdata)


def test_a_tile_with_another_result_ends_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_search, "agree", lambda one, other: False)
    session = Session(explorer.compile(model, until="emitted"))
    with pytest.raises(AnswerMismatch, match="give different results"):
        time_shown(session, gallery.find_picture("search"), "")


@pytest.mark.few(10)
@pytest.mark.parametrize("room", OF_ANY)
def test_a_chart_has_units_words_and_the_colours_of_its_theme(c: Any, room: str) -> None:
    for theme, tokens in SCHEMES.items():
        figure = widgets.figure(c, room, theme=theme)
        assert isinstance(figure, go.Figure) and figure.layout.title.text
        for axis in (figure.layout.xaxis, figure.layout.yaxis):
            assert "(" in axis.title.text or isinstance(figure.data[0], go.Bar)
        assert figure.layout.paper_bgcolor == tokens["pane"]
        for trace in figure.data:
            assert trace.hoverinfo == "skip" or len(trace.customdata) == len(trace.x)


def test_a_figure_of_ones_own_gets_the_ground_and_ink_of_its_theme() -> None:
    mine = go.Figure(go.Scatter(x=[1, 2], y=[3, 4], name="mine"))
    mine.update_layout(xaxis_title="size (KiB)", yaxis_tickformat=".0%")
    assert widgets.styled(mine, "Mine") is mine and mine.layout.title.text == "Mine"
    assert mine.layout.paper_bgcolor == mine.layout.plot_bgcolor == "rgba(0,0,0,0)"
    assert mine.layout.xaxis.title.text == "size (KiB)" and mine.layout.yaxis.tickformat == ".0%"
    assert widgets.styled(mine, theme="dark").layout.paper_bgcolor == SCHEMES["dark"]["pane"]


def test_what_has_no_chart_is_refused() -> None:
    early = explorer.compile(model, until="typed")
    for room in ("roller", "no such room"):
        with pytest.raises(BadOption, match="no view with a chart") as refused:
            widgets.figure(early, room)
        assert all(name in refused.value.sentence for name in CHARTS)
    with pytest.raises(BadOption, match="Roller has tiled nothing"):
        widgets.figure(early, "roofline")
    with pytest.raises(BadOption, match="no chart 'curve'"):
        widgets.figure(early, "curve")


@pytest.mark.few(8)
@pytest.mark.parametrize("room", OF_ANY)
def test_a_page_is_told_the_same_figure_without_a_colour_of_its_own(c: Any, room: str) -> None:
    session = Session(c)
    told = session.answer("picture", {"room": room})
    if "sized" in told["svg"]:  # is drawn for the page's pixels, without the chart's library
        assert "figure" not in told and told["see"]
        return
    figure, same = told["figure"], figure_of(c, room)
    assert [t["name"] for t in figure["data"] if "name" in t] == [
        t.name for t in same.data if t.name
    ]
    for trace, other in zip(figure["data"], same.data, strict=True):
        assert list(trace["x"]) == list(other.x) and list(trace["y"]) == list(other.y)
    text = json.dumps(figure)
    assert "var(--ink" in text and not re.search(r"#[0-9a-f]{6}", text)
    assert told["said"] == gallery.picture(room, session)[1].caption


def test_what_draws_is_plotly_s_own_script() -> None:
    (packed,) = Session(explorer.compile(model, until="typed")).answer("library", {}).buffers
    text = gzip.decompress(packed).decode()
    assert text == get_plotlyjs() and len(packed) < 1_600_000


def test_a_race_is_a_dot_and_an_interval_a_runtime() -> None:
    ours = Runner("ironworks", "0.1", Measurement(70, 66, 75, 60), 0.0)
    theirs = Runner("onnxruntime", "1.22", Measurement(80, 78, 90, 50), 1e-6)
    missing = (("torch", "it is <not> installed"),)
    result = RaceResult("hand", 2, "this-cpu", (theirs, ours), missing)
    (dots,) = widgets.figure(result, "race").data
    assert (list(dots.y), list(dots.x)) == (["ironworks", "onnxruntime"], [70, 80])
    assert list(dots.error_x.array) == [5, 10] and list(dots.error_x.arrayminus) == [4, 2]
    title = widgets.figure(result, "race").layout.title.text
    assert "torch did not run: it is &lt;not&gt; installed" in title
    room = widgets.race(result)
    assert room.chart["figure"]["data"][0]["y"] == ["ironworks", "onnxruntime"]
    bundle: Any = room._repr_mimebundle_()
    assert "onnxruntime" in (bundle[0] if isinstance(bundle, tuple) else bundle)["image/svg+xml"]


def _axes(figure: go.Figure) -> list[Any]:
    return [*figure.select_xaxes(), *figure.select_yaxes()]


def _numbers(figure: go.Figure, axis: Any) -> list[float]:
    letter, name = axis.plotly_name[0], axis.plotly_name.replace("axis", "")
    found: list[float] = []
    for trace in figure.data:
        if (getattr(trace, f"{letter}axis", None) or letter) == name:
            found += [v for v in getattr(trace, letter) if isinstance(v, int | float)]
    return found


UNIT = "µs|ms|MiB|KiB|B|bytes|%|×|count|elements|GFLOP/s|operations/B|position"
UNITS = rf"\(({UNIT})[^)]*\)| ÷ |\(in order"


@pytest.mark.parametrize("room", OF_ANY)
def test_every_axis_has_a_title_with_its_unit_and_ticks_that_people_read(c: Any, room: str) -> None:
    check_axes(figure_of(c, room))


@pytest.mark.parametrize(
    ("model", "room"),
    [("tiny_while", "crossing"), ("tiny_while", "errors"), ("tiny_bert", "sizes")],
)
def test_axes_of_charts_of_a_run_have_titles_and_ticks_that_people_read(
    model: str, room: str
) -> None:
    session = Session(explorer.compile(f"tests/data/{model}.onnx"))
    session.run_once()
    check_axes(gallery.chart(gallery.find_picture(room), session, "", "light"))


def check_axes(figure: go.Figure) -> None:
    for axis in _axes(figure):
        name = axis.title.text
        assert name, axis.plotly_name
        values = _numbers(figure, axis)
        if not values:
            continue
        assert re.search(UNITS, name) or axis.ticktext, name
        if axis.type == "log":
            inside = [
                text
                for v, text in zip(axis.tickvals, axis.ticktext, strict=True)
                if min(values) / 10 <= v <= 10 * max(values)
            ]
            assert len(set(inside)) == len(inside) >= 2, (name, axis.ticktext)
            assert all(re.fullmatch(r"[\d,.]+( [KMG]?i?B)?", text) for text in inside), inside
        assert axis.ticktext or axis.exponentformat == "none"
    texts = [a.text for a in figure.layout.annotations]
    texts += [
        str(s) for t in figure.data for s in (t.customdata if t.customdata is not None else ())
    ]
    assert not [text for text in texts if re.search(r"\d[eE][+-]?\d", text or "")]


def test_times_that_are_nearly_the_same_look_so() -> None:
    """Ten tiles of 35.2 to 36.1 µs filled a logarithmic axis with twenty ticks."""
    assert spread_axis([35.2, 36.1]) == spread_axis([]) == {"rangemode": "tozero"}
    assert spread_axis([1.0, 40.0, float("nan"), float("inf")]) == {"type": "log"}


def test_a_fast_memory_is_named_in_words_that_people_say() -> None:
    assert [rate_text(v) for v in (12080.0, 240.4, 20.0)] == ["12.1 TB/s", "240 GB/s", "20 GB/s"]
    assert [speed_text(v) for v in (12480.0, 950.0, 0.52)] == [
        "12.5 TFLOP/s", "950 GFLOP/s", "0.52 GFLOP/s",
    ]  # fmt: skip


@pytest.mark.parametrize("ends", [(1, 1e6), (0.3, 40), (20, 70), (51, 58), (35.2, 36.1), (3, 3)])
def test_ticks_of_a_logarithm_are_round_and_several(ends: tuple[float, float]) -> None:
    found = log_ticks(ends)
    inside = [v for v in found if ends[0] / 10 <= v <= 10 * ends[1]]
    assert len(inside) >= 2 and found == sorted(found)
    assert sum(ends[0] <= v <= ends[1] for v in found) <= 9
    assert all("e" not in number_text(v) for v in found)
