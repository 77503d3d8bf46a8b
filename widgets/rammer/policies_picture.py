"""Comparison of the policies: the length of each wall, its contents, and its launch cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import plotly.graph_objects as go

from explorer.ir.stage import Stage
from explorer.plain_text import counted
from explorer.tuning.compare import BASELINE, PolicyWall
from explorer.views.rammer import policy_rows
from widgets.draw.plots import colours, styled
from widgets.draw.slide import NARROW, PX, choice, label_width
from widgets.draw.svg import Svg, label, rect
from widgets.draw.table import Mark, Sentence, Table, lit_by, time_text
from widgets.model.brick_wall import NAMES
from widgets.model.picture import Picture
from widgets.rammer.view import (
    MOST_COUNTED,
    TELLING,
    WALLS_APART,
    PolicyWalls,
    of_walls,
    schedule_differing_walls,
)

HEAD, FOOT = 8.0, 34.0
ROW, BAR = 96.0, 40.0  # maximum heights of a policy's row and of its bar
TWO_LAYER = "op-by-op (two layers)"
HATCHES = {
    "tail": ".",
    "imbalance": "+",
    "dependency": "\\",
    "barrier": "/",
    "launch": "x",
    "preempted": "|",
    "library": "-",
}  # by cause of idle time; busy time has no hatch


def caption(walls: PolicyWalls) -> str:
    """Compare the chosen policy with two-layer scheduling in one line."""
    current, base = walls.chosen, walls.baseline
    a = current.statistics
    ratio = base.statistics.total_us / a.total_us if a.total_us else 1.0
    return (
        f"{current.policy} on {walls.units} of {walls.device}, {walls.kind}: "
        f"{time_text(a.total_us)}, {a.core_busy:.1%} busy, {ratio:.2f}× two-layer scheduling"
    )


def why_more(walls: PolicyWalls) -> tuple[Sentence, ...]:
    """Explain why more cores than this machine has are shown, or where the policies differ."""
    if not walls.indistinct_units and walls.own and not walls.gpu and walls.spread < TELLING:
        here = walls.units
        return ((f"On {here} the policies hardly differ: try more cores, or the device v100.",),)
    if not walls.indistinct_units:
        return ()
    few = counted(walls.indistinct_units, "core")
    return ((f"On {few} of this machine policies hardly differ: planned for {walls.units}.",),)


def see(walls: PolicyWalls) -> tuple[Sentence, ...]:
    """Return the key sentences: the shortest and longest wall, and the main cause of idle time."""
    by_length = sorted(walls.by_policy, key=lambda s: s.statistics.total_us)
    best, worst = by_length[0], by_length[-1]
    times = best.statistics.total_us, worst.statistics.total_us
    sentences: list[Sentence] = [
        (Mark(best.policy, f"policy:{best.policy}"), f" takes {time_text(times[0])}, ",
         Mark(worst.policy, f"policy:{worst.policy}"),
         f" {time_text(times[1])}: {times[1] / (times[0] or 1):.2f}×."),
    ]  # fmt: skip
    idle = max(walls.chosen.statistics.idle, key=lambda part: part[1], default=None)
    if idle is not None:
        share = idle[1] / (walls.chosen.statistics.units * (walls.chosen.statistics.total_us or 1))
        cause = NAMES.get(idle[0], idle[0])
        words = Mark(f"{cause}, {share:.0%}", f"idle:{idle[0]}")
        sentences.append((f"Most idle time of {walls.chosen.policy} is ", words, "."))
    return (*sentences, *why_more(walls))


def table(walls: PolicyWalls) -> Table:
    """Return one row per policy."""
    columns = (
        "policy",
        "predicted µs",
        "two-layer ÷ it",
        "busy",
        "cores busy",
        "rPrograms",
        "launch µs",
        "barriers",
        "tasks",
    )
    policies = policy_rows([s.statistics for s in walls.by_policy], walls.baseline.statistics)
    rows = tuple(
        (
            row.policy,
            round(row.total_us, 2),
            1.0 if row.speedup is None else round(row.speedup, 3),
            f"{row.busy:.1%}",
            f"{row.core_busy:.1%}",
            row.rprograms,
            round(row.overhead_us, 2),
            walls.barriers(s),
            row.bricks,
        )
        for s, row in zip(walls.by_policy, policies, strict=True)
    )
    return Table(columns, rows, (), caption(walls), see(walls))


def parts_us(s: PolicyWall) -> tuple[tuple[str, float], ...]:
    """Return the busy time and each idle time of a wall, in microseconds of its length."""
    a = s.statistics
    return (("busy", a.total_us * a.busy), *((cause, us / a.units) for cause, us in a.idle))


def figure(walls: PolicyWalls, size: tuple[int, int], selected: str = "") -> Svg:
    """Draw a bar per policy, as long as its wall: busy time, then idle time by cause."""
    width, height = size
    narrow = width < NARROW
    causes = [c for s in walls.by_policy for c, us in parts_us(s) if us > 0]
    legend = list(_legend(list(dict.fromkeys(causes)), height, width))
    low = height - 24.0 * (1 + len(legend) - 1) - 14
    row = min(ROW, (low - HEAD) / max(1, len(walls.by_policy)))
    narrow = narrow and row >= 48
    names = max((label_width(_name(s), bold=True) for s in walls.by_policy), default=0.0)
    x = 0.0 if narrow else names + 16
    longest = max((s.statistics.total_us for s in walls.by_policy), default=0.0) or 1.0
    ends = max((label_width(_end(s, walls), bold=True) for s in walls.by_policy), default=0.0)
    scale = (width - x - ends - 12) / longest
    marks = list[str]()
    for n, s in enumerate(walls.by_policy):
        marks += _row(s, walls, x, HEAD + n * row, row, scale, narrow=narrow)
    marks += [m for line in legend for m in line]
    return Svg(width, height, "".join(marks), f"Policies: {caption(walls)}", selected, PX)


def _name(s: PolicyWall) -> str:
    return TWO_LAYER if s.policy == BASELINE else s.policy


def _end(s: PolicyWall, walls: PolicyWalls) -> str:
    base, us = walls.baseline.statistics.total_us, s.statistics.total_us
    times = f" · {base / us:.2f}×" if us and s.policy != BASELINE else ""
    return f"{time_text(us)}{times}"


def _row(
    s: PolicyWall, walls: PolicyWalls, x: float, y: float, row: float, scale: float, *, narrow: bool
) -> Iterator[str]:
    """Draw one policy: its name and launches, its bar, and the length of its wall."""
    style, a = "i w", s.statistics
    waits = f", {walls.barriers(s)} waits" if a.units <= MOST_COUNTED else ""
    launches_text = f"{counted(a.launches, 'launch', 'launches')}{waits}"
    body = label(0, y + min(16.0, row / 2 + 4), _name(s), style)
    bar_y = y + (22 if narrow else 4)
    high = min(BAR, row - (26 if narrow else 14 if row >= 44 else 6))
    if not narrow and row >= 44:
        body += label(0, y + 34, launches_text)
    if not narrow and row >= 64 and s is walls.chosen:
        body += label(0, y + 52, "current", "w")
    at = x
    for part, us in parts_us(s):
        w = us * scale
        if w <= 0:
            continue
        fill = "var(--ink2)" if part == "busy" else f"url(#p-g-{part})"
        name = NAMES.get(part, part)
        tip = f"{_name(s)}: {name} {time_text(us)}, {us / (a.total_us or 1):.0%}"
        ground = rect(at, bar_y, w, high, "var(--pane)")
        mark = ground + rect(at, bar_y, w, high, fill, 'stroke="var(--ink2)"', title=tip)
        words = f"busy {a.busy:.0%}"
        if part == "busy" and w > label_width(words) + 12 and high >= 18:
            mark += label(at + 6, bar_y + high / 2 + 5, words, "inv w")
        body += lit_by(mark, "busy" if part == "busy" else f"idle idle:{part}")
        at += w
    body += label(at + 8, bar_y + high / 2 + 5, _end(s, walls), style)
    on, number = s is walls.chosen, walls.by_policy.index(s)
    tip = f"{_name(s)}: {_end(s, walls)}{', current' * on}"
    taken = choice(body, number, tip, on=on, of="policy", value=s.policy)
    yield lit_by(taken, f"policy:{s.policy}")


def _legend(causes: Sequence[str], height: int, width: int) -> Iterator[list[str]]:
    """Draw the legend of the bars' parts in as many lines as needed, the last at the bottom."""
    lines: list[list[tuple[str, float]]] = [[]]
    x = 0.0
    for cause in causes:
        w = 32 + label_width(NAMES.get(cause, cause))
        if x + w > width and lines[-1]:
            lines.append([])
            x = 0.0
        lines[-1].append((cause, x))
        x += w + 18
    for n, line in enumerate(lines):
        y = height - 9 - 24.0 * (len(lines) - 1 - n)
        yield [_swatch(cause, x, y) for cause, x in line]


