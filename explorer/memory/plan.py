"""Offsets of intermediates in the arena; bytes are shared only if the wall orders the uses.

Placement by size, each into the tightest gap that fits: "greedy by size" of Pisarchyk and Lee,
2020, "Efficient memory management for deep neural net inference". That is the policy "arena", made
for each binding; the policy "storages" (`storages`) is Relax's own, made once for a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from explorer.ir.decisions.memory_plan import BufferPlacement, MemoryPlan
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.memory.storage_pool import Choose
from explorer.passes.ranges import PolicyOf, Switch, check, option

ALIGNMENT = 64
TABLE_BUFFERS = 2048  # compared at once: a bound on memory, 4 MB of bools; chosen
POLICIES = {  # with a description
    "arena": "placed for each binding",
    "storages": "planned once for a program",
}


@dataclass(frozen=True, slots=True)
class Options:
    """Options of memory planning; `share` False gives every intermediate bytes of its own.

    For the policy "storages": `outputs` gives results storages of their own, from which they are
    copied out; `bounds` replaces symbols by their upper bounds; `ordered` accepts proofs of "at
    most" where the paper asks for proofs of equality; `in_place` lets an elementwise kernel
    write over an input that dies in it. A function as policy plans once for a program too: it
    chooses the free storage that a value takes (`policy_pool.PolicyPool`).
    """

    policy: str | Choose = option("arena", PolicyOf("memory", POLICIES), "how memory is planned")
    share: bool = option(True, Switch(), "values that do not live at once share bytes")
    outputs: bool = option(False, Switch(), "results have buffers of their own (reuse by size)")
    bounds: bool = option(True, Switch(), "upper bounds in the place of symbols (reuse by size)")
    ordered: bool = option(False, Switch(), 'proofs of "at most" do (reuse by size)')
    in_place: bool = option(
        False, Switch(), "elementwise kernels may write over an input (reuse by size)"
    )

    def __post_init__(self) -> None:
        """Check the values."""
        check("memory", self)

    @property
    def by_storages(self) -> bool:
        """Return True if storages are planned once for a program."""
        return self.policy != "arena"


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """The stage that fixes how memory is planned.

    After: the program holds the options by which its memory is planned for each binding.
    """

    options: Options = Options()

    def __call__(self, program: Program) -> Program:
        """Return the program at stage PLANNED, with the options among its decisions."""
        decisions = replace(program.decisions, memory=self.options)
        return replace(program, stage=Stage.PLANNED, decisions=decisions)


@dataclass(frozen=True, slots=True)
class Buffer:
    """An intermediate: the positions in the timeline that write it and that use it."""

    name: str
    writes: tuple[int, ...]
    uses: tuple[int, ...]
    formula: str = ""
    origin: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Timeline:
    """The order of positions, by vector clocks: one row a position, one column a unit.

    Position p is over before q starts if its segment is earlier, or is the same and no unit's step
    in `last[p]` is above that in `completed[q]`.
    """

    segment: np.ndarray
    last: np.ndarray
    completed: np.ndarray

    def before(self, p: int, q: int) -> bool:
        """Return True if p is over before q starts."""
        if self.segment[p] != self.segment[q]:
            return bool(self.segment[p] < self.segment[q])
        return bool((self.last[p] <= self.completed[q]).all())


class Buffers:
    """The intermediates of a program, their positions in columns: the same for each binding."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        """Lay out the positions of all buffers in columns."""
        self.all = tuple(buffers)
        self.ends = tuple((min(b.uses), max(b.uses)) for b in self.all)
        self.uses, self.use_starts, self.used_by = _columns([b.uses for b in self.all])
        self.writes, self.write_starts, self.written_by = _columns([b.writes for b in self.all])

    def conflicts(self, timeline: Timeline) -> Callable[[int], np.ndarray]:
        """Return for each buffer the ones that must not share its bytes, as bools."""
        if not self.all:
            return lambda n: np.zeros(0, bool)
        ends, begins = self._last_uses(timeline), self._first_writes(timeline)
        if len(self.all) <= TABLE_BUFFERS:
            over = _is_over(ends[0][:, None], ends[1][:, None], *begins)  # [a, b]: a before b
            table: np.ndarray = ~(over | over.T)
            return lambda n: table[n]

        def row(n: int) -> np.ndarray:
            ends_before = _is_over(ends[0][n], ends[1][n], *begins)
            begins_after = _is_over(*ends, begins[0][n], begins[1][n])
            clash: np.ndarray = ~(ends_before | begins_after)
            return clash

        return row

    def _last_uses(self, timeline: Timeline) -> tuple[np.ndarray, np.ndarray]:
        """Return the last segment with a use, and each unit's step at which the uses are over."""
        segment, last = timeline.segment[self.uses], timeline.last[self.uses]
        final = np.maximum.reduceat(segment, self.use_starts)
        last = np.where((segment == final[self.used_by])[:, None], last, 0)
        return final, np.maximum.reduceat(last, self.use_starts)

    def _first_writes(self, timeline: Timeline) -> tuple[np.ndarray, np.ndarray]:
        """Return the first segment with a write, and the steps over before its writes start."""
        segment, completed = timeline.segment[self.writes], timeline.completed[self.writes]
        first = np.minimum.reduceat(segment, self.write_starts)
        completed = np.where(
            (segment == first[self.written_by])[:, None], completed, np.int64(1 << 62)
        )
        return first, np.minimum.reduceat(completed, self.write_starts)


