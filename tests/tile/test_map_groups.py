"""Maps side by side in one vector loop give what each gives alone, and touch nothing else."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.codegen.build import print_kernel
from explorer.ir.affine import Affine, var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Axis, Compute, Const, Expr, Kernel, Read, TensorSpec
from explorer.ir.kernel import apply as scalar
from explorer.ir.tile_program import Map
from explorer.ops.interpreter.loop_nest import evaluate_kernel
from explorer.tile.lowering.lower import lower
from explorer.tile.rewriting.map_groups import together
from tests.codegen.running import run_kernel
from tests.tile.programs import HERE, after


def kernel_of(rows: int, columns: int, exprs: list[Expr]) -> Kernel:
    """`y[i, part, j]` of each expression of `a[i, j]`, `b[j]` and `c[i]`."""
    axes = (Axis("i", rows), Axis("j", columns))
    computes = tuple(
        Compute("y", axes, e, store=(var("i"), Affine((), n), var("j")))
        for n, e in enumerate(exprs)
    )
    tensors = (
        TensorSpec("a", (rows, columns)),
        TensorSpec("b", (columns,)),
        TensorSpec("c", (rows,)),
        TensorSpec("y", (rows, len(exprs), columns)),
    )
    return Kernel("maps", tensors, computes, ("a", "b", "c"), ("y",))


A, B, C = Read("a", (var("i"), var("j"))), Read("b", (var("j"),)), Read("c", (var("i"),))
LEAVES = st.sampled_from([A, B, C, Const(0.5), Const(-2.0)])
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        scalar, st.sampled_from(["add", "sub", "mul", "max", "min"]), inner, inner
    ),
    max_leaves=6,
)
SPECIAL = st.sampled_from([np.nan, np.inf, -np.inf, 0.0])


@given(
    rows=st.integers(1, 3),
    columns=st.integers(1, 40),
    exprs=st.lists(EXPRESSIONS, min_size=2, max_size=10),
    special=SPECIAL,
)
@settings(max_examples=15)
def test_every_length_and_expression_is_as_in_numpy(
    rows: int, columns: int, exprs: list[Expr], special: float
) -> None:
    kernel = kernel_of(rows, columns, exprs)
    rng = np.random.default_rng(columns)
    values = {
        n: rng.standard_normal(tuple(map(int, kernel.shape(n)))).astype(np.float32) for n in "abc"
    }
    values["a"].flat[-1] = special
    want = evaluate_kernel(kernel, [values[n] for n in "abc"], {})
    got = run_kernel(kernel, Tiling((("i", 1),)), values)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_maps_of_the_same_points_share_a_loop_of_eight_at_most() -> None:
    kernel = kernel_of(2, 40, [scalar("add", A, Const(float(n))) for n in range(10)])
    groups = together(lower(kernel, Tiling()).body, HERE)
    assert [len(g) for g in groups] == [8, 2]
    source, _, _ = print_kernel(kernel, Tiling(), ShapeEnv(), HERE)
    assert source.count("vector_nest(") == 2


def test_a_map_that_reads_what_another_writes_has_a_loop_of_its_own() -> None:
    axes = (Axis("i", 2), Axis("j", 16))
    point = tuple(var(a.name) for a in axes)
    tensors = tuple(TensorSpec(n, (2, 16)) for n in "atuy")
    computes = (
        Compute("t", axes, scalar("exp", Read("a", point))),
        Compute("u", axes, scalar("add", Read("t", point), Const(1.0))),
        Compute("y", axes, scalar("mul", Read("u", point), Read("t", point))),
    )
    body = lower(Kernel("chain", tensors, computes, ("a",), ("y",)), Tiling()).body
    assert all(len(g) == 1 for g in together(body, HERE))


def test_a_lone_map_is_no_group() -> None:
    (alone,) = after("group maps", kernel_of(2, 40, [scalar("add", A, B)])).body
    assert isinstance(alone, Map)
