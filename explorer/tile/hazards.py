"""What threads of a block share while one of them writes: where a `Sync` must stand.

Indices are affine and sizes are numbers, so that elements are compared one by one; what cannot be
told counts as shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.ir.tile_programs.program import TileProgram
from explorer.tile.sync_places import Gap, Part, Parts, Path, parts_of_block
from explorer.tile.thread_reach import Reach, accesses, clash, reach


@dataclass(frozen=True, slots=True)
class Hazard:
    """Two parts that different threads may be in, one of which writes what the other one touches of
    a buffer: a Sync must stand in one of the gaps. There are none where it is one part: no Sync
    helps.
    """

    buffer: str
    gaps: frozenset[Gap]


def hazards(parts: Parts) -> tuple[Hazard, ...]:
    """Every hazard of a program without its Syncs."""
    return tuple(dict.fromkeys(_Hazards(parts).all()))


def race(p: TileProgram) -> str:
    """The first hazard that no Sync of the program mends, in words; empty where all are mended."""
    parts = parts_of_block(p)
    for h in hazards(parts):
        if not h.gaps:
            return f"two threads may meet at one element of {h.buffer}, and one of them writes it"
        if not h.gaps & parts.synced:
            return (
                f"a thread may come to an element of {h.buffer} before another one has done with "
                "it: no Sync stands between"
            )
    return ""


class _Hazards:
    """The pairs of a program's parts."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.of = {part.path: accesses(part) for part in parts.parts}
        self.known: dict[tuple[Path, int, int], Reach | None] = {}

    def reach(self, part: Part, number: int, same: int) -> Reach | None:
        """What one access of a part comes to, worked out once."""
        key = (part.path, number, same)
        if key not in self.known:
            self.known[key] = reach(part, self.of[part.path][number], same)
        return self.known[key]

    def all(self) -> Iterator[Hazard]:
        """By the part that comes first."""
        order = self.parts.parts
        for n, a in enumerate(order):
            yield from self._met(a, a, len(a.around), frozenset())
            for b in order[n + 1 :]:
                yield from self._met(a, b, _shared(a, b), self.parts.between(a.path, b.path))
        for a in order:
            for b in order:
                yield from self._of_next_trips(a, b)

    def _of_next_trips(self, a: Part, b: Part) -> Iterator[Hazard]:
        for depth in range(_shared(a, b)):
            if a.around[depth].span.size != 1:
                gaps = self.parts.around(a.path, b.path, depth + 1)
                yield from self._met(a, b, depth, gaps)

    def _met(self, a: Part, b: Part, same: int, gaps: frozenset[Gap]) -> Iterator[Hazard]:
        """The buffers by which two parts meet while the first `same` loops around stand still."""
        for n, x in enumerate(self.of[a.path]):
            for m, y in enumerate(self.of[b.path]):
                name = x.buffer.name
                if name != y.buffer.name or not (x.is_write or y.is_write):
                    continue
                if clash(self.reach(a, n, same), self.reach(b, m, same)):
                    yield Hazard(name, gaps)


def _shared(a: Part, b: Part) -> int:
    """How many loops go around both."""
    count = 0
    while count < min(len(a.path), len(b.path)) - 1 and a.path[count] == b.path[count]:
        count += 1
    return count
