"""Matrices of a few bits: the values that their bytes mean, and how far the floats are."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.errors import BadOption
from explorer.quantization.low_bit_matrix import (
    BITS,
    LowBitFormat,
    LowBitMatrix,
    quantized,
    weight_error,
)

SHAPES = [(1, 1), (3, 16), (5, 37), (40, 200), (7, 129), (2, 1000)]


def decoded(m: LowBitMatrix, form: LowBitFormat) -> np.ndarray:
    """The matrix in float64, element by element as onnxruntime documents MatMulNBits."""
    rows = len(m.scales)
    of_byte, mask = 8 // m.bits, (1 << m.bits) - 1
    result = np.zeros((rows, m.depth))
    for n in range(rows):
        for k in range(m.depth):
            b, p = divmod(k, form.block_of(m.depth))
            code = int(m.codes[n, b, p // of_byte]) >> m.bits * (p % of_byte) & mask
            zero = 1 << (m.bits - 1)
            if m.zeros is not None:
                zero = int(m.zeros[n, b // of_byte]) >> m.bits * (b % of_byte) & mask
            result[n, k] = (code - zero) * float(m.scales[n, b])
    return result


def values(m: LowBitMatrix) -> np.ndarray:
    return np.concatenate([rows for _, rows in m.values()])


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("block", [16, 64, None])
@pytest.mark.parametrize("kind", BITS)
def test_values_are_what_the_bytes_mean(kind: str, block: int | None, symmetric: bool) -> None:
    rng, form = np.random.default_rng(0), LowBitFormat(kind, block, symmetric)
    for shape in SHAPES[:4]:
        w = (rng.standard_normal(shape) + rng.integers(-1, 2)).astype(np.float32)
        m = quantized(w, form)
        assert m.codes.nbytes == w.shape[0] * m.scales.shape[1] * m.block * m.bits // 8
        exact = decoded(m, form)
        assert values(m).shape == w.shape and values(m).dtype == np.float32
        np.testing.assert_allclose(values(m), exact, rtol=2e-7)
        lost = np.linalg.norm(w - exact) / np.linalg.norm(w)
        assert weight_error(w, m) == pytest.approx(lost, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("kind", BITS)
def test_an_element_is_within_a_step_and_more_bits_lose_less(kind: str, symmetric: bool) -> None:
    rng = np.random.default_rng(1)
    w = rng.standard_normal((30, 256)).astype(np.float32)
    errors = []
    for block in (16, 32, 128, None):
        m = quantized(w, LowBitFormat(kind, block, symmetric))
        if BITS[kind] > 2:  # two bits cut the ends off
            step = np.repeat(np.abs(m.scales), m.block, 1)[:, : w.shape[1]]
            assert (np.abs(values(m) - w) <= 2.5 * step).all()
        errors.append(weight_error(w, m))
    assert errors == sorted(errors), "smaller blocks have smaller errors"
    most = {"int2": 0.45, "int4": 0.15, "int8": 0.01}[kind]
    assert errors[-1] < most and errors[0] > most / 10


def test_errors_are_at_most_those_of_ggml() -> None:
    gguf = pytest.importorskip("gguf")
    w = np.random.default_rng(2).standard_normal((64, 512)).astype(np.float32)
    for kind, theirs in (("int4", "Q4_0"), ("int8", "Q8_0")):
        number = gguf.GGMLQuantizationType[theirs]
        right = gguf.dequantize(gguf.quantize(w, number), number)
        lost = np.linalg.norm(w - right) / np.linalg.norm(w)
        ours = weight_error(w, quantized(w, LowBitFormat(kind, 32, True)))
        assert 0.9 * lost < ours < lost


@pytest.mark.parametrize("symmetric", [True, False])
def test_whole_multiples_of_a_scale_are_exact(symmetric: bool) -> None:
    rng = np.random.default_rng(3)
    for kind, bits in BITS.items():
        half = 1 << (bits - 1)
        steps = rng.integers(-half, half, (6, 4, 16))
        steps[..., 0], steps[..., 1] = -half, half - 1
        w = (steps * rng.choice([0.25, 0.5, 2.0], (6, 4, 1))).reshape(6, 64).astype(np.float32)
        m = quantized(w, LowBitFormat(kind, 16, symmetric))
        np.testing.assert_array_equal(values(m), w)
        assert weight_error(w, m) == 0


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("kind", BITS)
def test_zeros_extremes_and_subnormals_stay_finite(kind: str, symmetric: bool) -> None:
    tiny, large = np.finfo(np.float32).smallest_subnormal, np.finfo(np.float32).max
    rows = [np.zeros(32), np.full(32, large), np.full(32, -large), np.full(32, tiny)]
    rows += [np.resize([large, -large], 32), np.resize([tiny, -3 * tiny], 32)]
    w = np.array(rows, np.float32)
    m = quantized(w, LowBitFormat(kind, 16, symmetric))
    assert np.isfinite(m.scales).all()
    with np.errstate(over="ignore"):  # 128 / 127 of the largest float is none
        numbers = values(m)
    assert not np.isnan(numbers).any() and (numbers[0] == 0).all()
    assert weight_error(w[:1], quantized(w[:1], LowBitFormat(kind, 16, symmetric))) == 0


@pytest.mark.parametrize(
    ("kind", "block", "problem"),
    [
        ("int3", 32, "weights are quantized to int2, int4, int8, nf4, fp8, found 'int3'"),
        (4, 32, "weights are quantized to int2, int4, int8, nf4, fp8, found 4"),
        ("int4", 24, "a block has a power of two of elements from 16 on, found 24"),
        ("int4", 8, "a block has a power of two of elements from 16 on, found 8"),
        ("int4", 32.0, "a block has a power of two of elements from 16 on, found 32.0"),
    ],
)
def test_a_wrong_format_is_refused_in_a_sentence(kind: str, block: int, problem: str) -> None:
    with pytest.raises(BadOption) as refused:
        LowBitFormat(kind, block, True)
    assert refused.value.sentence.startswith(problem)
