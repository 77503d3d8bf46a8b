"""Roller's construction step by step: each visited tile, the enlarged axis, and the times.

A level ends where loading becomes faster than computing. The drawing has the visited tiles from
left to right, and the share of each memory that they use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, floor, log10

from explorer.roller.construct.steps import Construction, ConstructionStep
from widgets.draw.svg import cross, fit, label, path, rect, text_width
from widgets.draw.table import lit_by, time_text
from widgets.roller.tiled_kernel import TileChoice, TiledKernel, axis_words, tile_words

SKIPPED = "enough found"
PX, AXIS, STATE = 13, 60.0, 17.0  # font size; width of ticks; minimum width of a state
HIGHEST = 4.0  # limit of the axis, in computing times
KINDS = ("grows on", "compute bound", "does not fit", "result")


@dataclass(frozen=True, slots=True)
class StaircaseRow:
    """One tile of the construction.

    `share` is how much it uses of the tightest of its limits; `ratio` is loading over computing
    time, both of one unit for the whole reduction. `rank` counts the results from 0, -1 for none;
    `leads`: it is on the path to a result.
    """

    number: int
    parent: int
    eps: float
    level: int
    level_name: str
    tile: str
    change: str
    axis: str
    score: float
    compute_us: float
    memory_us: float
    limit: str
    share: float
    verdict: str
    reason: str
    rank: int
    leads: bool

    @property
    def ratio(self) -> float:
        """Loading over computing time; the search leaves the level where it is below 1."""
        return self.memory_us / self.compute_us if self.compute_us > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class StaircaseRows:
    """A construction: the steps of the rounds that found results, and the results."""

    kernel: str
    device: str
    own: bool
    policy: str
    score: str
    axes: tuple[str, ...]
    fused: tuple[tuple[str, ...], ...]
    levels: tuple[str, ...]
    steps: tuple[StaircaseRow, ...]
    skipped: int
    rounds: tuple[tuple[float, int, int], ...]
    paths: tuple[str, ...]
    choices: tuple[TileChoice, ...]
    rank: int
    built: int  # number of results; `choices` may be other tiles, ranked by the whole model
    ops: tuple[str, ...]

    @property
    def shown_path(self) -> tuple[int, str]:
        """The number of a construction result, from 1, and the path to it.

        It is the current result, else the first; also for a tile chosen by the whole model.
        """
        number = max(0, self.on_show)
        return number + 1, self.paths[number] if number < len(self.paths) else ""

    @property
    def blocks(self) -> int:
        """The number of choices that are thread blocks, which come first."""
        return sum(c.block is not None for c in self.choices)

    @property
    def on_show(self) -> int:
        """The position of the current tile among the results, -1 if it is no result."""
        return -1 if self.own or self.rank < self.blocks else self.rank - self.blocks

    def number(self, rank: int) -> str:
        """Return the display number of a result among the choices, a letter if it is none."""
        return chr(ord("a") + rank % 26) if self.own else str(rank + self.blocks + 1)

    @property
    def visited(self) -> int:
        """The number of states of all rounds."""
        return sum(states for _, states, _ in self.rounds)


def data(rolled: TiledKernel) -> StaircaseRows:
    """Return the construction of one kernel on one device."""
    c = rolled.construction
    shown_rounds = {r.eps for r in c.rounds if r.results} or {c.rounds[-1].eps if c.rounds else 0.0}
    shown_steps = [s for s in c.steps if s.eps in shown_rounds]
    ends = _ends(c, shown_steps)
    leading = {p.number for s in shown_steps if s.number in ends for p in c.path(s)}
    shown = tuple(
        _row(c, s, ends.get(s.number, -1), s.number in leading)
        for s in shown_steps
        if s.verdict != SKIPPED
    )
    first = {rank: c.steps[number] for number, rank in sorted(ends.items(), reverse=True)}
    return StaircaseRows(
        rolled.title,
        c.device,
        rolled.own,
        c.policy,
        c.score,
        c.expression.axes,
        tuple(group for group in c.fused if len(group) > 1),
        tuple(level.name for level in c.levels),
        shown,
        len(shown_steps) - len(shown),
        tuple((r.eps, r.visited, r.results) for r in c.rounds),
        tuple(_describe_path(c, first[n]) if n in first else "" for n in range(len(c.results))),
        rolled.choices,
        rolled.rank,
        len(c.results),
        rolled.ops,
    )


def _shapes(tiles: tuple[object, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(t.shape for t in tiles[:-1])  # type: ignore[attr-defined]


def _ends(c: Construction, steps: Sequence[ConstructionStep]) -> dict[int, int]:
    """Return the rank of the result that each step ends in; each result once, at its first step."""
    ranks: dict[tuple[tuple[int, ...], ...], int] = {}
    for rank, p in enumerate(c.results):
        ranks.setdefault(_shapes(p.shrunk_from or p.tiles), rank)
    rank_of_step: dict[int, int] = {}
    for s in steps:
        rank = ranks.pop(_ending(c, s), -1)
        if rank >= 0:
            rank_of_step[s.number] = rank
    return rank_of_step


def _ending(c: Construction, s: ConstructionStep) -> tuple[tuple[int, ...], ...]:
    """Return the tiles of all levels at a final step, farthest first; () for other steps."""
    if s.level or s.verdict not in ("result", "border"):
        return ()
    last = {p.level: p.tile.shape for p in c.path(s)}
    return tuple(last[level] for level in sorted(last))


def _row(c: Construction, s: ConstructionStep, rank: int, leads: bool) -> StaircaseRow:
    tightest = max(s.rooms, key=lambda r: r.used / max(1, r.capacity), default=None)
    limit = f"{tightest.used:,} of {tightest.capacity:,} {tightest.limit}" if tightest else ""
    share = tightest.used / max(1, tightest.capacity) if tightest else 0.0
    return StaircaseRow(
        s.number, s.parent, s.eps, s.level, c.levels[s.level].name,
        tile_words(c.expression.axes, s.tile.shape), _change(c, s), axis_words(s.axis), s.score,
        s.compute_us, s.memory_us, limit, share, s.verdict, s.reason, rank, leads,
    )  # fmt: skip


def _change(c: Construction, s: ConstructionStep) -> str:
    if s.before is None or not s.axis:
        return "the first tile"
    at = c.expression.axes.index(s.axis)
    return f"{axis_words(s.axis)} {s.before[at]} → {s.tile.shape[at]}"


def _describe_path(c: Construction, end: ConstructionStep) -> str:
    """Describe the path to a result."""
    parts: list[str] = []
    for s in c.path(end):
        if s.before is None:
            parts.append(f"{c.levels[s.level].name}: {tile_words(c.expression.axes, s.tile.shape)}")
        else:
            parts[-1] += f", {_change(c, s)}"
    return "; ".join(parts)


def sentence(r: StaircaseRow, score: str) -> str:
    """Describe a step: the enlarged axis and its score, the times, and the outcome."""
    unit = "operations a byte" if score == "artifact" else "bytes saved per byte of memory"
    eps = f", eps {r.eps:g}" if r.eps else ""
    why = f" (score {r.score:.3g} {unit})" if r.axis and r.change != "the first tile" else ""
    times = f"computing {time_text(r.compute_us)}, loading {time_text(r.memory_us)}"
    room = f"; {r.limit}" if r.limit else ""
    reason = f" ({r.reason})" if r.reason else ""
    return f"{r.level_name}{eps}, {r.change}{why}: {r.tile}; {times}{room}: {_verdict(r)}{reason}"


def _verdict(r: StaircaseRow) -> str:
    if r.rank >= 0:
        kind = "a border program" if r.verdict == "border" else "compute bound"
        return f"{kind}, result {r.rank + 1}"
    if r.verdict == "grown":
        return "memory bound, so it grows" if r.ratio >= 1 else "it grows"
    return r.verdict


def outcome(s: StaircaseRow) -> str:
    """Return the outcome of a tile's step."""
    if s.rank >= 0:
        return "result"
    if s.verdict.startswith(("does not fit", "eps")):
        return "does not fit"
    return "compute bound" if s.verdict.startswith("compute bound") else "grows on"


