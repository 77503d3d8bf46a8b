"""Columns of register tiles in a kernel of several contractions."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.tile_program import For, Panels, Statement
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.tile.lowering.lower import lower
from tests.codegen.cases import ENV, arrays, attention
from tests.codegen.running import run_kernel


@pytest.mark.parametrize("columns", [0, 1, 15, 16, 17, 32, 33, 63, 64, 65, 1000])
@pytest.mark.parametrize("micro", [Micro(14, 2), Micro(4, 4), Micro(8, 3), Micro(28, 1)])
def test_no_vector_lies_past_the_columns_and_no_more_registers_are_used(
    columns: int, micro: Micro
) -> None:
    over = micro.over(columns)
    assert over.vectors == min(micro.vectors, max(1, -(-columns // 16)))
    assert over.rows >= micro.rows
    assert over.rows * over.vectors + over.vectors <= micro.rows * micro.vectors + micro.vectors


def _panels(body: tuple[Statement, ...]) -> list[Panels]:
    found: list[Panels] = []
    for s in body:
        match s:
            case Panels():
                found.append(s)
            case For(_, inner):
                found += _panels(inner)
            case _:
                pass
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize("width", [8, 13, 16])
@pytest.mark.parametrize("micro", [Micro(8, 2), Micro(4, 4), Micro(14, 2)])
def test_a_narrow_product_behind_wide_scores_is_right(width: int, micro: Micro) -> None:
    case = attention(2, 37, 3, width, {"oh": 1, "oi": 19})
    tiling = Tiling(case.tiling.tile, micro)
    wide, narrow = _panels(lower(case.kernel, tiling).body)
    assert wide.micro == micro.over(37) and narrow.micro == micro.over(width)
    values = arrays(case)
    want = evaluate_kernel(case.kernel, [values[n] for n in case.kernel.inputs], case.sizes)
    got = run_kernel(case.kernel, tiling, values, case.sizes, ENV)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
