"""The tiles of one group: the memory of each intermediate, and the tile of every virtual node.

From Welder, section 3.1: propagation from the output's tile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType

from explorer.cached_property import cached_property
from explorer.cost.footprint import inner_box
from explorer.cost.touched_parts import number, touched
from explorer.cost.traffic import Tile
from explorer.devices.model import Device, LevelMemory
from explorer.devices.target import target_of
from explorer.ir.affine import Affine
from explorer.ir.decisions.tiling import Micro
from explorer.ir.kernel import Axis, Compute, Kernel, reads
from explorer.ir.kernels.contraction import contraction
from explorer.ir.kernels.regions import Interval, Regions, propagate, tile_variable
from explorer.ir.types import ITEM_BYTES
from explorer.welder.tiles.levels import REGISTER_BYTES
from explorer.welder.tiles.tile_graph import Link, VirtualNode, links, sub_kernel, virtual_nodes

THREADS = 128  # of a block (Welder artifact: as close to it as the tile's sizes allow)


@dataclass(frozen=True)
class NodeTile:
    """A virtual node as a kernel that computes its share of a task.

    It has the tile that the node is iterated over in, the order of its axes, outermost first, and
    the tensors beside its output that other nodes read.
    """

    node: VirtualNode
    kernel: Kernel
    tile: Tile
    order: tuple[str, ...]
    also: tuple[str, ...] = ()

    @cached_property
    def regions(self) -> Regions:
        """Return the needs of one of its tiles."""
        return propagate(self.kernel, self.tile)


def connect_levels(
    kernel: Kernel, regions: Regions, memories: Sequence[LevelMemory], home: int
) -> dict[str, int]:
    """Return the number of the memory through which each intermediate passes.

    It is as near to the registers as its readers allow and as its rows fit, no farther than a
    task's tile. On a CPU, what a contraction writes or reads row by row is there for a whole task.
    """
    level_of = {}
    for link in links(kernel):
        walked = link.near and link.of_product and memories[1].cache
        at = home if walked else min(link.near, home)
        while 0 < at < home and not _has_room(kernel, regions, link, memories[at]):
            at += 1
        level_of[link.tensor] = at
    for at in range(home):
        _untie_outputs(kernel, level_of, memories, at)
    return level_of


def _untie_outputs(
    kernel: Kernel, level_of: dict[str, int], memories: Sequence[LevelMemory], at: int
) -> None:
    """Move inputs of nodes with untied outputs one memory farther.

    After: no node of a memory has outputs whose tiles do not follow from each other's.
    """
    for node in nodes_at(kernel, level_of, memories, at):
        part, also = sub_kernel(kernel, node.numbers)
        if also and not is_tied(part, also):
            for c in part.computes:
                for r in reads(c.expr):
                    if c.out in also and level_of.get(r.tensor, at + 1) <= at:
                        level_of[r.tensor] = at + 1


def is_tied(part: Kernel, also: Sequence[str]) -> bool:
    """Return True if one element of the output determines one element of each other output.

    Axes that the first output lacks are covered completely. Then tiles of the first output cover
    the others once.
    """
    axes = [a.name for a in part.computes[-1].axes]
    regions = propagate(part, dict.fromkeys(axes, 1))
    for n, c in enumerate(part.computes):
        for a in c.axes if c.out in also else ():
            range_ = regions.axes[n][a.name]
            if range_.lo.bare is None and range_ != Interval(Affine(), a.extent):
                return False
            if range_.lo.bare is not None and range_.size != 1:
                return False
    used = {v for c in also for r in regions.tensors[c] for v in r.lo.variables}
    return used == {tile_variable(a) for a in axes}


def _has_room(kernel: Kernel, regions: Regions, link: Link, memory: LevelMemory) -> bool:
    """Return True if a row of an intermediate takes at most half of a memory."""
    box = inner_box(kernel, regions, link.tensor)
    row = prod(box[link.shared :]) * ITEM_BYTES[kernel.dtype(link.tensor)]
    return memory.capacity is None or 2 * row <= memory.capacity


def nodes_at(
    kernel: Kernel, levels: Mapping[str, int], memories: Sequence[LevelMemory], at: int
) -> tuple[VirtualNode, ...]:
    """Return the virtual nodes of a memory."""
    return virtual_nodes(kernel, levels, [m.name for m in memories[: at + 1]])


def node_tiles(
    kernel: Kernel, regions: Regions, nodes: Sequence[VirtualNode], device: Device, micro: Micro,
    at: int, around: Sequence[NodeTile],
) -> tuple[NodeTile, ...]:  # fmt: skip
    """Return the nodes of a memory with their shares of a task, and their tiles.

    The tiles are those of registers, or a row of operators that iterate together. None is larger
    than the tile of the node `around` it in the next farther memory.
    """
    limits: dict[int, Mapping[str, int]] = {}
    for node in around:
        inside = node.regions.axes
        for n, axes in zip(node.node.numbers, inside, strict=True):
            limits[n] = {a: number(r.size) for a, r in axes.items()}
    return tuple(node_tile(kernel, regions, v, device, micro, at, limits) for v in nodes)


def node_tile(
    kernel: Kernel,
    regions: Regions,
    node: VirtualNode,
    device: Device,
    micro: Micro,
    at: int,
    limits: Mapping[int, Mapping[str, int]] = MappingProxyType({}),
) -> NodeTile:
    """Return one node's share of a task, and its tile; `limits`: the longest of each axis."""
    part, also = sub_kernel(kernel, node.numbers)
    last, n = part.computes[-1], node.numbers[-1]
    most = {a.name: min(number(a.extent), number(regions.axes[n][a.name].size)) for a in last.axes}
    part = _shared(part, most)
    share = {a: min(size, limits.get(n, most)[a]) for a, size in most.items()}
    contracts = any(contraction(c) is not None for c in part.computes)
    order = (*[*share][-1:], *[*share][:-1]) if contracts else tuple(share)
    if at and not contracts and len(part.computes) > 1:
        return NodeTile(node, part, {a: 1 for a in order[: _common(part)]}, order, also)
    if target_of(device).uses_thread_blocks:
        return _thread_tile(NodeTile(node, part, share, order, also), device)
    single = Micro(1, 1, 1 if _is_along(last) else device.lanes)
    return NodeTile(node, part, _register_tile(share, micro if contracts else single), order, also)


