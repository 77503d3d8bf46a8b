"""Vectorised loop nests as data: what is read, computed, stored and reduced at every point.

Orders. "along": the vectors lie along the reduced axis, in several accumulators, whose lanes are
reduced at the end; or along a row that is only mapped. "across": they lie across it, and a block of
results stays in registers for the whole reduction. "rows": across as well, but the results lie in
memory, and several rows are reduced at a time. "turned": a map with operands that are dense along
the loop before the vectors' one: square blocks of them are transposed in registers. "scan": running
reductions.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operand:
    """An array element that is read or written: `first` elements after address number `base`.

    If `dtype` is "" it is that number itself. `steps` are the elements that one trip of each loop
    moves by, the vectors' loop last; None: the distance is passed.
    """

    dtype: str
    steps: tuple[int | None, ...]
    base: int = 0
    first: int = 0
    turned: bool = False  # dense along the loop before the vectors'
    ahead: int = 0  # prefetch distance in bytes, to the next row


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a nest.

    `op` is "load" or "index" (of the operand `args[0]`), "const" (`value`), or a function of the
    nodes `args`, the first of which has type `dtype`.
    """

    op: str
    dtype: str
    args: tuple[int, ...] = ()
    value: str = ""
    varies: bool = True


@dataclass(frozen=True, slots=True)
class Stored:
    """A store of a node's value to an operand at every point.

    `past`: non-temporal, if the address is aligned.
    """

    operand: int
    node: int
    past: bool = False


@dataclass(frozen=True, slots=True)
class Reduced:
    """A reduction of a node's values to an operand."""

    operand: int
    node: int
    combiner: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops with `counts` trips, the one over vectors last; None: the count is passed.

    `lanes` is a power of two; `unroll` may be any number.
    """

    order: str
    lanes: int
    unroll: int
    counts: tuple[int | None, ...]
    bases: int
    operands: tuple[Operand, ...]
    nodes: tuple[Node, ...]
    stores: tuple[Stored, ...]
    reductions: tuple[Reduced, ...]

    @property
    def arguments(self) -> int:
        """The number of integers passed: addresses, then counts, then steps."""
        steps = sum(o.steps.count(None) for o in self.operands)
        return self.bases + self.counts.count(None) + steps
