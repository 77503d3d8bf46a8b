"""Data hazards between threads of a block, and the gaps where a `Sync` must prevent them.

Indices are affine and sizes are numbers, so that elements are compared one by one. An unknown index
counts as shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.ir.tile_programs.program import TileProgram
from explorer.tile.sync_places import Gap, Parts, Path, SyncRegion, parts_of_block
from explorer.tile.thread_reach import Reach, accesses, clash, reach


@dataclass(frozen=True, slots=True)
class Hazard:
    """Two parts in which different threads access one buffer, and at least one of them writes.

    A Sync must be in one of the gaps. A single part has no gaps: no Sync helps.
    """

    buffer: str
    gaps: frozenset[Gap]


def hazards(parts: Parts) -> tuple[Hazard, ...]:
    """Return every hazard of a program without its Syncs."""
    return tuple(dict.fromkeys(_Hazards(parts).all()))


def race(p: TileProgram) -> str:
    """Return a sentence about the first hazard that no Sync prevents; else an empty string."""
    parts = parts_of_block(p)
    for h in hazards(parts):
        if not h.gaps:
            return f"two threads may access one element of {h.buffer}, and one of them writes it"
        if not h.gaps & parts.synced:
            return (
                f"a thread may access an element of {h.buffer} before another one has finished "
                "with it: no Sync is between them"
            )
    return ""


class _Hazards:
    """The pairs of a program's parts."""

    def __init__(self, parts: Parts) -> None:
        """Create the pairs from a program's parts."""
        self.parts = parts
        self.of = {part.path: accesses(part) for part in parts.parts}
        self.reaches: dict[tuple[Path, int, int], Reach | None] = {}

    def reach(self, part: SyncRegion, number: int, same: int) -> Reach | None:
        """Return the elements of one access of a part, computed once."""
        key = (part.path, number, same)
        if key not in self.reaches:
            self.reaches[key] = reach(part, self.of[part.path][number], same)
        return self.reaches[key]

    def all(self) -> Iterator[Hazard]:
        """Yield every hazard, by the part that comes first."""
        order = self.parts.parts
        for n, a in enumerate(order):
            yield from self._conflicts(a, a, len(a.around), frozenset())
            for b in order[n + 1 :]:
                yield from self._conflicts(
                    a, b, _common_loops(a, b), self.parts.between(a.path, b.path)
                )
        for a in order:
            for b in order:
                yield from self._across_trips(a, b)

    def _across_trips(self, a: SyncRegion, b: SyncRegion) -> Iterator[Hazard]:
        for depth in range(_common_loops(a, b)):
            if a.around[depth].span.size != 1:
                gaps = self.parts.around(a.path, b.path, depth + 1)
                yield from self._conflicts(a, b, depth, gaps)

    def _conflicts(
        self, a: SyncRegion, b: SyncRegion, same: int, gaps: frozenset[Gap]
    ) -> Iterator[Hazard]:
        """Yield the buffers that two parts share in the same trip of the first `same` loops."""
        for n, x in enumerate(self.of[a.path]):
            for m, y in enumerate(self.of[b.path]):
                name = x.buffer.name
                if name != y.buffer.name or not (x.is_write or y.is_write):
                    continue
                if clash(self.reach(a, n, same), self.reach(b, m, same)):
                    yield Hazard(name, gaps)


def _common_loops(a: SyncRegion, b: SyncRegion) -> int:
    """Return the number of loops around both parts."""
    count = 0
    while count < min(len(a.path), len(b.path)) - 1 and a.path[count] == b.path[count]:
        count += 1
    return count
