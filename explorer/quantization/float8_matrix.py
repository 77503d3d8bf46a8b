"""Matrices rounded to float8 with a scale for each row, as DequantizeLinear reads them.

    W[n, k] ~ code[n, k] * scale[n]

A row's scale takes its largest magnitude to the largest float8 with three bits of mantissa, 448
(Micikevicius et al. 2022, FP8 formats for deep learning).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from explorer.ir.dtypes import numpy_dtype

FLOAT8 = numpy_dtype("float8_e4m3fn")
LARGEST = np.float32(448)
PART = 1 << 22  # elements that are rounded at a time, for the memory of the copies; chosen


@dataclass(frozen=True, slots=True, eq=False)
class Float8Matrix:
    """A matrix [columns, depth]: codes float8[depth, columns], and scales [columns]."""

    codes: np.ndarray
    scales: np.ndarray

    @property
    def block(self) -> int:
        """The elements that share a scale: all of a row."""
        return len(self.codes)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that are stored, by name."""
        return {"codes": self.codes, "scales": self.scales}

    def values(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield rows as float32, some at a time, each with the number of its first."""
        for part in _parts(*self.codes.shape):
            yield part.start, self.codes[:, part].T.astype(np.float32) * self.scales[part, None]


def float8_matrix(matrix: np.ndarray) -> Float8Matrix:
    """Round a matrix float32[outputs, inputs] of finite elements."""
    outputs, depth = matrix.shape
    codes, scales = np.empty((depth, outputs), FLOAT8), np.empty(outputs, np.float32)
    for part in _parts(depth, outputs):
        rows = matrix[part]
        scale = np.abs(rows).max(axis=1) / LARGEST
        shares = np.divide(rows, scale[:, None], out=np.zeros_like(rows), where=scale[:, None] > 0)
        codes[:, part] = np.clip(shares, -LARGEST, LARGEST).astype(FLOAT8).T
        scales[part] = scale
    return Float8Matrix(codes, scales)


def _parts(depth: int, outputs: int) -> Iterator[slice]:
    """Yield slices of rows."""
    step = max(1, PART // depth)
    yield from (slice(n, min(n + step, outputs)) for n in range(0, outputs, step))
