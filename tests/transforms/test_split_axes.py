"""Dims opened where several computes read one another along them."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.ir.affine import var
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Apply, Axis, Compute, Const, Kernel, Read, at
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.transforms.copies.index_maps import Split
from explorer.transforms.copies.split_axes import open_inner_dims, split_axis
from tests.codegen.cases import specs

GROUPS, EACH, ROWS = 5, 2, 7


def _softmax_of_groups() -> Kernel:
    """Scores are written by group, and softmax walks all heads as one axis: every tensor of it is
    read along that axis by another one.
    """
    g, e, r, k = Axis("g", GROUPS), Axis("e", EACH), Axis("r", ROWS), Axis("k", 3)
    product = Apply("mul", (at("q", (g, e, k)), at("s", (g, k, r))))
    store = (var("g") * EACH + var("e"), var("r"))
    h, c, d = Axis("h", GROUPS * EACH), Axis("c", ROWS), Axis("d", ROWS)
    power = Apply("exp", (Apply("sub", (at("x", (h, c)), at("top", (h,)))),))
    computes = (
        Compute("x", (g, e, r), product, (k,), "sum", store),
        Compute("top", (h,), at("x", (h, d)), (d,), "max"),
        Compute("p", (h, c), power),
        Compute("total", (h,), at("p", (h, d)), (d,), "sum"),
        Compute("y", (h, c), Apply("div", (at("p", (h, c)), at("total", (h,))))),
    )
    heads = GROUPS * EACH
    shapes = specs(
        q=(GROUPS, EACH, 3),
        s=(GROUPS, 3, ROWS),
        x=(heads, ROWS),
        top=(heads,),
        p=(heads, ROWS),
        total=(heads,),
        y=(heads, ROWS),
    )
    return Kernel("groups", shapes, computes, ("q", "s"), ("y",))


def test_tensors_that_read_one_another_along_a_dim_are_opened_together() -> None:
    kernel = _softmax_of_groups()
    opened = open_inner_dims(kernel, ShapeEnv())
    assert opened.shape("x") == opened.shape("p") == (GROUPS, EACH, ROWS)
    assert opened.shape("top") == opened.shape("total") == (GROUPS, EACH)
    rng = np.random.default_rng(1)
    values = [
        rng.standard_normal(tuple(map(int, kernel.shape(n)))).astype(np.float32)
        for n in kernel.inputs
    ]
    want, got = (evaluate_kernel(k, values, {}) for k in (kernel, opened))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("offset", [1, 3])
def test_a_reader_that_cannot_follow_leaves_the_dim_as_it_is(offset: int) -> None:
    g, e = Axis("g", GROUPS), Axis("e", EACH)
    h = Axis("h", GROUPS * EACH - offset)
    computes = (
        Compute("x", (g, e), at("a", (g, e)), store=(var("g") * EACH + var("e"),)),
        Compute("y", (h,), Read("x", (var("h") + offset,))),
    )
    shapes = specs(a=(GROUPS, EACH), x=(GROUPS * EACH,), y=(GROUPS * EACH - offset,))
    kernel = Kernel("shifted", shapes, computes, ("a",), ("y",))
    assert open_inner_dims(kernel, ShapeEnv()) == kernel


def _shuffled(columns: int) -> Kernel:
    """A product whose columns are stored four to a row, as in front of a pixel shuffle."""
    i, j, k = Axis("i", 6), Axis("j", columns), Axis("k", 9)
    p, o, q = Axis("p", 6), Axis("o", columns // 4), Axis("q", 4)
    product = Apply("mul", (at("x", (i, k)), at("w", (k, j))))
    shown = Apply("max", (Read("t", (var("p"), var("o") * 4 + var("q"))), Const(0.0)))
    computes = (
        Compute("t", (i, j), product, (k,), "sum"),
        Compute("y", (p, o, q), shown, store=(var("o"), var("p"), var("q"))),
    )
    shapes = specs(x=(6, 9), w=(9, columns), t=(6, columns), y=(columns // 4, 6, 4))
    return Kernel("shuffled", shapes, computes, ("x", "w"), ("y",), frozenset({"w"}))


def test_columns_are_not_cut_into_fewer_than_fill_a_register_tile() -> None:
    kernel = _shuffled(48)
    split = split_axis(kernel, 0, Split("j", 4), ShapeEnv())
    assert split is None
    wide = split_axis(_shuffled(128), 0, Split("j", 64), ShapeEnv())
    assert wide is not None and wide.computes[0].axes[-1].extent == 64