def _is_over(
    end: np.ndarray, last: np.ndarray, begin: np.ndarray, completed: np.ndarray
) -> np.ndarray:
    """Return True where uses that end in segment `end`, at these steps, precede what begins."""
    same = end == begin
    for unit in range(last.shape[-1]):
        same = same & (last[..., unit] <= completed[..., unit])
    over: np.ndarray = same | (end < begin)
    return over


def _columns(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Concatenate all rows; return them, where each begins, and the row of each entry."""
    counts = [len(row) for row in rows]
    starts = list(accumulate(counts, initial=0))[:-1]
    flat = np.array([n for row in rows for n in row], np.int64)
    return flat, np.array(starts, np.int64), np.repeat(np.arange(len(rows)), counts)


def place(
    buffers: Buffers, sizes: Sequence[int], timeline: Timeline, share: bool = True
) -> tuple[list[int], int]:
    """Return an offset for each buffer of so many bytes, and the end of all.

    Two overlap only if all uses of one are over before the other's writes start.
    """
    count = len(sizes)
    every = np.ones(count, bool)
    clash = buffers.conflicts(timeline) if share else lambda n: every
    padded_sizes = [aligned(size) for size in sizes]
    order = sorted(range(count), key=lambda n: (-padded_sizes[n], buffers.all[n].writes[:1], n))
    offsets = np.zeros(count, np.int64)
    ends = np.zeros(count, np.int64)
    placed = np.zeros(count, bool)
    for n in order:
        others = np.flatnonzero(clash(n) & placed)
        offsets[n] = tightest_gap(offsets[others], ends[others], padded_sizes[n])
        ends[n] = offsets[n] + padded_sizes[n]
        placed[n] = True
    return offsets.tolist(), int(ends.max(initial=0))


def rows(
    buffers: Buffers, sizes: Sequence[int], offsets: Sequence[int], planned: int
) -> MemoryPlan:
    """Return the placement as a plan to look at."""
    placed = tuple(
        BufferPlacement(b.name, size, at, *ends, b.formula, "", b.origin)
        for b, size, at, ends in zip(buffers.all, sizes, offsets, buffers.ends)
    )
    return MemoryPlan(placed, planned, sum(map(aligned, sizes)))


def tightest_gap(starts: np.ndarray, ends: np.ndarray, size: int) -> int:
    """Return the offset of the smallest free gap that fits, or the end of the intervals."""
    if not len(starts):
        return 0
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    begins = np.concatenate(([0], reach[:-1]))
    gaps = starts - begins
    fits = np.flatnonzero(gaps >= size)
    if not len(fits):
        return int(reach[-1])
    return int(begins[fits[np.argmin(gaps[fits])]])


def aligned(count: int) -> int:
    """Round bytes up to a whole cache line."""
    return -(-count // ALIGNMENT) * ALIGNMENT
