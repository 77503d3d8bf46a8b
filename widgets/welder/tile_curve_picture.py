"""The words of the tile curve, and below it the bytes of every level."""

from __future__ import annotations

from explorer.ir.stage import Stage
from widgets.draw.svg import Svg
from widgets.draw.table import Cell, Table, size_text
from widgets.model.picture import Picture
from widgets.welder.moved_picture import bars
from widgets.welder.tile_curve import CurveRows, Moved, data
from widgets.welder.view import GROUPS, of_group


def table(rows: CurveRows) -> Table:
    """One row a tile, then one a border of two levels."""
    columns = (
        "", "output tile", "elements", f"bytes {rows.farther} to {rows.level}",
        f"bytes held in {rows.level}", "has room", "tasks", "waves",
    )  # fmt: skip
    points: tuple[tuple[Cell, ...], ...] = tuple(
        (
            "on show" if n == rows.rank else "",
            p.tile,
            p.elements,
            p.traffic,
            p.footprint,
            "yes" if p.fits else "no",
            p.grid,
            p.waves,
        )
        for n, p in enumerate(rows.points)
    )
    levels: tuple[tuple[Cell, ...], ...] = tuple(
        ("", f"{m.farther} to {m.level}, the plan", "", m.after, _before_words(m), "", "", "")
        for m in rows.moved
    )
    found = (*points, *levels)
    return Table(columns, found, tuple(rows.ops for _ in found), caption(rows))


def _before_words(m: Moved) -> str:
    return "" if m.before is None else f"apart {m.before:,}"


def caption(rows: CurveRows) -> str:
    """Which curve, and where on it the plan on show lies."""
    fit_ = sum(p.fits for p in rows.points)
    text = f"{rows.group} on {rows.device}: {fit_} of {len(rows.points)} tiles have room"
    if rows.rank < 0:
        return text
    p = rows.points[rows.rank]
    return f"{text}; on show {p.tile}, {size_text(p.traffic)} from {rows.farther}"


def figure(rows: CurveRows, selected: str = "") -> Svg:
    """The bytes of the levels."""
    marks, high = bars(rows)
    return Svg(780, high, "".join(marks), f"Bytes of the levels: {caption(rows)}", selected)


PICTURE = Picture(
    name="curve",
    title="Tile curve",
    words="Traffic against the size of the output tile, up to the tile that no longer fits.",
    stage=Stage.WELDED,
    family=GROUPS,
    about="kernel",
    draw=of_group(data, figure, table),
)
