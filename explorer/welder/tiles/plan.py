"""Plans of a group: its tiles over the memories of a device, with footprint, traffic and recompute.

From Welder, section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from explorer.cached_property import cached_property
from explorer.cost.bind_kernel import bind_kernel, sizes_of
from explorer.cost.estimate import kernel_terms
from explorer.cost.footprint import (
    ALIGN_BYTES,
    GPU_ALIGN_BYTES,
    footprint,
    inner_box,
    padded_bytes,
    points,
)
from explorer.cost.touched_parts import middle, number, touched
from explorer.cost.traffic import Tile, cached_traffic, tile_count, traffic
from explorer.devices.model import Device, LevelMemory
from explorer.devices.target import Target, target_of
from explorer.ir.decisions.tile_graph import GroupPlan, LevelBytes, OperatorTile, TileEdge
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Expr, Kernel, operations_of, reads
from explorer.ir.kernels.regions import Regions, propagate
from explorer.ir.types import ITEM_BYTES
from explorer.welder.tiles.levels import memories, resident, waves
from explorer.welder.tiles.operator_tiles import (
    NodeTile,
    connect_levels,
    node_tiles,
    nodes_at,
    register_bytes,
)
from explorer.welder.tiles.tile_costs import best_tile, largest_output, steps_of
from explorer.welder.tiles.tile_graph import links


def plan_group(
    kernel: Kernel,
    device: Device,
    env: ShapeEnv = ShapeEnv(),
    tile: Mapping[str, int] | Tiling | None = None,
) -> GroupPlan:
    """Return the plan of a group under the hints of its symbols.

    The tile is `tile` (sizes by axis of the output; others are not cut), else the one that moves
    least and fits. Pure; it takes milliseconds. A tile that fits no memory gives a plan that does
    not fit. Traffic inside of a task is counted as if all tasks were the one in the middle. Other
    traffic is exact, with smaller tasks at the ends.
    """
    bound = bind_kernel(kernel, sizes_of(kernel, env))
    chosen = dict(best_tile(bound, device).tile) if tile is None else tile
    tiling = chosen if isinstance(chosen, Tiling) else Tiling(tuple(sorted(chosen.items())))
    return _planned(bound, device, target_of(device), tiling)


@lru_cache(maxsize=256)
def _planned(kernel: Kernel, device: Device, target: Target, tiling: Tiling) -> GroupPlan:
    """Return the plan; another target under the device's name has another."""
    return _Planner.of(kernel, device, tiling).plan()


