"""Where each intermediate lies in the arena: bytes are shared only where the wall orders the uses.

Placement by size, each into the tightest gap that fits: "greedy by size" of Pisarchyk and Lee,
2020, "Efficient memory management for deep neural net inference". Relax (section 4.3) plans from
symbolic sizes; here a plan is made for each binding, and formulas are kept for the pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.decisions import BufferPlacement, MemoryPlan
from explorer.ir.program import Program
from explorer.ir.stage import Stage

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Options:
    """How the arena is planned. `share` False: every intermediate has bytes of its own."""

    share: bool = True


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """After: the program says how its arena is planned, for each binding of its symbols."""

    options: Options = Options()

    def __call__(self, program: Program) -> Program:
        """The program at stage PLANNED, with the options among its decisions."""
        decisions = replace(program.decisions, memory=self.options)
        return replace(program, stage=Stage.PLANNED, decisions=decisions)


@dataclass(frozen=True, slots=True)
class Buffer:
    """An intermediate: its bytes, and the positions in the timeline that write and that use it."""

    name: str
    bytes: int
    writes: tuple[int, ...]
    uses: tuple[int, ...]
    formula: str = ""
    origin: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Timeline:
    """What is ordered with what, by vector clocks: one row a position, one column a unit.

    Position p is over before q starts if its segment is earlier, or is the same and no unit's step
    in `last[p]` is above that in `known[q]`.
    """

    segment: np.ndarray
    last: np.ndarray
    known: np.ndarray

    def before(self, p: int, q: int) -> bool:
        """Whether p is over before q starts."""
        if self.segment[p] != self.segment[q]:
            return bool(self.segment[p] < self.segment[q])
        return bool((self.last[p] <= self.known[q]).all())


def plan(
    buffers: Sequence[Buffer], timeline: Timeline, options: Options | None = None
) -> MemoryPlan:
    """Offsets for all buffers; two overlap only if all uses of one are over before the other's
    writes start.
    """
    sizes = [_aligned(b.bytes) for b in buffers]
    order = sorted(range(len(buffers)), key=lambda n: (-sizes[n], buffers[n].writes[:1], n))
    if options is not None and not options.share:
        clash = np.ones((len(buffers), len(buffers)), bool)
    else:
        clash = conflicts(buffers, timeline)
    offsets = np.zeros(len(buffers), np.int64)
    ends = np.zeros(len(buffers), np.int64)
    placed = np.zeros(len(buffers), bool)
    for n in order:
        others = np.flatnonzero(clash[n] & placed)
        offsets[n] = tightest_gap(offsets[others], ends[others], sizes[n])
        ends[n] = offsets[n] + sizes[n]
        placed[n] = True
    rows = tuple(
        BufferPlacement(b.name, b.bytes, int(at), min(b.uses), max(b.uses), b.formula, "", b.origin)
        for b, at in zip(buffers, offsets)
    )
    return MemoryPlan(rows, int(ends.max(initial=0)), sum(sizes))


def conflicts(buffers: Sequence[Buffer], timeline: Timeline) -> np.ndarray:
    """Which pairs must not share bytes, as a symmetric table of bools."""
    if not buffers:
        return np.zeros((0, 0), bool)
    ends = [_last_uses(b, timeline) for b in buffers]
    begins = [_first_writes(b, timeline) for b in buffers]
    end_segment, last = np.array([s for s, _ in ends]), np.array([c for _, c in ends])
    begin_segment, known = np.array([s for s, _ in begins]), np.array([c for _, c in begins])
    over = np.zeros((len(buffers), len(buffers)), bool)  # [a, b]: a is over before b is written
    for n in range(len(buffers)):
        same = (end_segment[n] == begin_segment) & (last[n] <= known).all(axis=1)
        over[n] = (end_segment[n] < begin_segment) | same
    clash: np.ndarray = ~(over | over.T)
    return clash


def _last_uses(buffer: Buffer, timeline: Timeline) -> tuple[int, np.ndarray]:
    """The last segment with a use, and the step of each unit at which its uses there are over."""
    uses = np.array(buffer.uses)
    segment = timeline.segment[uses]
    final = segment.max()
    return int(final), timeline.last[uses[segment == final]].max(axis=0)


def _first_writes(buffer: Buffer, timeline: Timeline) -> tuple[int, np.ndarray]:
    """The first segment with a write, and the steps that are over before its writes there start."""
    writes = np.array(buffer.writes)
    segment = timeline.segment[writes]
    first = segment.min()
    return int(first), timeline.known[writes[segment == first]].min(axis=0)


def tightest_gap(starts: np.ndarray, ends: np.ndarray, size: int) -> int:
    """The offset of the smallest free gap between the intervals that fits, or behind them all."""
    if not len(starts):
        return 0
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    begins = np.concatenate(([0], reach[:-1]))
    room = starts - begins
    fits = np.flatnonzero(room >= size)
    if not len(fits):
        return int(reach[-1])
    return int(begins[fits[np.argmin(room[fits])]])


def _aligned(count: int) -> int:
    return -(-count // ALIGNMENT) * ALIGNMENT
