"""Thread blocks from tiles of a kernel's heaviest compute; a block's tile is one of the output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from explorer.ir.decisions.tiling import Block
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.kernels.normal import stores
from explorer.ir.shapes.dims import evaluate_dim

Walks: TypeAlias = Mapping[str, tuple[str, int]]
"""The axis of the output that cuts one of the compute, and how many of its steps one step takes."""


def cut_block(
    kernel: Kernel,
    main: Compute,
    sizes: Mapping[str, int],
    register: Mapping[str, int],
    threads: int,
    walks: Walks,
) -> Block:
    """Return a block of `sizes` elements along each axis of its heaviest compute and its depth.

    `register` of them belong to one thread.
    """
    cut: dict[str, int] = {}
    extents = {a.name: max(1, evaluate_dim(a.extent, {})) for a in main.axes}
    for axis, (out, step) in walks.items():
        covered = sizes[axis] // register[axis] * register[axis]
        if covered < extents[axis]:
            cut[out] = max(1, covered // step)
    return Block(
        tuple((a.name, cut[a.name]) for a in stores(kernel)[-1].axes if a.name in cut),
        threads,
        tuple(register.items()),
        tuple((a.name, sizes[a.name]) for a in main.reduce),
    )
