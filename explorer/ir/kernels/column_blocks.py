"""Splitting of internal tensors that are read in blocks of their columns: one tensor a block.

t[j] = sum[k] a[k] * b[k, j];  y[i] = t[i] * t[i + 256]

->

t[i] = sum[k] a[k] * b[k, i];  u[i] = sum[k] a[k] * b[k, i + 256];  y[i] = t[i] * u[i]

A tile of y then needs a tile of each block. Before, it needed all columns from the first block's
to the last one's. Columns that are not read are not computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from explorer.ir.affine import Affine, var
from explorer.ir.kernel import (
    Axis,
    Compute,
    Expr,
    Kernel,
    Read,
    TensorSpec,
    reads,
    rewrite,
    substitute,
)
from explorer.ir.kernels.merge import fresh_name
from explorer.ir.kernels.normal import writers


@dataclass(frozen=True, slots=True, order=True)
class ColumnBlock:
    """The columns `first .. first + count - 1` of a tensor."""

    first: int
    count: int

    @property
    def end(self) -> int:
        """The column after the last one."""
        return self.first + self.count


def split_columns(kernel: Kernel) -> Kernel:
    """Split each internal tensor whose readers take disjoint blocks of its last dim.

    After: it is one tensor a block, and so are the tensors that it is computed from.
    """
    while True:
        split = next(_splits(kernel), None)
        if split is None:
            return kernel
        kernel = split


def blocks_read(kernel: Kernel, tensor: str) -> tuple[ColumnBlock, ...] | None:
    """Return the blocks of columns of a tensor that a kernel reads, in order.

    Return None if a load is not of a block, or if two of them overlap without being equal.
    """
    blocks: set[ColumnBlock] = set()
    for c in kernel.computes:
        for read in reads(c.expr):
            if read.tensor == tensor:
                block = _block(read, c)
                if block is None:
                    return None
                blocks.add(block)
    order = sorted(blocks)
    apart = all(a.end <= b.first for a, b in pairwise(order))
    return tuple(order) if apart else None


def _block(read: Read, c: Compute) -> ColumnBlock | None:
    """Return the block of a load whose column moves with one axis that moves no other dim."""
    last = read.index[-1] if read.index else None
    if not isinstance(last, Affine) or read.fill is not None or len(last.terms) != 1:
        return None
    ((name, step),) = last.terms
    others = (i for i in read.index[:-1] if isinstance(i, Affine))
    if step != 1 or any(name in i.variables for i in others):
        return None
    extent = next((a.extent for a in c.axes if a.name == name), None)
    if not isinstance(extent, int) or not isinstance(last.const, int):
        return None
    return ColumnBlock(last.const, extent)


def _splits(kernel: Kernel) -> Iterator[Kernel]:
    """Yield the kernel with one more tensor split into blocks, for each that can be."""
    for n, c in enumerate(kernel.computes):
        if c.out in kernel.outputs or len(writers(kernel, c.out)) > 1:
            continue
        column = c.target[-1].bare if c.target else None
        axis = next((a for a in c.axes if a.name == column), None)
        if axis is None or any(column in i.variables for i in c.target[:-1]):
            continue
        blocks = blocks_read(kernel, c.out)
        if blocks and blocks != (ColumnBlock(0, axis.extent),):
            yield _split(kernel, n, axis, blocks)


def _split(kernel: Kernel, n: int, axis: Axis, blocks: tuple[ColumnBlock, ...]) -> Kernel:
    """Replace the tensor that compute `n` writes by one tensor a block."""
    c, spec = kernel.computes[n], kernel.spec(kernel.computes[n].out)
    taken = {t.name for t in kernel.tensors}
    used = {a.name for k in kernel.computes for a in (*k.axes, *k.reduce)}
    names = {b: fresh_name(f"{spec.name}_{number}", taken) for number, b in enumerate(blocks)}
    specs = [TensorSpec(names[b], (*spec.shape[:-1], b.count), spec.dtype) for b in blocks]
    parts = tuple(_part(c, axis, b, names[b], fresh_name(axis.name, used)) for b in blocks)

    def moved(c: Compute) -> Compute:
        def leaf(read: Read) -> Expr:
            if read.tensor != spec.name:
                return read
            block = _block(read, c)
            assert block is not None
            last = read.index[-1]
            assert isinstance(last, Affine)
            return Read(names[block], (*read.index[:-1], last - block.first))

        return replace(c, expr=rewrite(c.expr, leaf))

    before, after = kernel.computes[:n], kernel.computes[n + 1 :]
    computes = (*before, *parts, *(moved(k) for k in after))
    others = tuple(t for t in kernel.tensors if t.name != spec.name)
    return replace(kernel, tensors=(*others, *specs), computes=computes)


def _part(c: Compute, axis: Axis, block: ColumnBlock, name: str, column: str) -> Compute:
    """Return the compute of one block, along an axis of its own."""
    there = {axis.name: var(column) + block.first}
    here = {axis.name: var(column)}
    axes = tuple(Axis(column, block.count) if a == axis else a for a in c.axes)
    store = tuple(i.substitute(here) for i in c.store)
    return replace(c, out=name, axes=axes, store=store, expr=substitute(c.expr, there))
