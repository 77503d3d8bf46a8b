"""Best-first search of output tiles, from a small one on, by enlarging one axis at a time.

From the Welder artifact, policy/default.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush

from explorer.cost.bind_kernel import extents
from explorer.ir.kernel import Kernel
from explorer.welder.tiles.sized_tile import SizedTile
from explorer.welder.tiles.tile_costs import sizes_along

Cost = Callable[[Mapping[str, int]], SizedTile]
Rank = Callable[[SizedTile], float]


def best_first(
    kernel: Kernel,
    base: Mapping[str, int],
    cost: Cost,
    rank: Rank,
    *,
    most: int,
    inside: Mapping[str, int] | None = None,
) -> tuple[SizedTile, ...]:
    """Return the tiles that fit, of at most `most` visited, best first by `rank`, then by grid.

    If none fits it is the first tile alone. No tile is larger than `inside` along any axis. A tile
    that does not fit is not enlarged: a larger one never holds less.
    """
    limits = {a: min(n, (inside or {}).get(a, n)) for a, n in extents(kernel).items()}
    start = {a: min(base.get(a, 1), n) for a, n in limits.items()}
    seen = {tuple(start.items())}
    fitting: list[SizedTile] = []
    queue: list[tuple[float, int, int, SizedTile]] = []
    visited = 0
    todo: Iterator[Mapping[str, int]] = iter((start,))
    while True:
        for tile in todo:
            candidate = cost(tile)
            visited += 1
            if candidate.fits:
                fitting.append(candidate)
                heappush(queue, (rank(candidate), candidate.grid, visited, candidate))
        if not queue or visited >= most:
            return tuple(sorted(fitting, key=lambda s: (rank(s), s.grid))) or (candidate,)
        best = heappop(queue)[-1]
        todo = iter([t for t in _larger(dict(best.tile), limits) if _is_new(t, seen)])


def _larger(tile: Mapping[str, int], limits: Mapping[str, int]) -> Iterator[dict[str, int]]:
    for axis, extent in limits.items():
        longer = next((n for n in (*sizes_along(extent), extent) if n > tile[axis]), None)
        if longer is not None and longer <= extent:
            yield {a: longer if a == axis else tile[a] for a in limits}


def _is_new(tile: Mapping[str, int], seen: set[tuple[tuple[str, int], ...]]) -> bool:
    key = tuple(tile.items())
    if key in seen:
        return False
    seen.add(key)
    return True
