"""Roller's construction as it went: each tile that was looked at, the axis that was enlarged and
why, and the times whose crossing ends a level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.roller.construct.steps import Construction, Step
from widgets.draw.table import time_text
from widgets.roller.rolled import Choice, Rolled, axis_words, tile_words

SKIPPED = "enough found"


@dataclass(frozen=True, slots=True)
class StepRow:
    """One tile of the construction. `share` is how much it takes of the tightest of its limits;
    `ratio` is loading over computing, both of one unit for the whole reduction. `rank` counts the
    results from 0, -1 for none; `leads` to one: it is on the way to a result.
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
        """Loading over computing; the level is left where it is below 1."""
        return self.memory_us / self.compute_us if self.compute_us > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class StaircaseRows:
    """A construction: the steps of the rounds that found something, and what came out."""

    kernel: str
    device: str
    own: bool
    policy: str
    score: str
    axes: tuple[str, ...]
    fused: tuple[tuple[str, ...], ...]
    levels: tuple[str, ...]
    steps: tuple[StepRow, ...]
    skipped: int
    rounds: tuple[tuple[float, int, int], ...]
    ways: tuple[str, ...]
    choices: tuple[Choice, ...]
    rank: int
    built: int  # results of the construction; `choices` may be others, weighed by the whole model
    ops: tuple[str, ...]

    @property
    def way(self) -> tuple[int, str]:
        """A result of the construction, from 1, and how it was found: the one on show, else the
        first; of a tile that was weighed by the whole model too.
        """
        number = max(0, self.on_show)
        return number + 1, self.ways[number] if number < len(self.ways) else ""

    @property
    def blocks(self) -> int:
        """How many of the choices, the first ones, are thread blocks and no results."""
        return sum(c.block is not None for c in self.choices)

    @property
    def on_show(self) -> int:
        """The result that is the tile on show, from 0; -1 where that is none of them."""
        return -1 if self.own or self.rank < self.blocks else self.rank - self.blocks

    def number(self, rank: int) -> str:
        """What a result is called: by its place among the choices, a letter where it is none."""
        return chr(ord("a") + rank % 26) if self.own else str(rank + self.blocks + 1)

    @property
    def visited(self) -> int:
        """States of all rounds."""
        return sum(states for _, states, _ in self.rounds)


def data(rolled: Rolled) -> StaircaseRows:
    """The construction of one kernel on one device."""
    c = rolled.construction
    told = {r.eps for r in c.rounds if r.found} or {c.rounds[-1].eps if c.rounds else 0.0}
    looked = [s for s in c.steps if s.eps in told]
    ends = _ends(c, looked)
    leading = {p.number for s in looked if s.number in ends for p in c.path(s)}
    shown = tuple(
        _row(c, s, ends.get(s.number, -1), s.number in leading)
        for s in looked
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
        len(looked) - len(shown),
        tuple((r.eps, r.visited, r.found) for r in c.rounds),
        tuple(_way(c, first[n]) if n in first else "" for n in range(len(c.results))),
        rolled.choices,
        rolled.rank,
        len(c.results),
        rolled.ops,
    )


def _shapes(tiles: tuple[object, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(t.shape for t in tiles[:-1])  # type: ignore[attr-defined]


def _ends(c: Construction, steps: Sequence[Step]) -> dict[int, int]:
    """The rank of the result that a step ends in; each once, where it was found first."""
    ranks: dict[tuple[tuple[int, ...], ...], int] = {}
    for rank, p in enumerate(c.results):
        ranks.setdefault(_shapes(p.shrunk_from or p.tiles), rank)
    found: dict[int, int] = {}
    for s in steps:
        rank = ranks.pop(_ending(c, s), -1)
        if rank >= 0:
            found[s.number] = rank
    return found


def _ending(c: Construction, s: Step) -> tuple[tuple[int, ...], ...]:
    """The tiles of all levels at a step of the farthest level, farthest first; () elsewhere."""
    if s.level or s.verdict not in ("result", "border"):
        return ()
    last = {p.level: p.tile.shape for p in c.path(s)}
    return tuple(last[level] for level in sorted(last))


def _row(c: Construction, s: Step, rank: int, leads: bool) -> StepRow:
    tightest = max(s.rooms, key=lambda r: r.used / max(1, r.capacity), default=None)
    limit = f"{tightest.used:,} of {tightest.capacity:,} {tightest.limit}" if tightest else ""
    share = tightest.used / max(1, tightest.capacity) if tightest else 0.0
    return StepRow(
        s.number, s.parent, s.eps, s.level, c.levels[s.level].name,
        tile_words(c.expression.axes, s.tile.shape), _change(c, s), axis_words(s.axis), s.score,
        s.compute_us, s.memory_us, limit, share, s.verdict, s.reason, rank, leads,
    )  # fmt: skip


def _change(c: Construction, s: Step) -> str:
    if s.before is None or not s.axis:
        return "the first tile"
    at = c.expression.axes.index(s.axis)
    return f"{axis_words(s.axis)} {s.before[at]} → {s.tile.shape[at]}"


def _way(c: Construction, end: Step) -> str:
    """The path to a result in words."""
    parts: list[str] = []
    for s in c.path(end):
        if s.before is None:
            parts.append(f"{c.levels[s.level].name}: {tile_words(c.expression.axes, s.tile.shape)}")
        else:
            parts[-1] += f", {_change(c, s)}"
    return "; ".join(parts)


def sentence(r: StepRow, score: str) -> str:
    """A step in words: what was enlarged and why, what it costs, and what followed."""
    unit = "operations a byte" if score == "artifact" else "bytes saved a byte of memory"
    eps = f", eps {r.eps:g}" if r.eps else ""
    why = f" (score {r.score:.3g} {unit})" if r.axis and r.change != "the first tile" else ""
    times = f"computing {time_text(r.compute_us)}, loading {time_text(r.memory_us)}"
    room = f"; {r.limit}" if r.limit else ""
    reason = f" ({r.reason})" if r.reason else ""
    return f"{r.level_name}{eps}, {r.change}{why}: {r.tile}; {times}{room}: {_verdict(r)}{reason}"


def _verdict(r: StepRow) -> str:
    if r.rank >= 0:
        kind = "a border program" if r.verdict == "border" else "compute bound"
        return f"{kind}, result {r.rank + 1}"
    if r.verdict == "grown":
        return "memory bound, so it grows" if r.ratio >= 1 else "it grows"
    return r.verdict