@dataclass(frozen=True)
class _Planner:
    """One group under one tiling, with fixed extents."""

    kernel: Kernel
    device: Device
    tiling: Tiling
    tile: Tile
    regions: Regions
    memories: tuple[LevelMemory, ...]
    home: int  # the memory that holds a task's tile
    levels: Mapping[str, int]  # of each intermediate
    grid: int

    @staticmethod
    def of(kernel: Kernel, device: Device, tiling: Tiling) -> _Planner:
        """Choose the memories of a task's tile and of its intermediates."""
        tile = dict(tiling.tile)
        regions = propagate(kernel, tile)
        levels_of_device = memories(device)
        home = home_of(kernel, tile, regions, device)
        levels = connect_levels(kernel, regions, levels_of_device, home)
        grid = tile_count(kernel, tile, {})
        return _Planner(kernel, device, tiling, tile, regions, levels_of_device, home, levels, grid)

    def plan(self) -> GroupPlan:
        """Return the complete plan."""
        near = self.near()
        levels = self.bytes(near)
        footprint = levels[self.home].footprint
        together = resident(self.device, footprint, largest_output(self.kernel, self.regions))
        turns = waves(self.device, self.grid, together)
        return GroupPlan(
            self.memories[self.home].name,
            tuple(sorted(self.tile.items())),
            self.grid,
            turns,
            levels,
            tuple(self._tiles(near)),
            tuple(self._edges(near)),
            recompute(self.kernel, self.regions, self.tile),
            self._predicted(levels, turns * together * self.device.units),
        )

    def near(self) -> dict[int, tuple[NodeTile, ...]]:
        """Return the virtual nodes of every memory inside of a task, nearest first."""
        nodes_by_memory: dict[int, tuple[NodeTile, ...]] = {}
        for at in reversed(range(self.home)):
            nodes_by_memory = {
                at: self._nodes(at, nodes_by_memory.get(at + 1, ())),
                **nodes_by_memory,
            }
        return nodes_by_memory

    def bytes(self, near: Mapping[int, Sequence[NodeTile]]) -> tuple[LevelBytes, ...]:
        """Return the footprint and the traffic of every memory, nearest first."""
        inside = (self._near(at, nodes) for at, nodes in near.items())
        return (*inside, *(self._far(at) for at in range(self.home, len(self.memories))))

    def _nodes(self, at: int, around: Sequence[NodeTile]) -> tuple[NodeTile, ...]:
        nodes = nodes_at(self.kernel, self.levels, self.memories, at)
        micro = self.tiling.micro
        return node_tiles(self.kernel, self.regions, nodes, self.device, micro, at, around)

    def _near(self, at: int, nodes: Sequence[NodeTile]) -> LevelBytes:
        """Return the use of a memory inside of a task: each virtual node moves its operands."""
        memory, kernel, footprint, moved = self.memories[at], self.kernel, 0, 0
        for node in nodes:
            if memory.cache and memory.capacity is not None:
                cached = cached_traffic(
                    node.kernel, node.tile, memory.capacity,
                    line_bytes=memory.read_bytes, order=node.order,
                )  # fmt: skip
                total = cached.traffic.total_bytes
                room = cached.resident_bytes or register_bytes(node, self.device)  # else it streams
            else:
                total = traffic(node.kernel, node.tile).total_bytes
                room = register_bytes(node, self.device)
            shared = (self._boxes[t] for t in node.also)
            total += sum(prod(b) * ITEM_BYTES[kernel.dtype(t)] for t, b in zip(node.also, shared))
            footprint, moved = max(footprint, room), moved + total
        return LevelBytes(memory.name, footprint, memory.capacity, moved * self.grid)

    def _far(self, at: int) -> LevelBytes:
        """Return the use of the memory of a task's tile, or of one behind it."""
        memory, kernel = self.memories[at], self.kernel
        if at == len(self.memories) - 1:
            border = (*kernel.inputs, *kernel.outputs)
            held_bytes = sum(_tensor_bytes(kernel, n) for n in border if n in self.regions.tensors)
            return LevelBytes(memory.name, held_bytes, None, 0)
        units = self.device.units
        if not memory.cache or memory.capacity is None:
            steps = steps_of(kernel, self.device, self.tile)
            held_bytes = footprint(
                kernel, self.tile, align_bytes=GPU_ALIGN_BYTES, steps=steps, regions=self.regions
            ).bytes
            moved = traffic(
                kernel, self.tile, line_bytes=memory.read_bytes, write_bytes=memory.write_bytes,
                regions=self.regions,
            ).total_bytes  # fmt: skip
            return LevelBytes(memory.name, held_bytes, memory.capacity, moved)
        room = memory.capacity // (units if memory.shared else 1)
        inner = footprint(kernel, self.tile, inner=True, regions=self.regions).bytes
        inner += padded_bytes(kernel, self.regions)
        cached = cached_traffic(
            kernel, self.tile, room, units=1 if memory.shared else units,
            line_bytes=memory.read_bytes, beside=inner,
        )  # fmt: skip
        held_bytes = cached.resident_bytes + inner
        if at == self.home:
            held_bytes = footprint(kernel, self.tile, regions=self.regions).bytes
            held_bytes += padded_bytes(kernel, self.regions)
        return LevelBytes(memory.name, held_bytes, room, cached.traffic.total_bytes)

    @cached_property
    def _boxes(self) -> dict[str, tuple[int, ...]]:
        """Return the part of every tensor that a task has."""
        parts = touched(self.kernel, self.regions, middle(self.kernel, self.tile))
        touched_boxes = {n: p.box for n, p in parts.items()}
        inner = (t.name for t in self.kernel.tensors if t.name in self.regions.tensors)
        return {
            n: inner_box(self.kernel, self.regions, n) for n in inner if n not in touched_boxes
        } | touched_boxes

    def _tiles(self, near: Mapping[int, Sequence[NodeTile]]) -> Iterator[OperatorTile]:
        for at, nodes in near.items():
            for node in nodes:
                regions = node.regions
                for number_, c in zip(node.node.numbers, node.kernel.computes, strict=True):
                    for name in dict.fromkeys((*(r.tensor for r in reads(c.expr)), c.out)):
                        box = inner_box(node.kernel, regions, name)
                        yield self._tile(number_, name, box, at)
        boxes = self._boxes
        for n, c in enumerate(self.kernel.computes):
            for name in dict.fromkeys((*(r.tensor for r in reads(c.expr)), c.out)):
                yield self._tile(n, name, boxes[name], self.home)

    def _tile(self, n: int, name: str, box: tuple[int, ...], at: int) -> OperatorTile:
        spec = self.kernel.spec(name)
        full = tuple(number(d) for d in spec.shape)
        size = prod(box) * ITEM_BYTES[spec.dtype]
        out = self.kernel.computes[n].out
        return OperatorTile(out, name, box, full, size, self.memories[at].name)

    def _edges(self, near: Mapping[int, Sequence[NodeTile]]) -> Iterator[TileEdge]:
        boxes = self._boxes
        for link in links(self.kernel):
            at = self.levels[link.tensor]
            box = boxes.get(link.tensor, ())
            for node in near.get(at, ()):
                if link.sources[0] in node.node.numbers:
                    box = inner_box(node.kernel, node.regions, link.tensor)
            size = _tensor_bytes(self.kernel, link.tensor)
            for target in link.targets:
                name = self.kernel.computes[target].out
                yield TileEdge(
                    link.tensor, name, link.tensor, size, self.memories[at].name, tuple(box)
                )

    def _predicted(self, levels: Sequence[LevelBytes], slots: int) -> float:
        """Return the modelled time: Roller's where that refines tiles.

        Else it is the longest of computing and moving, over the share of units that have work (the
        paper's penalty for little parallelism).
        """
        if target_of(self.device).refines_tiles:
            terms = kernel_terms(self.kernel, self.tiling, self.device, {}, self.regions)
            return sum(us for _, us in terms)
        done = points(self.kernel, self.regions, self.tile)
        work = sum(p * operations(c.expr) for p, c in zip(done, self.kernel.computes, strict=True))
        longest = work / (self.device.reached_gflops_per_unit * self.device.units * 1e3)
        for memory, moved in zip(self.memories, levels):
            if memory.gb_per_s:
                longest = max(longest, moved.traffic / (memory.gb_per_s * 1e3))
        return longest * slots / self.grid


