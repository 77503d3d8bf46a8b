"""Kernels under one binding of their symbols: all extents and indices in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from explorer.ir.affine import Affine
from explorer.ir.dims import ShapeEnv, Sizes, concrete_dim, evaluate_dim, evaluate_shape
from explorer.ir.kernel import Apply, Axis, Compute, Const, Expr, IndexValue, Kernel, Read
from explorer.ir.symbols import symbols_of_kernel


def sizes_of(kernel: Kernel, env: ShapeEnv) -> Sizes:
    """Return the hint of every symbol that a kernel depends on, also in steps and expressions."""
    return {n: env.of(n).hint for n in sorted(symbols_of_kernel(kernel))}


def bind_kernel(kernel: Kernel, sizes: Sizes) -> Kernel:
    """Replace a kernel's symbols by numbers; return the same object if it has none."""
    if not sizes:
        return kernel
    tensors = tuple(replace(t, shape=evaluate_shape(t.shape, sizes)) for t in kernel.tensors)
    return replace(
        kernel, tensors=tensors, computes=tuple(_compute(c, sizes) for c in kernel.computes)
    )


def _compute(c: Compute, sizes: Sizes) -> Compute:
    return replace(
        c,
        axes=tuple(Axis(a.name, evaluate_dim(a.extent, sizes)) for a in c.axes),
        reduce=tuple(Axis(a.name, evaluate_dim(a.extent, sizes)) for a in c.reduce),
        expr=_expr(c.expr, sizes),
        store=tuple(i.bind(sizes) for i in c.store),
    )


def _expr(expr: Expr, sizes: Sizes) -> Expr:
    match expr:
        case Apply(op, args):
            return Apply(op, tuple([_expr(a, sizes) for a in args]))
        case Read(tensor, index, fill):
            return Read(tensor, tuple([_index(i, sizes) for i in index]), fill)
        case IndexValue(index):
            return IndexValue(index.bind(sizes))
        case Const(value, dtype):
            plain = isinstance(value, (bool, int, float))
            return expr if plain else Const(evaluate_dim(value, sizes), dtype)


def _index(index: Affine | Expr, sizes: Sizes) -> Affine | Expr:
    return index.bind(sizes) if isinstance(index, Affine) else _expr(index, sizes)


def extents(kernel: Kernel) -> Mapping[str, int]:
    """Return the axes of the last output's compute with their extents, in numbers."""
    last = next(c for c in reversed(kernel.computes) if c.out in kernel.outputs)
    return {a.name: concrete_dim(a.extent) for a in last.axes}
