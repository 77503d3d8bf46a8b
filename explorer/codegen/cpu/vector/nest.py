"""Loops over vectors as data: what is read, computed, stored and reduced at every point.

Orders. "along": the vectors lie along what is reduced, in several accumulators, whose lanes are
reduced at the end; or along a row that is only mapped. "across": they lie across, and a block of
results stays in registers for the whole reduction. "rows": across as well, but the results lie in
memory, and several rows are reduced at a time. "turned": mapped, where some operands are dense
along the loop before the vectors': square blocks of them change their axes in registers. "scan":
running reductions.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operand:
    """What is read or written: element `first` after the address number `base`, or where `dtype`
    is "" that number itself.

    `steps`: how far one turn of each loop goes, in elements, the vectors' loop last; None: the
    distance is passed.
    """

    dtype: str
    steps: tuple[int | None, ...]
    base: int = 0
    first: int = 0
    turned: bool = False  # dense along the loop before the vectors'
    ahead: int = 0  # bytes from what is read to what will be read after this row


@dataclass(frozen=True, slots=True)
class Node:
    """One value: `op` is "load" or "index" (of the operand `args[0]`), "const" (`value`), or a
    function of the nodes `args`, whose first is a `dtype`.
    """

    op: str
    dtype: str
    args: tuple[int, ...] = ()
    value: str = ""
    varies: bool = True


@dataclass(frozen=True, slots=True)
class Stored:
    """A node's value goes to an operand at every point; `past` the caches where it is aligned."""

    operand: int
    node: int
    past: bool = False


@dataclass(frozen=True, slots=True)
class Reduced:
    """A node's values are reduced, and the result goes to an operand."""

    operand: int
    node: int
    combiner: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops with `counts` turns, the one over vectors last; None: the count is passed. `lanes` is a
    power of two; `unroll` may be any number.
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
        """How many numbers are passed: addresses, then counts, then steps."""
        steps = sum(o.steps.count(None) for o in self.operands)
        return self.bases + self.counts.count(None) + steps
