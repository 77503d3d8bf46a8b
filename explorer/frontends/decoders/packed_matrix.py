"""Matrices of few bits in blocks along their rows, as the operator MatMulNBits reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from explorer.frontends.decoders.gguf_blocks import BlockType, Quants
from explorer.ops.low_bit_products import packed

BLOCKS = 1 << 12  # of a file that are unpacked at a time


@dataclass(frozen=True, slots=True, eq=False)
class PackedMatrix:
    """A matrix [outputs, inputs]: codes uint8[outputs, blocks, bytes], scales float32.

    An element is its block's scale times its code, minus the block's minimum; without minima, its
    block's scale times its code minus `2 ** (bits - 1)`. A scale of zero has a minimum of zero.
    """

    codes: np.ndarray
    scales: np.ndarray  # [outputs, blocks]
    minima: np.ndarray | None  # [outputs, blocks]
    bits: int
    block: int

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs."""
        return self.scales.shape[0], self.scales.shape[1] * self.block

    @property
    def zeros(self) -> np.ndarray | None:
        """The zero points, minima as multiples of scales; None without minima."""
        if self.minima is None:
            return None
        zeros = np.zeros_like(self.scales)
        np.divide(self.minima, self.scales, out=zeros, where=self.scales != 0)
        return zeros

    def rows(self, first: int, end: int) -> PackedMatrix:
        """Return some of its rows."""
        minima = None if self.minima is None else self.minima[first:end]
        return replace(
            self, codes=self.codes[first:end], scales=self.scales[first:end], minima=minima
        )


def packed_bytes(kind: BlockType, shape: tuple[int, ...]) -> int | None:
    """Return the bytes of a packed matrix; None for a tensor that is not packed."""
    quants = kind.read
    if not isinstance(quants, Quants) or len(shape) != 2:
        return None
    floats = 3 if quants.minima else 1  # scales; minima and zero points
    return prod(shape) // quants.part * (quants.part * quants.bits // 8 + 4 * floats)


def packed_matrix(kind: BlockType, data: np.ndarray, shape: tuple[int, ...]) -> PackedMatrix | None:
    """Return a quantised matrix of GGUF with its bits as they are; None for other tensors."""
    quants = kind.read
    if not isinstance(quants, Quants) or len(shape) != 2:
        return None
    blocks, (outputs, inputs) = data.reshape(-1, kind.size), shape
    count, part_bytes = inputs // quants.part, quants.part * quants.bits // 8

    codes = np.empty((len(blocks), kind.elements // quants.part, part_bytes), np.uint8)
    scales = np.empty(codes.shape[:2], np.float32)
    minima = np.empty(codes.shape[:2], np.float32) if quants.minima else None
    for first in range(0, len(blocks), BLOCKS):
        some = slice(first, first + BLOCKS)
        codes[some], scales[some] = _codes(quants, blocks[some]), _scales(quants, blocks[some])
        if minima is not None and quants.minima:
            minima[some] = quants.minima(blocks[some])
    return PackedMatrix(
        codes.reshape(outputs, count, part_bytes),
        scales.reshape(outputs, count),
        None if minima is None else minima.reshape(outputs, count),
        quants.bits,
        quants.part,
    )


def _codes(quants: Quants, blocks: np.ndarray) -> np.ndarray:
    """Return unsigned codes, packed; 0 where only the minimum counts."""
    codes = quants.codes(blocks)
    if quants.minima is None:
        return packed(codes.view(np.uint8) + np.uint8(1 << (quants.bits - 1)), quants.bits)
    return packed(codes * (quants.scales(blocks) != 0)[..., None], quants.bits)


def _scales(quants: Quants, blocks: np.ndarray) -> np.ndarray:
    """Return scales; the minimum for one that is zero, so that it is a multiple of the scale."""
    scales = quants.scales(blocks)
    if quants.minima is None:
        return scales
    minima = quants.minima(blocks)
    return np.where((scales == 0) & (minima != 0), minima, scales)
