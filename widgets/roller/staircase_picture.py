"""The construction staircase: its drawing with the tiles to choose from, and its words."""

from __future__ import annotations

from explorer.ir.stage import Stage
from widgets.draw.see import Mark, Sentence
from widgets.draw.svg import Svg
from widgets.draw.table import Table, count_text
from widgets.model.on_show import HEIGHT, WIDTH, OnShow
from widgets.model.picture import Drawn, Picture, nothing
from widgets.roller.choices_picture import choices
from widgets.roller.staircase import StaircaseRows, data
from widgets.roller.staircase_drawing import construction
from widgets.roller.view import TILES, rolled

BESIDE = 660  # a page of fewer pixels has the list below
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
    return Table(columns, found, tuple(rows.ops for _ in found), caption(rows), see(rows))


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


def figure(rows: StaircaseRows, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Svg:
    """The construction at the left, or on top where there is little width, and the tiles to choose
    from.
    """
    wide, high = size
    if wide < BESIDE:
        low = high * 0.42 if high >= 420 else 0.0
        marks = [*construction(rows, wide, high - low - 12 * (low > 0))]
        marks += choices(rows, 0, high - low, wide, low) if low else []
    else:
        left = wide * 0.6
        marks = [*construction(rows, left - 24, high)]
        marks += choices(rows, left, 0, wide - left, high)
    return Svg(wide, high, "".join(marks), f"Construction: {caption(rows)}", px=13)


def see(rows: StaircaseRows) -> tuple[Sentence, ...]:
    """How much was looked at, what came out, and what ended the way to the tile on show."""
    found: list[Sentence] = [
        (Mark(count_text(rows.visited, "tile"), "state"), " were looked at; no kernel was run.")
    ]
    if rows.built:
        out = count_text(rows.built, "result")
        found.append((Mark(out, "state result"), " came out, ", f"best by the {rows.score} score."))
    last = next((s for s in rows.steps if s.rank == max(0, rows.on_show)), None)
    if last is not None:
        how = "compute" if last.ratio < 1 else "memory"
        ratio = Mark(f"{last.ratio:.2g}×", how)
        told = f"Result {rows.number(last.rank)} loads for "
        found.append((told, ratio, f" as long as it computes: {how} bound."))
    return tuple(found)


def _draw(s: OnShow, op: str) -> Drawn:
    found = rolled(s, op)
    if found is None:
        return nothing("Roller has tiled nothing.")
    rows = data(found)
    return rows, figure(rows, s.view.size), table(rows)


PICTURE = Picture(
    name="staircase",
    title="Staircase",
    words="How Roller enlarged the tile step by step, and which rule ended each way.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=_draw,
)
