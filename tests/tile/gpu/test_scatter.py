"""Scatters in thread blocks: threads share the elements of a result, and pass over all updates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Tiling, thread_block
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    IndexValue,
    Kernel,
    Read,
    TensorSpec,
    axes,
)
from explorer.ir.kernels.normal import normalise
from explorer.ir.tile_program import At, For, Reduce, TileProgram
from explorer.ir.tile_traversal import distributed_loops, statements
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.tile.gpu.block import why_not_blocks
from explorer.tile.gpu.demand import demand_of
from explorer.tile.gpu.rewrites import block_steps
from explorer.tile.hazards import race
from explorer.tile.interpret import Interpreter
from explorer.tile.lowering.lower import lower
from tests.ir.test_scatter import gradient
from tests.tile.gpu.blocks import SMALL


def block(rows: int, width: int, count: int, tile: int, combiner: str = "sum") -> TileProgram:
    """Of a gradient of rows, so many of which a block has."""
    kernel = normalise(gradient(rows, width, count, combiner=combiner))
    return block_steps(kernel, thread_block((("a0", tile),), 8), ShapeEnv(), SMALL)[-1][1]


def gradients(rows: int, width: int, count: int) -> list[np.ndarray]:
    """Places, some of which are none, and what comes to them."""
    rng = np.random.default_rng(rows)
    dy = rng.normal(size=(count, width)).astype(np.float32)
    dy.reshape(-1)[:3] = np.nan, np.inf, -0.0
    return [rng.integers(-2, rows + 2, count), dy]


@pytest.mark.parametrize("combiner", ["sum", "max"])
@pytest.mark.parametrize("rows, width, count, tile", [(7, 5, 31, 3), (2, 9, 4, 1), (11, 8, 1, 11)])
def test_rows_come_to_their_places(
    rows: int, width: int, count: int, tile: int, combiner: str
) -> None:
    program = block(rows, width, count, tile, combiner)
    assert any(isinstance(s, At) for s in statements(program.body))
    ids, dy = gradients(rows, width, count)
    kernel = gradient(rows, width, count, combiner=combiner)
    with np.errstate(invalid="ignore"):
        want = evaluate_kernel(kernel, [ids, dy], {})
        for seed in range(5):
            y = np.full((rows, width), np.nan, np.float32)
            Interpreter(program, {"ids": ids, "dy": dy, "y": y}, {}, seed).run()
            np.testing.assert_allclose(y, want, 1e-6, 1e-6)


def test_a_thread_goes_along_all_that_is_placed() -> None:
    """Its column's, in order: no two threads come to one result."""
    program = block(7, 5, 31, 3)
    nest = next(s for s in program.body if any(isinstance(x, At) for x in statements((s,))))
    assert isinstance(nest, For)
    loops, (along,) = distributed_loops(nest)
    assert [x.span.axis for x in loops] == ["a1"]
    assert isinstance(along, For) and along.threads is None and along.span.axis == "r"
    assert race(program) == ""
    shared = replace(along, threads=loops[0].threads)
    (at,) = along.body
    wrong = replace(program, body=(For(along.span, (at,), shared.threads),))
    assert "two threads may access one element of y" in race(wrong)


def test_few_elements_are_looked_for_by_their_results() -> None:
    """A thread that went along all for 3 columns would leave a warp of 4 idle."""
    program = block(7, 3, 31, 7)
    assert not any(isinstance(s, At) for s in statements(program.body))
    assert any(isinstance(s, Reduce) for s in statements(program.body))
    ids, dy = gradients(7, 3, 31)
    want = evaluate_kernel(gradient(7, 3, 31), [ids, dy], {})
    y = np.full((7, 3), np.nan, np.float32)
    Interpreter(program, {"ids": ids, "dy": dy, "y": y}, {}, 0).run()
    np.testing.assert_allclose(y, want, 1e-6, 1e-6)


def test_looks_are_counted() -> None:
    """Every block looks at all places, and does its share of what lands."""
    few, many = (demand_of(block(8, 8, n, 2), SMALL).operations for n in (16, 64))
    assert 2 < many / few < 4
    whole, part = (demand_of(block(8, 8, 64, n), SMALL).operations for n in (8, 2))
    assert part < whole < 4 * part


def cache(width: int, own: str = "x") -> Kernel:
    """`x[p, j] = sum[k] a[k] * b[k, j]`, where x lies; `own`: what keeps the rest of y."""
    (i, j, k), u = axes("a", (6, width, 3)), Axis("j", width)
    update = Apply("mul", (Read("a", (var("a2"),)), Read("b", (var("a2"), var("j")))))
    here = (var("a0"), var("a1"))
    lands = Apply("lands", (Read("p", ()), IndexValue(var("a0"))))
    kept = Apply("where", (lands, Read("u", (var("a1"),)), Read(own, here)))
    tensors = (
        *(TensorSpec("a", (3,)), TensorSpec("b", (3, width)), TensorSpec("p", (), "int64")),
        *(TensorSpec("x", (6, width)), TensorSpec("u", (width,)), TensorSpec("y", (6, width))),
    )
    computes = (Compute("u", (u,), update, (k,), "sum"), Compute("y", (i, j), kept))
    return Kernel("cache", tensors, computes, ("a", "b", "p", "x"), ("y",), updates=(("y", "x"),))


def test_a_dim_of_one_element_is_no_reason_to_write_all() -> None:
    """As of one image, or one head: on a CPU, too."""
    for width in (1, 7):
        program = lower(normalise(cache(width)), Tiling())
        assert any(isinstance(s, At) for s in statements(program.body))


@pytest.mark.parametrize("at", [0, 4, 5, -1, 6])
@pytest.mark.parametrize("width", [1, 7])
def test_a_part_is_written_where_the_rest_lies(width: int, at: int) -> None:
    """A cache of keys is one memory before and after, of which the rest is not touched."""
    kernel = normalise(cache(width))
    assert why_not_blocks(kernel) == ""
    program = block_steps(kernel, thread_block((("a0", 2),), 8), ShapeEnv(), SMALL)[-1][1]
    assert any(isinstance(s, At) for s in statements(program.body))
    rng = np.random.default_rng(width)
    a, b, x = (rng.normal(size=n).astype(np.float32) for n in ((3,), (3, width), (6, width)))
    p = np.array(at, np.int64)
    want = evaluate_kernel(kernel, [a, b, p, x], {})
    for seed in range(5):
        y = x.copy()
        Interpreter(program, {"a": a, "b": b, "p": p, "x": y, "y": y}, {}, seed).run()
        np.testing.assert_allclose(y, want, 1e-6, 1e-6)
        changed = np.flatnonzero((y != x).any(1))
        assert [*changed] == ([at] if 0 <= at < 6 else [])


def test_what_another_thread_may_have_written_is_no_part_of_it() -> None:
    """What is read of the memory elsewhere must be read before it is written."""
    kernel = cache(7)
    first, second = kernel.computes
    reads_it = replace(first, expr=Apply("add", (first.expr, Read("x", (var("a2"), var("j"))))))
    wrong = normalise(replace(kernel, computes=(reads_it, second)))
    assert "y is written over x" in why_not_blocks(wrong)
