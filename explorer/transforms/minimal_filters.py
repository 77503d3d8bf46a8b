"""Minimal filtering algorithms F(m, r): m outputs of a filter of r taps by m + r - 1 products.

`y = AT @ ((G @ g) * (BT @ d))` for a filter g and m + r - 1 inputs d; in two dimensions each
transform is applied to columns, then to rows (Winograd 1980; Lavin and Gray 2016, section 4.1). The
matrices are those of Toom and Cook: polynomials are multiplied by their values at m + r - 2 points
and at infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np

TAPS = 3
BLOCK_FILTERS = 4096  # filters transformed at once, to stay in cache; chosen, unmeasured

Matrix = tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True, slots=True)
class MinimalFilter:
    """The transforms of F(outputs, taps): of the input (BT), the filter (G) and the output (AT).

    `input` and `filter` have one row a product, `output` one row an output.
    """

    outputs: int
    taps: int
    input: Matrix
    filter: Matrix
    output: Matrix

    @property
    def points(self) -> int:
        """Products along one dimension."""
        return self.outputs + self.taps - 1

    @property
    def label(self) -> str:
        """The paper's name of the two-dimensional algorithm."""
        return f"F({self.outputs}x{self.outputs}, {self.taps}x{self.taps})"

    @property
    def row_label(self) -> str:
        """The name of the one-dimensional algorithm."""
        return f"F({self.outputs}, {self.taps}) along a row"

    def along(self, weights: np.ndarray, dim: int) -> np.ndarray:
        """Return float32[points, .., segments, ..] from weights[.., taps, ..] along a dim.

        The sum is in float64 and rounded once. The last segment is padded with zeros.
        """
        moved = np.moveaxis(weights, dim, 0).astype(np.float64)
        segments = -(-len(moved) // self.taps)
        transformed = np.zeros((self.points, *moved.shape[1:], segments), np.float32)
        for s in range(segments):
            taps = list(moved[s * self.taps : (s + 1) * self.taps])
            for j, row in enumerate(self.filter):
                transformed[j, ..., s] = _combine_rows((row[: len(taps)],), taps)[0]
        return np.ascontiguousarray(np.moveaxis(transformed, -1, dim + 1))

    def filters(self, weights: np.ndarray) -> np.ndarray:
        """Return float32[points, points, ...] from weights[3, 3, ...].

        The sum is in float64 and rounded once.
        """
        flat = weights.reshape(TAPS, TAPS, -1)
        transformed = np.empty((self.points, self.points, flat.shape[2]), np.float32)
        for start in range(0, flat.shape[2], BLOCK_FILTERS):
            part = flat[..., start : start + BLOCK_FILTERS].astype(np.float64)
            columns = [_combine_rows(self.filter, list(part[:, k])) for k in range(TAPS)]
            for i in range(self.points):
                row = _combine_rows(self.filter, [c[i] for c in columns])
                transformed[i, :, start : start + BLOCK_FILTERS] = row
        return transformed.reshape(self.points, self.points, *weights.shape[2:])


def _combine_rows(rows: Matrix, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return each row's combination of the parts, without a multithreaded BLAS."""
    return [
        np.add.reduce([float(f) * p for f, p in zip(row, parts, strict=True) if f]) for row in rows
    ]


def minimal_filter(outputs: int, at: tuple[Fraction, ...], taps: int = TAPS) -> MinimalFilter:
    """Build F(outputs, taps) from `outputs + taps - 2` distinct points and infinity."""
    assert len(at) == outputs + taps - 2, "a point for each product but one"
    scales = tuple(prod((p - q for q in at if q != p), start=Fraction(1)) for p in at)
    roots = [tuple(q for q in at if q != p) for p in at]
    infinity = tuple(Fraction(n == taps - 1) for n in range(taps))
    last = tuple(Fraction(n == outputs - 1) for n in range(outputs))
    values = [tuple(p**n for n in range(outputs)) for p in at]
    filters = (tuple(p**n / f for n in range(taps)) for p, f in zip(at, scales, strict=True))
    return MinimalFilter(
        outputs,
        taps,
        tuple(_expand_polynomial(r, len(at) + 1) for r in (*roots, at)),
        (*filters, infinity),
        tuple(zip(*values, last, strict=True)),
    )


def _expand_polynomial(roots: tuple[Fraction, ...], length: int) -> tuple[Fraction, ...]:
    """Return the coefficients of the product of all `x - root`, constant first."""
    coefficients = [Fraction(1)]
    for r in roots:
        shifted, scaled = (
            [Fraction(0), *coefficients],
            [-r * x for x in coefficients] + [Fraction(0)],
        )
        coefficients = [a + b for a, b in zip(shifted, scaled, strict=True)]
    return tuple(coefficients + [Fraction(0)] * (length - len(coefficients)))


def _symmetric_points(*points: Fraction) -> tuple[Fraction, ...]:
    """Return zero and each point followed by its negative: pairs share their computation."""
    return (Fraction(0), *(x for p in points for x in (p, -p)))


F2 = minimal_filter(2, _symmetric_points(Fraction(1)))
F4 = minimal_filter(4, _symmetric_points(Fraction(3, 4), Fraction(3, 2)))
"""Points whose powers are exact in float32; 3/4 and 3/2 make a quarter of the error of 1 and 2
(Barabasz et al. 2020, Error analysis and improving the accuracy of Winograd convolution).
"""

ROW3 = minimal_filter(3, (*_symmetric_points(Fraction(1)), Fraction(2)), 3)
ROW4 = minimal_filter(4, (*_symmetric_points(Fraction(1), Fraction(1, 2)), Fraction(2)), 4)
"""As many outputs as taps: a long window is cut into segments that begin where tiles do. The
largest error along rows of 7 and 11 taps is about 4e-7 of the largest answer.
"""
