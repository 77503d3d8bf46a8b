"""A block as large as shared memory has room for what is made inside of it.

A group of kernels has many values in between, of which Roller's tile, made for the heaviest of
them, knows nothing: 36 products of a filtered convolution lie there beside its rows and sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Block
from explorer.ir.kernel import Kernel
from explorer.ir.patterns.regions import propagate
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.types import ITEM_BYTES
from explorer.roller.tiles.cuts import cuts_all, shape_of
from explorer.tile.gpu.block import lower_block
from explorer.tile.gpu.distribute import over_threads
from explorer.tile.verify import shared_bytes


def fitting(kernel: Kernel, block: Block, env: ShapeEnv, device: Device) -> Block:
    """The block, its tile halved along one axis after the other for as long as shared memory has
    no room: along the axis that leaves the least, first those that cut every compute, so that
    blocks do nothing twice but at their borders. The smallest one where none has room.

    Raises BadOption where the kernel has no program for thread blocks, with the reason.
    """
    return next(fitting_each(kernel, block, env, device, (device.block_shared_bytes,)))


def fitting_each(
    kernel: Kernel, block: Block, env: ShapeEnv, device: Device, rooms: Sequence[int]
) -> Iterator[Block]:
    """The same of each room in shared memory, in bytes, the largest first; those that are the same
    once.
    """

    def used(b: Block) -> int:
        return shared_bytes(over_threads(lower_block(kernel, b, env, device), device), device)

    left, given = used(block), None
    extents = shape_of(kernel, {}).extents
    once = [a for a in extents if cuts_all(kernel, a)]
    for room in rooms:
        for axes in (once, extents):
            while left > room:
                smaller = _halved(kernel, block, extents, axes)
                now = left if smaller is None else used(smaller)
                if smaller is None or now >= left:
                    break
                left, block = now, smaller
        if block != given:
            yield block
        given = block


def _halved(
    kernel: Kernel, block: Block, extents: Mapping[str, int], axes: Iterable[str]
) -> Block | None:
    """The block with half of its tile along the axis that leaves the fewest bytes of what is made
    inside; None where it has one element of each.
    """
    sizes = dict(block.tile)
    found = []
    for axis in axes:
        size = sizes.get(axis, extents[axis])
        if size > 1:
            cut = {**sizes, axis: -(-size // 2)}
            found.append(tuple((a, cut[a]) for a in extents if a in cut))
    best = min(found, key=lambda tile: _bytes_inside(kernel, tile), default=None)
    return None if best is None else replace(block, tile=best)


def _bytes_inside(kernel: Kernel, tile: tuple[tuple[str, int], ...]) -> int:
    regions = propagate(kernel, dict(tile)).tensors
    ends = {*kernel.inputs, *kernel.outputs}
    return sum(
        ITEM_BYTES[kernel.dtype(t)] * prod(int(x.size) for x in region)
        for t, region in regions.items()
        if t not in ends
    )
