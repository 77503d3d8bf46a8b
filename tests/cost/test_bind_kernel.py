"""Binding a kernel's symbols: none is left, wherever it stood."""

from __future__ import annotations

import sympy

from explorer.cost.bind_kernel import bind_kernel, sizes_of
from explorer.ir.affine import var
from explorer.ir.dims import ShapeEnv, SymbolBound
from explorer.ir.kernel import Apply, Axis, Compute, Const, Kernel, Read, TensorSpec
from explorer.ir.symbols import symbols_of_kernel

N, STEP, M = (sympy.Symbol(n, integer=True) for n in ("n", "step", "m"))


def test_steps_and_numbers_of_an_expression_are_bound_too() -> None:
    x = Read("x", (var("i") * STEP,))
    compute = Compute("y", (Axis("i", N),), Apply("mul", (x, Const(M, "float32"))))
    kernel = Kernel("k", (TensorSpec("x", (N,)), TensorSpec("y", (N,))), (compute,), ("x",), ("y",))
    env = ShapeEnv(tuple(SymbolBound(n, hint=h) for n, h in (("n", 9), ("step", 0), ("m", 5))))
    assert sizes_of(kernel, env) == {"m": 5, "n": 9, "step": 0}
    bound = bind_kernel(kernel, sizes_of(kernel, env))
    assert symbols_of_kernel(bound) == frozenset()
    assert bound.computes[0].expr == Apply("mul", (Read("x", (var("i") * 0,)), Const(5)))
