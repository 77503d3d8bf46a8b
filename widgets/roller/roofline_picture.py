"""The words of the roofline."""

from __future__ import annotations

from explorer.ir.stage import Stage
from widgets.draw.table import Table, count_text, speed_text
from widgets.model.brick_wall import units_text
from widgets.model.picture import Picture
from widgets.roller.roofline import RooflineRows, data
from widgets.roller.view import TILES, of_tile


def table(rows: RooflineRows) -> Table:
    """One row a tile."""
    columns = (
        "rank", "tile", "bound by", "operations a byte", "bound GFLOP/s", "predicted GFLOP/s",
        "measured GFLOP/s", "predicted µs", "measured µs", "n", "predicted over measured",
    )  # fmt: skip
    found = tuple(
        (
            n + 1,
            p.tile,
            p.level,
            p.intensity,
            p.bound,
            p.modelled,
            p.measured or "",
            p.modelled_us,
            p.measured_us or "",
            p.n or "",
            p.error or "",
        )
        for n, p in enumerate(rows.points)
    )
    return Table(columns, found, tuple(rows.ops for _ in found), caption(rows))


def caption(rows: RooflineRows) -> str:
    """Peak, and how far the model was off where the clock ran."""
    peaks = ", ".join(f"{speed_text(p)} of {units_text(u, rows.device)}" for u, p in rows.peaks)
    text = (
        f"{rows.kernel} on {rows.device}: {peaks}; {count_text(len(rows.points), 'tile')} predicted"
    )
    if not rows.errors:
        return f"{text}, none measured" + (" yet" if rows.own else "")
    low, high = min(rows.errors), max(rows.errors)
    spread = f", {low:.2f} to {high:.2f}" if len(rows.errors) > 1 else ""
    return f"{text}, {len(rows.errors)} measured: predicted over measured {rows.error:.2f}{spread}"


PICTURE = Picture(
    name="roofline",
    title="Roofline",
    words="What each tile to choose from can reach under the device's compute and bandwidth.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=of_tile(data, None, table),
)
