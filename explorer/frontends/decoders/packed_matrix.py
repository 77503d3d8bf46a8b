"""Matrices of few bits in blocks along their rows, as the operator MatMulNBits reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

BLOCK = 32  # elements of a block of Q8_0 and Q4_0
NIBBLES = np.array([0, 4], np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class PackedMatrix:
    """A matrix [outputs, inputs]: codes uint8[outputs, blocks, bytes], scales float32.

    An element is its block's scale times its code minus `2 ** (bits - 1)`.
    """

    codes: np.ndarray
    scales: np.ndarray  # [outputs, blocks]
    bits: int

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs."""
        return self.scales.shape[0], self.scales.shape[1] * BLOCK

    def rows(self, first: int, end: int) -> PackedMatrix:
        """Return some of its rows."""
        return replace(self, codes=self.codes[first:end], scales=self.scales[first:end])


def packed_matrix(kind: str, data: np.ndarray, shape: tuple[int, ...]) -> PackedMatrix | None:
    """Return a tensor of Q8_0 or Q4_0 of GGUF with its bits as they are; None for other ones."""
    sizes = {"Q8_0": 8, "Q4_0": 4}
    if kind not in sizes or len(shape) != 2:
        return None
    bits, (outputs, inputs) = sizes[kind], shape
    blocks = data.reshape(outputs, inputs // BLOCK, 2 + BLOCK * bits // 8)
    scales = np.ascontiguousarray(blocks[..., :2]).view("<f2")[..., 0].astype(np.float32)
    codes = blocks[..., 2:] ^ np.uint8(0x80)  # int8 to uint8
    if bits == 4:  # low halves come first there, and neighbours share a byte here
        halves = (blocks[..., None, 2:] >> NIBBLES[:, None]) & np.uint8(15)
        flat = halves.reshape(outputs, inputs // BLOCK, BLOCK)
        codes = flat[..., ::2] | flat[..., 1::2] << np.uint8(4)
    return PackedMatrix(codes, scales, bits)
