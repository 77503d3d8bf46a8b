"""Running folds: found by their structure, one pass over the elements, as NumPy's accumulate."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from explorer.errors import BadOption
from explorer.ir.affine import var
from explorer.ir.combiners import COMBINERS
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dtypes import numpy_dtype
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec, axes
from explorer.ir.kernels.canonical import canonical
from explorer.ir.kernels.normal import normalise
from explorer.ir.kernels.running import running
from explorer.ir.tile_program import Scan
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.tile.interpret import Interpreter
from explorer.tile.lowering.lower import lower
from tests.codegen.cases import BATCH, ENV, SEQ
from tests.codegen.running import run_kernel

SHAPES = [((5, 7), 1), ((2, 100), 1), ((1, 1000), 1), ((130,), 0), ((40, 33), 0), ((3, 5, 20), 1)]
SHAPES += [((2, 200, 3), 1), ((3, 1, 4), 1), ((4, 16), 1)]
ACCUMULATE = {"sum": np.add, "prod": np.multiply, "max": np.maximum}


def fold(
    shape: tuple[int, ...],
    axis: int,
    combiner: str = "sum",
    exclusive: bool = False,
    backwards: bool = False,
    dtype: str = "float32",
) -> Kernel:
    a, r = axes("a", shape), Axis("r", shape[axis])
    by = (var("r") + int(exclusive)) * (1 if backwards else -1)
    index = tuple(var(x.name) + by if d == axis else var(x.name) for d, x in enumerate(a))
    tensors = (TensorSpec("x", shape, dtype), TensorSpec("y", shape, dtype))
    compute = Compute(
        "y", a, Read("x", index, COMBINERS[combiner].identity("float32")), (r,), combiner
    )
    return Kernel("running", tensors, (compute,), ("x",), ("y",))


def numbers(shape: tuple[int, ...], dtype: str, combiner: str) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal(shape)
    x = np.sign(x) + 0.01 * x if combiner == "prod" else 3 * x
    return x.astype(numpy_dtype(dtype))


@pytest.mark.few(37)
@pytest.mark.parametrize("way", list(product((False, True), repeat=2)), ids=str)
@pytest.mark.parametrize("combiner", ACCUMULATE)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_a_running_fold_is_numpys(
    shape: tuple[int, ...], axis: int, combiner: str, way: tuple[bool, bool]
) -> None:
    check(fold(shape, axis, combiner, *way), combiner)


@pytest.mark.parametrize("dtype", ["int64", "int32", "float64", "float16", "int8"])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_running_sum_of_other_dtypes(dtype: str, axis: int) -> None:
    check(fold((21, 37), axis, "sum", dtype=dtype), "sum", 2e-2 if dtype == "float16" else 1e-5)


def check(kernel: Kernel, combiner: str, bound: float = 1e-4) -> None:
    shape = kernel.shape("x")
    x = numbers(tuple(map(int, shape)), kernel.dtype("x"), combiner)
    want = evaluate_kernel(kernel, [x], {}).astype(float)
    got = run_kernel(kernel, Tiling(), {"x": x})
    np.testing.assert_allclose(got.astype(float), want, rtol=bound, atol=bound)
    named, _ = canonical(normalise(kernel))
    program, out = lower(named, Tiling()), np.full(shape, 77, x.dtype)
    Interpreter(program, {named.inputs[0]: x, "y": out}, {}).run()
    np.testing.assert_allclose(out.astype(float), want, rtol=bound, atol=bound)


def test_it_is_one_pass_and_not_a_sum_for_every_element() -> None:
    named, _ = canonical(normalise(fold((3, 50), 1)))
    assert [type(s) for s in lower(named, Tiling()).body] == [Scan]


def test_nan_and_infinity_go_on_from_where_they_are() -> None:
    x = np.ones((2, 40), np.float32)
    x[0, 20], x[1, 10], x[1, 30] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        want = np.cumsum(x, axis=1)
    np.testing.assert_array_equal(run_kernel(fold((2, 40), 1), Tiling(), {"x": x}), want)


def test_lengths_that_a_run_decides() -> None:
    a, r = axes("a", (BATCH, SEQ)), Axis("r", SEQ)
    for axis, extent in ((0, BATCH), (1, SEQ)):
        r = Axis("r", extent)
        index = tuple(var(x.name) - var("r") if d == axis else var(x.name) for d, x in enumerate(a))
        tensors = (TensorSpec("x", (BATCH, SEQ)), TensorSpec("y", (BATCH, SEQ)))
        compute = Compute("y", a, Read("x", index, 0.0), (r,), "sum")
        kernel = Kernel("running", tensors, (compute,), ("x",), ("y",))
        x = np.random.default_rng(0).standard_normal((5, 29)).astype(np.float32)
        got = run_kernel(kernel, Tiling(), {"x": x}, {"batch": 5, "seq": 29}, ENV)
        np.testing.assert_allclose(got, np.cumsum(x, axis=axis), rtol=1e-4, atol=1e-5)


def test_a_tile_that_cuts_the_axis_is_refused_by_name() -> None:
    named, _ = canonical(normalise(fold((3, 50), 1)))
    axis = named.computes[0].axes[1].name
    with pytest.raises(BadOption, match=f"a tile cuts {axis}"):
        lower(named, Tiling(((axis, 10),)))


def test_a_window_that_does_not_reach_back_to_the_first_element_is_none() -> None:
    a, r = axes("a", (50,)), Axis("r", 3)
    window = Compute("y", a, Read("x", (var("a0") - var("r"),), 0.0), (r,), "sum")
    tensors = (TensorSpec("x", (50,)), TensorSpec("y", (50,)))
    assert running(Kernel("window", tensors, (window,), ("x",), ("y",)), window) is None


@pytest.mark.parametrize("combiner", ["sum", "max"])
@pytest.mark.parametrize("start", [0, 1])
def test_a_window_as_long_as_its_results_is_none_where_more_elements_are_behind(
    combiner: str, start: int
) -> None:
    a, r = axes("a", (3,)), Axis("r", 3)
    index = (var("a0") + var("r") + start,)
    window = Compute(
        "y", a, Read("x", index, COMBINERS[combiner].identity("float32")), (r,), combiner
    )
    tensors = (TensorSpec("x", (4,)), TensorSpec("y", (3,)))
    kernel = Kernel("window", tensors, (window,), ("x",), ("y",))
    assert running(kernel, window) is None
    x = np.array([1.0, 2.0, 3.0, 5.0], np.float32)
    got = run_kernel(kernel, Tiling(), {"x": x}, {}, ENV)
    np.testing.assert_array_equal(got, evaluate_kernel(kernel, [x], {}))
