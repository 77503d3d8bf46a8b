"""Matrices of few bits in blocks along their rows, as the operator MatMulNBits reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from explorer.frontends.decoders.gguf_blocks import BlockType, Quants
from explorer.ir.program import Constant, DerivedConstant
from explorer.ir.types import Tensor
from explorer.ops.low_bit_products import packed

BLOCKS = 1 << 12  # of a file that are unpacked at a time


@dataclass(frozen=True, slots=True, eq=False)
class PackedMatrix:
    """A matrix [outputs, inputs]: codes uint8[outputs, blocks, bytes], scales float32.

    An element is its block's scale times its code, minus the block's minimum; without minima, its
    block's scale times its code minus `2 ** (bits - 1)`. A scale of zero has a minimum of zero.
    Zero points are minima as multiples of scales. All are computed from the file's bytes where they
    are read.
    """

    codes: Constant
    scales: Constant  # [outputs, blocks], as are minima and zeros
    minima: Constant | None
    zeros: Constant | None
    bits: int
    block: int

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs."""
        outputs, blocks = self.scales.shape
        return outputs, blocks * self.block


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
    outputs, count = shape[0], shape[1] // quants.part
    blocks = Constant(data.reshape(-1, kind.size))
    codes = Tensor((outputs, count, quants.part * quants.bits // 8), "uint8")

    def floats(read: Callable[[np.ndarray], np.ndarray]) -> Constant:
        kind = Tensor((outputs, count), "float32")
        return DerivedConstant((blocks,), kind, lambda data: read(data).reshape(outputs, count))

    return PackedMatrix(
        DerivedConstant((blocks,), codes, partial(_codes, quants, codes.dims)),
        floats(partial(_scales, quants)),
        floats(quants.minima) if quants.minima else None,
        floats(partial(_zeros, quants)) if quants.minima else None,
        quants.bits,
        quants.part,
    )


def _codes(quants: Quants, shape: tuple[int, ...], blocks: np.ndarray) -> np.ndarray:
    """Return unsigned codes, packed; 0 where only the minimum counts.

    They are packed some blocks at a time: between, an element takes a byte.
    """
    result = np.empty((len(blocks), prod(shape) // len(blocks)), np.uint8)
    for first in range(0, len(blocks), BLOCKS):
        some = blocks[first : first + BLOCKS]
        codes = quants.codes(some)
        if quants.minima is None:
            codes = codes.view(np.uint8) + np.uint8(1 << (quants.bits - 1))
        else:
            codes = codes * (quants.scales(some) != 0)[..., None]
        result[first : first + BLOCKS] = packed(codes, quants.bits).reshape(len(some), -1)
    return result.reshape(shape)


def _scales(quants: Quants, blocks: np.ndarray) -> np.ndarray:
    """Return scales; the minimum for one that is zero, so that it is a multiple of the scale."""
    scales = quants.scales(blocks)
    if quants.minima is None:
        return scales
    minima = quants.minima(blocks)
    return np.where((scales == 0) & (minima != 0), minima, scales)


def _zeros(quants: Quants, blocks: np.ndarray) -> np.ndarray:
    """Return minima as multiples of scales."""
    assert quants.minima is not None
    scales = _scales(quants, blocks)
    zeros = np.zeros_like(scales)
    np.divide(quants.minima(blocks), scales, out=zeros, where=scales != 0)
    return zeros
