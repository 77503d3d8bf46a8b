"""The Staircase picture: the construction beside the tiles to choose from, text and chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import log10
from typing import Any

import plotly.graph_objects as go

from explorer.ir.stage import Stage
from explorer.plain_text import counted
from widgets.draw.plots import colours, number_text, styled
from widgets.draw.svg import Svg, fit, label, rect, text_width, wrap_text
from widgets.draw.table import Mark, Sentence, Table, lit_by, time_text
from widgets.model.picture import HEIGHT, WIDTH, Drawn, OnShow, Picture, placeholder
from widgets.roller.staircase import StaircaseRow, StaircaseRows, construction, data, sentence
from widgets.roller.tiled_kernel import TileChoice
from widgets.roller.view import TILES, tiled_kernel

BESIDE = 660  # narrower pages have the list below
MOST = 48  # states that the chart shows
HIGH = 4  # load times above this multiple of compute time are cut off
LETTERS = 96  # letters that fit side by side under the chart of the narrowest page
START = "–"  # a level's first tile has no enlarged axis
WORDS = "%{customdata}<extra></extra>"
MARKS = {  # the symbol of a state by its outcome
    "grows on": "circle-open",
    "compute bound: one level down": "triangle-down",
    "does not fit, or wastes too much": "x-thin-open",
    "a result, by rank": "square",
}
PX, BOLD = 13, 1.07
LINE, ROW, BAR = 17.0, 24.0, 84.0
MOST_LINES = 3  # per label
HEADS = {True: "thread blocks, by the whole model", False: "results of the construction"}


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
        (Mark(counted(rows.visited, "tile"), "state"), " were evaluated; no kernel was run.")
    ]
    if rows.built:
        out = counted(rows.built, "result")
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


def chart(rows: StaircaseRows, title: str, theme: str) -> go.Figure:
    """Draw the states from left to right: the used share of the tightest limit, and the parent.

    Below, the load time of a unit over its compute time.
    """
    figure, c, steps = go.Figure(), colours(theme), shown_steps(rows.steps)
    at = {s.number: n for n, s in enumerate(steps)}
    _limit(figure, len(steps), c)
    for leads in (False, True):
        _add_growth(figure, [s for s in steps if s.leads == leads], at, rows, leads, c)
    for what in MARKS:
        mine = [s for s in steps if _became(s) == what]
        _states(figure, mine, at, rows, what, c)
    _times(figure, steps, at, rows, c)
    first = min((s.share for s in steps if s.share > 0), default=1.0)
    figure.update_layout(barmode="group", bargap=0.3, yaxis2={"anchor": "x"})
    figure.update_xaxes(
        title={"text": "state (in order; the axis that was enlarged, and the memory level)"},
        tickvals=list(at.values()),
        **_names(steps),
        anchor="y2",
    )
    figure.update_layout(
        yaxis={
            "title": {"text": "capacity used (%)"},
            "domain": [0.46, 1],
            "type": "log",
            "range": [log10(first / 2), log10(2.5)],
            "tickvals": (shares := [10.0**p for p in range(-6, 1)]),
            "ticktext": [number_text(100 * share) for share in shares],
        },
        yaxis2={
            "title": {"text": "time (×)"},
            "domain": [0, 0.38],
            "range": [0, min(HIGH, max([1.0, *(s.ratio for s in steps)])) * 1.08],
        },
    )
    return styled(figure, theme, title, 520)


def shown_steps(steps: Sequence[StaircaseRow]) -> list[StaircaseRow]:
    """Return as many steps as fit: those that lead to results first, then the others in order."""
    ranked = sorted(steps, key=lambda s: (not s.leads, s.number))[:MOST]
    return sorted(ranked, key=lambda s: s.number)


def _limit(figure: go.Figure, count: int, c: Mapping[str, str]) -> None:
    line_name = "all of the tightest limit"
    figure.add_scatter(
        x=[-0.5, count - 0.5],
        y=[1, 1],
        name=line_name,
        mode="lines",
        line={"color": c["bad"], "width": 1.2, "dash": "dash"},
        customdata=[line_name] * 2,
        hovertemplate=WORDS,
    )


def _add_growth(
    figure: go.Figure,
    steps: Sequence[StaircaseRow],
    at: Mapping[int, int],
    rows: StaircaseRows,
    leads: bool,
    c: Mapping[str, str],
) -> None:
    """Add the steps from each tile to those grown from it."""
    by = {s.number: s for s in rows.steps}
    x: list[float | None] = []
    y: list[float | None] = []
    for s in steps:
        parent = by.get(s.parent)
        if parent is not None and parent.number in at:
            x += [at[parent.number], at[s.number], at[s.number], None]
            y += [parent.share, parent.share, s.share, None]
    if x:
        figure.add_scatter(
            x=x,
            y=y,
            name="on the way to a result" if leads else "grown from",
            mode="lines",
            line={
                "color": c["ink2"] if leads else c["edge"],
                "width": 1.6 if leads else 1,
                "dash": "solid" if leads else "dot",
            },
            hoverinfo="skip",
        )


def _states(
    figure: go.Figure,
    steps: Sequence[StaircaseRow],
    at: Mapping[int, int],
    rows: StaircaseRows,
    what: str,
    c: Mapping[str, str],
) -> None:
    if not steps:
        return
    result = what == "a result, by rank"
    takes = {"take": [{"rank": s.rank} for s in steps]} if result and not rows.own else None
    figure.add_scatter(
        x=[at[s.number] for s in steps],
        y=[s.share for s in steps],
        name=what,
        mode="markers+text" if result else "markers",
        text=[str(s.rank + 1) for s in steps] if result else None,
        textposition="top center",
        textfont={"color": c["ink"], "size": 12},
        marker={"symbol": MARKS[what], "color": c["ink"], "size": 12 if result else 9},
        customdata=[sentence(s, rows.score) for s in steps],
        meta=takes,
        hovertemplate=WORDS,
    )


def _times(
    figure: go.Figure,
    steps: Sequence[StaircaseRow],
    at: Mapping[int, int],
    rows: StaircaseRows,
    c: Mapping[str, str],
) -> None:
    """Add the load time over the compute time; above 1 a state is memory bound."""
    for name, values, colour in (
        ("computing", [1.0 for _ in steps], c["t2"]),
        ("loading", [s.ratio for s in steps], c["pane"]),
    ):
        figure.add_bar(
            x=[at[s.number] for s in steps],
            y=values,
            name=name,
            yaxis="y2",
            marker={"color": colour, "line": {"color": c["ink2"], "width": 1}},
            customdata=[sentence(s, rows.score) for s in steps],
            hovertemplate=WORDS,
        )


def _became(s: StaircaseRow) -> str:
    if s.rank >= 0:
        return "a result, by rank"
    if s.verdict.startswith(("does not fit", "eps")):
        return "does not fit, or wastes too much"
    return "compute bound: one level down" if s.verdict.startswith("compute bound") else "grows on"


def _names(steps: Sequence[StaircaseRow]) -> dict[str, Any]:
    """Return the labels of the states: the axis, and for the first of a level its name.

    Names that would overlap in a narrow room are written upright in one line.
    """
    ticks = list(_ticks(steps))
    if any(
        _meet([(n, tick[line]) for n, tick in enumerate(ticks) if tick[line:]], len(ticks))
        for line in (0, 1)
    ):
        return {"ticktext": [", ".join(tick) for tick in ticks], "tickangle": -90}
    return {"ticktext": ["<br>".join(tick) for tick in ticks], "tickangle": 0}


def _meet(words: Sequence[tuple[int, str]], states: int) -> bool:
    """Return True if two words of a line, each under its state, would touch."""
    return any(
        (len(a) + len(b)) / 2 + 1 > (m - n) * LETTERS / states for (n, a), (m, b) in pairwise(words)
    )


def _ticks(steps: Sequence[StaircaseRow]) -> Iterator[tuple[str, ...]]:
    before = ""
    for s in steps:
        axis = START if s.change == "the first tile" else s.axis or START
        yield (axis,) if s.level_name == before else (axis, s.level_name)
        before = s.level_name


def choices(rows: StaircaseRows, x: float, y: float, wide: float, high: float) -> Iterator[str]:
    """Draw the list of tiles, as many as fit, with the current one."""
    yield label(x, y + 16, "Tiles to choose from", "big")
    if not rows.choices:
        yield label(x, y + 40, "No tile fits.")
        return
    how = "outlined: predicted" + ", filled: measured" * any(c.measured for c in rows.choices)
    both = len({c.block is None for c in rows.choices}) > 1
    by = "" if both else f"{_weighed_by(rows)}; "
    lines = wrap_text(by + how, wide, PX)
    for n, line in enumerate(lines):
        yield label(x, y + 36 + LINE * n, line, "q")
    y += LINE * (len(lines) - 1)
    high -= LINE * (len(lines) - 1)
    bar = min(BAR, wide * 0.24)
    times = [_time(c) for c in rows.choices]
    value = max(text_width(t, PX) for t in times) * BOLD
    room = wide - 26 - bar - value - 16
    shown = _shown(rows, room, high - 46 - LINE - 2 * ROW * both)
    most = max(us for c in rows.choices for us in _both(c)) or 1.0
    at, head = y + 52, None
    for n in shown:
        if both and (rows.choices[n].block is not None) != head:
            head = rows.choices[n].block is not None
            yield label(x, at + 13, HEADS[head], "q")
            at += ROW
        lines = _lines(rows.choices[n], room)
        body = "".join(_choice(rows, n, lines, (x, at, wide), (bar, bar / most), times[n]))
        words = f'data-rank="{n}" tabindex="0" role="button" aria-label="tile {n + 1}"'
        yield lit_by(body, "choice now" if n == rows.rank else "choice", words)
        at += ROW + LINE * (len(lines) - 1)
    if len(shown) < len(rows.choices) and at + 16 <= y + high:
        hidden = counted(len(rows.choices) - len(shown), "tile")
        yield label(x, at + 12, f"and {hidden} more, in the table", "q")


def _weighed_by(rows: StaircaseRows) -> str:
    """Describe the ranking of the choices."""
    if rows.own:
        return "weighed for this machine by the whole model"
    blocks = any(c.block is not None for c in rows.choices)
    return HEADS[blocks]


def _both(c: TileChoice) -> tuple[float, ...]:
    return (c.modelled_us, c.measured.median_us) if c.measured else (c.modelled_us,)


def _time(c: TileChoice) -> str:
    return time_text(c.measured.median_us if c.measured else c.modelled_us)


def _lines(c: TileChoice, room: float) -> list[str]:
    lines = wrap_text(c.label, room / BOLD, PX)
    if len(lines) > MOST_LINES:
        tail = " ".join(lines[MOST_LINES - 1 :])
        lines = [*lines[: MOST_LINES - 1], fit(tail, room / BOLD, PX)]
    return lines


def _shown(rows: StaircaseRows, room: float, high: float) -> Sequence[int]:
    """Return the choices that fit: the first ones and the current one."""
    tall = [ROW + LINE * (len(_lines(c, room)) - 1) for c in rows.choices]
    fitting: list[int] = []
    left = high - tall[rows.rank]
    for n, each in enumerate(tall):
        if n == rows.rank:
            continue
        if each > left:
            break
        fitting.append(n)
        left -= each
    return sorted({*fitting, rows.rank})


def _choice(
    rows: StaircaseRows,
    n: int,
    lines: Sequence[str],
    at: tuple[float, float, float],
    bars: tuple[float, float],
    time: str,
) -> Iterator[str]:
    c, (x, y, wide), (bar, scale) = rows.choices[n], at, bars
    on = n == rows.rank
    tip = "; ".join(filter(None, (c.label, c.note, _waves(c))))
    high = ROW + LINE * (len(lines) - 1)
    ground = "var(--soft)" if on else "transparent"
    yield rect(x, y - 2, wide, high - 2, ground, title=tip)
    style = "a" if on else "i"
    yield label(x + 20, y + 13, str(n + 1), style, anchor="end")
    for k, line in enumerate(lines):
        yield label(x + 26, y + 13 + LINE * k, line, style, title=tip)
    end = x + wide - 4
    yield label(end, y + 13, time, style, anchor="end")
    left = x + wide - 8 - bar - text_width(time, PX) * BOLD
    edge = f'stroke="var(--{"accent" if on else "ink2"})"'
    bar_tip = f"predicted {time_text(c.modelled_us)}"
    yield rect(left, y + 3, max(c.modelled_us * scale, 1), 5, "none", edge, title=bar_tip)
    if c.measured:
        us = c.measured.median_us
        bar_tip = f"measured {time_text(us)}, n = {c.measured.n}"
        ink = "var(--accent)" if on else "var(--ink2)"
        yield rect(left, y + 9, max(us * scale, 1), 6, ink, title=bar_tip)


def _waves(c: TileChoice) -> str:
    w = c.waves
    full = "full" if w.last == w.places else f"{w.last / max(1, w.places):.0%} full"
    return f"{counted(w.grid, 'task')} in {counted(w.waves, 'wave')}, the last {full}"


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
    chart=chart,
)
