"""Steps of a function by topological level, with and without recomputed values.

A run says when each step runs and how many bytes are live then. Levels are those of Rammer's waves,
so a recomputed value counts at the level where it will run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class BindingStep:
    """A binding with its dependences, bytes and time.

    `needs` are the steps that must run before it, `reads` the steps whose memory it reads; `bytes`
    is its result in memory of its own, which readers of a view of it read too. A view takes no
    time. `repeats` is True if it may be recomputed.
    """

    name: str
    needs: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()
    bytes: int = 0
    us: float = 0.0
    is_view: bool = False
    repeats: bool = True


@dataclass(frozen=True, slots=True)
class Copy:
    """A recomputed step, `after` another one, right before its first late `reader`."""

    place: int
    after: int
    reader: int


@dataclass(frozen=True, slots=True)
class RunCost:
    """The `live` bytes by level, and the time, of a run."""

    live: tuple[int, ...]
    us: float

    @property
    def peak_bytes(self) -> int:
        """The most bytes at once."""
        return max(self.live, default=0)


class Steps:
    """The steps of a function.

    `peak_level` is the level with the most live bytes. A value made before it and read after it
    could be recomputed.
    """

    def __init__(self, steps: Sequence[BindingStep]) -> None:
        """Compute the level and the readers of each step, and the peak level."""
        self.all = tuple(steps)
        self.level: list[int] = []
        for step in self.all:
            before = max((self.level[n] for n in step.needs), default=0)
            self.level.append(before + (not step.is_view))
        self.readers: list[list[int]] = [[] for _ in self.all]
        for n, step in enumerate(self.all):
            for read in step.reads:
                self.readers[read].append(n)
        self.peak_level = 0
        self.plain = self.run(())
        self.peak_level = self.plain.live.index(self.plain.peak_bytes) if self.plain.live else 0
        self.late = [n for n, level in enumerate(self.level) if level > self.peak_level]

    def is_early(self, place: int) -> bool:
        """Return True if a step ends before the peak."""
        return self.level[place] < self.peak_level

    @property
    def saved(self) -> list[int]:
        """The steps before the peak whose results are read after it."""
        return [
            n
            for n, step in enumerate(self.all)
            if step.bytes and self.is_early(n) and self.read_late(n)
        ]

    def read_late(self, place: int) -> bool:
        """Return True if a step after the peak reads it."""
        return any(self.level[r] > self.peak_level for r in self.readers[place])

    def copies(self, stored: Collection[int]) -> list[Copy]:
        """Return the recomputed steps in an order that they can run in.

        Of the steps before the peak, only those in `stored` store their results.
        """
        recomputed = self._repeated(stored)
        first_readers: dict[int, int] = {}  # by step, its first late reader

        def want(place: int, reader: int) -> None:
            for needed in self.all[place].needs:
                if recomputed[needed]:
                    earliest = first_readers.get(needed, reader)
                    first_readers[needed] = min(earliest, reader, key=self._when)

        for n in self.late:
            want(n, n)
        for n in range(len(self.all) - 1, -1, -1):
            if n in first_readers:
                want(n, first_readers[n])
        return [
            Copy(n, self._latest_stored_operand(reader, recomputed), reader)
            for n, reader in sorted(first_readers.items())
        ]

    def _repeated(self, stored: Collection[int]) -> list[bool]:
        """Return for each step whether it is recomputed."""
        recomputed: list[bool] = []
        for n, step in enumerate(self.all):
            if step.is_view:
                recomputed.append(step.repeats and any(recomputed[m] for m in step.needs))
            else:
                recomputed.append(step.repeats and self.is_early(n) and n not in stored)
        return recomputed

    def _when(self, place: int) -> tuple[int, int]:
        return self.level[place], place

    def _latest_stored_operand(self, reader: int, recomputed: Sequence[bool]) -> int:
        """Return the latest of a reader's stored operands: the adjoint."""
        others = [n for n in self.all[reader].needs if not recomputed[n]]
        return max(others, key=self._when, default=-1)

    def run(self, copies: Sequence[Copy]) -> RunCost:
        """Return the run with these copies, each as early as possible."""
        copy_numbers = {copy.place: len(self.all) + k for k, copy in enumerate(copies)}
        level = [*self.level, *(0 for _ in copies)]
        last, begin = dict[int, int](), dict[int, int]()
        for n, place, after in self._order(copies):
            step, is_late = self.all[place], n != place or self.level[place] > self.peak_level
            renumbered = copy_numbers if copy_numbers and is_late else {}
            before = [level[renumbered.get(m, m)] for m in step.needs]
            before += [level[after]] if after >= 0 else []
            level[n] = max(before, default=0) + (not step.is_view)
            begin[n] = last[n] = level[n]
            for read in step.reads:
                root = renumbered.get(read, read)
                last[root] = max(last[root], level[n])
        added = [0] * (max(level, default=0) + 2)
        for n, first in begin.items():
            size = self.all[n if n < len(self.all) else copies[n - len(self.all)].place].bytes
            added[first] += size
            added[last[n] + 1] -= size
        us = sum(s.us for s in self.all) + sum(self.all[c.place].us for c in copies)
        return RunCost(tuple(accumulate(added[:-1])), us)

    def _order(self, copies: Sequence[Copy]) -> Iterator[tuple[int, int, int]]:
        """Yield (number, place, what it comes after), every step behind those that it needs.

        A copy stands before the readers of its level.
        """
        count = len(self.all)
        rows = [((level, 1, n), n, n, -1) for n, level in enumerate(self.level)]
        rows += [
            ((self.level[c.reader], 0, c.place), count + k, c.place, c.after)
            for k, c in enumerate(copies)
        ]
        for _, n, place, after in sorted(rows):
            yield n, place, after

    def crossing(self) -> Mapping[int, list[int]]:
        """Return the live steps at each level before the peak, by readers up to the peak."""
        live: dict[int, list[int]] = {level: [] for level in range(1, self.peak_level)}
        for n in range(len(self.all)):
            if not self.is_early(n) or not self.all[n].bytes:
                continue
            reads = (self.level[r] for r in self.readers[n] if self.level[r] <= self.peak_level)
            for level in range(self.level[n], max(reads, default=0)):
                live[level].append(n)
        return {level: places for level, places in live.items() if level}
