"""Consecutive repeats in a sequence, nested: the layers of a model, independent of names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

LEAST = 3  # nodes of a layer; chosen
LONGEST = 2048  # nodes of a layer that is looked for; chosen
PARTS = 200  # a repeat covers at least this fraction (1/PARTS) of its piece; chosen


@dataclass(frozen=True, slots=True)
class Repeat:
    """Layers that are alike, each as its parts: positions, and nested repeats."""

    copies: tuple[tuple[Part, ...], ...]


Part: TypeAlias = int | Repeat


def repeats(kinds: Sequence[int], edges: Sequence[tuple[int, int]]) -> tuple[Part, ...]:
    """Return the sequence with each repeat as one part.

    `kinds` are equal for nodes that compute the same; `edges` give producers and readers. Copies
    read alike inside, and begin where the fewest values are live.
    """
    finder = _Finder(np.asarray(kinds, dtype=np.int64), edges)
    return finder.parts(0, len(kinds))


class _Finder:
    def __init__(self, kinds: np.ndarray, edges: Sequence[tuple[int, int]]) -> None:
        self.kinds = kinds
        self.sources: list[list[int]] = [[] for _ in kinds]
        last = np.arange(len(kinds))
        for a, b in edges:
            self.sources[b].append(a)
            last[a] = max(last[a], b)
        change = np.zeros(len(kinds) + 1, dtype=np.int64)
        for a, end in enumerate(last):  # alive in the gaps before a + 1 .. end
            change[a + 1] += 1
            change[end + 1] -= 1
        self.alive = np.cumsum(change)

    def parts(self, low: int, high: int) -> tuple[Part, ...]:
        """Return the parts of a piece of the sequence."""
        repeat = self._best(low, high)
        if repeat is None:
            return tuple(range(low, high))
        start, size, count = repeat
        inner = (
            self.parts(start, start + size)
            if size >= 2 * LEAST
            else tuple(range(start, start + size))
        )
        copies = tuple(tuple(_moved(p, n * size) for p in inner) for n in range(count))
        end = start + size * count
        return (*self.parts(low, start), Repeat(copies), *self.parts(end, high))

    def _best(self, low: int, high: int) -> tuple[int, int, int] | None:
        """Return the repeat that covers most: its start, the size of a layer, and their number."""
        piece, best = self.kinds[low:high], None
        most = max(2 * LEAST, (high - low) // PARTS) - 1
        for size in range(LEAST, min((high - low) // 2, LONGEST) + 1):
            equal = piece[:-size] == piece[size:]
            if int(equal.sum()) < max(size, most - size):
                continue
            for start, length in _runs(equal, max(size, most - size + 1)):
                if (length + size) // size * size <= most:
                    continue
                placed = self._placed(low + start, length, size)
                if placed is not None and placed[1] * placed[2] > most:
                    best, most = placed, placed[1] * placed[2]
        return best

    def _placed(self, start: int, length: int, size: int) -> tuple[int, int, int] | None:
        """Place a run where the fewest values are live between copies that read alike."""
        choices = []
        for shift in range(min(size, length - size + 1)):
            count = (length + size - shift) // size
            gaps = [start + shift + n * size for n in range(count)]
            alive = float(np.mean(self.alive[gaps[1:]])) if count > 1 else float("inf")
            choices.append((alive, -count, shift))
        for alive, _, shift in sorted(choices)[:4]:
            if alive == float("inf"):
                break
            count = (length + size - shift) // size
            row = self._alike(start + shift, size, count)
            if row is not None:
                return row
        return None

    def _alike(self, start: int, size: int, count: int) -> tuple[int, int, int] | None:
        """Return the longest row of copies that read alike inside."""
        wiring = [self._wiring(start + n * size, size) for n in range(count)]
        best, begin = (0, 0), 0
        for n in range(1, count + 1):
            if n == count or wiring[n] != wiring[begin]:
                best = max(best, (n - begin, -begin))
                begin = n
        copies, first = best[0], -best[1]
        return (start + first * size, size, copies) if copies > 1 else None

    def _wiring(self, start: int, size: int) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(a - start for a in self.sources[start + n] if a >= start) for n in range(size)
        )


def _runs(equal: np.ndarray, least: int) -> list[tuple[int, int]]:
    """Return the start and length of each run of at least `least` True values."""
    padded = np.concatenate(([False], equal, [False]))
    ends = np.flatnonzero(padded[1:] != padded[:-1])
    begins, lengths = ends[::2], ends[1::2] - ends[::2]
    long = lengths >= least
    return list(zip(begins[long].tolist(), lengths[long].tolist(), strict=True))


def _moved(part: Part, by: int) -> Part:
    if isinstance(part, int):
        return part + by
    return Repeat(tuple(tuple(_moved(p, by) for p in copy) for copy in part.copies))


def positions(part: Part) -> tuple[int, ...]:
    """Return all nodes of a part."""
    if isinstance(part, int):
        return (part,)
    return tuple(n for copy in part.copies for p in copy for n in positions(p))
