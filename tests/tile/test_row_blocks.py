"""Rows that are reduced one after the other are taken several at a time, and no value changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Dim, ShapeEnv, symbol
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, TensorSpec, apply, at
from explorer.ir.tile_program import For, Map, OnePass, Reduce
from explorer.ir.types import DType
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.tile.interpret import Interpreter
from explorer.tile.rewriting.row_blocks import ROWS_IN_FLIGHT
from tests.codegen.cases import softmax_computes
from tests.codegen.running import run_kernel
from tests.tile.programs import HERE, after, with_lanes

ROWS = max(HERE.lanes, ROWS_IN_FLIGHT)  # of a block, where half of L1 holds it


def softmax(m: Dim, n: int, dtype: DType = "float32") -> Kernel:
    lead, r = (Axis("i", m),), Axis("r", n)
    shapes = {"x": (m, n), "y_max": (m,), "y_exp": (m, n), "y_sum": (m,), "y": (m, n)}
    tensors = tuple(TensorSpec(k, s, dtype) for k, s in shapes.items())
    *first, last = softmax_computes("x", "y", lead, r)
    share = Apply("div", (at("y_exp", (*lead, r)), at("y_sum", lead)))
    return Kernel("softmax", tensors, (*first, replace(last, expr=share)), ("x",), ("y",))


def hard(m: int, n: int, dtype: DType = "float32") -> np.ndarray:
    """Random rows, with NaN, infinities and rows that are masked out in some of them."""
    x = np.random.default_rng(m * 1000 + n).standard_normal((m, n)).astype(dtype) * 10
    x[1::7, 0] = np.nan
    x[2::7] = -np.inf
    x[3::7, n // 2] = np.inf
    x[4::7, : n // 2] = -np.inf
    return np.asarray(x)


def test_a_block_has_a_maximum_a_row_and_the_rest_of_the_rows_are_another() -> None:
    rows = 2 * ROWS + ROWS // 2
    program = after("share scratch", softmax(rows, 40))
    blocks, rest = program.body
    assert isinstance(blocks, For) and isinstance(rest, For)
    assert blocks.span.size == 2 and rest.span.size == 1
    assert [type(s) for s in blocks.body] == [Reduce, OnePass, Map]
    top = blocks.body[0]
    assert isinstance(top, Reduce) and top.spans[0].size == ROWS
    assert isinstance(rest.body[0], Reduce) and rest.body[0].spans[0].size == ROWS // 2
    assert {b.size for b in program.buffers if b.kind == "scratch"} == {ROWS}


def test_rows_that_would_not_stay_in_l1_are_taken_one_by_one() -> None:
    program = after("share scratch", softmax(40, (HERE.levels[0].capacity_bytes or 0) // 64))
    (loop,) = program.body
    assert isinstance(loop, For) and loop.span.size == 40


@pytest.mark.parametrize(("lanes", "rows"), [(4, 16), (8, 16), (16, 16), (32, 32)])
def test_the_results_of_a_block_are_whole_vectors_of_the_device(lanes: int, rows: int) -> None:
    blocks = after("share scratch", softmax(40, 40), device=with_lanes(lanes)).body[0]
    assert isinstance(blocks, For) and isinstance(blocks.body[0], Reduce)
    assert blocks.body[0].spans[0].size == rows


def test_rows_of_which_sixteen_take_more_than_half_of_l1_are_a_vector() -> None:
    near = HERE.levels[0].capacity_bytes or 0
    columns = (near // 2 // ROWS_IN_FLIGHT - 8) // 8  # read and written, a maximum and a sum
    for more, rows in ((0, ROWS_IN_FLIGHT), (1, 8)):
        blocks = after("share scratch", softmax(40, columns + more), device=with_lanes(8)).body[0]
        assert isinstance(blocks, For) and isinstance(blocks.body[0], Reduce)
        assert blocks.body[0].spans[0].size == rows


def test_few_rows_stay_apart() -> None:
    (loop,) = after("share scratch", softmax(3, 40)).body
    assert isinstance(loop, For) and loop.span.size == 3


@pytest.mark.parametrize(
    ("m", "n"),
    [
        pytest.param(m, n, marks=() if m == 33 else pytest.mark.exhaustive)
        for m in (4, 5, 16, 33, 37)
        for n in (1, 2, 15, 16, 49, 130, 300)
    ],
)
def test_a_softmax_of_any_size_is_the_references(m: int, n: int) -> None:
    kernel, x = softmax(m, n), hard(m, n)
    with np.errstate(all="ignore"):
        wanted = evaluate_kernel(kernel, [x], {})
    for tile in ((), (("i", 7),), (("i", 16),)):
        found = run_kernel(kernel, Tiling(tile), {"x": x})
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-7)


def test_doubles_have_half_as_many_lanes() -> None:
    kernel, x = softmax(21, 35, "float64"), hard(21, 35, "float64")
    with np.errstate(all="ignore"):
        wanted = evaluate_kernel(kernel, [x], {})
    np.testing.assert_allclose(run_kernel(kernel, Tiling(), {"x": x}), wanted, rtol=1e-13)


@pytest.mark.parametrize("m", [0, 1, 15, 16, 33])
def test_rows_may_be_known_in_a_run_only(m: int) -> None:
    rows = symbol("rows")
    kernel, x = softmax(rows, 49), hard(m, 49)
    with np.errstate(all="ignore"):
        wanted = evaluate_kernel(kernel, [x], {"rows": m})
    for tile in ((), (("i", 16),), (("i", 10),)):
        found = run_kernel(kernel, Tiling(tile), {"x": x}, {"rows": m}, ShapeEnv())
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-7)


def shorter(rows: Dim) -> Kernel:
    """A softmax of which the last row is not needed, and one is added to the others."""
    kernel, n = softmax(rows, 49), 49
    axes = (Axis("i2", rows - 1), Axis("j2", n))
    last = Compute("z", axes, apply("add", at("y", axes), 1.0))
    tensors = (*kernel.tensors, TensorSpec("z", (rows - 1, n)))
    return replace(kernel, tensors=tensors, computes=(*kernel.computes, last), outputs=("z",))


@pytest.mark.parametrize("m", [1, 2, 16, 17, 18, 20, 34])
def test_the_last_block_ends_where_the_rows_that_are_needed_do(m: int) -> None:
    """It once ended where the axis does, and wrote past the scratch."""
    kernel, x = shorter(symbol("rows")), hard(m, 49)
    with np.errstate(all="ignore"):
        wanted = evaluate_kernel(kernel, [x], {"rows": m})
    program = after("hoist", kernel)
    run = Interpreter(program, {"x": x, "z": np.full(wanted.shape, np.nan, x.dtype)}, {"rows": m})
    run.run()
    np.testing.assert_allclose(run.arrays["z"].reshape(wanted.shape), wanted, rtol=2e-6, atol=1e-7)
    found = run_kernel(kernel, Tiling(), {"x": x}, {"rows": m}, ShapeEnv())
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-7)


def test_a_block_promises_no_more_rows_than_it_has() -> None:
    program = after("share scratch", softmax(41, 49), Tiling((("i", 20),)))
    spans = [
        p.spans[0]
        for loop in program.body
        if isinstance(loop, For)
        for s in loop.body
        for p in (s.parts if isinstance(s, OnePass) else (s,))
        if isinstance(p, Map | Reduce)
    ]
    assert spans and all(s.least == 0 for s in spans)