def states(rows: StaircaseRows, wide: float) -> list[StaircaseRow]:
    """Return the steps that fit: those that lead to results first, in order."""
    most = max(2, int((wide - AXIS) / STATE))
    ranked = sorted(rows.steps, key=lambda s: (not s.leads, s.number))[:most]
    return sorted(ranked, key=lambda s: s.number)


def construction(rows: StaircaseRows, wide: float, high: float) -> Iterator[str]:
    """Draw the used capacity of each tile above, and loading over computing time below."""
    steps = states(rows, wide)
    yield label(0, 16, "Staircase", "big")
    yield from _legend(steps, wide)
    if not steps:
        yield label(0, 92, "No tile was evaluated: no construction was needed.")
        return
    each = (wide - AXIS - 8) / len(steps)
    xs = {s.number: AXIS + each * (n + 0.5) for n, s in enumerate(steps)}
    top, foot = 92.0, high - 44
    both = foot - top > 170
    middle = top + (foot - top) * 0.62 if both else foot + 28
    yield from _levels(steps, xs, each, (top, foot))
    yield from _rooms(steps, xs, (top + 12, middle - 34), wide, rows)
    if both:
        yield from _times(steps, xs, each, (middle + 14, foot), wide)
    yield from _names(steps, xs, each, foot, wide)
    yield label(AXIS, high - 8, _axis_title(rows, steps, wide - AXIS), "q")


