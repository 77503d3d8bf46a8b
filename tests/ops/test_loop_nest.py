"""The NumPy meaning of kernels against the same loops, one element after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.ir.affine import Affine, affine, var
from explorer.ir.dims import symbol
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Const,
    Expr,
    IndexValue,
    Kernel,
    Read,
    TensorSpec,
    apply,
)
from explorer.ops.interpreter import loop_nest
from explorer.ops.interpreter.evaluate import evaluate_kernel
from tests.examples import examples

random = np.random.default_rng(0)
n = symbol("n")
Point = Mapping[str, int]


def place(index: Affine, at: Point) -> int:
    return int(sum(int(c) * at[v] for v, c in index.terms) + int(index.const))


def scalar(expr: Expr, at: Point, tensors: Mapping[str, np.ndarray]) -> Any:
    """An expression at one point."""
    match expr:
        case Const(value, _):
            return value
        case IndexValue(index):
            return place(index, at)
        case Read(tensor, index, fill):
            array = tensors[tensor]
            where = [
                place(i, at) if isinstance(i, Affine) else int(scalar(i, at, tensors))
                for i in index
            ]
            outside = any(not 0 <= w < s for w, s in zip(where, array.shape, strict=True))
            if outside and fill is not None:
                return fill
            return array[
                tuple(min(max(w, 0), s - 1) for w, s in zip(where, array.shape, strict=True))
            ]
        case Apply(op, args):
            values = [scalar(a, at, tensors) for a in args]
            return {"add": sum, "mul": math.prod, "max": max, "sub": lambda v: v[0] - v[1]}[op](
                values
            )
    raise AssertionError


def loops(kernel: Kernel, arrays: list[np.ndarray]) -> np.ndarray:
    """The kernel, one element after the other."""
    tensors = dict(zip(kernel.inputs, arrays, strict=True))
    start = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
    step = {"sum": lambda a, b: a + b, "prod": lambda a, b: a * b, "max": max, "min": min}
    for c in kernel.computes:
        spec = kernel.spec(c.out)
        out = tensors.setdefault(c.out, np.full(spec.shape, np.nan))  # type: ignore[arg-type]
        for p in np.ndindex(*(int(a.extent) for a in c.axes)):
            at = {a.name: i for a, i in zip(c.axes, p, strict=True)}
            if c.combiner is None:
                value = scalar(c.expr, at, tensors)
            else:
                value = start[c.combiner]
                for q in np.ndindex(*(int(a.extent) for a in c.reduce)):
                    inner = {**at, **{a.name: i for a, i in zip(c.reduce, q, strict=True)}}
                    value = step[c.combiner](value, scalar(c.expr, inner, tensors))
            out[tuple(place(i, at) for i in c.target)] = value
    return tensors[kernel.output]


def one(
    expr: Expr,
    axes: list[Axis],
    reduce: list[Axis],
    combiner: str | None,
    **shapes: tuple[int, ...],
) -> Kernel:
    """A kernel of one compute over float64 tensors."""
    shape = tuple(int(a.extent) for a in axes)
    specs = (
        *(TensorSpec(t, s, "float64") for t, s in shapes.items()),
        TensorSpec("y", shape, "float64"),
    )
    return Kernel(
        "k",
        specs,
        (Compute("y", tuple(axes), expr, tuple(reduce), combiner),),
        tuple(shapes),
        ("y",),
    )


small = st.integers(-2, 2)
AI, AJ, AK, AL = Axis("i", 3), Axis("j", 4), Axis("k", 2), Axis("l", 3)
index = st.builds(
    lambda c, d: affine(c, d),
    st.dictionaries(st.sampled_from(["i", "j", "k", "l"]), small, max_size=3),
    small,
)


@settings(max_examples=examples(150))
@given(
    st.lists(index, min_size=2, max_size=2),
    st.lists(index, min_size=1, max_size=1),
    st.sampled_from(["mul", "add", "sub", "max"]),
    st.sampled_from(["sum", "prod", "max", "min", None]),
    st.sampled_from([0.0, -1.5, float("inf")]),
)
def test_any_affine_reads_and_combiner(
    a: list[Affine], b: list[Affine], op: str, combiner: str | None, fill: float
) -> None:
    reduce = [AK, AL] if combiner else []
    if combiner is None:
        a, b = ([i.without({"k", "l"}) for i in x] for x in (a, b))
    expr = Apply(op, (Read("a", tuple(a), fill), Read("b", tuple(b), 1.0)))
    kernel = one(expr, [AI, AJ], reduce, combiner, a=(4, 3), b=(5,))
    arrays = [random.standard_normal((4, 3)), random.standard_normal(5)]
    with np.errstate(all="ignore"):
        right = loops(kernel, arrays)
    np.testing.assert_allclose(evaluate_kernel(kernel, arrays, {}), right, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("limit", [1, 7, 100, 1 << 20])
@pytest.mark.parametrize("combiner", ["sum", "max", None])
def test_the_size_of_the_parts_does_not_matter(
    limit: int, combiner: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MAP_ELEMENTS", "REDUCE_ELEMENTS", "CONTRACT_ELEMENTS"):
        monkeypatch.setattr(loop_nest, name, limit)
    x = Read("x", (var("i") * 2 + var("k") - 1, var("j")), 0.0)
    expr = apply("mul", x, Read("w", (var("k"), var("j") if combiner == "max" else Affine((), 1))))
    if combiner is None:
        expr = Apply(
            "mul", (Read("x", (var("i"), var("j")), 0.0), Read("x", (var("j"), var("i")), 2.0))
        )
    kernel = one(expr, [AI, AJ], [AK] if combiner else [], combiner, x=(5, 4), w=(2, 4))
    arrays = [random.standard_normal((5, 4)), random.standard_normal((2, 4))]
    np.testing.assert_allclose(
        evaluate_kernel(kernel, arrays, {}), loops(kernel, arrays), rtol=1e-12
    )


def test_a_store_may_permute_split_and_shift() -> None:
    g, o, h = Axis("g", 2), Axis("o", 3), Axis("h", 4)
    axes, store = (g, o, h), (var("h") + 1, var("g") * 3 + var("o"))
    read = Read("x", (var("g") * 3 + var("o"), var("h")))
    zero = Compute("y", (Axis("z", 6),), Const(0.0, "float64"), store=(Affine(), var("z")))
    copy = Compute("y", axes, read, store=store)
    specs = (TensorSpec("x", (6, 4), "float64"), TensorSpec("y", (5, 6), "float64"))
    x = random.standard_normal((6, 4))
    found = evaluate_kernel(Kernel("k", specs, (zero, copy), ("x",), ("y",)), [x], {})
    np.testing.assert_array_equal(found, np.vstack([np.zeros(6), x.T]))


def test_what_is_not_written_is_nan() -> None:
    compute = Compute("y", (Axis("i", 2),), Const(1.0, "float64"), store=(var("i") * 2,))
    found = evaluate_kernel(
        Kernel("k", (TensorSpec("y", (4,), "float64"),), (compute,), (), ("y",)), [], {}
    )
    np.testing.assert_array_equal(found, [1, np.nan, 1, np.nan])


def test_data_dependent_reads_are_clamped() -> None:
    at = Read("at", (var("i"),))
    kernel = Kernel(
        "k",
        (TensorSpec("x", (4, 2)), TensorSpec("at", (5,), "int64"), TensorSpec("y", (5, 2))),
        (Compute("y", (Axis("i", 5), Axis("j", 2)), Read("x", (at, var("j")))),),
        ("x", "at"),
        ("y",),
    )
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    found = evaluate_kernel(kernel, [x, np.array([0, 3, 9, -5, 1])], {})
    np.testing.assert_array_equal(found, x[[0, 3, 3, 0, 1]])


def test_symbols_have_their_values_in_extents_indices_and_numbers() -> None:
    expr = Apply(
        "add", (Apply("cast_float32", (IndexValue(var("i") * n + n),)), Const(n * 2, "float32"))
    )
    kernel = Kernel(
        "k", (TensorSpec("y", (n + 1,)),), (Compute("y", (Axis("i", n + 1),), expr),), (), ("y",)
    )
    for size in (1, 4):
        right = np.arange(size + 1) * size + size + 2 * size
        np.testing.assert_array_equal(evaluate_kernel(kernel, [], {"n": size}), right)


def test_nothing_comes_of_empty_axes_and_sums_over_nothing_are_zero() -> None:
    for extent, combiner, right in ((0, "sum", 0.0), (0, "max", -np.inf), (0, "prod", 1.0)):
        kernel = one(
            Read("x", (var("i"), var("k"))), [AI], [Axis("k", extent)], combiner, x=(3, extent)
        )
        np.testing.assert_array_equal(evaluate_kernel(kernel, [np.zeros((3, 0))], {}), [right] * 3)
    kernel = one(Read("x", (var("i"),)), [Axis("i", 0)], [], None, x=(0,))
    assert evaluate_kernel(kernel, [np.zeros(0)], {}).shape == (0,)


def test_a_read_far_outside_costs_no_memory() -> None:
    far = Read("x", (var("i") * 1_000_000_000,), 7.0)
    kernel = one(far, [AI], [], None, x=(2,))
    np.testing.assert_array_equal(evaluate_kernel(kernel, [np.ones(2)], {}), [1, 7, 7])


def test_nan_and_infinity_pass_as_in_numpy() -> None:
    x = np.array([[1, np.nan, 2], [np.inf, -np.inf, 0], [3, 1, 2]])
    for combiner, function in (
        ("max", np.max),
        ("min", np.min),
        ("sum", np.sum),
        ("prod", np.prod),
    ):
        kernel = one(Read("x", (var("i"), var("l"))), [AI], [AL], combiner, x=(3, 3))
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(evaluate_kernel(kernel, [x], {}), function(x, axis=1))


def test_a_contraction_sums_what_only_one_side_has() -> None:
    a, b = random.standard_normal((3, 2)), random.standard_normal((4, 2, 3))
    expr = apply("mul", Read("a", (var("i"), var("k"))), Read("b", (var("j"), var("k"), var("l"))))
    kernel = one(expr, [AI, AJ], [AK, AL], "sum", a=(3, 2), b=(4, 2, 3))
    np.testing.assert_allclose(evaluate_kernel(kernel, [a, b], {}), np.einsum("ik,jkl->ij", a, b))


def test_an_infinite_factor_is_not_taken_out_of_a_sum() -> None:
    expr = Apply("mul", (Read("a", (var("k"),)), Read("b", (var("i"), var("l")))))
    kernel = one(expr, [AI], [AK, AL], "sum", a=(2,), b=(3, 3))
    signs = np.array([[1.0, -1, 1], [1, 1, 1], [-1, -1, -1]])
    found = evaluate_kernel(kernel, [np.full(2, np.inf), signs], {})
    np.testing.assert_array_equal(found, [np.nan, np.inf, -np.inf])


def test_a_sum_of_products_by_one_number_is_the_number_times_the_sum() -> None:
    row = Read("a", (var("i"), var("k")))
    a = random.standard_normal((3, 2)).astype(np.float32)
    for expr in (Apply("mul", (Const(0.5), row)), Apply("mul", (row, Const(0.5)))):
        kernel = one(expr, [AI], [AK], "sum", a=(3, 2))
        np.testing.assert_allclose(evaluate_kernel(kernel, [a], {}), a.sum(1) / 2, rtol=1e-6)
