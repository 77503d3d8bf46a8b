"""Permutation of a kernel's tensors; its loops follow the memory order of their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TypeVar

from explorer.ir.affine import Affine
from explorer.ir.kernel import Axis, Compute, Expr, Kernel, Read, TensorSpec, reads, rewrite
from explorer.ir.shapes.dims import Dim
from explorer.passes.copies.split_axes import contractions
from explorer.passes.layout.memory_order import Order, is_identity

Item = TypeVar("Item")


def reordered(items: Sequence[Item], order: Order) -> tuple[Item, ...]:
    """Return the items in memory order."""
    return tuple(items[d] for d in order)


def moves_memory(shape: Sequence[Dim], order: Order) -> bool:
    """Return True if elements move in memory; dims of extent 1 may go anywhere."""
    long = [d for d in order if shape[d] != 1]
    return long != sorted(long)


def permute(
    kernel: Kernel, orders: Mapping[str, Order], weights: AbstractSet[str], packing: bool = True
) -> tuple[Kernel, dict[str, Order]]:
    """Permute a kernel's tensors; return the kernel and the orders that its weights must have.

    `orders` are those of the kernel's own tensor names. Loops run in the order of their results,
    inner tensors lie in the order of their readers, and weights in the order of the loops, except
    constants that a contraction packs if `packing`.
    """
    chosen = dict(orders)
    computes = list(kernel.computes)
    for n in reversed(range(len(computes))):
        c = computes[n]
        rank = len(kernel.shape(c.out))
        computes[n] = c = _with_axes(c, chosen.get(c.out, tuple(range(rank))), chosen, weights)
        packs = packing and contractions(replace(kernel, computes=tuple(computes)))[n] is not None
        for read in reads(c.expr):
            inner = read.tensor not in kernel.inputs and read.tensor not in chosen
            if inner or (read.tensor in weights and read.tensor not in chosen):
                order = _order_of_read(read, c, first_reduced=not inner)
                ahead = packs and read.tensor in kernel.constants
                if inner or (not ahead and moves_memory(kernel.shape(read.tensor), order)):
                    chosen[read.tensor] = order
    ordered = replace(kernel, computes=tuple(computes))
    changed = {t: o for t, o in chosen.items() if not is_identity(o)}
    moved = {t: o for t, o in changed.items() if t in weights}
    return _with_dims(ordered, changed), moved


def _with_axes(
    c: Compute, order: Order, orders: Mapping[str, Order], weights: AbstractSet[str]
) -> Compute:
    """Order a compute's loops by the memory of its target, its reductions by that of its data."""
    axes = _sort_axes(c.axes, reordered(c.target, order))
    store = c.store if axes == c.axes else c.target
    data = next((r for r in reads(c.expr) if r.tensor not in weights), None)
    if data is None or not c.reduce:
        return replace(c, axes=axes, store=store)
    index = data.index
    if data.tensor in orders:
        index = reordered(index, orders[data.tensor])
    return replace(c, axes=axes, reduce=_sort_axes(c.reduce, index), store=store)


def _sort_axes(axes: tuple[Axis, ...], index: Sequence[Affine | Expr]) -> tuple[Axis, ...]:
    """Sort axes by their position in an index, longer steps first; other axes stay in front."""
    steps: dict[str, tuple[int, float]] = {}
    for d, entry in enumerate(index):
        for name, factor in entry.terms if isinstance(entry, Affine) else ():
            steps.setdefault(
                name, (d, -float(factor) if isinstance(factor, int) else float("-inf"))
            )
    indexed = [a for a in axes if a.name in steps]
    others = [a for a in axes if a.name not in steps]
    return (*others, *sorted(indexed, key=lambda a: steps[a.name]))


def _order_of_read(read: Read, c: Compute, *, first_reduced: bool) -> Order:
    """Return the dims of a tensor in the order in which a compute's loops iterate over them."""
    names = [a.name for a in ((*c.reduce, *c.axes) if first_reduced else (*c.axes, *c.reduce))]

    def place(d: int) -> int:
        entry = read.index[d]
        positions = [names.index(v) for v in entry.variables] if isinstance(entry, Affine) else []
        return max(positions, default=-1)

    return tuple(sorted(range(len(read.index)), key=place))


def _with_dims(kernel: Kernel, orders: Mapping[str, Order]) -> Kernel:
    """Permute the dims of tensors and every index of them."""
    if not orders:
        return kernel

    def leaf(read: Read) -> Expr:
        order = orders.get(read.tensor)
        return read if order is None else replace(read, index=reordered(read.index, order))

    def permute_compute(c: Compute) -> Compute:
        order = orders.get(c.out)
        store = c.store if order is None else reordered(c.target, order)
        return replace(c, expr=rewrite(c.expr, leaf), store=store)

    def permute_spec(t: TensorSpec) -> TensorSpec:
        order = orders.get(t.name)
        return t if order is None else replace(t, shape=reordered(t.shape, order))

    return replace(
        kernel,
        computes=tuple(map(permute_compute, kernel.computes)),
        tensors=tuple(map(permute_spec, kernel.tensors)),
    )
