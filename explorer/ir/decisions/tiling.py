"""Roller's decision: the tile of a kernel at each memory level, or its thread blocks on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.shapes.dims import Dim


@dataclass(frozen=True, slots=True)
class Micro:
    """The register tile of a contraction: rows by vectors of `lanes` elements."""

    rows: int = 14
    vectors: int = 2
    lanes: int = 16

    @property
    def columns(self) -> int:
        """The number of elements in a row of the register tile."""
        return self.vectors * self.lanes

    @property
    def registers(self) -> int:
        """The number of vector registers: its sums, a row value, and a vector a column group.

        With one row each vector is used once, so that one register is enough for all of them.
        """
        columns = self.vectors if self.rows > 1 else 1
        return self.rows * self.vectors + columns + 1

    def over(self, columns: Dim) -> Micro:
        """Return the tile for a contraction with so many columns.

        Vectors past the columns become more rows, so that the number of sums stays.
        """
        if not isinstance(columns, int) or columns > (self.vectors - 1) * self.lanes:
            return self
        vectors = max(1, -(-columns // self.lanes))
        return Micro(self.rows * self.vectors // vectors, vectors, self.lanes)


@dataclass(frozen=True, slots=True)
class Tiling:
    """The tile of one task, sizes by output axis, and how contractions run inside.

    An axis without a size is not tiled. `pack`: copy a right operand that is not constant into
    panels. `depth_block`: products summed before the sums are stored.
    """

    tile: tuple[tuple[str, int], ...] = ()
    micro: Micro = Micro()
    pack: bool = False
    depth_block: int = 0

    def size(self, axis: str) -> int | None:
        """Return the tile's size along an axis, None if the axis is not tiled."""
        return next((n for a, n in self.tile if a == axis), None)


@dataclass(frozen=True, slots=True)
class Block:
    """The tile of a thread block of a GPU, with the tiles of nearer levels in it.

    `tile` has sizes by output axis as in `Tiling`. `register` has, for each axis of the heaviest
    compute, the elements that one of the `threads` holds in registers. `shared` has, for each
    reduced axis, the elements in shared memory at once. `parts` has, for a reduced axis, the
    number of threads that share each sum. `matrix` names the row, column and depth axes along
    which whole warps use matrix units; it is empty where each thread sums by itself.
    """

    tile: tuple[tuple[str, int], ...] = ()
    threads: int = 1
    register: tuple[tuple[str, int], ...] = ()
    shared: tuple[tuple[str, int], ...] = ()
    parts: tuple[tuple[str, int], ...] = ()
    matrix: tuple[str, ...] = ()

    def size(self, axis: str) -> int | None:
        """Return the tile's size along an axis of the output, None if the axis is not tiled."""
        return next((n for a, n in self.tile if a == axis), None)

    @property
    def words(self) -> str:
        """The tile and its division among threads: `i=32 j=16, 256 threads, 2x2 each`."""
        tile = " ".join(f"{a}={n}" for a, n in self.tile) or "whole"
        each = "x".join(str(n) for _, n in self.register if n > 1)
        phrases = [
            f"{tile}, {self.threads} threads",
            f"{each} each" if each else "",
            *(f"{n} of {a} at once" for a, n in self.shared),
            *(f"{n} to a sum" for _, n in self.parts if n > 1),
            "matrix units" if self.matrix else "",
        ]
        return ", ".join(filter(None, phrases))


Chosen: TypeAlias = Mapping[str, tuple[Block, ...]]
"""The thread blocks of kernel calls by name: one, but where runs of a call choose differently."""


@dataclass(frozen=True, slots=True)
class MeasuredTile:
    """A tiling that was timed alone on this machine, beside the prediction.

    `rank` 1 is the model's first choice.
    """

    rank: int
    tiling: Tiling
    predicted_us: float
    measured_us: float


@dataclass(frozen=True, slots=True)
class TilingDecision:
    """The candidates of one kernel, best first.

    The first is the choice, unless `pinned` was set by hand. `measured` are those that were timed,
    fastest first; they lead the candidates. `efficient` is the one that the wall may run instead
    where units are scarce.
    """

    binding: str
    chosen: Tiling
    candidates: tuple[Candidate[Tiling], ...]
    pinned: bool = False
    measured: tuple[MeasuredTile, ...] = ()
    efficient: Tiling | None = None


@dataclass(frozen=True, slots=True)
class BlockDecision:
    """The thread blocks of one kernel that a wall on the GPU may take, in the kernel's axis names.

    The one that finishes first alone leads. Those of `weighed` are for the hints: under other sizes
    others may be better. Those set by hand (`pinned`) or by a user's policy are used for all sizes.
    """

    binding: str
    chosen: Block
    candidates: tuple[Candidate[Block], ...]
    pinned: bool = False
    weighed: bool = True

    @property
    def allowed(self) -> tuple[Block, ...]:
        """The thread blocks that a wall may take."""
        legal = tuple(c.value for c in self.candidates if not c.refused)
        return (self.chosen,) if self.pinned else legal
