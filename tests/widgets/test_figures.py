"""Charts of rooms as plotly figures: the rows of `widgets.data`, in words, with units."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import pytest

import explorer
import explorer.np as enp
import widgets
from explorer.errors import BadOption
from widgets.draw.theme import SCHEMES
from widgets.rooms.gallery import CHARTS


@explorer.trace
def model(x: explorer.tensor("float32", 63, 96), w: explorer.tensor("float32", 96, 96)):  # type: ignore[no-untyped-def,valid-type]
    return enp.exp(x @ w) @ w @ w


@pytest.fixture(scope="module", params=["cpu", "v100"])
def c(request: pytest.FixtureRequest) -> Any:
    return explorer.compile(model, target=request.param, until="planned")


def marks(figure: go.Figure, *names: str) -> list[tuple[float, float]]:
    """The points of the traces whose names begin with one of these."""
    found = [t for t in figure.data if t.name.startswith(names)]
    return sorted(pair for t in found for pair in zip(t.x, t.y, strict=True))


def test_the_roofline_s_points_are_the_rows(c: Any) -> None:
    rows, figure = widgets.data(c, "roofline"), widgets.figure(c, "roofline")
    assert marks(figure, "modelled") == sorted((p.intensity, p.modelled) for p in rows.points)
    assert marks(figure, "measured") == [] and "predicted" in figure.layout.yaxis.title.text
    shown = rows.points[rows.rank]
    assert marks(figure, "on show") == [(shown.intensity, shown.modelled)]
    peaks = dict(rows.peaks)
    for r in rows.roofs:
        units = "1 unit" if r.units == 1 else f"{r.units} units"
        (line,) = [t for t in figure.data if t.name == f"{r.level}, {units}"]
        expected = [min(peaks[r.units], r.gb_per_s * x) for x in line.x]
        assert list(line.y) == pytest.approx(expected)
        assert max(line.y) == peaks[r.units] or line.y[-1] == pytest.approx(r.gb_per_s * line.x[-1])


def test_tiles_that_were_timed_are_filled_points() -> None:
    here = explorer.compile(model, until="emitted")
    figure = widgets.figure(here, "roofline", measured=True)
    assert len(marks(figure, "measured")) == len(marks(figure, "modelled")) > 0
    assert "predicted" not in figure.layout.yaxis.title.text
    filled = [t for t in figure.data if t.name.startswith("measured")]
    assert all("-open" not in t.marker.symbol and "measured" in t.customdata[0] for t in filled)


def test_the_tile_curve_s_points_are_the_rows(c: Any) -> None:
    rows, figure = widgets.data(c, "curve"), widgets.figure(c, "curve")
    fits = sorted((p.elements, p.traffic) for p in rows.points if p.fits)
    assert marks(figure, "has room") == fits and fits
    assert marks(figure, "has no room") == sorted(
        (p.elements, p.traffic) for p in rows.points if not p.fits
    )
    assert marks(figure, "the least") == [(p.elements, p.traffic) for p in rows.frontier]
    assert {x for x, _ in marks(figure, "room ends")} == ({rows.cut} if rows.cut else set())


def test_a_policy_s_parts_add_up_to_its_wall(c: Any) -> None:
    rows, figure = widgets.data(c, "policies"), widgets.figure(c, "policies")
    assert [list(t.y) for t in figure.data] == [[s.policy for s in rows.sides]] * len(figure.data)
    for n, s in enumerate(rows.sides):
        assert sum(t.x[n] for t in figure.data) == pytest.approx(s.account.total_us)
        assert figure.data[0].x[n] == pytest.approx(s.account.busy * s.account.total_us)
    assert rows.kind in figure.layout.xaxis.title.text
    hatches = [t.marker.pattern.shape for t in figure.data]
    assert hatches[0] == "" and len(set(hatches)) == len(hatches)


def test_memory_over_time_is_what_lives(c: Any) -> None:
    (rows, _), figure = widgets.data(c, "memory"), widgets.figure(c, "memory")
    live, arena, unshared = figure.data
    assert [round(y * 2**20) for y in live.y] == list(rows.live)
    assert {y * 2**20 for y in arena.y} == {rows.planned_bytes}
    assert {y * 2**20 for y in unshared.y} == {rows.naive_bytes}


@pytest.mark.parametrize("room", CHARTS)
def test_a_chart_has_units_words_and_the_colours_of_its_theme(c: Any, room: str) -> None:
    for theme, tokens in SCHEMES.items():
        figure = widgets.figure(c, room, theme=theme)
        assert isinstance(figure, go.Figure) and figure.layout.title.text
        for axis in (figure.layout.xaxis, figure.layout.yaxis):
            assert "(" in axis.title.text or isinstance(figure.data[0], go.Bar)
        assert figure.layout.paper_bgcolor == tokens["pane"]
        for trace in figure.data:
            assert trace.hoverinfo == "skip" or len(trace.customdata) == len(trace.x)


def test_what_has_no_chart_is_refused() -> None:
    early = explorer.compile(model, until="typed")
    for room in ("roller", "no such room"):
        with pytest.raises(BadOption, match="no room with a chart") as refused:
            widgets.figure(early, room)
        assert all(name in refused.value.sentence for name in CHARTS)
    with pytest.raises(BadOption, match="Roller has tiled nothing"):
        widgets.figure(early, "roofline")
    with pytest.raises(BadOption, match="no chart 'curve'"):
        widgets.figure(early, "curve")
