"""Matrices in nf4 against the codes and scales of onnxruntime's quantizer."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer

from explorer.errors import BadOption
from explorer.ops.table_products import NF4, TABLES, unpacked_pairs
from explorer.quantization import nf4_matrix as module
from explorer.quantization.low_bit_matrix import LowBitFormat, weight_error
from explorer.quantization.nf4_matrix import nf4_matrix

SHAPES = [(1, 1), (3, 16), (5, 37), (40, 200), (7, 129)]


@pytest.mark.parametrize("part", [64, 1 << 22])
@pytest.mark.parametrize("block", [16, 64])
def test_codes_and_scales_are_those_of_onnxruntime(
    block: int, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART", part)
    quantizer = MatMulBnb4Quantizer(onnx.ModelProto(), NF4, block)
    for shape in SHAPES:
        w = np.random.default_rng(shape[1]).standard_normal(shape).astype(np.float32)
        w[:, :3] = 0
        m = nf4_matrix(w, block)
        codes, scales = quantizer.bnb4_block_quant(w.T)
        np.testing.assert_array_equal(m.scales, scales)
        zero = m.scales[np.arange(w.size) // block] == 0
        ours = unpacked_pairs(m.codes)[: w.size]
        theirs = unpacked_pairs(codes)[: w.size]
        np.testing.assert_array_equal(ours[~zero], theirs[~zero])
        assert (ours[zero] == 7).all()
        rows = np.concatenate([rows for _, rows in m.values()])
        exact = TABLES[NF4][ours] * m.scales[np.arange(w.size) // block]
        np.testing.assert_array_equal(rows, exact.reshape(shape))
        gap = np.linalg.norm(w - rows) / max(np.linalg.norm(w), 1e-30)
        assert weight_error(w, m) == pytest.approx(gap, rel=1e-6)


@pytest.mark.parametrize(("block", "symmetric"), [(None, True), (32, False)])
def test_a_scale_by_column_and_zero_points_are_refused(block: int | None, symmetric: bool) -> None:
    with pytest.raises(BadOption, match="nf4 has a scale for each block and no zero points"):
        LowBitFormat("nf4", block, symmetric)
