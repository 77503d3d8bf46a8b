"""Roller's decision: the tile of a kernel at each memory level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.dims import Dim


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


AxisSizes: TypeAlias = tuple[tuple[str, int], ...]  # elements by axis


@dataclass(frozen=True, slots=True)
class Tiling:
    """The tile of one task at each memory level, in elements by axis.

    `tile` has the sizes of what a task computes, by output axis. An axis without a size is not
    tiled.

    A task on one core runs its contractions in the register tile `micro`. `pack`: copy a right
    operand that is not constant into panels. `depth_block`: products summed before the sums are
    stored.

    A task that is a thread block has `threads`, 1 or more; 0 stands for a task on one core.
    `register` has, for each axis of the heaviest compute, the elements that one thread holds in
    registers. `shared` has, for each reduced axis, the elements in shared memory at once. `parts`
    has, for a reduced axis, the number of threads that share each sum. `matrix` names the row,
    column and depth axes along which whole warps use matrix units; it is empty where each thread
    sums by itself.
    """

    tile: AxisSizes = ()
    micro: Micro = Micro()
    pack: bool = False
    depth_block: int = 0
    threads: int = 0
    register: AxisSizes = ()
    shared: AxisSizes = ()
    parts: AxisSizes = ()
    matrix: tuple[str, ...] = ()

    def size(self, axis: str) -> int | None:
        """Return the tile's size along an axis of the output, None if the axis is not tiled."""
        return next((n for a, n in self.tile if a == axis), None)

    @property
    def is_thread_block(self) -> bool:
        """True if threads share the tile, False if one core computes it."""
        return self.threads > 0

    @property
    def axes(self) -> frozenset[str]:
        """Every axis that it names."""
        sizes = (*self.tile, *self.register, *self.shared, *self.parts)
        return frozenset((*(a for a, _ in sizes), *self.matrix))

    @property
    def words(self) -> str:
        """The tile and its division: `i=8, registers 14x32`, `i=32, 256 threads, 2x2 each`."""
        tile = " ".join(f"{a}={n}" for a, n in self.tile) or "whole"
        if not self.is_thread_block:
            return f"{tile}, registers {self.micro.rows}x{self.micro.columns}"
        each = "x".join(str(n) for _, n in self.register if n > 1)
        phrases = [
            f"{tile}, {self.threads} threads",
            f"{each} each" if each else "",
            *(f"{n} of {a} at once" for a, n in self.shared),
            *(f"{n} to a sum" for _, n in self.parts if n > 1),
            "matrix units" if self.matrix else "",
        ]
        return ", ".join(filter(None, phrases))


def thread_block(
    tile: AxisSizes = (),
    threads: int = 1,
    register: AxisSizes = (),
    shared: AxisSizes = (),
    parts: AxisSizes = (),
    matrix: tuple[str, ...] = (),
) -> Tiling:
    """Return the tiling of a task that is a thread block; fields as in `Tiling`."""
    return Tiling(
        tile, threads=threads, register=register, shared=shared, parts=parts, matrix=matrix
    )


Chosen: TypeAlias = Mapping[str, tuple[Tiling, ...]]
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

    Thread blocks are those that a wall may take, and the one that finishes first alone leads.
    Those that were `weighed` are for the hints: under other sizes others may be better. Those set
    by hand or by a user's policy are used for all sizes.
    """

    binding: str
    chosen: Tiling
    candidates: tuple[Candidate[Tiling], ...]
    pinned: bool = False
    measured: tuple[MeasuredTile, ...] = ()
    efficient: Tiling | None = None
    weighed: bool = True

    @property
    def allowed(self) -> tuple[Tiling, ...]:
        """The thread blocks that a wall may take."""
        legal = tuple(c.value for c in self.candidates if not c.refused)
        return (self.chosen,) if self.pinned else legal
