"""The steps of a function along its topological levels, and what they would be if some values were
computed again: when each runs, and how many bytes are needed then.

Levels are those of Rammer's waves, so that a value that is computed again counts where it will run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Step:
    """A binding. `needs` are the places of those that have to run before it, `reads` the places of
    those whose memory it reads; `bytes` is what it makes in memory of its own, which readers of a
    view of it read too. A view takes no time. `repeats`: it may be computed again.
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
    """A step that is computed again, `after` another one, right before its first late `reader`."""

    place: int
    after: int
    reader: int


@dataclass(frozen=True, slots=True)
class Run:
    """What a run needs: `live` bytes by level."""

    live: tuple[int, ...]
    us: float

    @property
    def peak_bytes(self) -> int:
        """The most at once."""
        return max(self.live, default=0)


class Steps:
    """The steps of a function. The `turn` is the level at which most bytes are needed: what was
    made earlier and is read later could be computed again.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.all = tuple(steps)
        self.level: list[int] = []
        for step in self.all:
            before = max((self.level[n] for n in step.needs), default=0)
            self.level.append(before + (not step.is_view))
        self.readers: list[list[int]] = [[] for _ in self.all]
        for n, step in enumerate(self.all):
            for read in step.reads:
                self.readers[read].append(n)
        self.turn = 0
        self.plain = self.run(())
        self.turn = self.plain.live.index(self.plain.peak_bytes) if self.plain.live else 0
        self.late = [n for n, level in enumerate(self.level) if level > self.turn]

    def is_early(self, place: int) -> bool:
        """Whether a step is over before the turn."""
        return self.level[place] < self.turn

    @property
    def saved(self) -> list[int]:
        """The steps before the turn whose results are read behind it."""
        return [
            n
            for n, step in enumerate(self.all)
            if step.bytes and self.is_early(n) and self.read_late(n)
        ]

    def read_late(self, place: int) -> bool:
        """Whether something behind the turn reads it."""
        return any(self.level[r] > self.turn for r in self.readers[place])

    def copies(self, kept: Collection[int]) -> list[Copy]:
        """What is computed again, in an order in which it can be, if of the steps before the turn
        only those have results that stay.
        """
        again = self._repeated(kept)
        wanted: dict[int, int] = {}  # by step, its first late reader

        def want(place: int, reader: int) -> None:
            for needed in self.all[place].needs:
                if again[needed]:
                    known = wanted.get(needed, reader)
                    wanted[needed] = min(known, reader, key=self._when)

        for n in self.late:
            want(n, n)
        for n in range(len(self.all) - 1, -1, -1):
            if n in wanted:
                want(n, wanted[n])
        return [
            Copy(n, self._beside(reader, again), reader) for n, reader in sorted(wanted.items())
        ]

    def _repeated(self, kept: Collection[int]) -> list[bool]:
        found: list[bool] = []
        for n, step in enumerate(self.all):
            if step.is_view:
                found.append(step.repeats and any(found[m] for m in step.needs))
            else:
                found.append(step.repeats and self.is_early(n) and n not in kept)
        return found

    def _when(self, place: int) -> tuple[int, int]:
        return self.level[place], place

    def _beside(self, reader: int, again: Sequence[bool]) -> int:
        """Of what a reader reads, the step that ends last: the adjoint."""
        others = [n for n in self.all[reader].needs if not again[n]]
        return max(others, key=self._when, default=-1)

    def run(self, copies: Sequence[Copy]) -> Run:
        """With these computed again, each as soon as can be."""
        made = {copy.place: len(self.all) + k for k, copy in enumerate(copies)}
        level = [*self.level, *(0 for _ in copies)]
        last, begin = dict[int, int](), dict[int, int]()
        for n, place, after in self._order(copies):
            step, is_late = self.all[place], n != place or self.level[place] > self.turn
            known = made if made and is_late else {}
            before = [level[known.get(m, m)] for m in step.needs]
            before += [level[after]] if after >= 0 else []
            level[n] = max(before, default=0) + (not step.is_view)
            begin[n] = last[n] = level[n]
            for read in step.reads:
                root = known.get(read, read)
                last[root] = max(last[root], level[n])
        added = [0] * (max(level, default=0) + 2)
        for n, first in begin.items():
            size = self.all[n if n < len(self.all) else copies[n - len(self.all)].place].bytes
            added[first] += size
            added[last[n] + 1] -= size
        us = sum(s.us for s in self.all) + sum(self.all[c.place].us for c in copies)
        return Run(tuple(accumulate(added[:-1])), us)

    def _order(self, copies: Sequence[Copy]) -> Iterator[tuple[int, int, int]]:
        """(number, place, what it comes after), every step behind those that it needs: a copy
        stands before the readers of its level.
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
        """By level before the turn, the steps whose results those up to the turn read later."""
        found: dict[int, list[int]] = {level: [] for level in range(1, self.turn)}
        for n in range(len(self.all)):
            if not self.is_early(n) or not self.all[n].bytes:
                continue
            reads = (self.level[r] for r in self.readers[n] if self.level[r] <= self.turn)
            for level in range(self.level[n], max(reads, default=0)):
                found[level].append(n)
        return {level: places for level, places in found.items() if level}
