"""Roller's construction step by step: each visited tile, the enlarged axis, and the times.

A level ends where loading becomes faster than computing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.roller.construct.steps import Construction, ConstructionStep
from widgets.draw.table import time_text
from widgets.roller.tiled_kernel import TileChoice, TiledKernel, axis_words, tile_words

SKIPPED = "enough found"


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
