"""Where each intermediate lies in the arena: bytes are shared only where the wall orders the uses.

Placement by size, each into the tightest gap that fits: "greedy by size" of Pisarchyk and Lee,
2020, "Efficient memory management for deep neural net inference". That is the policy "arena", made
for each binding; the policy "storages" (`relax.storages`) is Relax's own, made once for a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from explorer.ir.decisions.memory_plan import BufferPlacement, MemoryPlan
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.passes.pipeline.ranges import PolicyOf, Switch, check, option
from explorer.relax.memory.own_choice import Choose

ALIGNMENT = 64
TABLE_BUFFERS = 2048  # whose pairs are judged at once: a bound on memory, 4 MB of bools; chosen
POLICIES = {  # what each does
    "arena": "placed anew for each binding",
    "storages": "planned once for a program",
}


@dataclass(frozen=True, slots=True)
class Options:
    """How memory is planned. `share` False: every intermediate has bytes of its own.

    For the policy "storages": `outputs` gives results storages of their own, from which they are
    copied out; `bounds` puts upper bounds in the place of symbols; `ordered` lets proofs of "at
    most" do where the paper asks for proofs of equality; `in_place` lets an elementwise kernel
    write over an input that dies in it. A function as policy plans once for a program too: it is
    asked which free storage a value takes (`own_choice.OwnPool`).
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
        check("memory", self)

    @property
    def by_storages(self) -> bool:
        """Whether values lie in storages that are planned once for a program."""
        return self.policy != "arena"


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """After: the program says how its memory is planned, for each binding of its symbols."""

    options: Options = Options()

    def __call__(self, program: Program) -> Program:
        """The program at stage PLANNED, with the options among its decisions."""
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


class Buffers:
    """The intermediates of a program, their positions in columns: the same for each binding."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.all = tuple(buffers)
        self.ends = tuple((min(b.uses), max(b.uses)) for b in self.all)
        self.uses, self.use_starts, self.used_by = _columns([b.uses for b in self.all])
        self.writes, self.write_starts, self.written_by = _columns([b.writes for b in self.all])

    def conflicts(self, timeline: Timeline) -> Callable[[int], np.ndarray]:
        """For each buffer the ones that must not share its bytes, as bools."""
        if not self.all:
            return lambda n: np.zeros(0, bool)
        ends, begins = self._last_uses(timeline), self._first_writes(timeline)
        if len(self.all) <= TABLE_BUFFERS:
            over = _is_over(ends[0][:, None], ends[1][:, None], *begins)  # [a, b]: a before b
            table: np.ndarray = ~(over | over.T)
            return lambda n: table[n]

        def row(n: int) -> np.ndarray:
            mine = _is_over(ends[0][n], ends[1][n], *begins)
            theirs = _is_over(*ends, begins[0][n], begins[1][n])
            clash: np.ndarray = ~(mine | theirs)
            return clash

        return row

    def _last_uses(self, timeline: Timeline) -> tuple[np.ndarray, np.ndarray]:
        """The last segment with a use, and the step of each unit at which its uses are over."""
        segment, last = timeline.segment[self.uses], timeline.last[self.uses]
        final = np.maximum.reduceat(segment, self.use_starts)
        last = np.where((segment == final[self.used_by])[:, None], last, 0)
        return final, np.maximum.reduceat(last, self.use_starts)

    def _first_writes(self, timeline: Timeline) -> tuple[np.ndarray, np.ndarray]:
        """The first segment with a write, and the steps over before its writes there start."""
        segment, known = timeline.segment[self.writes], timeline.known[self.writes]
        first = np.minimum.reduceat(segment, self.write_starts)
        known = np.where((segment == first[self.written_by])[:, None], known, np.int64(1 << 62))
        return first, np.minimum.reduceat(known, self.write_starts)


def _is_over(end: np.ndarray, last: np.ndarray, begin: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Whether what ends in segment `end`, at these steps, is over before what begins."""
    same = end == begin
    for unit in range(last.shape[-1]):
        same = same & (last[..., unit] <= known[..., unit])
    over: np.ndarray = same | (end < begin)
    return over


def _columns(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All rows behind each other, where each begins, and to which each entry belongs."""
    counts = [len(row) for row in rows]
    starts = list(accumulate(counts, initial=0))[:-1]
    flat = np.array([n for row in rows for n in row], np.int64)
    return flat, np.array(starts, np.int64), np.repeat(np.arange(len(rows)), counts)


def place(
    buffers: Buffers, sizes: Sequence[int], timeline: Timeline, share: bool = True
) -> tuple[list[int], int]:
    """An offset for each buffer of so many bytes, and the end of all; two overlap only if all uses
    of one are over before the other's writes start.
    """
    count = len(sizes)
    every = np.ones(count, bool)
    clash = buffers.conflicts(timeline) if share else lambda n: every
    whole = [aligned(size) for size in sizes]
    order = sorted(range(count), key=lambda n: (-whole[n], buffers.all[n].writes[:1], n))
    offsets = np.zeros(count, np.int64)
    ends = np.zeros(count, np.int64)
    placed = np.zeros(count, bool)
    for n in order:
        others = np.flatnonzero(clash(n) & placed)
        offsets[n] = tightest_gap(offsets[others], ends[others], whole[n])
        ends[n] = offsets[n] + whole[n]
        placed[n] = True
    return offsets.tolist(), int(ends.max(initial=0))


def rows(
    buffers: Buffers, sizes: Sequence[int], offsets: Sequence[int], planned: int
) -> MemoryPlan:
    """What was placed, to look at."""
    placed = tuple(
        BufferPlacement(b.name, size, at, *ends, b.formula, "", b.origin)
        for b, size, at, ends in zip(buffers.all, sizes, offsets, buffers.ends)
    )
    return MemoryPlan(placed, planned, sum(map(aligned, sizes)))


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


def aligned(count: int) -> int:
    """So many bytes and what follows until the next cache line."""
    return -(-count // ALIGNMENT) * ALIGNMENT
