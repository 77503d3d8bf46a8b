"""Where a `Sync` may stand in the program of a thread block: gaps between what its threads go
through together, and which of them lie on the way from one part to another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from explorer.errors import CheckFailed
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import For, Shuffle, Statement, Sync
from explorer.ir.tile_programs.traversal import statements

Path = tuple[int, ...]  # the place in the body, in the loop that stands there, and so on
UNKNOWN_TRIPS = 64  # of a loop whose extent is no number: how often a Sync in it is counted; chosen


@dataclass(frozen=True, slots=True)
class Gap:
    """Before part number `before` of a loop's body, behind the last one where it is their count;
    `loop` is the loop's path, () the program.
    """

    loop: Path
    before: int


@dataclass(frozen=True, slots=True)
class Part:
    """What threads do between two gaps: loops that are dealt out, or a statement alone, inside of
    the loops that all go through together.
    """

    path: Path
    around: tuple[For, ...]
    statement: Statement


@dataclass(frozen=True, slots=True)
class Parts:
    """A program without its Syncs: the parts in order, the length of every body, and the gaps in
    which a Sync stood.
    """

    parts: tuple[Part, ...]
    lengths: dict[Path, int]
    loops: dict[Path, For]
    synced: frozenset[Gap]

    def between(self, a: Path, b: Path) -> frozenset[Gap]:
        """The gaps that all threads cross on the way from a part to a later one."""
        d = next(d for d, (x, y) in enumerate(zip(a, b)) if x != y)
        found = {Gap(a[:d], n) for n in range(a[d] + 1, b[d] + 1)}
        for n in range(a[d] + 1, b[d]):
            loop = (*a[:d], n)
            if loop in self.loops and _runs(self.loops[loop]):
                found |= {Gap(loop, k) for k in range(self.lengths[loop] + 1)}
        return frozenset({*found, *self._out(a, d), *self._into(b, d)})

    def around(self, a: Path, b: Path, depth: int) -> frozenset[Gap]:
        """And those from a part to one of the next trip, by the loop that is so deep."""
        loop = a[:depth]
        rest = {Gap(loop, n) for n in range(a[depth] + 1, self.lengths[loop] + 1)}
        first = {Gap(loop, n) for n in range(b[depth] + 1)}
        return frozenset({*rest, *first, *self._out(a, depth), *self._into(b, depth)})

    def _out(self, a: Path, depth: int) -> Iterator[Gap]:
        for d in range(depth + 1, len(a)):
            yield from (Gap(a[:d], n) for n in range(a[d] + 1, self.lengths[a[:d]] + 1))

    def _into(self, b: Path, depth: int) -> Iterator[Gap]:
        for d in range(depth + 1, len(b)):
            yield from (Gap(b[:d], n) for n in range(b[d] + 1))

    def times(self, gap: Gap) -> int:
        """How often a Sync in a gap is met."""
        loops = (self.loops[gap.loop[:d]] for d in range(1, len(gap.loop) + 1))
        return prod(_trips(loop) for loop in loops)


def parts_of_block(p: TileProgram) -> Parts:
    """The parts of a program, and where its Syncs stand.

    Raises CheckFailed where a Sync or a shuffle stands in a loop that is dealt out: not all threads
    come there.
    """
    found, lengths, loops, synced = [], {}, {}, set()

    def enter(body: Sequence[Statement], path: Path, around: tuple[For, ...]) -> None:
        n = 0
        for s in body:
            if isinstance(s, Sync):
                synced.add(Gap(path, n))
                continue
            if isinstance(s, For) and s.threads is None and _has_parts(s):
                loops[*path, n] = s
                enter(s.body, (*path, n), (*around, s))
            else:
                if any(isinstance(x, Sync | Shuffle) and x is not s for x in statements((s,))):
                    raise CheckFailed("a Sync stands where not every thread of the block comes")
                found.append(Part((*path, n), around, s))
            n += 1
        lengths[path] = n

    enter(p.body, (), ())
    return Parts(tuple(found), lengths, loops, frozenset(synced))


def with_syncs(p: TileProgram, gaps: Collection[Gap], scope: str) -> TileProgram:
    """The program with Syncs in these gaps and nowhere else."""

    def of(body: Sequence[Statement], path: Path) -> tuple[Statement, ...]:
        made: list[Statement] = []
        kept = [s for s in body if not isinstance(s, Sync)]
        for n, s in enumerate(kept):
            if Gap(path, n) in gaps:
                made.append(Sync(scope))
            if isinstance(s, For) and s.threads is None and _has_parts(s):
                s = replace(s, body=of(s.body, (*path, n)))
            made.append(s)
        return (*made, Sync(scope)) if Gap(path, len(kept)) in gaps else tuple(made)

    return replace(p, body=of(p.body, ()))


def _has_parts(s: For) -> bool:
    """Whether threads go through a loop together, for there is something dealt out in it."""
    return any(isinstance(x, For) and x.threads is not None for x in statements(s.body))


def _trips(loop: For) -> int:
    size = loop.span.size
    return size if isinstance(size, int) else UNKNOWN_TRIPS


def _runs(loop: For) -> bool:
    s = loop.span
    return isinstance(s.size, int) and s.size > 0 and not (s.clip_low or s.clip_high)
