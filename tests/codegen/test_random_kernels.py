"""Random shapes, tiles and register tiles: interpreter and machine code against the evaluator."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings

from explorer.errors import BadOption
from explorer.ir.dims import evaluate_shape
from explorer.ir.kernels.canonical import canonical, renamed_tiling
from explorer.ir.kernels.normal import normalise
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.tile.interpret import Interpreter
from explorer.tile.lowering.lower import lower
from tests.codegen.cases import ENV, Case, arrays
from tests.codegen.running import run_kernel
from tests.examples import examples
from tests.strategies.kernels import cases


def agree(got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    scale = max(1.0, float(np.abs(want).max(initial=0)))
    np.testing.assert_allclose(got, want, atol=4 * tolerance * scale, rtol=1e-5)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_random_tile_programs_mean_what_their_kernels_mean(case: Case) -> None:
    values = arrays(case)
    want = evaluate_kernel(case.kernel, [values[n] for n in case.kernel.inputs], case.sizes)
    named, axes = canonical(normalise(case.kernel))
    try:
        program = lower(named, renamed_tiling(case.tiling, axes), ENV)
    except BadOption:
        return
    out = np.full(evaluate_shape(case.kernel.shape("y"), case.sizes), np.nan, np.float32)
    inputs = dict(zip(named.inputs, (values[n] for n in case.kernel.inputs), strict=True))
    Interpreter(program, inputs | {"y": out}, case.sizes).run()
    agree(out, want, case.tolerance)


@settings(
    max_examples=examples(25, few=10), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(cases())
def test_random_kernels_run_as_machine_code(case: Case) -> None:
    values = arrays(case)
    want = evaluate_kernel(case.kernel, [values[n] for n in case.kernel.inputs], case.sizes)
    try:
        got = run_kernel(case.kernel, case.tiling, values, case.sizes, ENV)
    except BadOption:
        return
    agree(got, want, case.tolerance)
