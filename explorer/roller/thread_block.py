"""Roller's tiles for a GPU as a thread block of the kernel that they are of, and the tile program
that is printed of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.cost.bound import bind_kernel
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.decisions.tiling import Block
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import stores
from explorer.ir.patterns.contraction import contraction
from explorer.ir.shapes.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.ir.tile_programs.program import TileProgram
from explorer.roller.construct.construct import construct
from explorer.roller.construct.expression import heaviest
from explorer.roller.construct.steps import Construction
from explorer.roller.constructed import cut_by
from explorer.roller.tiles.cuts import cuts_all
from explorer.roller.tiles.fitting_block import fitting
from explorer.tile.gpu.rewrites import block_steps

PREDICTED = "what would run as a thread block of {}: a prediction, for it is a data sheet"


def thread_block_steps(
    kernel: Kernel,
    device: Device,
    env: ShapeEnv,
    sizes: Sizes,
    made: Construction | None = None,
    number: int = 0,
) -> tuple[tuple[str, TileProgram], ...]:
    """The tile program of a block of a kernel in normal form, under one binding, after each rewrite
    by name; of result `number` of the construction that was `made`, or of a new one.

    Raises BadOption or CheckFailed where there is none, with the reason.
    """
    bound = bind_kernel(kernel, sizes)
    c = made or construct(bound, device)
    if number >= len(c.results):
        raise BadOption(f"no tile of {kernel.name} fits {device.name}", where=kernel.name)
    block = fitting(bound, block_of(bound, c, number), env, device)
    return block_steps(bound, block, env, device)


def block_of(kernel: Kernel, made: Construction, number: int) -> Block:
    """A result of a construction for a kernel whose extents are numbers.

    Axes along which blocks would do something twice stay whole: there a block does the work of so
    many of Roller's.
    """
    p = made.results[number]
    main = heaviest(kernel, {})
    extents = {a.name: max(1, evaluate_dim(a.extent, {})) for a in (*main.axes, *main.reduce)}
    sizes = split(made.fused, p.tiles[0].shape, extents)
    threads = split(made.fused, p.tiles[1].shape, extents)
    register = {a.name: min(threads[a.name], sizes[a.name]) for a in main.axes}
    walks = cut_by(kernel, kernel.computes.index(main), contraction(main))
    cut: dict[str, int] = {}
    for axis, (out, step) in walks.items():
        whole = sizes[axis] // register[axis] * register[axis]
        if whole < extents[axis] and cuts_all(kernel, out):
            cut[out] = max(1, whole // step)
    first = p.tiles[0]
    pads = zip(made.expression.inputs, first.padding) if first.padding else ()
    return Block(
        tuple((a.name, cut[a.name]) for a in stores(kernel)[-1].axes if a.name in cut),
        p.threads,
        tuple(register.items()),
        tuple((a.name, sizes[a.name]) for a in main.reduce),
        tuple(dict((a.tensor, pad) for a, pad in pads).items()),
    )


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
