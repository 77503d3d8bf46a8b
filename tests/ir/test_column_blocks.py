"""Tensors that are read in blocks of columns become one a block, and every value stays."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.ir.affine import var
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec, apply, reads
from explorer.ir.kernels.column_blocks import ColumnBlock, blocks_read, split_columns
from explorer.ir.kernels.contraction import contraction
from explorer.ir.kernels.normal import normalise
from explorer.ops.interpreter.loop_nest import evaluate_kernel
from tests.examples import examples

DEPTH = 5


def gated(rows: int, width: int, blocks: list[int], wide: int) -> Kernel:
    """A product of `wide` columns and a shift, of which blocks of `width` are multiplied."""
    r, j, k, i = Axis("r", rows), Axis("j", wide), Axis("k", DEPTH), Axis("i", width)
    product = apply("mul", Read("a", (var("r"), var("k"))), Read("b", (var("k"), var("j"))))
    shifted = apply("add", Read("t", (var("r"), var("j"))), Read("s", (var("j"),)))
    total = Read("u", (var("r"), var("i") + blocks[0]))
    for first in blocks[1:]:
        total = apply("mul", total, apply("tanh", Read("u", (var("r"), var("i") + first))))
    specs = (
        TensorSpec("a", (rows, DEPTH)),
        TensorSpec("b", (DEPTH, wide)),
        TensorSpec("s", (wide,)),
        TensorSpec("t", (rows, wide)),
        TensorSpec("u", (rows, wide)),
        TensorSpec("y", (rows, width)),
    )
    computes = (
        Compute("t", (r, j), product, (k,), "sum"),
        Compute("u", (r, j), shifted),
        Compute("y", (r, i), total),
    )
    return Kernel("gated", specs, computes, ("a", "b", "s"), ("y",), frozenset({"b", "s"}))


def arrays_of(kernel: Kernel) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal(kernel.shape(n)).astype(np.float32) for n in kernel.inputs]


@settings(max_examples=examples(30), deadline=None)
@given(
    rows=st.integers(1, 3),
    width=st.integers(2, 5),
    blocks=st.lists(st.integers(0, 15), min_size=1, max_size=4, unique=True),
)
def test_the_values_stay_and_no_tensor_is_read_in_two_blocks(
    rows: int, width: int, blocks: list[int]
) -> None:
    kernel = gated(rows, width, blocks, 20)
    split = split_columns(kernel)
    arrays = arrays_of(kernel)
    want = evaluate_kernel(kernel, arrays, {})
    np.testing.assert_allclose(evaluate_kernel(split, arrays, {}), want, rtol=1e-5, atol=1e-5)
    normal = normalise(split)
    np.testing.assert_allclose(evaluate_kernel(normal, arrays, {}), want, rtol=1e-5, atol=1e-5)
    apart = all(b - a >= width for a, b in pairwise(sorted(blocks)))
    inside = {t.name for t in split.tensors} - {*split.inputs, split.output}
    sums = [c for c in split.computes if contraction(c) is not None]
    if apart:
        assert len(sums) == len(blocks)
        assert all(blocks_read(split, t) == (ColumnBlock(0, width),) for t in inside)
    else:
        assert split == kernel


def test_columns_that_nobody_reads_are_not_made() -> None:
    split = split_columns(gated(2, 4, [8], 20))
    assert {c.axes[-1].extent for c in split.computes} == {4}


def test_one_whole_block_is_left_as_it_is() -> None:
    kernel = gated(2, 6, [0], 6)
    assert split_columns(kernel) is kernel


@pytest.mark.parametrize("index", [(var("r"), var("i") * 2), (var("i"), var("i")), (var("r"),)])
def test_no_blocks_are_found_where_an_axis_does_not_walk_the_columns_alone(index: tuple) -> None:
    kernel = gated(4, 4, [0], 8)
    last = kernel.computes[-1]
    odd = Compute("y", last.axes, Read("s" if len(index) == 1 else "u", index))
    broken = Kernel(
        "odd",
        kernel.tensors,
        (*kernel.computes[:-1], odd),
        kernel.inputs,
        ("y",),
        kernel.constants,
    )
    assert blocks_read(broken, reads(odd.expr)[0].tensor) is None
