"""Output tiles in the order of what they cost, from a small one on: each is enlarged along one axis
at a time (best-first search; Welder artifact, policy/default.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush

from explorer.cost.bound import extents
from explorer.ir.kernel import Kernel
from explorer.welder.tiles.sized import Sized
from explorer.welder.tiles.tile_costs import sizes_along

Cost = Callable[[Mapping[str, int]], Sized]
Rank = Callable[[Sized], float]


def best_first(
    kernel: Kernel,
    base: Mapping[str, int],
    cost: Cost,
    rank: Rank,
    *,
    most: int,
    inside: Mapping[str, int] | None = None,
) -> tuple[Sized, ...]:
    """The tiles that fit of at most `most` that are visited, best first by `rank`, then by grid;
    where none does, the first one.

    No tile is larger than `inside` along any axis. What has no room is not enlarged: a larger tile
    never holds less.
    """
    whole = {a: min(n, (inside or {}).get(a, n)) for a, n in extents(kernel).items()}
    start = {a: min(base.get(a, 1), n) for a, n in whole.items()}
    seen = {tuple(start.items())}
    found: list[Sized] = []
    queue: list[tuple[float, int, int, Sized]] = []
    visited = 0
    todo: Iterator[Mapping[str, int]] = iter((start,))
    while True:
        for tile in todo:
            one = cost(tile)
            visited += 1
            if one.fits:
                found.append(one)
                heappush(queue, (rank(one), one.grid, visited, one))
        if not queue or visited >= most:
            return tuple(sorted(found, key=lambda s: (rank(s), s.grid))) or (one,)
        best = heappop(queue)[-1]
        todo = iter([t for t in _larger(dict(best.tile), whole) if _is_new(t, seen)])


def _larger(tile: Mapping[str, int], whole: Mapping[str, int]) -> Iterator[dict[str, int]]:
    for axis, extent in whole.items():
        longer = next((n for n in (*sizes_along(extent), extent) if n > tile[axis]), None)
        if longer is not None and longer <= extent:
            yield {a: longer if a == axis else tile[a] for a in whole}


def _is_new(tile: Mapping[str, int], seen: set[tuple[tuple[str, int], ...]]) -> bool:
    key = tuple(tile.items())
    if key in seen:
        return False
    seen.add(key)
    return True
