"""What a construction leaves behind: every tile that it looked at, and why it went on as it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from explorer.roller.construct.expression import Expression
from explorer.roller.construct.levels import Room, TileLevel
from explorer.roller.construct.rtile import RTile, TiledProgram

Verdict = Literal[
    "grown",  # memory bound, or not aligned to the execution unit: one axis is enlarged
    "compute bound: one level down",
    "does not fit",
    "does not fit: the last one goes one level down",
    "border",  # the last that fits along an axis, aligned to the execution unit
    "result",
    "eps breaks on axis",  # no aligned size of `axis` wastes little enough
    "enough found",  # reached after the K-th result, not looked at
]


@dataclass(frozen=True, slots=True)
class Step:
    """One tile of a construction.

    `level` counts the construction's levels, 0 the farthest; `before` is the tile that it grew
    from, None at the first of a level, where `parent` (a step's number, -1 at the root) is the tile
    one level nearer. `axis` was enlarged, for its `score`, which was the best of those not yet
    taken. Times are of one unit for the whole reduction; growth goes on while `memory_us` is above
    `compute_us`.
    """

    number: int
    parent: int
    eps: float
    level: int
    before: tuple[int, ...] | None
    tile: RTile
    axis: str
    score: float
    compute_us: float
    memory_us: float
    rooms: tuple[Room, ...]
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """One construction under one eps: how many states it visited and how many results it had."""

    eps: float
    visited: int
    found: int
    borders: int


@dataclass(frozen=True, slots=True)
class Construction:
    """The programs of one operator for one device, best first, and how they came about."""

    kernel: str
    device: str
    policy: Literal["compute bound", "memory bound"]
    score: Literal["paper", "artifact"]
    expression: Expression
    fused: tuple[tuple[str, ...], ...]
    levels: tuple[TileLevel, ...]
    steps: tuple[Step, ...]
    rounds: tuple[Round, ...]
    results: tuple[TiledProgram, ...]

    @property
    def eps(self) -> float:
        """The waste that was allowed in the end."""
        return self.rounds[-1].eps if self.rounds else 0.0

    @property
    def visited(self) -> int:
        """States that were looked at, in all rounds."""
        return sum(r.visited for r in self.rounds)

    def path(self, step: Step) -> tuple[Step, ...]:
        """The steps that lead to one, from the unit tile."""
        found = [step]
        while found[-1].parent >= 0:
            found.append(self.steps[found[-1].parent])
        return tuple(reversed(found))
