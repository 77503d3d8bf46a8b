"""The drawing and the words of the construction staircase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import log2

from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, cross, fit, label, path, rect, stepped, text_width
from widgets.draw.table import Table
from widgets.model.picture import Picture
from widgets.roller.choices_picture import choices
from widgets.roller.staircase import StaircaseRows, StepRow, data, sentence
from widgets.roller.view import TILES, of_tile

WIDTH, LEFT, RIGHT = 780.0, 12.0, 768.0
FIRST, MOST = 88.0, 48
CAPACITY, DEEP = 84.0, 11.0  # y of the capacity line; pixels that halve the share
LOWEST = -8.0  # log2 of the share at the bottom
ONCE, HIGH, FLOOR = 20.0, 4.0, 296.0  # height of a computing time, bars are cut above, their foot


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
    """The states from left to right: above, what each takes of its memory; below, its times."""
    steps = _shown(rows.steps)
    pitch = min(26.0, (RIGHT - FIRST) / max(1, len(steps)))
    at = {s.number: FIRST + (i + 0.5) * pitch for i, s in enumerate(steps)}
    marks = [*_heads(rows), *_grounds(len(steps), pitch), *_axes(), *_levels(steps, pitch)]
    marks += _ways(steps, at)
    for i, s in enumerate(steps):
        marks.append(stepped("".join(_step(s, at[s.number], pitch)), i, sentence(s, rows.score)))
    y = FLOOR + 52
    rest = len(rows.steps) - len(steps)
    said = [f"{rest} more states in the table"] if rest else []
    if rows.skipped:
        said.append(f"{rows.skipped} were not looked at: enough was found")
    marks.append(label(FIRST, y, "; ".join(said), "q"))
    marks += _legend(y + 20)
    y += 44
    found, y = choices(rows, y)
    marks += found
    return Svg(WIDTH, y, "".join(marks), f"Construction: {caption(rows)}")


def _grounds(count: int, pitch: float) -> Iterator[str]:
    """What is lit behind a step when it is its turn."""
    for i in range(count):
        box = rect(FIRST + i * pitch, 66, pitch, FLOOR - 46, "transparent", 'class="ground"')
        yield stepped(box, i)


def _shown(steps: Sequence[StepRow]) -> list[StepRow]:
    """As many as there is room for: those that lead to results first, then the others in order."""
    ranked = sorted(steps, key=lambda s: (not s.leads, s.number))[:MOST]
    return sorted(ranked, key=lambda s: s.number)


def _heads(rows: StaircaseRows) -> Iterator[str]:
    head, rest = caption(rows).split("; ", 1)
    yield label(LEFT, 20, fit(head, RIGHT - LEFT - 40), "i w", title=head)
    yield label(LEFT, 36, fit(rest, RIGHT - LEFT), "q", title=rest)


def _axes() -> Iterator[str]:
    yield label(LEFT, 60, "room,", "i w")
    yield label(LEFT + 38, 60, "of the tightest limit", "q")
    yield path(f"M{FIRST} {CAPACITY}H{RIGHT}", "var(--ink)", 'stroke-width="1.4"')
    yield label(FIRST - 6, CAPACITY + 4, "100%", "i", anchor="end")
    for power, text in ((-2, "25%"), (-4, "6%"), (-6, "1.6%")):
        y = _high(2.0**power)
        yield path(f"M{FIRST} {y:g}H{RIGHT}", "var(--line)")
        yield label(FIRST - 6, y + 4, text, "q", anchor="end")
    yield label(LEFT, FLOOR - 102, "time of a unit,", "i w")
    yield label(LEFT + text_width("time of a unit, ") + 6, FLOOR - 102, "computing = 1", "q")
    for times in (1, 2, 3, 4):
        y = FLOOR - times * ONCE
        ink, extra = (
            ("var(--ink2)", 'stroke-dasharray="4 2"') if times == 1 else ("var(--line)", "")
        )
        yield path(f"M{FIRST} {y:g}H{RIGHT}", ink, extra)
        yield label(FIRST - 6, y + 4, f"{times}×", "i" if times == 1 else "q", anchor="end")
    yield path(f"M{FIRST} {FLOOR}H{RIGHT}", "var(--ink2)")
    yield label(LEFT, FLOOR + 14, "axis taken", "q")
    yield label(LEFT, FLOOR + 31, "level", "q")


def _high(share: float) -> float:
    power = max(LOWEST, min(1.4, log2(share))) if share > 0 else LOWEST
    return CAPACITY - power * DEEP


def _levels(steps: Sequence[StepRow], pitch: float) -> Iterator[str]:
    x = FIRST
    for name, group in groupby(steps, key=lambda s: s.level_name):
        wide = pitch * len(list(group))
        yield path(f"M{x + 1:g} {FLOOR + 20}v3h{wide - 2:.1f}v-3", "var(--edge)")
        if text_width(name) <= wide + 2:
            yield label(x + wide / 2, FLOOR + 36, name, anchor="middle")
        elif wide > 16:
            yield label(x + wide / 2, FLOOR + 36, fit(name, wide), anchor="middle", title=name)
        x += wide


def _ways(steps: Sequence[StepRow], at: Mapping[int, float]) -> Iterator[str]:
    """From each tile to those that were grown from it; back to an earlier one is dashed."""
    by = {s.number: s for s in steps}
    before = -1
    for s in steps:
        parent = by.get(s.parent)
        if parent is not None:
            x, y = at[parent.number], _high(parent.share)
            d = f"M{x:.1f} {y:.1f}H{at[s.number]:.1f}V{_high(s.share):.1f}"
            ink = "var(--ink2)" if s.leads else "var(--edge)"
            yield path(d, ink, "" if parent.number == before else 'stroke-dasharray="2 2"')
        before = s.number


def _step(s: StepRow, x: float, pitch: float) -> Iterator[str]:
    """The mark of a state, its bars, its axis, and room to point at."""
    y = _high(s.share)
    yield rect(x - pitch / 2, 66, pitch, FLOOR - 46, "transparent")
    wide = min(8.0, pitch / 2 - 1)
    cut = min(s.ratio, HIGH)
    yield rect(x - wide, FLOOR - ONCE, wide, ONCE, "var(--t2)")
    edge = 'stroke="var(--ink2)" stroke-width="0.8"'
    yield rect(x, FLOOR - cut * ONCE, wide, cut * ONCE, "var(--pane)", edge)
    if s.ratio > HIGH:
        top = FLOOR - HIGH * ONCE
        yield path(f"M{x + wide / 2:.1f} {top - 1:g}v-6m-2.5 2.5l2.5 -2.5l2.5 2.5", "var(--ink2)")
    if s.axis and s.change != "the first tile":
        name = s.axis if text_width(s.axis, mono=True) <= pitch else s.axis[:1]
        yield label(x, FLOOR + 14, name, "mono i", anchor="middle")
    yield from _mark(s, x, y)


def _mark(s: StepRow, x: float, y: float) -> Iterator[str]:
    """What became of the state, by the shape of its mark."""
    if s.rank >= 0:
        yield rect(x - 7, y - 7, 14, 14, "var(--ink)", 'rx="2"')
        yield label(x, y + 4, str(s.rank + 1), "inv w", anchor="middle")
    elif s.verdict.startswith(("does not fit", "eps")):
        yield cross(x, y, 4)
    elif s.verdict.startswith("compute bound"):
        yield f'<path d="M{x - 5:.1f} {y - 4:.1f}h10l-5 8z" fill="var(--ink)"/>'
    else:
        dot = 'rx="3.5" stroke="var(--ink)"'
        yield rect(x - 3.5, y - 3.5, 7, 7, "var(--pane)", dot)


def _legend(y: float) -> Iterator[str]:
    yield rect(LEFT, y - 9, 10, 10, "var(--t2)")
    yield label(LEFT + 15, y, "computing")
    x = LEFT + 84
    yield rect(x, y - 9, 10, 10, "var(--pane)", 'stroke="var(--ink2)"')
    yield label(x + 15, y, "loading")
    x += 70
    yield rect(x, y - 8, 7, 7, "var(--pane)", 'rx="3.5" stroke="var(--ink)"')
    yield label(x + 13, y, "grows on")
    x += 76
    yield f'<path d="M{x:g} {y - 8:g}h10l-5 8z" fill="var(--ink)"/>'
    yield label(x + 15, y, "compute bound: one level down")
    x += 186
    yield cross(x + 4, y - 4, 4)
    yield label(x + 13, y, "does not fit, or wastes too much")
    x += 184
    yield rect(x, y - 11, 14, 14, "var(--ink)", 'rx="2"')
    yield label(x + 7, y, "1", "inv w", anchor="middle")
    yield label(x + 19, y, "a result, by rank")


PICTURE = Picture(
    name="staircase",
    title="Staircase",
    words="How Roller enlarged the tile step by step, and which rule ended each way.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=of_tile(data, figure, table),
)
