"""Drawing and text of the construction staircase, with the tiles to choose from."""

from __future__ import annotations

from explorer.ir.stage import Stage
from widgets.draw.see import Mark, Sentence
from widgets.draw.svg import Svg
from widgets.draw.table import Table, count_text
from widgets.model.on_show import HEIGHT, WIDTH, OnShow
from widgets.model.picture import Drawn, Picture, placeholder
from widgets.roller.choices_picture import choices
from widgets.roller.staircase import StaircaseRows, data
from widgets.roller.staircase_drawing import construction
from widgets.roller.view import TILES, tiled_kernel

BESIDE = 660  # narrower pages have the list below
MOST = 48  # states that the chart shows


def table(rows: StaircaseRows) -> Table:
    """Return one row per visited step, in the rounds that found results."""
    columns = (
        "step", "from", "level", "tile", "change", "score", "compute µs", "memory µs",
        "takes", "verdict", "why", "result",
    )  # fmt: skip
    cells = tuple(
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
    return Table(columns, cells, tuple(rows.ops for _ in cells), caption(rows), see(rows))


def caption(rows: StaircaseRows) -> str:
    """Describe how many states were visited, and the policy and score used."""
    eps = ", ".join(f"eps {e:g}: {n} results of {v} states" for e, v, n in rows.rounds[-1:])
    before = rows.rounds[:-1]
    if before:
        earlier = sum(n for _, _, n in before)
        eps = f"{earlier} results with eps up to {before[-1][0]:g}, {eps}"
    fused = "; fused axes " + ", ".join("·".join(g) for g in rows.fused) if rows.fused else ""
    return (
        f"{rows.kernel} on {rows.device}: {rows.visited:,} states, no kernel was run; "
        f"{rows.policy} policy, {rows.score} score; {eps}{fused}"
    )


def figure(rows: StaircaseRows, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Svg:
    """Draw the construction at the left, or on top on a narrow page, and the tile choices."""
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
    """Return the key sentences: the tiles visited, the results, and the current one's bound."""
    sentences: list[Sentence] = [
        (Mark(count_text(rows.visited, "tile"), "state"), " were evaluated; no kernel was run.")
    ]
    if rows.built:
        out = count_text(rows.built, "result")
        sentences.append(
            (Mark(out, "state result"), " came out, ", f"best by the {rows.score} score.")
        )
    last = next((s for s in rows.steps if s.rank == max(0, rows.on_show)), None)
    if last is not None:
        how = "compute" if last.ratio < 1 else "memory"
        ratio = Mark(f"{last.ratio:.2g}×", how)
        lead = f"Result {rows.number(last.rank)} loads for "
        sentences.append((lead, ratio, f" as long as it computes: {how} bound."))
    return tuple(sentences)


def _draw(s: OnShow, op: str) -> Drawn:
    kernel_tiles = tiled_kernel(s, op)
    if kernel_tiles is None:
        return placeholder("Roller has tiled nothing.")
    rows = data(kernel_tiles)
    return rows, figure(rows, s.view.size), table(rows)


PICTURE = Picture(
    name="staircase",
    title="Staircase",
    words="How Roller enlarged the tile step by step, and which rule ended each path.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=_draw,
)
