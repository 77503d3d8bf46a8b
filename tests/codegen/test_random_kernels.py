"""Random shapes, tiles and register tiles: interpreter and machine code against the evaluator."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from explorer.errors import BadOption
from explorer.ir.decisions.tiling import Micro
from explorer.ir.kernels.canonical import canonical, renamed_tiling
from explorer.ir.kernels.normal import normalise
from explorer.ir.shapes.dims import evaluate_shape
from explorer.ops.reference.evaluate import evaluate_kernel
from explorer.tile.interpret import Interpreter
from explorer.tile.lowering.lower import lower
from tests.codegen.cases import (
    BATCH,
    ENV,
    SEQ,
    Case,
    arrays,
    attention,
    concat,
    conv,
    layer_norm,
    linear,
    pool,
    softmax,
    transpose,
)
from tests.codegen.running import run_kernel
from tests.examples import examples

SMALL = st.integers(1, 24)
MICRO = st.builds(Micro, st.integers(1, 14), st.integers(1, 2), st.sampled_from([4, 8, 16]))


@st.composite
def linears(draw: st.DrawFn) -> Case:
    micro = draw(MICRO)
    tile = {"e0": draw(SMALL)}
    if draw(st.booleans()):
        tile["e1"] = micro.columns * draw(st.integers(1, 2))
    m = BATCH if draw(st.booleans()) else draw(st.integers(1, 40))
    function = draw(st.sampled_from(["relu", "none", "erf", "root", "two"]))
    n, k = draw(st.integers(1, 90)), draw(SMALL)
    return linear(m, k, n, function, tile, micro, draw(st.sampled_from([0, 4, 9])))


@st.composite
def convolutions(draw: st.DrawFn) -> Case:
    size, stride, pad = draw(
        st.sampled_from(
            [(1, 1, 0), (1, 2, 0), (3, 1, 1), (3, 2, 1), (5, 1, 2), (3, 1, 0), (2, 2, 0)]
        )
    )
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    h, w = draw(st.integers(5, 11)), draw(st.integers(5, 11))
    ci, co = groups * draw(st.integers(1, 6)), groups * draw(st.integers(1, 20))
    dilation = draw(st.sampled_from([1, 1, 2])) if size == 3 and h > 6 and w > 6 else 1
    tile = {"e1": draw(st.integers(1, 5))} if groups == 1 else {}
    return conv(
        h,
        w,
        ci,
        co,
        size,
        stride,
        pad,
        groups,
        dilation,
        tile=tile,
        micro=draw(MICRO),
        n=draw(st.integers(1, 2)),
    )


@st.composite
def others(draw: st.DrawFn) -> Case:
    n = draw(SMALL)
    kind = draw(st.sampled_from(["softmax", "norm", "pool", "transpose", "concat", "attention"]))
    match kind:
        case "softmax":
            return softmax(draw(st.integers(1, 3)), n, {"s1": draw(SMALL)})
        case "norm":
            return layer_norm(draw(SMALL), n, {"s0": draw(SMALL)})
        case "pool":
            return pool(
                draw(st.integers(4, 9)),
                n,
                3,
                draw(st.integers(1, 2)),
                1,
                draw(st.sampled_from(["max", "sum"])),
                {"e1": draw(st.integers(1, 4))},
            )
        case "transpose":
            shape = (draw(st.integers(1, 3)), draw(SMALL), draw(SMALL))
            order = draw(st.permutations(range(3)))
            return transpose(shape, tuple(order), {"a0": draw(SMALL)})
        case "concat":
            parts = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
            return concat(parts, draw(st.integers(0, 2)), (2, 3, 5))
        case _:
            b, s = (BATCH, SEQ) if draw(st.booleans()) else (2, n)
            tile = {"ob": 1, "oh": 1, "oi": draw(SMALL)}
            return attention(b, s, draw(st.integers(1, 3)), draw(st.integers(8, 33)), tile)


def agree(got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    scale = max(1.0, float(np.abs(want).max(initial=0)))
    np.testing.assert_allclose(got, want, atol=4 * tolerance * scale, rtol=1e-5)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(linears(), convolutions(), others()))
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
@given(st.one_of(linears(), convolutions(), others()))
def test_random_kernels_run_as_machine_code(case: Case) -> None:
    values = arrays(case)
    want = evaluate_kernel(case.kernel, [values[n] for n in case.kernel.inputs], case.sizes)
    try:
        got = run_kernel(case.kernel, case.tiling, values, case.sizes, ENV)
    except BadOption:
        return
    agree(got, want, case.tolerance)
