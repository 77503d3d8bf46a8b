"""A kernel on tensors whose dims lie in another order; its loops follow what they write."""

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
    """The items in memory order."""
    return tuple(items[d] for d in order)


def moves_memory(shape: Sequence[Dim], order: Order) -> bool:
    """Whether elements change their place; dims of extent 1 may go anywhere."""
    long = [d for d in order if shape[d] != 1]
    return long != sorted(long)


def permute(
    kernel: Kernel, orders: Mapping[str, Order], weights: AbstractSet[str], packing: bool = True
) -> tuple[Kernel, dict[str, Order]]:
    """The same values from tensors in new orders, and the orders that weights must come in.

    `orders` are those of the kernel's own tensor names. Loops run in the order of what they write,
    inner tensors lie in the order of what reads them, and weights in the order of the loops, but
    constants that a contraction packs, if it does (`packing`).
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
    made = replace(kernel, computes=tuple(computes))
    changed = {t: o for t, o in chosen.items() if not is_identity(o)}
    moved = {t: o for t, o in changed.items() if t in weights}
    return _with_dims(made, changed), moved


def _with_axes(
    c: Compute, order: Order, orders: Mapping[str, Order], weights: AbstractSet[str]
) -> Compute:
    """The compute with its loops in the order of its target's memory, and its sums in that of what
    it reads.
    """
    axes = _sorted(c.axes, reordered(c.target, order))
    store = c.store if axes == c.axes else c.target
    data = next((r for r in reads(c.expr) if r.tensor not in weights), None)
    if data is None or not c.reduce:
        return replace(c, axes=axes, store=store)
    index = data.index
    if data.tensor in orders:
        index = reordered(index, orders[data.tensor])
    return replace(c, axes=axes, reduce=_sorted(c.reduce, index), store=store)


def _sorted(axes: tuple[Axis, ...], index: Sequence[Affine | Expr]) -> tuple[Axis, ...]:
    """The axes as they appear in an index, those with longer steps first; the others keep their
    place before them.
    """
    steps: dict[str, tuple[int, float]] = {}
    for d, entry in enumerate(index):
        for name, factor in entry.terms if isinstance(entry, Affine) else ():
            steps.setdefault(
                name, (d, -float(factor) if isinstance(factor, int) else float("-inf"))
            )
    known = [a for a in axes if a.name in steps]
    rest = [a for a in axes if a.name not in steps]
    return (*rest, *sorted(known, key=lambda a: steps[a.name]))


def _order_of_read(read: Read, c: Compute, *, first_reduced: bool) -> Order:
    """The dims of a tensor as the loops of one compute iterate over it."""
    names = [a.name for a in ((*c.reduce, *c.axes) if first_reduced else (*c.axes, *c.reduce))]

    def place(d: int) -> int:
        entry = read.index[d]
        found = [names.index(v) for v in entry.variables] if isinstance(entry, Affine) else []
        return max(found, default=-1)

    return tuple(sorted(range(len(read.index)), key=place))


def _with_dims(kernel: Kernel, orders: Mapping[str, Order]) -> Kernel:
    """The kernel with dims of tensors permuted, and every index with them."""
    if not orders:
        return kernel

    def leaf(read: Read) -> Expr:
        order = orders.get(read.tensor)
        return read if order is None else replace(read, index=reordered(read.index, order))

    def moved(c: Compute) -> Compute:
        order = orders.get(c.out)
        store = c.store if order is None else reordered(c.target, order)
        return replace(c, expr=rewrite(c.expr, leaf), store=store)

    def spec(t: TensorSpec) -> TensorSpec:
        order = orders.get(t.name)
        return t if order is None else replace(t, shape=reordered(t.shape, order))

    return replace(
        kernel,
        computes=tuple(map(moved, kernel.computes)),
        tensors=tuple(map(spec, kernel.tensors)),
    )
