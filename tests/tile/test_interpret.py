"""Tile programs under the interpreter, which checks every address, against the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.ir.dims import evaluate_shape
from explorer.ir.kernels.canonical import canonical, renamed_tiling
from explorer.ir.kernels.normal import normalise
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.tile.interpret import Interpreter
from explorer.tile.rewrites import tile_program
from tests.codegen.cases import CASES, ENV, Case, arrays
from tests.tile.programs import HERE


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_tile_program_stays_in_its_buffers_and_equals_the_reference(case: Case) -> None:
    values = arrays(case)
    want = evaluate_kernel(case.kernel, [values[n] for n in case.kernel.inputs], case.sizes)
    named, axes = canonical(normalise(case.kernel))
    program = tile_program(named, renamed_tiling(case.tiling, axes), ENV, HERE)
    poison = np.nan if want.dtype.kind == "f" else 77
    out = np.full(
        evaluate_shape(case.kernel.shape(case.kernel.output), case.sizes), poison, want.dtype
    )
    given = dict(zip(named.inputs, (values[n] for n in case.kernel.inputs), strict=True))
    Interpreter(program, given | {"y": out}, case.sizes).run()
    scale = max(1.0, float(np.abs(np.nan_to_num(want.astype(float))).max(initial=0)))
    np.testing.assert_allclose(
        out.astype(float), want.astype(float), atol=case.tolerance * scale, rtol=1e-5
    )