def _axis_title(rows: StaircaseRows, steps: Sequence[StaircaseRow], room: float) -> str:
    hidden = len(rows.steps) - len(steps)
    more = f"; {hidden} more in the table" if hidden else ""
    long = "tiles in the order of the search, by the axis that was enlarged"
    for title in (long + more, f"tiles, by the axis enlarged{more}", "tiles, by the axis enlarged"):
        if text_width(title, PX) <= room:
            return title
    return fit("tiles, by axis", room, PX)


def _legend(steps: Sequence[StaircaseRow], wide: float) -> Iterator[str]:
    """Draw the meaning of the marks that occur."""
    x, y = 0.0, 36.0
    drawn = {outcome(s) for s in steps}
    for kind in (k for k in KINDS if k in drawn):
        room = 22 + text_width(kind, PX) + 16
        if x and x + room > wide:
            x, y = 0.0, y + 18
        yield _mark(kind, x + 8, y - 4, "", accent=False)
        yield label(x + 22, y, kind)
        x += room


def _mark(kind: str, x: float, y: float, number: str, *, accent: bool) -> str:
    if kind == "does not fit":
        return cross(x, y, 4)
    if kind == "compute bound":
        return (
            f'<path d="M{x - 6:.1f} {y - 5:.1f}h12l-6 10z" fill="var(--pane)" stroke="var(--ink)" '
            'stroke-width="1.5"/>'
        )
    if kind == "grows on":
        return (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="var(--pane)" stroke="var(--ink2)" '
            'stroke-width="1.5"/>'
        )
    ink = "var(--accent)" if accent else "var(--ink)"
    half = 8.0 if number else 5.0
    edge = 'stroke="var(--pane)"'
    box = rect(x - half, y - half, 2 * half, 2 * half, ink, edge)
    return box + (label(x, y + 4.5, number, "inv w", anchor="middle") if number else "")


def _levels(
    steps: Sequence[StaircaseRow], xs: dict[int, float], each: float, span: tuple[float, float]
) -> Iterator[str]:
    """Draw a background behind every other run of one level, and the level's name."""
    top, foot = span
    runs = [(name, list(run)) for name, run in groupby(steps, key=lambda s: s.level_name)]
    named: set[str] = set()
    for n, (name, run) in enumerate(runs):
        left, right = xs[run[0].number] - each / 2, xs[run[-1].number] + each / 2
        if n % 2 == 0:
            yield rect(left, top - 16, right - left, foot - top + 16, "var(--app)")
        if name not in named and text_width(name, PX) + 6 < right - left:
            named.add(name)
            yield label(left + 4, top - 3, name, "w i")