def _is_along(c: Compute) -> bool:
    """Return True if reduced elements are contiguous, so that vectors are of these."""
    last = [r.index[-1] for r in reads(c.expr) if r.index]
    inner = [i.factor(a.name) == 1 for i in last if isinstance(i, Affine) for a in c.reduce]
    return any(inner)


def _shared(part: Kernel, share: Mapping[str, int]) -> Kernel:
    """Return the kernel with the axes of its output as long as a task has them."""

    def cut(a: Axis) -> Axis:
        return Axis(a.name, min(number(a.extent), share[a.name])) if a.name in share else a

    return replace(
        part,
        computes=tuple(
            replace(c, axes=tuple(map(cut, c.axes))) if c.out in part.outputs else c
            for c in part.computes
        ),
    )


def _common(part: Kernel) -> int:
    """Return the number of leading axes that all computes of a node iterate over together."""
    return max(0, min(len(c.axes) - (0 if c.reduce else 1) for c in part.computes))


def _register_tile(share: Mapping[str, int], micro: Micro) -> Tile:
    """Return rows by columns on the last axes of the output, one of each other axis."""
    axes = [*share]
    tile = dict.fromkeys(axes, 1)
    if not axes:
        return tile
    tile[axes[-1]] = min(share[axes[-1]], micro.columns)
    left = micro.over(share[axes[-1]]).rows
    for a in reversed(axes[:-1]):
        tile[a] = min(share[a], left)
        left //= max(1, tile[a])
    return tile


def _thread_tile(block_tile: NodeTile, device: Device) -> NodeTile:
    """Cut a block's tile, longest axis first, until each thread has a part in registers."""
    thread_part, room = block_tile, device.thread_registers * REGISTER_BYTES
    points = prod(block_tile.tile.values())
    while thread_part.tile:
        threads = prod(thread_part.tile.values()) * THREADS <= points
        longest = max(thread_part.tile, key=lambda a: thread_part.tile[a])
        if thread_part.tile[longest] == 1 or (
            threads and register_bytes(thread_part, device) <= room
        ):
            break
        half = -(-thread_part.tile[longest] // 2)
        thread_part = replace(thread_part, tile={**thread_part.tile, longest: half})
    return thread_part


def register_bytes(part: NodeTile, device: Device) -> int:
    """Return the bytes in registers while a tile is computed.

    They are the sums of a contraction and the loads of one step. For element-wise computes they are
    one vector (one element of a thread) of each tensor.
    """
    regions, register_use = part.regions, 0
    for c in part.kernel.computes:
        loads = {r.tensor for r in reads(c.expr)}
        item_bytes = max([ITEM_BYTES[part.kernel.dtype(t)] for t in (c.out, *loads)])
        vector = item_bytes * (1 if target_of(device).uses_thread_blocks else device.lanes)
        if contraction(c) is None:
            register_use = max(register_use, vector * (1 + len(loads)))
            continue
        step = {a.name: 1 for a in c.reduce}
        parts = touched(part.kernel, regions, dict.fromkeys(_variables(part), 0), step)
        sums = prod(inner_box(part.kernel, regions, c.out)) * ITEM_BYTES[part.kernel.dtype(c.out)]
        register_use = max(
            register_use, sums + sum(parts[t].elements * item_bytes for t in loads if t in parts)
        )
    return register_use


def _variables(part: NodeTile) -> list[str]:
    return [tile_variable(a) for a in part.tile]
