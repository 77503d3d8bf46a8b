"""Roller's tiles for a GPU as thread blocks, and the tile programs generated for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from explorer.cost.bind_kernel import bind_kernel
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.by_identity import by_identity
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical, renamed_tiling
from explorer.ir.kernels.normal import normalise, stores, without_empty
from explorer.ir.tile_program import TileProgram
from explorer.roller.blocks.fitting_block import Walks, cut_block, fitting
from explorer.roller.construct.construct import Growth, construct
from explorer.roller.construct.expression import heaviest
from explorer.roller.construct.rtile import TiledProgram
from explorer.roller.construct.steps import Construction
from explorer.roller.tile_cuts import cut_by, cuts_all
from explorer.tile.gpu.rewrites import block_steps

PREDICTED = "what would run as a thread block of {}: a prediction, for it is a data sheet"


def thread_block_steps(
    kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes, block: Tiling | None = None
) -> tuple[tuple[str, TileProgram], ...]:
    """Return the tile program of a block under one binding, after each rewrite by name.

    The kernel is in normal form; the block is `block`, or Roller's first.

    Raises:
        BadOption: there is no thread block.
        CheckFailed: a rewrite broke the program.
    """
    bound = without_empty(bind_kernel(kernel, sizes))
    if not bound.computes:
        what = f"no thread blocks are made of {kernel.name}: it has no elements"
        raise BadOption(what, where=kernel.name)
    return block_steps(bound, block or constructed_block(bound, device), env, device)


def launched(kernel: Kernel, sizes: Sizes) -> Kernel:
    """Return the canonical form of a kernel under one binding, whose names its blocks use."""
    return canonical(bound_normal(kernel, sizes))[0]


def bound_normal(kernel: Kernel, sizes: Sizes) -> Kernel:
    """Return a kernel under one binding in normal form, without its empty parts."""
    return normalise(without_empty(bind_kernel(kernel, sizes)))


def in_own_names(block: Tiling, bound: Kernel) -> Tiling:
    """Rename a block of `launched` to the axes of the kernel in normal form."""
    _, axes = canonical(bound)
    return renamed_tiling(block, {new: old for old, new in axes.items()})


def in_launched_names(block: Tiling, bound: Kernel) -> Tiling:
    """Rename a block of a kernel in normal form to the axes of its canonical form."""
    return renamed_tiling(block, canonical(bound)[1])


def axes_of(bound: Kernel) -> frozenset[str]:
    """Return the axes that a block of a kernel in normal form may name."""
    return frozenset(canonical(bound)[1])


def constructed_block(
    bound: Kernel, device: Device, construction: Construction | None = None, number: int = 0
) -> Tiling:
    """Return the block of result `number` of a construction, fitted to shared memory.

    The construction is `construction`, or a new one.

    Raises:
        BadOption: there is no such result.
    """
    c = construction or construct(bound, device, growth=Growth(steps=False))
    if number >= len(c.results):
        limits = f"{device.block_shared_bytes} bytes of shared memory and {device.thread_registers}"
        what = f"no tile fits {device.name}: a block has {limits} elements a thread"
        raise BadOption(what, where=bound.name, try_="a device whose blocks have more")
    return fitting(bound, block_of(bound, c.fused, c.results[number]), ShapeEnv(), device)


def block_of(
    kernel: Kernel, fused: Sequence[Sequence[str]], p: TiledProgram, walks: Walks | None = None
) -> Tiling:
    """Return a result of a construction as a block of a kernel whose extents are numbers.

    `fused` are the axes that each of the tile's stands for. Axes that `walks` does not name are not
    cut: there a block does the work of several of Roller's tiles. `walks` has the axes of
    `partitioned_axes`, or more, along which blocks repeat work.
    """
    main = heaviest(kernel, {})
    extents = {a.name: max(1, evaluate_dim(a.extent, {})) for a in (*main.axes, *main.reduce)}
    sizes = split(fused, p.tiles[0].shape, extents)
    threads = split(fused, p.tiles[1].shape, extents)
    register = {a.name: min(threads[a.name], sizes[a.name]) for a in main.axes}
    cut_axes = partitioned_axes(kernel) if walks is None else walks
    block = cut_block(kernel, main, sizes, register, p.threads, cut_axes)
    ends = {a.name: evaluate_dim(a.extent, {}) for a in stores(kernel)[-1].axes}
    return replace(block, tile=tuple((a, n) for a, n in block.tile if n < ends[a]))


@by_identity
def all_axes(kernel: Kernel) -> Walks:
    """Return the axes of the heaviest compute that tiles of the output cut.

    Each has the axis of the output that cuts it, and how many of its steps one step takes.
    """
    return cut_by(kernel, kernel.computes.index(heaviest(kernel, {})), None)


@by_identity
def partitioned_axes(kernel: Kernel) -> Walks:
    """Return the axes along which blocks partition all work without repetition."""
    every = all_axes(kernel)
    return {axis: (out, step) for axis, (out, step) in every.items() if cuts_all(kernel, out)}


def split(
    groups: Sequence[Sequence[str]], shape: Sequence[int], extents: Mapping[str, int]
) -> dict[str, int]:
    """Return the size of a tile over fused axes along every original axis.

    Inner axes are filled first, as long as complete ones fit.
    """
    sizes: dict[str, int] = {}
    for group, size in zip(groups, shape, strict=True):
        left = size
        for axis in reversed(group):
            sizes[axis] = max(1, min(left, extents[axis]))
            left //= extents[axis]
    return sizes
