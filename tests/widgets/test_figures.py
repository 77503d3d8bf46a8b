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
def model(x: explorer.tensor("float32", 63, 96), w: explorer.tensor("float32", 96, 127)):  # type: ignore[no-untyped-def,valid-type]
    return enp.exp(x @ w)


@pytest.fixture(scope="module", params=["cpu", "v100"])
def c(request: pytest.FixtureRequest) -> Any:
    return explorer.compile(model, target=request.param, until="rammed")


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


@pytest.mark.parametrize("room", CHARTS)
def test_a_chart_has_units_words_and_the_colours_of_its_theme(c: Any, room: str) -> None:
    for theme, tokens in SCHEMES.items():
        figure = widgets.figure(c, room, theme=theme)
        assert isinstance(figure, go.Figure) and figure.layout.title.text
        for axis in (figure.layout.xaxis, figure.layout.yaxis):
            assert axis.title.text.endswith(")") or "), " in axis.title.text
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
