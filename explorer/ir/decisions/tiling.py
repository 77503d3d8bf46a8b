"""What Roller decided: the tile of each kernel, and of each memory level in it; on a GPU its thread
blocks.
"""

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
        """Elements in a row of the register tile."""
        return self.vectors * self.lanes

    @property
    def registers(self) -> int:
        """Vector registers that it needs: its sums, a row value, and a vector a column group; of
        one row alone each vector is used once, so that one is enough for all.
        """
        columns = self.vectors if self.rows > 1 else 1
        return self.rows * self.vectors + columns + 1

    def over(self, columns: Dim) -> Micro:
        """The tile of a contraction with so many columns: no vector lies past them, and as many
        sums are kept, in more rows.
        """
        if not isinstance(columns, int) or columns > (self.vectors - 1) * self.lanes:
            return self
        vectors = max(1, -(-columns // self.lanes))
        return Micro(self.rows * self.vectors // vectors, vectors, self.lanes)


@dataclass(frozen=True, slots=True)
class Tiling:
    """The tile of one task: sizes by output axis (an axis not named is not cut), and how
    contractions run inside.

    `pack`: copy a right operand that is no constant into panels. `depth_block`: products summed
    before the sums rest.
    """

    tile: tuple[tuple[str, int], ...] = ()
    micro: Micro = Micro()
    pack: bool = False
    depth_block: int = 0

    def size(self, axis: str) -> int | None:
        """The tile's size along an axis, None if it is not cut."""
        return next((n for a, n in self.tile if a == axis), None)


@dataclass(frozen=True, slots=True)
class Block:
    """The tile of a thread block of a GPU, sizes by output axis as in `Tiling`, and the tiles of
    nearer levels in it.

    `register`: elements along each axis of the heaviest compute that one of the `threads` has in
    registers; `shared`: of each axis that it reduces, how many shared memory holds at once;
    `parts`: along an axis that it reduces, how many threads share each sum. `matrix`: the axes of
    rows, of columns and of what is summed along which whole warps multiply pieces of matrices; none
    where each thread sums by itself.
    """

    tile: tuple[tuple[str, int], ...] = ()
    threads: int = 1
    register: tuple[tuple[str, int], ...] = ()
    shared: tuple[tuple[str, int], ...] = ()
    parts: tuple[tuple[str, int], ...] = ()
    matrix: tuple[str, ...] = ()

    def size(self, axis: str) -> int | None:
        """The tile's size along an axis of the output, None if it is not cut."""
        return next((n for a, n in self.tile if a == axis), None)

    @property
    def words(self) -> str:
        """The part of the output, and how threads share it: `i=32 j=16, 256 threads, 2x2 each`."""
        tile = " ".join(f"{a}={n}" for a, n in self.tile) or "whole"
        each = "x".join(str(n) for _, n in self.register if n > 1)
        told = [
            f"{tile}, {self.threads} threads",
            f"{each} each" if each else "",
            *(f"{n} of {a} at once" for a, n in self.shared),
            *(f"{n} to a sum" for _, n in self.parts if n > 1),
            "matrix units" if self.matrix else "",
        ]
        return ", ".join(filter(None, told))


Chosen: TypeAlias = Mapping[str, tuple[Block, ...]]
"""The thread blocks of kernel calls by name: one, but where runs of a call choose differently."""


@dataclass(frozen=True, slots=True)
class MeasuredTile:
    """A tiling that was timed alone on this machine, beside what the model had said; `rank` 1 is
    the model's first.
    """

    rank: int
    tiling: Tiling
    predicted_us: float
    measured_us: float


@dataclass(frozen=True, slots=True)
class TilingDecision:
    """The candidates of one kernel, best first; the first is the one taken, unless `pinned` was set
    by hand. `measured` are those that were timed, fastest first; they lead the candidates.
    `efficient` is the one that the wall may run instead, where units are short.
    """

    binding: str
    chosen: Tiling
    candidates: tuple[Candidate[Tiling], ...]
    pinned: bool = False
    measured: tuple[MeasuredTile, ...] = ()
    efficient: Tiling | None = None


@dataclass(frozen=True, slots=True)
class BlockDecision:
    """The thread blocks of one kernel that a wall on the GPU may take, the one that is done first
    alone in front, in the names of the kernel's axes. Those of `weighed` are for the hints: under
    other sizes others may be better. Those set by hand (`pinned`) or by a policy of the user's own
    are taken under all.
    """

    binding: str
    chosen: Block
    candidates: tuple[Candidate[Block], ...]
    pinned: bool = False
    weighed: bool = True

    @property
    def allowed(self) -> tuple[Block, ...]:
        """What a wall may take."""
        legal = tuple(c.value for c in self.candidates if not c.refused)
        return (self.chosen,) if self.pinned else legal