def home_of(kernel: Kernel, tile: Tile, regions: Regions, device: Device) -> int:
    """Return the number of the memory that holds a task's tile.

    It is the nearest of the target's that has room, or the last.
    """
    levels_of_device, homes = memories(device), target_of(device).tile_levels(device)
    if len(homes) == 1:
        return homes[0]
    tile_bytes = footprint(kernel, tile, regions=regions, align_bytes=ALIGN_BYTES).bytes
    tile_bytes += padded_bytes(kernel, regions)
    for at in homes:
        memory = levels_of_device[at]
        room = (memory.capacity or 0) // (device.units if memory.shared else 1)
        if tile_bytes <= room:
            return at
    return homes[-1]


def recompute(kernel: Kernel, regions: Regions, tile: Tile) -> float:
    """Return the operations of all tasks over those of one task that does all.

    Above 1, halos are computed by each task that needs them.
    """
    untiled = propagate(kernel, {})
    done, least = points(kernel, regions, tile), points(kernel, untiled, {})
    cost = [operations(c.expr) for c in kernel.computes]
    most = sum(n * w for n, w in zip(done, cost, strict=True))
    return most / max(1, sum(n * w for n, w in zip(least, cost, strict=True)))


def operations(expr: Expr) -> int:
    """Return the number of scalar functions of an expression, at least one."""
    return max(1, operations_of(expr))


def _tensor_bytes(kernel: Kernel, name: str) -> int:
    spec = kernel.spec(name)
    return prod(number(d) for d in spec.shape) * ITEM_BYTES[spec.dtype]
