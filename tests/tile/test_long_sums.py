"""Long sums are made of blocks: their rounding does not grow with each row, and no row is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.ir.kernel import Axis, Compute, Kernel, TensorSpec, at, axes
from explorer.ir.kernels.canonical import canonical
from explorer.ir.kernels.normal import normalise
from explorer.ir.tile_program import For, OnePass, Reduce
from explorer.tile.rewriting.long_sums import BLOCK, LEAST_POINTS
from tests.tile.programs import after


def columns(rows: int, width: int) -> Kernel:
    over, i = axes("j", (width,)), Axis("i", rows)
    made = Compute("y", over, at("x", (i, *over)), (i,), "sum")
    tensors = TensorSpec("x", (rows, width)), TensorSpec("y", (width,))
    return Kernel("sum", tensors, (made,), ("x",), ("y",))


def program_of(kernel: Kernel) -> Any:
    return after("long sums", canonical(normalise(kernel))[0])


def test_a_long_sum_is_its_first_block_and_a_loop_over_the_others() -> None:
    first, others = program_of(columns(10 * BLOCK, 3)).body
    assert isinstance(first, Reduce) and first.over[0].size == BLOCK
    assert isinstance(others, For) and others.span.size == 9
    assert not others.body[0].over[0].clip_high
    (short,) = program_of(columns(LEAST_POINTS - 1, 3)).body
    assert isinstance(short, Reduce)


def test_what_is_made_beside_a_sum_is_made_in_its_blocks() -> None:
    j, i = Axis("j", 3), Axis("i", 10 * BLOCK)
    made = Compute("e", (i, j), at("x", (i, j)))
    total = Compute("y", (j,), at("e", (i, j)), (i,), "sum")
    rows = (TensorSpec(n, (10 * BLOCK, 3)) for n in "xe")
    tensors = (*rows, TensorSpec("y", (3,)))
    program = program_of(Kernel("sum", tensors, (made, total), ("x",), ("e", "y")))
    assert all(not isinstance(s, OnePass) or len(s.parts) == 2 for s in program.body)


CASES: dict[str, tuple[Callable[..., Any], tuple[int | str, ...], tuple[int, ...]]] = {
    "columns": (lambda x: x.sum(0), (200_003, 3), (200_003, 3)),
    "wide columns": (lambda x: (x * 2).sum(0), (20_001, 40), (20_001, 40)),
    "planes": (lambda x: x.sum((0, 1)), (3001, 7, 5), (3001, 7, 5)),
    "products": (lambda x: x.T @ x, (100_000, 3), (100_000, 3)),
    "values and sums": (lambda x: (x + 1, (x + 1).sum(0)), (9001, 3), (9001, 3)),
    "no row": (lambda x: x.sum(0), ("n", 3), (0, 3)),
    "one row": (lambda x: x.sum(0), ("n", 3), (1, 3)),
    "one block": (lambda x: x.sum(0), ("n", 3), (BLOCK, 3)),
    "a row more": (lambda x: x.sum(0), ("n", 3), (BLOCK + 1, 3)),
    "many rows": (lambda x: x.sum(0), ("n", 3), (150_001, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_of_many_rows_are_near_those_in_float64(name: str) -> None:
    function, declared, shape = CASES[name]
    x = np.full(shape, 0.1, np.float32) + np.arange(shape[-1], dtype=np.float32)
    bounds = {"n": (0, None)} if "n" in declared else {}
    kind = {"x": explorer.tensor("float32", *declared)}
    model = explorer.load(explorer.trace(lambda x: function(x)), bounds=bounds, inputs=kind)
    found = explorer.compile(model).run(x)
    wanted = function(x.astype(np.float64))
    for got, want in zip(found.values(), wanted if len(found) > 1 else (wanted,), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5)
