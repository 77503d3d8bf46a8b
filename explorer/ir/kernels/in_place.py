"""Legality of in-place outputs: each element must be read before it is overwritten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, Var, updates_of
from explorer.ir.dims import Shape
from explorer.ir.kernel import Compute, Expr, Kernel, reads
from explorer.ir.kernels.normal import stores
from explorer.ir.kernels.regions import Interval, Region, box
from explorer.ir.program import Binding


def read_after(kernel: Kernel, output: str, tensor: str) -> str:
    """Return why an output must not overwrite an input; "" if it may.

    It may where each element is read by the task that writes it alone, before the write.
    """
    parts = stores(kernel)
    mine = [c for c in parts if c.out == output]
    target, last = mine[0].target, kernel.computes.index(mine[-1])
    for n, c in enumerate(kernel.computes):
        for r in reads(c.expr):
            if r.tensor != tensor:
                continue
            if len(mine) > 1 or c not in parts or c.reduce or n > last:
                return "other elements are read after an element is written"
            if r.index != target or r.fill is not None:
                return "it is read at another index than is written"
    return ""


def reads_apart(kernel: Kernel, output: str, tensor: str) -> bool:
    """Return True if a kernel writes no element of an output that it reads of an input.

    Extents are numbers; along some dim the ranges must be disjoint, whatever the task.
    """
    written = [_box(c, c.target, kernel.shape(output)) for c in stores(kernel) if c.out == output]
    loads = ((c, r) for c in kernel.computes for r in reads(c.expr) if r.tensor == tensor)
    read = [_box(c, r.index, kernel.shape(tensor)) for c, r in loads]
    return all(any(map(_are_apart, a, b)) for a in read for b in written)


def _box(c: Compute, index: tuple[Affine | Expr, ...], shape: Shape) -> Region:
    return box(index, {a.name: Interval(Affine(), a.extent) for a in (*c.axes, *c.reduce)}, shape)


def _are_apart(a: Interval, b: Interval) -> bool:
    first, second = (a, b) if int(a.lo.const) <= int(b.lo.const) else (b, a)
    return int(first.lo.const) + int(first.size) <= int(second.lo.const)


def is_whole(kernel: Kernel, output: str) -> bool:
    """Return True if one compute writes every element of an output."""
    extents = [tuple(a.extent for a in c.axes) for c in stores(kernel) if c.out == output]
    return extents == [kernel.shape(output)]


def wrong_update(kernel: Kernel) -> str:
    """Return why a kernel's in-place updates are illegal; "" if they are legal.

    For an input that is overwritten in part, the reads are taken to be of another part.
    """
    for output, tensor in kernel.updates:
        why = read_after(kernel, output, tensor) if is_whole(kernel, output) else ""
        if why:
            return f"{output!r} is written over {tensor!r}: {why}"
    return ""


def written_over(body: Sequence[Binding]) -> frozenset[str]:
    """Return the values that kernels overwrite, completely or in part."""
    return frozenset(arg.name for _, _, arg in _updates(body))


def overwritten(body: Sequence[Binding]) -> dict[str, int]:
    """Map each value that is overwritten completely to the position of the kernel that does so."""
    return {arg.name: n for n, is_complete, arg in _updates(body) if is_complete}


def _updates(body: Sequence[Binding]) -> Iterator[tuple[int, bool, Var]]:
    """Yield each value that is overwritten: the position, True if completely, and the value."""
    for n, b in enumerate(body):
        if isinstance(b.expr, KernelCall):
            kernel, pairs = b.expr.kernel, updates_of(b.expr, b.vars)
            for (output, _), (_, arg) in zip(kernel.updates, pairs, strict=True):
                yield n, is_whole(kernel, output), arg