def _swatch(cause: str, x: float, y: float) -> str:
    fill = "var(--ink2)" if cause == "busy" else f"url(#p-g-{cause})"
    mark = rect(x + 1, y - 11, 22, 13, fill, 'stroke="var(--ink2)"')
    words = label(x + 30, y, NAMES.get(cause, cause))
    return lit_by(mark + words, "busy" if cause == "busy" else f"idle idle:{cause}")


def chart(rammed: PolicyWalls, title: str, theme: str) -> go.Figure:
    """Draw a bar per policy as long as its wall: the busy part, then idle time by cause.

    Each part is a share of units times time.
    """
    c, figure, walls = colours(theme), go.Figure(), rammed.by_policy
    parts = [dict(parts_us(s)) for s in walls]
    for cause in dict.fromkeys(name for part in parts for name in part):
        figure.add_bar(
            x=[part.get(cause, 0.0) for part in parts],
            y=[s.policy for s in walls],
            name=NAMES.get(cause, cause),
            orientation="h",
            marker={
                "color": c["t2"],
                "line": {"color": c["line2"], "width": 1},
                "pattern": {
                    "shape": HATCHES.get(cause, ""),
                    "fillmode": "replace",
                    "fgcolor": c["ink3"],
                    "size": 6,
                },
            },
            meta={"take": [{"more": {"policy": s.policy}} for s in walls]},
            customdata=_words(walls, [part.get(cause, 0.0) for part in parts], cause),
            hovertemplate="%{customdata}<extra></extra>",
        )
    ends = [s.statistics.total_us for s in walls]
    figure.add_scatter(
        x=ends,
        y=[s.policy for s in walls],
        mode="text",
        text=[
            f" {time_text(us)}{', chosen' if s is rammed.chosen else ''}"
            for s, us in zip(walls, ends)
        ],
        textposition="middle right",
        textfont={"color": [c["accent"] if s is rammed.chosen else c["ink"] for s in walls]},
        cliponaxis=False,
        hoverinfo="skip",
        showlegend=False,
    )
    figure.update_xaxes(
        title=f"length of the wall (µs), {rammed.kind}", range=[0, 1.25 * max(ends, default=1.0)]
    )
    figure.update_yaxes(title="policy", autorange="reversed")
    return styled(figure, theme, title, 180 + 40 * max(3, len(walls)), barmode="stack")


def _words(walls: Sequence[PolicyWall], lengths: Sequence[float], cause: str) -> list[str]:
    cause_text, totals = NAMES.get(cause, cause), [s.statistics.total_us for s in walls]
    return [
        f"{s.policy}: {cause_text} {us / (total or 1):.1%} of {time_text(total)}"
        for s, us, total in zip(walls, lengths, totals)
    ]


PICTURE = Picture(
    name="policies",
    title="Policies",
    words="Every policy's wall: its length, busy and idle time, and launch cost.",
    stage=Stage.RAMMED,
    family=WALLS_APART,
    draw=of_walls(figure, table, schedule_differing_walls),
    chart=chart,
)