def _rooms(
    steps: Sequence[StaircaseRow],
    xs: dict[int, float],
    span: tuple[float, float],
    wide: float,
    rows: StaircaseRows,
) -> Iterator[str]:
    top, foot = span
    least = min((s.share for s in steps if s.share > 0), default=1.0)
    low, high = log10(least / 1.6), log10(max(2.0, min(10.0, max(s.share for s in steps))))

    def y(share: float) -> float:
        at = (log10(max(share, least / 1.6)) - low) / (high - low)
        return foot - min(1.0, at) * (foot - top)

    yield label(0, top - 30, "share of the tightest limit", "q")
    before = foot + 40
    for power in (p for p in range(floor(high), ceil(low) - 1, -1)):
        share = 10.0**power
        if y(share) - before < 18 and before <= foot:
            continue
        before = y(share)
        yield path(f"M{AXIS} {y(share):.1f}H{wide:g}", "var(--line2)")
        yield label(AXIS - 6, y(share) + 4.5, _percent(share), "i", anchor="end")
    yield path(f"M{AXIS} {y(1):.1f}H{wide:g}", "var(--bad)", 'stroke-dasharray="6 4"')
    by = {s.number: s for s in rows.steps}
    path_numbers = {s.number for s in _path_to_result(by, steps, rows.on_show)}
    for ink in ("edge", "ink2", "accent"):
        for s in steps:
            mine = "accent" if s.number in path_numbers else "ink2" if s.leads else "edge"
            parent = by.get(s.parent)
            if mine != ink or parent is None or parent.number not in xs:
                continue
            line = f"M{xs[parent.number]:.1f} {y(parent.share):.1f}H{xs[s.number]:.1f}"
            extra = 'stroke-width="2"' if mine == "accent" else 'stroke-width="1.5"'
            extra += "" if s.leads else ' stroke-dasharray="2 3"'
            yield lit_by(path(f"{line}V{y(s.share):.1f}", f"var(--{ink})", extra), "way")
    for s in steps:
        kind, number = outcome(s), rows.number(s.rank) if s.rank >= 0 else ""
        on = number != "" and s.rank == rows.on_show
        mark = _mark(kind, xs[s.number], y(s.share), number, accent=on)
        title = f"<title>{_escaped(sentence(s, rows.score))}</title>"
        take = f'data-rank="{s.rank + rows.blocks}"' if number and not rows.own else ""
        yield lit_by(title + mark, f"state {kind.split()[0]}", take)


def _path_to_result(
    by: dict[int, StaircaseRow], steps: Sequence[StaircaseRow], chosen: int
) -> Iterator[StaircaseRow]:
    """Yield the states on the path to a result."""
    at = next((s for s in steps if s.rank == chosen >= 0), None)
    while at is not None:
        yield at
        at = by.get(at.parent)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def _times(
    steps: Sequence[StaircaseRow],
    xs: dict[int, float],
    each: float,
    span: tuple[float, float],
    wide: float,
) -> Iterator[str]:
    """Draw loading over computing time; the search leaves a level where it is below 1."""
    top, foot = span
    most = max(1.25, min(HIGHEST, max(s.ratio for s in steps)))

    def y(ratio: float) -> float:
        return foot - min(ratio, most) / most * (foot - top)

    yield label(0, top - 12, "loading time over computing time", "q")
    for s in steps:
        bound = s.ratio >= 1
        ink = "var(--ink2)" if bound else "var(--pane)"
        x, tall = xs[s.number] - each * 0.36, foot - y(s.ratio)
        tip = f"{s.tile}: loading takes {s.ratio:.2g} times as long as computing"
        bar = rect(x, foot - tall, each * 0.72, tall, ink, 'stroke="var(--ink2)"', title=tip)
        yield lit_by(bar, "memory" if bound else "compute")
    step = 1 if (foot - top) / most >= 18 else 4
    for ratio in (0, 1, 2, 3, 4):
        if ratio <= most and ratio % step == 0:
            yield label(AXIS - 6, y(ratio) + 4.5, f"{ratio}×" if ratio else "0", "i", anchor="end")
    yield path(f"M{AXIS} {y(1):.1f}H{wide:g}", "var(--bad)", 'stroke-dasharray="6 4"')
    yield path(f"M{AXIS} {foot:.1f}H{wide:g}", "var(--ink2)")


def _names(
    steps: Sequence[StaircaseRow], xs: dict[int, float], each: float, foot: float, wide: float
) -> Iterator[str]:
    """Draw the axis that was enlarged under each state, if it fits."""
    end = 0.0
    for s in steps:
        name = "start" if s.change == "the first tile" else s.axis
        half = text_width(name, PX) / 2
        x = min(xs[s.number], wide - half)
        if half * 2 > 3 * each and name != "start":
            continue
        if x - half > end + 2:
            yield label(x, foot + 17, name, "i", anchor="middle")
            end = x + half
