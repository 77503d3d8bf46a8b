"""Matrices rounded to the 16 numbers of nf4 in blocks along their rows, as MatMulBnb4 reads them.

    W[n, k] ~ nf4[code[n * K + k]] * scale[(n * K + k) / block]

A block's scale is its largest magnitude, and an element becomes the nearest of the numbers, which
are quantiles of the normal distribution (Dettmers et al. 2023, QLoRA: Efficient finetuning of
quantized LLMs).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from explorer.ops.table_products import NF4, TABLES, packed_pairs, unpacked_pairs

NUMBERS = TABLES[NF4]
BETWEEN = (NUMBERS[1:] + NUMBERS[:-1]) / 2  # where the nearest number changes
PART = 1 << 22  # elements that are rounded at a time, for the memory of the copies; chosen


@dataclass(frozen=True, slots=True, eq=False)
class Nf4Matrix:
    """A matrix [columns, depth]: codes, two elements a byte, and scales of runs of `block`."""

    codes: np.ndarray
    scales: np.ndarray
    columns: int
    depth: int
    block: int

    operator = "MatMulBnb4"

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that are stored, by name."""
        return {"codes": self.codes, "scales": self.scales}

    @property
    def attrs(self) -> tuple[tuple[str, int], ...]:
        """The attributes of MatMulBnb4."""
        sizes = {"K": self.depth, "N": self.columns, "block_size": self.block}
        return (*sizes.items(), ("quant_type", NF4))

    def values(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield rows as float32, some at a time, each with the number of its first."""
        rows = 2 * max(1, PART // (2 * self.depth))  # an even number begins at a byte
        for begin in range(0, self.columns, rows):
            first, end = begin * self.depth, min(begin + rows, self.columns) * self.depth
            codes = unpacked_pairs(self.codes[first // 2 : -(-end // 2)])[: end - first]
            scales = self.scales[np.arange(first, end) // self.block]
            yield begin, (NUMBERS[codes] * scales).reshape(-1, self.depth)


def nf4_matrix(matrix: np.ndarray, block: int) -> Nf4Matrix:
    """Round a matrix float32[outputs, inputs] of finite elements."""
    columns, depth = matrix.shape
    flat = np.ascontiguousarray(matrix).reshape(-1)
    codes = np.empty(-(-flat.size // 2), np.uint8)
    scales = np.empty(-(-flat.size // block), np.float32)
    for begin in range(0, flat.size, step := max(PART, block)):
        part = flat[begin : begin + step]
        runs = np.pad(part, (0, -part.size % block)).reshape(-1, block)
        scale = np.abs(runs).max(axis=1)
        shares = np.divide(runs, scale[:, None], out=np.zeros_like(runs), where=scale[:, None] > 0)
        nearest = np.searchsorted(BETWEEN, shares.reshape(-1)[: part.size]).astype(np.uint8)
        codes[begin // 2 : (begin + part.size + 1) // 2] = packed_pairs(nearest)
        scales[begin // block : begin // block + len(scale)] = scale
    return Nf4Matrix(codes, scales, columns, depth, block)
