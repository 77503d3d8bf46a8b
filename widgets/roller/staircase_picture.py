"""The words of the construction staircase, and what is drawn below its chart."""

from __future__ import annotations

from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, label
from widgets.draw.table import Table
from widgets.model.picture import Picture
from widgets.roller.choices_picture import choices
from widgets.roller.staircase import StaircaseRows, data
from widgets.roller.view import TILES, of_tile

WIDTH, LEFT = 780.0, 12.0
MOST = 48  # states that the chart has room for


def table(rows: StaircaseRows) -> Table:
    """One row a step that was looked at, in the rounds that found something."""
    columns = (
        "step", "from", "level", "tile", "change", "score", "compute µs", "memory µs",
        "takes", "verdict", "why", "result",
    )  # fmt: skip
    found = tuple(
        (
            s.number,
            "" if s.parent < 0 else s.parent,
            s.level_name,
            s.tile,
            s.change,
            s.score,
            s.compute_us,
            s.memory_us,
            s.limit,
            s.verdict,
            s.reason,
            s.rank + 1 if s.rank >= 0 else "",
        )
        for s in rows.steps
    )
    return Table(columns, found, tuple(rows.ops for _ in found), caption(rows))


def caption(rows: StaircaseRows) -> str:
    """How much was looked at, and under which rules."""
    eps = ", ".join(f"eps {e:g}: {n} results of {v} states" for e, v, n in rows.rounds[-1:])
    before = rows.rounds[:-1]
    if before:
        found = sum(n for _, _, n in before)
        eps = f"{found} results with eps up to {before[-1][0]:g}, {eps}"
    fused = "; fused axes " + ", ".join("·".join(g) for g in rows.fused) if rows.fused else ""
    return (
        f"{rows.kernel} on {rows.device}: {rows.visited:,} states, no kernel was run; "
        f"{rows.policy} policy, {rows.score} score; {eps}{fused}"
    )


def figure(rows: StaircaseRows) -> Svg:
    """Below the chart: the tiles to choose from."""
    rest = len(rows.steps) - MOST
    said = [f"{rest} more states in the table"] if rest > 0 else []
    if rows.skipped:
        said.append(f"{rows.skipped} were not looked at: enough was found")
    marks = [label(LEFT, 18, "; ".join(said), "q")] if said else []
    found, y = choices(rows, 44 if said else 24)
    return Svg(WIDTH, y, "".join([*marks, *found]), f"Construction: {caption(rows)}")


PICTURE = Picture(
    name="staircase",
    title="Staircase",
    words="How Roller enlarged the tile step by step, and which rule ended each way.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=of_tile(data, figure, table),
)
