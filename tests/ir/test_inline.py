"""Kernels in normal form: what one compute alone reads is part of it, within bounds, and every
value stays.
"""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.ir.affine import var
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Kernel,
    Read,
    TensorSpec,
    apply,
    reads,
    result_dtype,
    rewrite,
    size_of,
    substitute,
)
from explorer.ir.kernels.contraction import contraction
from explorer.ir.kernels.normal import LARGEST, _values, inline, is_cheap, normalise
from explorer.ops.interpreter.loop_nest import evaluate_kernel
from tests.examples import examples

AXES = (Axis("i", 3), Axis("j", 4))
SHAPE = (3, 4)


def kernel_of(exprs, reduce_last=False):
    """Computes `t0, t1, ..` of these expressions; the last is `y`."""
    names = [f"t{n}" for n in range(len(exprs) - 1)] + ["y"]
    computes = tuple(
        Compute(n, AXES, e, origin=frozenset({n})) for n, e in zip(names, exprs, strict=True)
    )
    specs = tuple(TensorSpec(n, SHAPE) for n in ("x", "z", *names))
    return Kernel("k", specs, computes, ("x", "z"), ("y",))


def load(name, turned=False):
    return Read(name, (var("i"), var("j")) if not turned else (var("i"), var("j") * -1 + 3))


def moved(p, read):
    return substitute(p.expr, _values(p, read)) if read.tensor == p.out else read


def simply(kernel):
    """What `inline` does, by its meaning: join the first pair that may be, and look again."""
    while True:
        for p in kernel.computes:
            users = [c for c in kernel.computes if any(r.tensor == p.out for r in reads(c.expr))]
            if p.reduce or p.out == kernel.output or len(users) != 1:
                continue
            if result_dtype(p.expr, kernel) != kernel.dtype(p.out):
                continue
            (user,) = users
            mine = [r for r in reads(user.expr) if r.tensor == p.out]
            if len({r.index for r in mine}) != 1 and not is_cheap(p.expr):
                continue
            if contraction(user) and not isinstance(p.expr, Read):
                continue
            if any(_values(p, r) is None or r.fill is not None for r in mine):
                continue
            break
        else:
            return kernel
        expr = rewrite(user.expr, partial(moved, p))
        joined = Compute(user.out, user.axes, expr, user.reduce, user.combiner, user.store)
        computes = tuple(joined if c is user else c for c in kernel.computes if c is not p)
        tensors = tuple(t for t in kernel.tensors if t.name != p.out)
        kernel = Kernel(kernel.name, tensors, computes, kernel.inputs, kernel.outputs)


@st.composite
def kernels(draw):
    exprs = []
    for _ in range(draw(st.integers(1, 6))):
        known = ["x", "z", *(f"t{k}" for k in range(len(exprs)))]
        a, b = (load(draw(st.sampled_from(known)), draw(st.booleans())) for _ in range(2))
        op = draw(st.sampled_from(["add", "mul", "tanh", "abs"]))
        exprs.append(Apply(op, (a, b) if op in ("add", "mul") else (a,)))
    return kernel_of(exprs)


@settings(max_examples=examples(200))
@given(kernels())
def test_computes_join_as_if_each_were_looked_at_again_and_again(kernel):
    found, wanted = inline(kernel), simply(kernel)
    assert found == wanted
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(2)]
    np.testing.assert_allclose(
        evaluate_kernel(found, arrays, {}), evaluate_kernel(kernel, arrays, {}), rtol=1e-4
    )


def test_a_kernel_with_nothing_to_join_is_the_same_object():
    kernel = kernel_of([Apply("tanh", (load("x"),))])
    assert inline(kernel) is kernel


def test_a_long_chain_is_cut_where_an_expression_would_be_too_deep():
    exprs = [Apply("tanh", (load("x" if n == 0 else f"t{n - 1}"),)) for n in range(600)]
    found = normalise(kernel_of(exprs))
    assert size_of(found).depth == LARGEST.depth
    assert len(found.computes) == -(-600 // LARGEST.depth)
    assert frozenset().union(*(c.origin for c in found.computes)) == {
        *(f"t{n}" for n in range(599)),
        "y",
    }


@pytest.mark.parametrize("count", [4, 80])
def test_what_is_read_twice_is_not_written_out_without_end(count):
    exprs = [
        Apply("mul", (load(name), load(name)))
        for name in ("x", *(f"t{n}" for n in range(count - 1)))
    ]
    found = normalise(kernel_of(exprs))
    assert all(
        size_of(kernel_of([c.expr])).operations <= LARGEST.operations for c in found.computes
    )
    arrays = [np.full(SHAPE, 1.0000001, np.float32)] * 2
    np.testing.assert_allclose(
        evaluate_kernel(found, arrays, {}), evaluate_kernel(kernel_of(exprs), arrays, {}), rtol=1e-3
    )


def test_epilogues_of_epilogues_that_stay_apart_are_aligned_too():
    turned = Compute("s", AXES, load("x"), (Axis("k", 1),), "sum", (var("j"), var("i")))
    wide = [Apply("tanh", (Read("s", (var("i"), var("j"))),))]
    for n in range(LARGEST.depth + 3):
        wide.append(Apply("tanh", (Read(f"e{n}", (var("i"), var("j"))),)))
    axes = (Axis("i", 4), Axis("j", 3))
    names = [*(f"e{n}" for n in range(len(wide) - 1)), "y"]
    computes = (turned, *(Compute(n, axes, e) for n, e in zip(names, wide, strict=True)))
    specs = (TensorSpec("x", SHAPE), *(TensorSpec(n, (4, 3)) for n in ("s", *names)))
    kernel = Kernel("k", specs, computes, ("x",), ("y",))
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    found = normalise(kernel)
    assert len(found.computes) == 3
    np.testing.assert_allclose(
        evaluate_kernel(found, [x], {}), evaluate_kernel(kernel, [x], {}), rtol=1e-5
    )


def test_a_dim_of_one_that_is_read_past_its_border_stays() -> None:
    i, r = Axis("i", 1), Axis("r", 3)
    made = Compute("t", (Axis("k", 1),), apply("max", Read("x", (var("k"),)), 0.0))
    window = Read("t", (var("i") + var("r") - 1,), 0.0)
    summed = Compute("y", (i,), window, (r,), "sum")
    specs = tuple(TensorSpec(n, (1,)) for n in ("x", "t", "y"))
    kernel = Kernel("k", specs, (made, summed), ("x",), ("y",))
    x = np.array([5.0], np.float32)
    assert evaluate_kernel(normalise(kernel), [x], {}).tolist() == [5.0]
