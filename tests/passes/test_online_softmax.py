"""Softmax in front of a product in blocks of its row, rescaled once: same values, less scratch."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.codegen.interpret import Interpreter
from explorer.errors import BadOption
from explorer.ir.canonical import canonical, renamed_tiling
from explorer.ir.decisions import Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.normal import normalise
from explorer.ir.tile_program import For
from explorer.ops.evaluate import evaluate_kernel
from explorer.passes.online_softmax import (
    OnlineSoftmax,
    in_blocks,
    policy,
    softmax_of,
)
from explorer.roller.transform import lower
from tests.codegen.cases import BATCH, SEQ, attention, linear, softmax
from tests.codegen.running import run_kernel

TILE = Tiling((("ob", 1), ("oh", 1), ("oi", 16)))


def blocked(kernel: Kernel, size: int) -> Kernel:
    found = softmax_of(kernel)
    assert found is not None
    return in_blocks(kernel, found, size)


def numbers(shape: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for _ in range(3)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_blocks_give_the_same_values(size: int, causal: bool) -> None:
    kernel = attention(2, 32, 3, 16, {}, causal=causal).kernel
    values = numbers((2, 32, 48))
    want = evaluate_kernel(kernel, values, {})
    new = normalise(blocked(normalise(kernel), size))
    np.testing.assert_allclose(evaluate_kernel(new, values, {}), want, rtol=1e-4, atol=1e-5)
    got = run_kernel(new, TILE, dict(zip("qkv", values, strict=True)))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_the_interpreter_finds_every_address_in_its_buffer() -> None:
    kernel = attention(1, 24, 2, 8, {}).kernel
    values = numbers((1, 24, 16))
    named, _ = canonical(normalise(blocked(kernel, 8)))
    names = [a.name for a in named.computes[-1].axes]
    program = lower(named, Tiling(((names[0], 1), (names[1], 5))))
    out = np.full((1, 24, 16), np.nan, np.float32)
    Interpreter(
        program, dict(zip(named.inputs, values, strict=True)) | {named.output: out}, {}
    ).run()
    want = evaluate_kernel(kernel, values, {})
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-5)


def test_nan_and_infinity_reach_the_same_rows() -> None:
    kernel = attention(1, 32, 1, 16, {}).kernel
    q, k, v = numbers((1, 32, 16))
    q[0, 3, 5], q[0, 7, 2], v[0, 30, 1] = np.nan, np.inf, np.inf
    with np.errstate(all="ignore"):
        want = evaluate_kernel(kernel, [q, k, v], {})
        got = run_kernel(
            normalise(blocked(kernel, 8)), Tiling((("oi", 16),)), {"q": q, "k": k, "v": v}
        )
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_scratch_holds_one_block_of_the_scores() -> None:
    kernel = attention(1, 512, 2, 64, {}).kernel
    new, axes = canonical(normalise(blocked(normalise(kernel), 128)))
    tiling = renamed_tiling(Tiling((("oh", 1), ("oi", 64))), axes)
    program = lower(new, tiling)
    assert isinstance(program.body[0], For)
    rows = [b for b in program.buffers if b.kind == "scratch" and b.dtype == "float32"]
    assert max(int(b.size) for b in rows) < 64 * 512


def test_the_policy_gives_its_reasons() -> None:
    for case, start in (
        (attention(1, 128, 2, 64, {}), "128 columns"),
        (attention(1, 520, 2, 64, {}), "520 columns are no blocks"),
        (attention(BATCH, SEQ, 2, 32, {}), "how many columns"),
    ):
        kernel = normalise(case.kernel)
        found = softmax_of(kernel)
        assert found is not None
        first, second = policy(kernel, found)
        assert first.value == 0 and second.refused.startswith(start)
        assert OnlineSoftmax().rewritten(kernel) is kernel
    long = normalise(attention(1, 512, 2, 64, {}).kernel)
    assert len(OnlineSoftmax().rewritten(long).computes) > len(long.computes)


def test_what_is_no_softmax_in_front_of_a_product_stays() -> None:
    for case in (linear(5, 7, 9, "relu", {}), softmax(2, 33, {})):
        assert softmax_of(case.kernel) is None
        assert OnlineSoftmax(8).rewritten(case.kernel) is case.kernel


def test_a_negative_block_is_refused() -> None:
    with pytest.raises(BadOption, match="0 columns or more, found -1"):
        OnlineSoftmax(-1)
