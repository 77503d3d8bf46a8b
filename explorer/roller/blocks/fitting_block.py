"""Thread blocks cut from Roller's tiles, and shrunk until shared memory holds all values.

A group of kernels has many values in between that Roller's tile, made for the heaviest of them,
does not count: 36 products of a filtered convolution are stored there beside its rows and sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Tiling, thread_block
from explorer.ir.dims import ShapeEnv, evaluate_dim
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.kernels.normal import stores
from explorer.ir.kernels.regions import propagate
from explorer.ir.types import ITEM_BYTES
from explorer.roller.tile_cuts import cuts_all, shape_of
from explorer.tile.gpu.block import lower_block
from explorer.tile.gpu.distribute import over_threads
from explorer.tile.verify import shared_bytes


def fitting(kernel: Kernel, block: Tiling, env: ShapeEnv, device: Device) -> Tiling:
    """Halve a block's tile along one axis after the other until it fits shared memory.

    The axis that leaves the fewest bytes goes first, before it those that cut every compute, so
    that blocks repeat work at their borders only. If none fits, the smallest one is returned.

    Raises:
        BadOption: the kernel has no tile program for thread blocks.
    """
    return next(fitting_each(kernel, block, env, device, (device.block_shared_bytes,)))


def fitting_each(
    kernel: Kernel, block: Tiling, env: ShapeEnv, device: Device, rooms: Sequence[int]
) -> Iterator[Tiling]:
    """Yield the block fitted to each of some capacities of shared memory, each block once.

    `rooms` are in bytes, the largest first.
    """

    def used(b: Tiling) -> int:
        """Return the bytes of shared memory that a block takes."""
        return shared_bytes(over_threads(lower_block(kernel, b, env, device), device), device)

    left, previous = used(block), None
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
        if block != previous:
            yield block
        previous = block


def _halved(
    kernel: Kernel, block: Tiling, extents: Mapping[str, int], axes: Iterable[str]
) -> Tiling | None:
    """Return the block with its tile halved along the axis that leaves the fewest internal bytes.

    Return None if the tile has one element of each axis.
    """
    sizes = dict(block.tile)
    tiles = []
    for axis in axes:
        size = sizes.get(axis, extents[axis])
        if size > 1:
            cut = {**sizes, axis: -(-size // 2)}
            tiles.append(tuple((a, cut[a]) for a in extents if a in cut))
    best = min(tiles, key=lambda tile: _bytes_inside(kernel, tile), default=None)
    return None if best is None else replace(block, tile=best)


def _bytes_inside(kernel: Kernel, tile: tuple[tuple[str, int], ...]) -> int:
    regions = propagate(kernel, dict(tile)).tensors
    ends = {*kernel.inputs, *kernel.outputs}
    return sum(
        ITEM_BYTES[kernel.dtype(t)] * prod(int(x.size) for x in region)
        for t, region in regions.items()
        if t not in ends
    )


Walks: TypeAlias = Mapping[str, tuple[str, int]]
"""The axis of the output that cuts one of the compute, and how many of its steps one step takes."""


def cut_block(
    kernel: Kernel,
    main: Compute,
    sizes: Mapping[str, int],
    register: Mapping[str, int],
    threads: int,
    walks: Walks,
) -> Tiling:
    """Return a block of `sizes` elements along each axis of its heaviest compute and its depth.

    `register` of them belong to one thread.
    """
    cut: dict[str, int] = {}
    extents = {a.name: max(1, evaluate_dim(a.extent, {})) for a in main.axes}
    for axis, (out, step) in walks.items():
        covered = sizes[axis] // register[axis] * register[axis]
        if covered < extents[axis]:
            cut[out] = max(1, covered // step)
    return thread_block(
        tuple((a.name, cut[a.name]) for a in stores(kernel)[-1].axes if a.name in cut),
        threads,
        tuple(register.items()),
        tuple((a.name, sizes[a.name]) for a in main.reduce),
    )
