"""Kernels of no elements launch nothing, and sums of nothing are what they begin with."""

from __future__ import annotations

import numpy as np
import pytest

import explorer
from explorer.codegen.cuda.assemble import assemble, why_not
from explorer.codegen.cuda.simulated import launch, simulate
from explorer.ir.affine import var
from explorer.ir.kernel import Compute, Kernel, Read, TensorSpec, at, axes
from explorer.ops.interpreter.evaluate import evaluate, evaluate_kernel
from tests.codegen.cases import Case
from tests.codegen.cuda.launched import A100, code_of, is_right
from tests.codegen.test_empty import EMPTY


@pytest.mark.parametrize("c", EMPTY, ids=lambda c: c.name)
def test_a_kernel_of_nothing_is_right(c: Case) -> None:
    code = code_of(c)
    assert is_right(c, code)
    empty = 0 in c.kernel.shape(c.kernel.output)
    assert (code.grid == 0) == empty and code.threads > 0
    if not why_not(A100):
        assert assemble(code_of(c, A100), A100).spilled_bytes == 0


@pytest.mark.parametrize("combiner", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_a_reduction_of_nothing_is_where_it_begins(combiner: str, dtype: str) -> None:
    a, r = axes("a", (5,)), axes("r", (0,))
    c = Compute("y", a, at("x", (*a, *r)), r, combiner)
    tensors = (TensorSpec("x", (5, 0), dtype), TensorSpec("y", (5,), dtype))
    k = Kernel("reduced", tensors, (c,), ("x",), ("y",))
    x = np.zeros((5, 0), dtype)
    code = code_of(Case("reduced", k, None))  # type: ignore[arg-type]
    np.testing.assert_array_equal(launch(code, k, (x,), {})[0], evaluate_kernel(k, [x], {}))


def joined(first: int, second: int) -> Kernel:
    """Columns of two tensors beside each other, and a border of ones around an empty one."""
    a, b = axes("a", (5, first)), axes("b", (5, second))
    past = axes("p", (5, 2))
    shape = {"x": (5, first), "z": (5, second), "y": (5, first + second), "w": (5, 2)}
    tensors = tuple(TensorSpec(name, s) for name, s in shape.items())
    computes = (
        Compute("y", a, at("x", a)),
        Compute("y", b, at("z", b), store=(var("b0"), var("b1") + first)),
        Compute("w", past, Read("x", (var("p0"), var("p1") + first), 1.0)),
    )
    return Kernel("joined", tensors, computes, ("x", "z"), ("y", "w"))


@pytest.mark.parametrize(("first", "second"), [(0, 3), (3, 0), (0, 0), (2, 3)])
def test_parts_of_nothing_are_left_out(first: int, second: int) -> None:
    k = joined(first, second)
    rng = np.random.default_rng(0)
    x, z = (rng.normal(size=k.shape(t)).astype(np.float32) for t in k.inputs)
    code = code_of(Case("joined", k, None))  # type: ignore[arg-type]
    y, w = launch(code, k, (x, z), {})
    np.testing.assert_array_equal(y, np.concatenate([x, z], 1))
    np.testing.assert_array_equal(w, 1)


@explorer.trace
def positive(x: explorer.tensor("float32", "n", 4)):  # type: ignore[valid-type,no-untyped-def]
    found = explorer.np.exp(x[explorer.np.nonzero(x > 0)])
    return found, explorer.np.sum(found), x + explorer.np.sum(found)


@pytest.mark.parametrize("least", [-9.0, 0.0, 9.0])
def test_data_may_leave_nothing(least: float) -> None:
    c = explorer.compile(positive, target="cuda-sim")
    x = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32) + np.float32(least)
    found, run = simulate(c.program, {"x": x}, c.device)
    assert not run.refused
    for got, want in zip(found.values(), evaluate(c.model.program, {"x": x}).values(), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, 1e-5, 1e-6)
    assert (found[next(iter(found))].size == 0) == (least < 0)
