"""Roller's tiles for a GPU as a thread block of the kernel that they are of, and the tile program
that is printed of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from explorer.cost.bound import bind_kernel
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.by_identity import by_identity
from explorer.ir.decisions.tiling import Block
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical, renamed_block
from explorer.ir.kernels.empty import without_empty
from explorer.ir.kernels.normal import normalise, stores
from explorer.ir.shapes.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.ir.tile_programs.program import TileProgram
from explorer.roller.blocks.cut_block import Walks, cut_block
from explorer.roller.blocks.fitting_block import fitting
from explorer.roller.construct.construct import Growth, construct
from explorer.roller.construct.expression import heaviest
from explorer.roller.construct.rtile import TiledProgram
from explorer.roller.construct.steps import Construction
from explorer.roller.tiles.cuts import cuts_all
from explorer.roller.tiles.walks import cut_by
from explorer.tile.gpu.rewrites import block_steps

PREDICTED = "what would run as a thread block of {}: a prediction, for it is a data sheet"


def thread_block_steps(
    kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes, block: Block | None = None
) -> tuple[tuple[str, TileProgram], ...]:
    """The tile program of a block of a kernel in normal form, under one binding, after each rewrite
    by name; of that block, or of Roller's first.

    Raises BadOption or CheckFailed where there is none, with the reason.
    """
    bound = without_empty(bind_kernel(kernel, sizes))
    if not bound.computes:
        what = f"no thread blocks are made of {kernel.name}: it has no elements"
        raise BadOption(what, where=kernel.name)
    return block_steps(bound, block or constructed_block(bound, device), env, device)


def launched(kernel: Kernel, sizes: Sizes) -> Kernel:
    """What thread blocks are made of for a kernel under one binding: its canonical form, after
    whose axes and tensors their blocks are named.
    """
    return canonical(bound_normal(kernel, sizes))[0]


def bound_normal(kernel: Kernel, sizes: Sizes) -> Kernel:
    """A kernel under one binding in normal form, without what has no elements then."""
    return normalise(without_empty(bind_kernel(kernel, sizes)))


def in_own_names(block: Block, bound: Kernel) -> Block:
    """A block of `launched` for the kernel in normal form that it is the canonical form of."""
    _, axes = canonical(bound)
    return renamed_block(block, {new: old for old, new in axes.items()})


def in_launched_names(block: Block, bound: Kernel) -> Block:
    """A block of a kernel in normal form for the canonical form of it."""
    return renamed_block(block, canonical(bound)[1])


def constructed_block(
    bound: Kernel, device: Device, made: Construction | None = None, number: int = 0
) -> Block:
    """The block of result `number` of the construction that was `made`, or of a new one, as large
    as shared memory has room for.

    Raises BadOption where there is none.
    """
    c = made or construct(bound, device, growth=Growth(steps=False))
    if number >= len(c.results):
        told = f"{device.block_shared_bytes} bytes of shared memory and {device.thread_registers}"
        what = f"no tile fits {device.name}: a block has {told} elements a thread"
        raise BadOption(what, where=bound.name, try_="a device whose blocks have more")
    return fitting(bound, block_of(bound, c.fused, c.results[number]), ShapeEnv(), device)


def block_of(
    kernel: Kernel, fused: Sequence[Sequence[str]], p: TiledProgram, walks: Walks | None = None
) -> Block:
    """A result of a construction for a kernel whose extents are numbers; `fused` are the axes that
    each of the tile's stands for.

    Axes that `walks` does not name stay whole: there a block does the work of so many of Roller's.
    It names those of `shared_out`, or more, along which blocks do something twice.
    """
    main = heaviest(kernel, {})
    extents = {a.name: max(1, evaluate_dim(a.extent, {})) for a in (*main.axes, *main.reduce)}
    sizes = split(fused, p.tiles[0].shape, extents)
    threads = split(fused, p.tiles[1].shape, extents)
    register = {a.name: min(threads[a.name], sizes[a.name]) for a in main.axes}
    known = shared_out(kernel) if walks is None else walks
    block = cut_block(kernel, main, sizes, register, p.threads, known)
    ends = {a.name: evaluate_dim(a.extent, {}) for a in stores(kernel)[-1].axes}
    return replace(block, tile=tuple((a, n) for a, n in block.tile if n < ends[a]))


@by_identity
def all_axes(kernel: Kernel) -> Walks:
    """The axes of the heaviest compute that tiles of the output cut, with the axis of the output
    that cuts each, and how many of its steps one step takes.
    """
    return cut_by(kernel, kernel.computes.index(heaviest(kernel, {})), None)


@by_identity
def shared_out(kernel: Kernel) -> Walks:
    """Those along which blocks share out all work: none does anything twice."""
    every = all_axes(kernel)
    return {axis: (out, step) for axis, (out, step) in every.items() if cuts_all(kernel, out)}


def split(
    groups: Sequence[Sequence[str]], shape: Sequence[int], extents: Mapping[str, int]
) -> dict[str, int]:
    """The size along every axis of a tile over axes that were fused: the inner ones are filled
    first, as long as whole ones fit.
    """
    sizes: dict[str, int] = {}
    for group, size in zip(groups, shape, strict=True):
        left = size
        for axis in reversed(group):
            sizes[axis] = max(1, min(left, extents[axis]))
            left //= extents[axis]
    return sizes
