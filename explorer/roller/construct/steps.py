"""The record of a construction: every visited tile, and the verdict on it."""

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
    "eps breaks on axis",  # every aligned size of `axis` wastes too much
    "enough found",  # reached after the K-th result, not evaluated
]


@dataclass(frozen=True, slots=True)
class ConstructionStep:
    """One tile of a construction.

    `level` counts the construction's levels, 0 the farthest. `before` is the tile that it grew
    from, None at the first of a level, where `parent` (a step's number, -1 at the root) is the tile
    one level nearer. `axis` was enlarged because of its `score`, the best of those not yet taken.
    Times are of one unit for the full reduction; growth goes on while `memory_us` is above
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
    """One construction under one eps: the numbers of visited states, results and borders."""

    eps: float
    visited: int
    results: int
    borders: int


@dataclass(frozen=True, slots=True)
class Construction:
    """The programs of one operator for one device, best first, and their construction."""

    kernel: str
    device: str
    policy: Literal["compute bound", "memory bound"]
    score: Literal["paper", "artifact"]
    expression: Expression
    fused: tuple[tuple[str, ...], ...]
    levels: tuple[TileLevel, ...]
    steps: tuple[ConstructionStep, ...]
    rounds: tuple[Round, ...]
    results: tuple[TiledProgram, ...]

    @property
    def eps(self) -> float:
        """The waste that was allowed in the last round."""
        return self.rounds[-1].eps if self.rounds else 0.0

    @property
    def visited(self) -> int:
        """The number of states visited in all rounds."""
        return sum(r.visited for r in self.rounds)

    def path(self, step: ConstructionStep) -> tuple[ConstructionStep, ...]:
        """Return the steps from the unit tile to a step."""
        steps_back = [step]
        while steps_back[-1].parent >= 0:
            steps_back.append(self.steps[steps_back[-1].parent])
        return tuple(reversed(steps_back))
