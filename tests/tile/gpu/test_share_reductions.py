"""Reductions of few results are shared out to threads that would have nothing to do."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.ir.combiners import COMBINERS
from explorer.ir.kernel import Compute, Kernel, TensorSpec, at, axes
from explorer.ir.tile_program import Reduce, TileProgram, fetches
from explorer.ir.tile_traversal import statements
from explorer.roller.blocks.thread_block import thread_block_steps
from explorer.tile.interpret import Interpreter
from tests.codegen.cases import ENV
from tests.tile.gpu.blocks import V100, case, made

FEW = (3, 96)  # rows, and what is reduced of each


def reduced(combiner: str, dtype: str, shape: tuple[int, int]) -> Kernel:
    a, r = axes("a", shape[:1]), axes("r", shape[1:])
    tensors = (TensorSpec("x", shape, dtype), TensorSpec("y", shape[:1], dtype))
    c = Compute("y", a, at("x", (*a, *r)), r, combiner)
    return Kernel("reduced", tensors, (c,), ("x",), ("y",))


def steps(k: Kernel) -> dict[str, TileProgram]:
    return dict(thread_block_steps(k, V100, ENV, {}))


def reductions(p: TileProgram) -> list[Reduce]:
    return [s for s in statements(p.body) if isinstance(s, Reduce)]


@pytest.mark.few(4)
@pytest.mark.parametrize("combiner", COMBINERS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_what_is_shared_out_is_the_same(combiner: str, dtype: str) -> None:
    k = reduced(combiner, dtype, FEW)
    x = (np.random.default_rng(0).integers(0, 2, FEW) + 1).astype(dtype)
    if dtype != "int8":
        x[0, 40], x[1, 7], x[2, 95] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        want = COMBINERS[combiner].numpy.reduce(x.astype(dtype), axis=1, dtype=x.dtype)
    for name, program in steps(k).items():
        y = np.full(FEW[:1], 7).astype(dtype)
        with np.errstate(all="ignore"):
            Interpreter(program, {"x": x, "y": y}, {}, seed=3).run()
        np.testing.assert_allclose(y.astype(float), want.astype(float), 2e-3, err_msg=name)


def test_neighbours_read_neighbours() -> None:
    before, after = (reductions(steps(reduced("sum", "float16", FEW))[n]) for n in STEPS)
    assert [int(r.over[0].size) for r in before] == [96]
    assert sorted(int(r.over[0].size) for r in after) == [8, 12]  # 20 steps for 96
    (first,) = (r for r in after if r.target.buffer.name.endswith("_parts"))
    (load,) = fetches(first.expr)
    assert dict(load.offset.terms)["_p_r0"] == 1


STEPS = ("lower", "share long reductions")


@pytest.mark.parametrize("shape", [(3, 7), (3, 97), (3, 1), (4096, 96)])
def test_what_gains_nothing_stays(shape: tuple[int, int]) -> None:
    """Few steps, a prime, one, and as many results as there are threads."""
    found = steps(reduced("sum", "float32", shape))
    assert found["lower"] == found["share long reductions"]


def test_a_product_with_a_register_tile_stays() -> None:
    found = made(case("linear 17x13x31"), V100)
    assert found["lower"] == found["share long reductions"]
