"""Horizontal fusion: two kernels that map one grid as one kernel with the results of both."""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.affine import var
from explorer.ir.kernel import (
    Compute,
    Expr,
    Kernel,
    Read,
    TensorSpec,
    reads,
    result_dtype,
    rewrite,
    substitute,
)
from explorer.ir.kernels.kernel_size import expr_size
from explorer.ir.kernels.merge import rename_axes
from explorer.ir.kernels.normal import LARGEST, is_cheap


def maps_one_grid(kernel: Kernel) -> bool:
    """Return True if each output is one compute without reduction, all over one grid.

    The kernel must compute nothing else.
    """
    if kernel.updates or {c.out for c in kernel.computes} != {*kernel.outputs}:
        return False
    first = kernel.computes[0]
    return (
        len(kernel.computes) == len(kernel.outputs)
        and bool(first.axes)
        and all(
            _maps(c) and (c.axes, c.target) == (first.axes, first.target) for c in kernel.computes
        )
    )


def _maps(c: Compute) -> bool:
    return (
        not c.reduce
        and all(i.bare is not None or not i.terms for i in c.target)
        and all(r.fill is None for r in reads(c.expr))
    )


def join_kernels(first: Kernel, second: Kernel) -> Kernel | None:
    """Return one kernel with the outputs of both, or None if they cannot be fused.

    Both kernels map one grid, and tensors of one name are one tensor. They cannot be fused if their
    grids differ, if they share no tensor that both read at the index written, or if the second
    reads elements that another tile writes.
    """
    names = {a.name for a in first.computes[0].axes}
    second = rename_axes(second, names)
    axes, target = first.computes[0].axes, first.computes[0].target
    own = second.computes[0].axes
    if [a.extent for a in own] != [a.extent for a in axes]:
        return None
    if {first.shape(o) for o in first.outputs} != {second.shape(o) for o in second.outputs}:
        return None
    values = {a.name: var(b.name) for a, b in zip(own, axes, strict=True)}
    moved = tuple(
        replace(
            c,
            axes=axes,
            store=tuple(i.substitute(values) for i in c.target),
            expr=substitute(c.expr, values),
        )
        for c in second.computes
    )
    produced = {*first.outputs}
    theirs = [r for c in moved for r in reads(c.expr)]
    pointwise = {
        r.tensor for c in first.computes for r in reads(c.expr) if r.index == target
    } | produced
    shared = any(r.tensor in pointwise and r.index == target for r in theirs)
    strays = any(r.tensor in produced and r.index != target for r in theirs)
    if not shared or strays or any(c.target != target for c in moved):
        return None
    tensors: dict[str, TensorSpec] = {t.name: t for t in (*first.tensors, *second.tensors)}
    return Kernel(
        first.name,
        tuple(tensors.values()),
        (*first.computes, *moved),
        tuple(dict.fromkeys((*first.inputs, *(i for i in second.inputs if i not in produced)))),
        (*first.outputs, *second.outputs),
        (first.constants | second.constants) - produced,
    )


def inline_output(kernel: Kernel, tensor: str) -> Kernel:
    """Inline one of a kernel's outputs into its readers, which then compute it themselves.

    Loops over vectors compute equal expressions once. The kernel is returned unchanged if the
    expression is large, or is not cheap and has several readers.
    """
    (producer,) = (c for c in kernel.computes if c.out == tensor)
    users = [c for c in kernel.computes if any(r.tensor == tensor for r in reads(c.expr))]
    if result_dtype(producer.expr, kernel) != kernel.dtype(tensor):
        return kernel
    if not users or (len(users) > 1 and not is_cheap(producer.expr)):
        return kernel

    def leaf(read: Read) -> Expr:
        return producer.expr if read.tensor == tensor else read

    new = {c.out: replace(c, expr=rewrite(c.expr, leaf)) for c in users}
    if not all(expr_size(c.expr).within(LARGEST) for c in new.values()):
        return kernel
    computes = tuple(
        replace(new[c.out], origin=c.origin | producer.origin) if c.out in new else c
        for c in kernel.computes
        if c is not producer
    )
    return replace(
        kernel,
        computes=computes,
        tensors=tuple(t for t in kernel.tensors if t.name != tensor),
        outputs=tuple(o for o in kernel.outputs if o != tensor),
    )
