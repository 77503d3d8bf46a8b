"""Kernels that are reshapes by their index maps; a view without a copy replaces them."""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, View
from explorer.ir.kernel import Apply, Const, Expr, IndexValue, Kernel, Read
from explorer.ir.kernels.normal import normalise
from explorer.ir.program import Binding, Program
from explorer.ir.shapes.algebra import sympy
from explorer.ir.shapes.dims import Shape, product, symbol
from explorer.passes.pipeline.registry import compiler_pass
from explorer.relax.fusion.graph import pinned


@compiler_pass("reshape-views", paper="Relax, ASPLOS 2025, section 4.3: reshapes share storage")
def name_reshapes(program: Program) -> Program:
    """Replace reshape kernels by views.

    After: no kernel only renames bytes. `y[i] = x[i//4, i%4]` becomes a view of x.
    """
    for function in program.functions:
        pinned_values = pinned(function)
        body = tuple(
            b if pinned_values.keys() & {v.name for v in b.vars} else _as_view(b)
            for b in function.body
        )
        program = program.with_function(replace(function, body=body))
    return program


def _as_view(binding: Binding) -> Binding:
    match binding.expr:
        case KernelCall(kernel, (arg,), _) if is_reshape(kernel) or is_reshape(normalise(kernel)):
            return replace(binding, expr=View(arg))
    return binding


def is_reshape(kernel: Kernel) -> bool:
    """Return True if a kernel copies without moving bytes, so that a view can replace it.

    The flattened index that it loads from is the flattened index that it stores to.
    """
    if len(kernel.computes) != 1 or len(kernel.inputs) != 1 or kernel.updates:
        return False
    c = kernel.computes[0]
    if not isinstance(c.expr, Read) or c.reduce or c.expr.fill is not None:
        return False
    source, result = kernel.shape(c.expr.tensor), kernel.shape(c.out)
    if kernel.dtype(c.expr.tensor) != kernel.dtype(c.out) or product(source) != product(result):
        return False
    axes = {a.name: sympy.Integer(0) if a.extent == 1 else symbol(f"axis {a.name}") for a in c.axes}
    store = _flat(c.target, result, axes)
    load = _flat(c.expr.index, source, axes)
    return load is not None and store is not None and sympy.expand(load - store) == 0


def _flat(
    index: tuple[Affine | Expr, ...], shape: Shape, axes: dict[str, sympy.Expr]
) -> sympy.Expr | None:
    """Return the row-major position, or None if an index is not of integers and axes."""
    total = sympy.Integer(0)
    for entry, extent in zip(index, shape, strict=True):
        value = _as_integer(entry, axes)
        if value is None:
            return None
        total = total * extent + value
    return total


def _as_integer(index: Affine | Expr, axes: dict[str, sympy.Expr]) -> sympy.Expr | None:
    match index:
        case Affine():
            return sum((axes[n] * f for n, f in index.terms), sympy.sympify(index.const))
        case IndexValue(inner):
            return _as_integer(inner, axes)
        case Const(value, _) if isinstance(value, (int, sympy.Expr)):
            return sympy.sympify(value)
        case Apply(("floordiv" | "mod") as op, (left, right)):
            a, b = _as_integer(left, axes), _as_integer(right, axes)
            if a is None or b is None or b == 0:
                return None
            floored = sympy.floor(a / b)
            return floored if op == "floordiv" else a - b * floored
        case Apply(("add" | "sub" | "mul") as op, (left, right)):
            a, b = _as_integer(left, axes), _as_integer(right, axes)
            if a is None or b is None:
                return None
            return a + b if op == "add" else a - b if op == "sub" else a * b
        case _:
            return None
