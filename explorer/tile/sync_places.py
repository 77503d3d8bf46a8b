"""Places for a `Sync` in a thread block's program: gaps between parts that all threads run.

Also the gaps that lie between one part and another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from explorer.errors import CheckFailed
from explorer.ir.tile_program import For, Shuffle, Statement, Sync, TileProgram
from explorer.ir.tile_traversal import statements

Path = tuple[int, ...]  # index in the body, then in the loop there, and so on
UNKNOWN_TRIPS = 64  # assumed of a loop with a symbolic extent; chosen


@dataclass(frozen=True, slots=True)
class Gap:
    """A place before part number `before` of a loop's body.

    The number of parts means behind the last one. `loop` is the loop's path, () the program.
    """

    loop: Path
    before: int


@dataclass(frozen=True, slots=True)
class SyncRegion:
    """The work of threads between two gaps, inside of the loops that all threads run together.

    It is a distributed loop or a single statement.
    """

    path: Path
    around: tuple[For, ...]
    statement: Statement


@dataclass(frozen=True, slots=True)
class Parts:
    """A program without its Syncs.

    It has the parts in order, the length of every body, and the gaps in which a Sync was.
    """

    parts: tuple[SyncRegion, ...]
    lengths: dict[Path, int]
    loops: dict[Path, For]
    synced: frozenset[Gap]

    def between(self, a: Path, b: Path) -> frozenset[Gap]:
        """Return the gaps that all threads cross between a part and a later one."""
        d = next(d for d, (x, y) in enumerate(zip(a, b)) if x != y)
        crossed = {Gap(a[:d], n) for n in range(a[d] + 1, b[d] + 1)}
        for n in range(a[d] + 1, b[d]):
            loop = (*a[:d], n)
            if loop in self.loops and _always_runs(self.loops[loop]):
                crossed |= {Gap(loop, k) for k in range(self.lengths[loop] + 1)}
        return frozenset({*crossed, *self._gaps_leaving(a, d), *self._gaps_entering(b, d)})

    def around(self, a: Path, b: Path, depth: int) -> frozenset[Gap]:
        """Return the gaps between a part and one of the next trip of the loop at a depth."""
        loop = a[:depth]
        after = {Gap(loop, n) for n in range(a[depth] + 1, self.lengths[loop] + 1)}
        first = {Gap(loop, n) for n in range(b[depth] + 1)}
        return frozenset(
            {*after, *first, *self._gaps_leaving(a, depth), *self._gaps_entering(b, depth)}
        )

    def _gaps_leaving(self, a: Path, depth: int) -> Iterator[Gap]:
        for d in range(depth + 1, len(a)):
            yield from (Gap(a[:d], n) for n in range(a[d] + 1, self.lengths[a[:d]] + 1))

    def _gaps_entering(self, b: Path, depth: int) -> Iterator[Gap]:
        for d in range(depth + 1, len(b)):
            yield from (Gap(b[:d], n) for n in range(b[d] + 1))

    def times(self, gap: Gap) -> int:
        """Return how often a Sync in a gap runs."""
        loops = (self.loops[gap.loop[:d]] for d in range(1, len(gap.loop) + 1))
        return prod(_trip_count(loop) for loop in loops)


def parts_of_block(p: TileProgram) -> Parts:
    """Return the parts of a program, and the places of its Syncs.

    Raises CheckFailed for a Sync or a shuffle in a distributed loop, which not all threads reach.
    """
    parts, lengths, loops, synced = [], {}, {}, set()

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
                    raise CheckFailed(
                        "a Sync or shuffle is in a distributed loop, which not all threads reach"
                    )
                parts.append(SyncRegion((*path, n), around, s))
            n += 1
        lengths[path] = n

    enter(p.body, (), ())
    return Parts(tuple(parts), lengths, loops, frozenset(synced))


def with_syncs(p: TileProgram, gaps: Collection[Gap], scope: str) -> TileProgram:
    """Return the program with Syncs in these gaps and nowhere else."""

    def of(body: Sequence[Statement], path: Path) -> tuple[Statement, ...]:
        synced_body: list[Statement] = []
        unsynced = [s for s in body if not isinstance(s, Sync)]
        for n, s in enumerate(unsynced):
            if Gap(path, n) in gaps:
                synced_body.append(Sync(scope))
            if isinstance(s, For) and s.threads is None and _has_parts(s):
                s = replace(s, body=of(s.body, (*path, n)))
            synced_body.append(s)
        return (
            (*synced_body, Sync(scope)) if Gap(path, len(unsynced)) in gaps else tuple(synced_body)
        )

    return replace(p, body=of(p.body, ()))


def _has_parts(s: For) -> bool:
    """Return True if threads run a loop together, because a loop inside is distributed."""
    return any(isinstance(x, For) and x.threads is not None for x in statements(s.body))


def _trip_count(loop: For) -> int:
    size = loop.span.size
    return size if isinstance(size, int) else UNKNOWN_TRIPS


def _always_runs(loop: For) -> bool:
    s = loop.span
    return isinstance(s.size, int) and s.size > 0 and not (s.clip_low or s.clip_high)
