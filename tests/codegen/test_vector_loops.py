"""Reductions as loops over vectors: every length, order and dtype means what NumPy means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cfunc, types

from explorer.codegen.build import print_kernel
from explorer.codegen.cpu.vector_nest import Nest, Node, Operand, Stored, vector_nest
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.dtypes import numpy_dtype
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Const,
    IndexValue,
    Kernel,
    TensorSpec,
    apply,
    at,
    axes,
)
from explorer.ops.interpreter.evaluate import evaluate_kernel
from tests.codegen.cases import BATCH, ENV, SEQ, layer_norm, softmax, softmax_computes
from tests.codegen.running import run_kernel
from tests.tile.programs import HERE

LENGTHS = (1, 7, 9, 15, 16, 17, 100, 127, 128, 129, 1000)
COMBINERS = ("sum", "prod", "max", "min")
NUMPY = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}


def rows(m: int, n: int, combiner: str, dtype: str = "float32") -> Kernel:
    """y[i] = combiner over r of x[i, r]."""
    a, r = axes("a", (m,)), Axis("r", n)
    tensors = (TensorSpec("x", (m, n), dtype), TensorSpec("y", (m,), dtype))
    compute = Compute("y", a, at("x", (*a, r)), (r,), combiner)
    return Kernel("rows", tensors, (compute,), ("x",), ("y",))


def columns(m: int, n: int, combiner: str, dtype: str = "float32") -> Kernel:
    """y[j] = combiner over r of x[r, j]."""
    a, r = axes("a", (n,)), Axis("r", m)
    tensors = (TensorSpec("x", (m, n), dtype), TensorSpec("y", (n,), dtype))
    compute = Compute("y", a, at("x", (r, *a)), (r,), combiner)
    return Kernel("columns", tensors, (compute,), ("x",), ("y",))


def numbers(shape: tuple[int, ...], dtype: str, combiner: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.startswith("int"):
        return rng.integers(-3, 4, shape).astype(dtype)
    x = rng.standard_normal(shape)
    return (np.sign(x) + 0.01 * x if combiner == "prod" else x).astype(numpy_dtype(dtype))


@pytest.mark.few(16)
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("combiner", COMBINERS)
def test_rows_of_any_length_are_folded(combiner: str, n: int) -> None:
    x = numbers((5, n), "float32", combiner)
    x[1, n // 2] = np.nan
    if combiner != "prod":
        x[2, 0], x[3, n - 1] = np.inf, -np.inf
    got = run_kernel(rows(5, n, combiner), Tiling(), {"x": x})
    np.testing.assert_allclose(got, NUMPY[combiner](x, axis=1), rtol=1e-4, atol=1e-5)


@pytest.mark.few(10)
@pytest.mark.parametrize("shape", [(5, 7), (40, 3), (3, 130), (70, 300), (23, 1000), (8, 129)])
@pytest.mark.parametrize("combiner", COMBINERS)
def test_columns_of_any_width_are_folded(combiner: str, shape: tuple[int, int]) -> None:
    x = numbers(shape, "float32", combiner)
    x[1, shape[1] // 2] = np.nan
    if combiner != "prod":
        x[2, 0], x[0, -1] = np.inf, -np.inf
    got = run_kernel(columns(*shape, combiner), Tiling((("a0", 40),)), {"x": x})
    np.testing.assert_allclose(got, NUMPY[combiner](x, axis=0), rtol=1e-4, atol=1e-5)


@pytest.mark.few(5)
@pytest.mark.parametrize("dtype", ["float64", "int32", "int64", "float16", "bfloat16", "int8"])
@pytest.mark.parametrize("combiner", ["sum", "max"])
def test_elements_of_other_dtypes_are_folded(combiner: str, dtype: str) -> None:
    for make, shape in ((rows, (4, 37)), (columns, (19, 150))):
        x = numbers(shape, dtype, combiner)
        kernel = make(*shape, combiner, dtype)
        got = run_kernel(kernel, Tiling(), {"x": x})
        want = evaluate_kernel(kernel, [x], {})
        bound = {"float16": 1e-2, "bfloat16": 5e-2}.get(dtype, 1e-6)
        np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=bound, atol=bound)


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 5), st.integers(0, 70), st.sampled_from(COMBINERS), st.integers(0, 99))
def test_any_shape_is_folded_both_ways(m: int, n: int, combiner: str, seed: int) -> None:
    x = numbers((m, n), "float32", combiner, seed)
    for kernel, axis in ((rows(m, n, combiner), 1), (columns(m, n, combiner), 0)):
        if not x.shape[axis]:
            continue
        got = run_kernel(kernel, Tiling(), {"x": x})
        np.testing.assert_allclose(got, NUMPY[combiner](x, axis=axis), rtol=1e-4, atol=1e-5)


def test_a_sum_over_a_row_has_several_accumulators() -> None:
    source, _, _ = print_kernel(rows(3, 1024, "sum"), Tiling(), ShapeEnv(), HERE)
    assert "unroll=8" in source and "order='along'" in source


@pytest.mark.parametrize("n", [1, 7, 127, 128, 1000])
def test_softmax_rows_of_any_length(n: int) -> None:
    x = np.random.default_rng(n).standard_normal((9, n)).astype(np.float32) * 3
    x[1, n // 2], x[2], x[3, 0], x[4] = np.nan, -np.inf, np.inf, -200.0
    got = run_kernel(row_softmax(9, n), Tiling((("s0", 4),)), {"x": x})
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        want = e / e.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-9)


def row_softmax(m: int, n: int) -> Kernel:
    lead, r = axes("s", (m,)), Axis("r", n)
    shapes = {"x": (m, n), "y_max": (m,), "y_exp": (m, n), "y_sum": (m,), "y": (m, n)}
    tensors = tuple(TensorSpec(name, shape) for name, shape in shapes.items())
    return Kernel("softmax", tensors, softmax_computes("x", "y", lead, r), ("x",), ("y",))


@pytest.mark.parametrize("n", [1, 2, 16, 37, 131])
def test_a_length_that_a_run_decides_has_a_masked_end(n: int) -> None:
    for case in (softmax(BATCH, SEQ, {"s0": 1, "s1": 8}), layer_norm(BATCH, 64, {"s0": 3})):
        sizes = {"batch": 3, "seq": n}
        shape = (3, n, n) if case.kernel.name == "softmax" else (3, 64)
        x = np.random.default_rng(n).standard_normal(shape).astype(np.float32)
        values = {"x": x, "g": np.ones(64, np.float32), "b": np.zeros(64, np.float32)}
        given_ = {k: v for k, v in values.items() if k in case.kernel.inputs}
        got = run_kernel(case.kernel, case.tiling, given_, sizes, ENV)
        want = evaluate_kernel(case.kernel, [given_[k] for k in case.kernel.inputs], sizes)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_softmax_over_channels_is_done_across() -> None:
    lead, r = (Axis("n", 2), Axis("p", 150)), Axis("c", 21)
    every = (lead[0], r, lead[1])
    top = Compute("top", lead, at("x", every), (r,), "max")
    e = Compute("e", every, Apply("exp", (Apply("sub", (at("x", every), at("top", lead))),)))
    total = Compute("total", lead, at("e", every), (r,), "sum")
    y = Compute("y", every, Apply("div", (at("e", every), at("total", lead))))
    shapes = {"x": (2, 21, 150), "top": (2, 150), "e": (2, 21, 150), "total": (2, 150)}
    tensors = tuple(TensorSpec(k, s) for k, s in (shapes | {"y": (2, 21, 150)}).items())
    kernel = Kernel("softmax", tensors, (top, e, total, y), ("x",), ("y",))
    x = np.random.default_rng(0).standard_normal((2, 21, 150)).astype(np.float32)
    got = run_kernel(kernel, Tiling((("n", 1),)), {"x": x})
    np.testing.assert_allclose(got, evaluate_kernel(kernel, [x], {}), rtol=1e-5, atol=1e-7)


def test_the_place_of_the_largest_element_down_a_column() -> None:
    a, r = axes("a", (40,)), Axis("r", 33)
    x = at("x", (r, *a))
    hit = Apply("or", (Apply("eq", (x, at("top", a))), Apply("isnan", (x,))))
    here = Apply("where", (hit, IndexValue(var("r")), Const(33, "int64")))
    computes = (Compute("top", a, x, (r,), "max"), Compute("y", a, here, (r,), "min"))
    tensors = (TensorSpec("x", (33, 40)), TensorSpec("top", (40,)), TensorSpec("y", (40,), "int64"))
    kernel = Kernel("argmax", tensors, computes, ("x",), ("y",))
    values = np.random.default_rng(0).integers(0, 9, (33, 40)).astype(np.float32)
    values[5, 3] = values[7, 3] = np.nan
    got = run_kernel(kernel, Tiling(), {"x": values})
    np.testing.assert_array_equal(got, np.argmax(values, axis=0))


def test_a_mean_and_a_scaled_map_share_their_loads() -> None:
    m, n = 6, 77
    a, r = axes("a", (m,)), Axis("r", n)
    x = at("x", (*a, r))
    both = (at("lo", a), at("hi", a))
    computes = (
        Compute("lo", a, x, (r,), "min"),
        Compute("hi", a, x, (r,), "max"),
        Compute("y", (*a, r), Apply("sub", (apply("mul", x, 2.0), Apply("add", both)))),
    )
    shapes = {"x": (m, n), "lo": (m,), "hi": (m,), "y": (m, n)}
    tensors = tuple(TensorSpec(k, s) for k, s in shapes.items())
    kernel = Kernel("range", tensors, computes, ("x",), ("y",))
    values = np.random.default_rng(0).standard_normal((m, n)).astype(np.float32)
    source, _, _ = print_kernel(kernel, Tiling(), ShapeEnv(), HERE)
    assert source.count("vector_nest(") == 2  # both extremes in one loop, and the map
    got = run_kernel(kernel, Tiling(), {"x": values})
    low, high = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
    np.testing.assert_allclose(got, values * 2 - (low + high), rtol=1e-5, atol=1e-6)


def copying(unroll: int) -> Any:
    """A nest of an address, another one, and how many numbers go from there to here."""
    operands = (Operand("float32", (1,)), Operand("float32", (1,), base=1))
    load, kept = Node("load", "float32", (0,)), Stored(1, 0)
    return vector_nest(Nest("along", 8, unroll, (None,), 2, operands, (load,), (kept,), ()))


@pytest.mark.parametrize("unroll", [1, 2, 3, 5, 8])
def test_a_row_is_mapped_to_its_end_and_no_further_however_it_is_unrolled(unroll: int) -> None:
    nest = copying(unroll)

    @cfunc(types.void(types.int64, types.int64, types.int64))
    def copied(source: int, target: int, count: int) -> None:
        nest((source, target, count))

    x = np.arange(200, dtype=np.float32)
    for count in range(150):
        y = np.full(200, -1, np.float32)
        copied.ctypes(x.ctypes.data, y.ctypes.data, count)
        np.testing.assert_array_equal(y, np.where(x < count, x, -1), err_msg=str(count))


def called(times: int) -> tuple[str, Any]:
    """The LLVM code of a function that copies so many rows, each by a nest of its own, and it."""
    nest = copying(2)
    calls = "".join(f"    nest((x + {60 * n}, y + {60 * n}, 15))\n" for n in range(times))
    space: dict[str, Any] = {"nest": nest}
    exec(f"def copied(x, y):\n{calls}", space)
    copied = cfunc(types.void(types.int64, types.int64))(space["copied"])
    return copied.inspect_llvm(), copied


@pytest.mark.exhaustive
def test_a_nest_that_is_called_often_is_written_a_few_times() -> None:
    """Each call as code of its own makes a kernel of a thousand rows so long that LLVM, whose time
    grows faster than the code, took most of a minute.
    """
    few, often, oftener = (len(called(n)[0]) for n in (8, 20, 200))
    assert oftener - often < 0.5 * 180 / 8 * few
    text, copied = called(200)
    x, y = np.arange(3000, dtype=np.float32), np.zeros(3000, np.float32)
    copied.ctypes(x.ctypes.data, y.ctypes.data)
    np.testing.assert_array_equal(y, x)
    assert text.count("define internal") == 1
