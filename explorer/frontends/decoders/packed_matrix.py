"""Matrices of few bits in blocks along their rows, as the operator MatMulNBits reads them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from explorer.ir.program import Constant, DerivedConstant
from explorer.ir.types import Tensor

BLOCK = 32  # elements of a block of Q8_0 and Q4_0
BITS = {"Q8_0": 8, "Q4_0": 4}


@dataclass(frozen=True, slots=True, eq=False)
class PackedMatrix:
    """A matrix [outputs, inputs]: codes uint8[outputs, blocks, bytes], scales float32.

    An element is its block's scale times its code minus `2 ** (bits - 1)`. Codes and scales are
    computed from the file's bytes where they are read.
    """

    codes: Constant
    scales: Constant  # [outputs, blocks]
    bits: int

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs."""
        outputs, blocks = self.scales.shape
        return outputs, blocks * BLOCK


def packed_matrix(kind: str, data: np.ndarray, shape: tuple[int, ...]) -> PackedMatrix | None:
    """Return a tensor of Q8_0 or Q4_0 of GGUF with its bits as they are; None for other ones."""
    if kind not in BITS or len(shape) != 2:
        return None
    bits, (outputs, inputs) = BITS[kind], shape
    count, size = inputs // BLOCK, BLOCK * bits // 8
    blocks = Constant(data.reshape(outputs, count, 2 + size))
    codes = Tensor((outputs, count, size), "uint8")
    scales = Tensor((outputs, count), "float32")
    return PackedMatrix(
        DerivedConstant((blocks,), codes, partial(_codes, bits)),
        DerivedConstant((blocks,), scales, _scales),
        bits,
    )


def _scales(blocks: np.ndarray) -> np.ndarray:
    """Return the float16 at the beginning of each block as float32."""
    return np.ascontiguousarray(blocks[..., :2]).view("<f2")[..., 0].astype(np.float32)


def _codes(bits: int, blocks: np.ndarray) -> np.ndarray:
    """Return unsigned codes, the first element in the lowest bits of a byte."""
    if bits == 8:
        return blocks[..., 2:] ^ np.uint8(0x80)  # int8 to uint8
    # Bytes hold elements i and i + 16 there, and neighbours here.
    first, second = blocks[..., 2::2], blocks[..., 3::2]
    codes = np.empty((*blocks.shape[:2], BLOCK // 2), np.uint8)
    np.bitwise_or(first & np.uint8(15), second << np.uint8(4), out=codes[..., : BLOCK // 4])
    np.bitwise_or(first >> np.uint8(4), second & np.uint8(240), out=codes[..., BLOCK // 4 :])
    return codes
