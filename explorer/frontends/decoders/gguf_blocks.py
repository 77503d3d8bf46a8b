"""Element types of GGUF tensors, and float32 from their blocks.

The layouts are those of ggml (ggml-common.h): a block of elements shares scales, and quants are
packed in bytes. Products are rounded in the same order as there, so results are equal to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

NIBBLES = np.array([0, 4], np.uint8)
PAIRS = np.array([0, 2, 4, 6], np.uint8)


@dataclass(frozen=True, slots=True)
class BlockType:
    """An element type: elements and bytes of a block, and float32[blocks, elements] from bytes."""

    name: str
    elements: int
    size: int  # bytes
    decode: Callable[[np.ndarray], np.ndarray]


def decode(kind: BlockType, data: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the tensor of some bytes as float32: a view if it is float32."""
    if kind.name == "F32":
        return data.view("<f4").reshape(shape)
    return kind.decode(data.reshape(-1, kind.size)).reshape(shape)


def _half(blocks: np.ndarray, at: int) -> np.ndarray:
    """Return the float16 numbers at a byte of each block as float32[blocks, 1]."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _float32(blocks: np.ndarray) -> np.ndarray:
    return blocks.view("<f4")


def _float16(blocks: np.ndarray) -> np.ndarray:
    return blocks.view("<f2").astype(np.float32)


def _bfloat16(blocks: np.ndarray) -> np.ndarray:
    return (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32)


def _q8_0(blocks: np.ndarray) -> np.ndarray:
    """Return scale * q."""
    return _half(blocks, 0) * blocks[:, 2:].view(np.int8).astype(np.float32)


def _nibbles(packed: np.ndarray) -> np.ndarray:
    """Return the low nibbles of each block's bytes, then the high ones, as float32."""
    parts = packed[:, None, :] >> NIBBLES[:, None] & np.uint8(15)
    return parts.reshape(len(packed), -1).astype(np.float32)


def _q4_0(blocks: np.ndarray) -> np.ndarray:
    """Return scale * (q - 8)."""
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:]) - np.float32(8))


def _q4_1(blocks: np.ndarray) -> np.ndarray:
    """Return scale * q + least."""
    return np.asarray(_half(blocks, 0) * _nibbles(blocks[:, 4:]) + _half(blocks, 2))


def _q4_k(blocks: np.ndarray) -> np.ndarray:
    """Return scale * q - least, with 6-bit scales and least values of 32 elements each."""
    packed = blocks[:, 4:16].reshape(-1, 3, 4)
    first, second, high = packed[:, 0], packed[:, 1], packed[:, 2]
    scales = np.concatenate([first & 63, (high & 15) | (first >> 6 << 4)], axis=1)
    least = np.concatenate([second & 63, (high >> 4) | (second >> 6 << 4)], axis=1)
    scale = _half(blocks, 0) * scales.astype(np.float32)
    offset = _half(blocks, 2) * least.astype(np.float32)
    q = _nibbles(blocks[:, 16:].reshape(-1, 32)).reshape(-1, 8, 32)
    return np.asarray(scale[:, :, None] * q - offset[:, :, None]).reshape(-1, 256)


def _q6_k(blocks: np.ndarray) -> np.ndarray:
    """Return scale * (q - 32), with 8-bit scales of 16 elements each."""
    low = blocks[:, :128].reshape(-1, 2, 1, 64) >> NIBBLES[:, None] & np.uint8(15)
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> PAIRS[:, None] & np.uint8(3)
    q = low.reshape(-1, 2, 4, 32) | high << np.uint8(4)
    scale = _half(blocks, 208) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    values = q.reshape(-1, 16, 16).astype(np.float32) - np.float32(32)
    return np.asarray(scale[:, :, None] * values).reshape(-1, 256)


BLOCK_TYPES: Mapping[int, BlockType] = {  # by ggml's number
    0: BlockType("F32", 1, 4, _float32),
    1: BlockType("F16", 1, 2, _float16),
    2: BlockType("Q4_0", 32, 18, _q4_0),
    3: BlockType("Q4_1", 32, 20, _q4_1),
    8: BlockType("Q8_0", 32, 34, _q8_0),
    12: BlockType("Q4_K", 256, 144, _q4_k),
    14: BlockType("Q6_K", 256, 210, _q6_k),
    30: BlockType("BF16", 1, 2, _bfloat16),
}
