"""SubGraphTiling (Welder, figure 7): tiles of a group memory by memory, each inside of the tile of
the next farther one.

Traffic to a memory depends on the tile of its own layer alone, so layers and the sub-graphs of one
layer are searched apart (section 3.2 of the paper). How a farther tile bounds the search of a
nearer one is not in the paper: here what is connected nearer is cut out with its share of that tile
as its extents, so that a nearer tile is never larger. The artifact has no such recursion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.cost.traffic import traffic
from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Micro
from explorer.ir.kernel import Kernel
from explorer.ir.patterns.regions import propagate
from explorer.welder.tiles.best_first import best_first
from explorer.welder.tiles.levels import memories
from explorer.welder.tiles.operator_tiles import node_tile
from explorer.welder.tiles.reduce_steps import first_steps
from explorer.welder.tiles.sized import Sized, sized
from explorer.welder.tiles.tile_costs import base_tile, holder
from explorer.welder.tiles.tile_graph import virtual_nodes

VISITED_TILES, KEPT_TILES = 32, 8  # of a task: bounds on search time, chosen
NEAR_VISITED_TILES, NEAR_KEPT_TILES = 16, 2  # inside of one; chosen


@dataclass(frozen=True, slots=True)
class Layer:
    """The tile of a sub-graph in one memory, and the sub-graphs that are connected nearer, each
    `times` a task.
    """

    level: str
    tile: Sized
    us: float  # to move what this layer and those inside of it move, of all units together
    parts: tuple[Layer, ...] = ()


def subtiles(
    kernel: Kernel, device: Device, at: int, most: int, inside: Mapping[str, int] | None = None
) -> Sequence[Sized]:
    """EnumerateSubtiles: output tiles that have room in the memory of this number, the least
    traffic for the units that have work first. They are enlarged from the base tile one axis at a
    time, as Roller does.
    """
    memory, base = memories(device)[at], base_tile(kernel, device)
    steps = first_steps(kernel, memory, base)
    return best_first(
        kernel, base, lambda t: sized(kernel, device, memory, t, steps),
        lambda s: s.moved_bytes / s.used(device), most=most, inside=inside,
    )  # fmt: skip


def task_tiles(kernel: Kernel, device: Device) -> Sequence[Sized]:
    """The tiles of a task of a kernel with numbers for dims: the best of them by traffic."""
    return subtiles(kernel, device, task_level(device), VISITED_TILES)[:KEPT_TILES]


def task_level(device: Device) -> int:
    """The number of the memory that holds a task's tile: the last of a unit's own."""
    return [m.name for m in memories(device)].index(holder(device).name)


def layers(kernel: Kernel, device: Device, task: Sized, levels: Mapping[str, int]) -> Layer | Sized:
    """The layers of a group under its task's tile. `levels`: the number of the memory in which each
    tensor inside is handed over. Where some layer has no room: the smallest tile that has none.
    """
    return _inside(kernel, device, task_level(device), task, levels)


def _inside(
    kernel: Kernel, device: Device, at: int, tile: Sized, levels: Mapping[str, int]
) -> Layer | Sized:
    known, parts = memories(device), list[Layer]()
    moving = known[at].gb_per_s * 1e3
    us = tile.moved_bytes / moving if moving else 0.0
    near = at - 1
    if near > 0:
        regions = propagate(kernel, dict(tile.tile))
        for node in virtual_nodes(kernel, levels, [m.name for m in known[:at]]):
            part = node_tile(kernel, regions, node, device, Micro(), near).kernel
            if len(node.numbers) == 1:
                us += traffic(part, {}).total_bytes / (known[near].gb_per_s * 1e3) * tile.grid
                continue
            found = _tiled(part, device, near, levels)
            if isinstance(found, Sized):
                return found
            parts.append(found)
            us += found.us * tile.grid
    return Layer(known[at].name, tile, us, tuple(parts))


def _tiled(part: Kernel, device: Device, at: int, levels: Mapping[str, int]) -> Layer | Sized:
    """The best of the best few tiles of a sub-graph in a memory."""
    found = subtiles(part, device, at, NEAR_VISITED_TILES)
    inner = {c.out: levels[c.out] for c in part.computes if c.out in levels}
    inner = {t: at_ for t, at_ in inner.items() if t not in part.outputs}
    best: Layer | None = None
    for tile in found[:NEAR_KEPT_TILES]:
        layer = _inside(part, device, at, tile, inner) if tile.fits else tile
        if isinstance(layer, Layer) and (best is None or layer.us < best.us):
            best = layer
    return best or found[0]
