"""SubGraphTiling (Welder, figure 7): tiles of a group, each inside of the next farther one.

Traffic to a memory depends on the tile of its own layer alone, so layers and the sub-graphs of one
layer are searched separately (section 3.2 of the paper). The paper does not say how a farther tile
bounds the search of a nearer one. Here a nearer sub-graph is cut out with its share of that tile as
its extents, so that a nearer tile is never larger. The artifact has no such recursion.

`best_first` yields tiles of one layer, largest gain first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from explorer.cost.bind_kernel import extents
from explorer.cost.traffic import traffic
from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Micro
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.regions import propagate
from explorer.welder.tiles.levels import memories
from explorer.welder.tiles.operator_tiles import node_tile
from explorer.welder.tiles.reduce_steps import first_steps
from explorer.welder.tiles.sized_tile import SizedTile, size_tile
from explorer.welder.tiles.tile_costs import base_tile, holder, sizes_along
from explorer.welder.tiles.tile_graph import virtual_nodes

VISITED_TILES, KEPT_TILES = 32, 8  # of a task: bounds on search time, chosen
NEAR_VISITED_TILES, NEAR_KEPT_TILES = 16, 2  # inside of one; chosen


@dataclass(frozen=True, slots=True)
class Layer:
    """The tile of a sub-graph in one memory, and the nearer sub-graphs inside of it."""

    level: str
    tile: SizedTile
    us: float  # transfers of this layer and those inside of it, on all units
    parts: tuple[Layer, ...] = ()


def subtiles(
    kernel: Kernel, device: Device, at: int, most: int, inside: Mapping[str, int] | None = None
) -> Sequence[SizedTile]:
    """Return the output tiles that fit the memory of this number (EnumerateSubtiles).

    The least traffic for the units that have work comes first. Tiles are enlarged from the base
    tile one axis at a time, as Roller does.
    """
    memory, base = memories(device)[at], base_tile(kernel, device)
    steps = first_steps(kernel, memory, base)
    return best_first(
        kernel, base, lambda t: size_tile(kernel, device, memory, t, steps),
        lambda s: s.moved_bytes / s.used(device), most=most, inside=inside,
    )  # fmt: skip


def task_tiles(kernel: Kernel, device: Device) -> Sequence[SizedTile]:
    """Return the best tiles of a task by traffic, for a kernel of fixed extents."""
    return subtiles(kernel, device, task_level(device), VISITED_TILES)[:KEPT_TILES]


def task_level(device: Device) -> int:
    """Return the number of the memory that holds a task's tile: the last private one of a unit."""
    return [m.name for m in memories(device)].index(holder(device).name)


def layers(
    kernel: Kernel, device: Device, task: SizedTile, levels: Mapping[str, int]
) -> Layer | SizedTile:
    """Return the layers of a group under its task's tile, or the smallest tile of a full one.

    `levels`: the number of the memory through which each internal tensor passes.
    """
    return _inside(kernel, device, task_level(device), task, levels)


def _inside(
    kernel: Kernel, device: Device, at: int, tile: SizedTile, levels: Mapping[str, int]
) -> Layer | SizedTile:
    levels_of_device, parts = memories(device), list[Layer]()
    moving = levels_of_device[at].gb_per_s * 1e3
    us = tile.moved_bytes / moving if moving else 0.0
    near = at - 1
    if near > 0:
        regions = propagate(kernel, dict(tile.tile))
        for node in virtual_nodes(kernel, levels, [m.name for m in levels_of_device[:at]]):
            part = node_tile(kernel, regions, node, device, Micro(), near).kernel
            if len(node.numbers) == 1:
                us += (
                    traffic(part, {}).total_bytes
                    / (levels_of_device[near].gb_per_s * 1e3)
                    * tile.grid
                )
                continue
            layer = _tiled(part, device, near, levels)
            if isinstance(layer, SizedTile):
                return layer
            parts.append(layer)
            us += layer.us * tile.grid
    return Layer(levels_of_device[at].name, tile, us, tuple(parts))


def _tiled(part: Kernel, device: Device, at: int, levels: Mapping[str, int]) -> Layer | SizedTile:
    """Return the best of the best few tiles of a sub-graph in a memory."""
    tiles = subtiles(part, device, at, NEAR_VISITED_TILES)
    inner = {c.out: levels[c.out] for c in part.computes if c.out in levels}
    inner = {t: at_ for t, at_ in inner.items() if t not in part.outputs}
    best: Layer | None = None
    for tile in tiles[:NEAR_KEPT_TILES]:
        layer = _inside(part, device, at, tile, inner) if tile.fits else tile
        if isinstance(layer, Layer) and (best is None or layer.us < best.us):
            best = layer
    return best or tiles[0]


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
