"""Matrices in float8 with a scale for each row."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from explorer.errors import BadOption
from explorer.quantization import float8_matrix as module
from explorer.quantization.float8_matrix import float8_matrix
from explorer.quantization.low_bit_matrix import LowBitFormat, weight_error

NUMBERS = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)


@pytest.mark.parametrize("part", [64, 1 << 22])
def test_elements_are_the_nearest_multiples_of_their_scale(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART", part)
    finite = NUMBERS[np.isfinite(NUMBERS)]
    for shape in ((2, 1), (3, 16), (40, 37)):
        w = np.random.default_rng(shape[1]).standard_normal(shape).astype(np.float32)
        w[-1] = 0
        w[:, 0] *= 10 ** np.random.default_rng(0).uniform(-38, 30)
        m = float8_matrix(w)
        rows = np.concatenate([rows for _, rows in m.values()])
        scales = m.scales.astype(np.float64)[:, None]
        gaps = abs(w.astype(np.float64)[..., None] - scales[..., None] * finite).min(axis=-1)
        assert (abs(rows - w.astype(np.float64)) <= gaps + 2e-7 * abs(w)).all()
        gap = np.linalg.norm(rows - w.astype(np.float64)) / np.linalg.norm(w.astype(np.float64))
        assert weight_error(w, m) == pytest.approx(gap, rel=1e-4, abs=1e-6)
        assert abs(m.codes.astype(np.float32)).max() == 448


@pytest.mark.parametrize(("block", "symmetric"), [(32, True), (None, False)])
def test_blocks_and_zero_points_are_refused(block: int | None, symmetric: bool) -> None:
    with pytest.raises(BadOption, match="fp8 has a scale for each column and no zero points"):
        LowBitFormat("fp8", block, symmetric)
