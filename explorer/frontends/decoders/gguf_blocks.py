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
SINGLES = np.arange(8, dtype=np.uint8)
Reader = Callable[[np.ndarray], np.ndarray]  # of uint8[blocks, size]


@dataclass(frozen=True, slots=True)
class Quants:
    """Elements of quantised blocks, in parts that share a scale: `scale * code - minimum`."""

    part: int  # elements of a scale
    bits: int  # that hold a code, 2, 4 or 8
    codes: Reader  # [blocks, parts, part], int8 without minima, else uint8
    scales: Reader  # float32[blocks, parts]
    minima: Reader | None = None  # float32[blocks, parts]

    def decode(self, blocks: np.ndarray) -> np.ndarray:
        """Return float32[blocks, parts, part]."""
        numbers = self.codes(blocks).astype(np.float32)
        numbers *= self.scales(blocks)[..., None]
        if self.minima is not None:
            numbers -= self.minima(blocks)[..., None]
        return numbers


@dataclass(frozen=True, slots=True)
class BlockType:
    """An element type: elements and bytes of a block, and its numbers or its quants."""

    name: str
    elements: int
    size: int  # bytes
    read: Reader | Quants  # float32[blocks, elements], or quants


def decode(kind: BlockType, data: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the tensor of some bytes as float32: a view if it is float32."""
    if kind.name == "F32":
        return data.view("<f4").reshape(shape)
    read = kind.read.decode if isinstance(kind.read, Quants) else kind.read
    return read(data.reshape(-1, kind.size)).reshape(shape)


def _float32(blocks: np.ndarray) -> np.ndarray:
    return blocks.view("<f4")


def _float16(blocks: np.ndarray) -> np.ndarray:
    return blocks.view("<f2").astype(np.float32)


def _bfloat16(blocks: np.ndarray) -> np.ndarray:
    return (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32)


def _half(at: int) -> Reader:
    """Return a reader of the float16 at a byte of each block, as float32[blocks, 1]."""
    return lambda blocks: (
        np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)
    )


def _minus_half(at: int) -> Reader:
    """Return a reader of the negated float16 at a byte of each block, as float32[blocks, 1]."""
    half = _half(at)
    return lambda blocks: -half(blocks)


def _split(packed: np.ndarray, shifts: np.ndarray, run: int) -> np.ndarray:
    """Return the bits of bytes from each of some shifts on, each for a run of bytes at a time."""
    parts = packed.reshape(len(packed), -1, 1, run) >> shifts[:, None]
    mask = np.uint8(2 ** (8 // len(shifts)) - 1)
    return np.asarray(parts.reshape(len(packed), -1) & mask)


def _q8_0_codes(blocks: np.ndarray) -> np.ndarray:
    return blocks[:, None, 2:].view(np.int8)


def _q4_0_codes(blocks: np.ndarray) -> np.ndarray:
    return _minus(8, _split(blocks[:, 2:], NIBBLES, 16), 32)


def _q4_1_codes(blocks: np.ndarray) -> np.ndarray:
    return _split(blocks[:, 4:], NIBBLES, 16)[:, None]


def _q5_0_codes(blocks: np.ndarray) -> np.ndarray:
    return _minus(16, _five_bits(blocks[:, 2:6], blocks[:, 6:]), 32)


def _q5_1_codes(blocks: np.ndarray) -> np.ndarray:
    return _five_bits(blocks[:, 4:8], blocks[:, 8:])[:, None]


def _five_bits(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Return codes of four low bits, and a high bit in the order of the elements."""
    bits = np.unpackbits(high, axis=1, bitorder="little")
    return np.asarray(_split(low, NIBBLES, 16) | bits << np.uint8(4))


def _minus(middle: int, codes: np.ndarray, part: int) -> np.ndarray:
    """Return codes minus their middle as int8[blocks, parts, part]."""
    return (codes - np.uint8(middle)).view(np.int8).reshape(len(codes), -1, part)


def _q2_k_codes(blocks: np.ndarray) -> np.ndarray:
    return _split(blocks[:, 16:80], PAIRS, 32).reshape(-1, 16, 16)


def _q2_k_scales(blocks: np.ndarray) -> np.ndarray:
    return _half(80)(blocks) * (blocks[:, :16] & np.uint8(15)).astype(np.float32)


def _q2_k_minima(blocks: np.ndarray) -> np.ndarray:
    return _half(82)(blocks) * (blocks[:, :16] >> np.uint8(4)).astype(np.float32)


def _q3_k_codes(blocks: np.ndarray) -> np.ndarray:
    """Return two low bits and a high bit, which is set where 4 is not subtracted."""
    high = _split(blocks[:, :32], SINGLES, 32) << np.uint8(2)
    return _minus(4, _split(blocks[:, 32:96], PAIRS, 32) | high, 16)


def _q3_k_scales(blocks: np.ndarray) -> np.ndarray:
    low, high = _split(blocks[:, 96:104], NIBBLES, 8), _split(blocks[:, 104:108], PAIRS, 4)
    scales = _minus(32, low | high << np.uint8(4), 16)[:, 0]
    return _half(108)(blocks) * scales.astype(np.float32)


def _q4_k_codes(blocks: np.ndarray) -> np.ndarray:
    return _split(blocks[:, 16:], NIBBLES, 32).reshape(-1, 8, 32)


def _q4_k_scales(blocks: np.ndarray) -> np.ndarray:
    first, high = blocks[:, 4:8], blocks[:, 12:16]
    scales = np.concatenate([first & 63, (high & 15) | (first >> 6 << 4)], axis=1)
    return _half(0)(blocks) * scales.astype(np.float32)


def _q4_k_minima(blocks: np.ndarray) -> np.ndarray:
    second, high = blocks[:, 8:12], blocks[:, 12:16]
    minima = np.concatenate([second & 63, (high >> 4) | (second >> 6 << 4)], axis=1)
    return _half(2)(blocks) * minima.astype(np.float32)


def _q5_k_codes(blocks: np.ndarray) -> np.ndarray:
    high = _split(blocks[:, 16:48], SINGLES, 32) << np.uint8(4)
    return np.asarray(_split(blocks[:, 48:], NIBBLES, 32) | high).reshape(-1, 8, 32)


def _q6_k_codes(blocks: np.ndarray) -> np.ndarray:
    high = _split(blocks[:, 128:192], PAIRS, 32) << np.uint8(4)
    return _minus(32, _split(blocks[:, :128], NIBBLES, 64) | high, 16)


def _q6_k_scales(blocks: np.ndarray) -> np.ndarray:
    return _half(208)(blocks) * blocks[:, 192:208].view(np.int8).astype(np.float32)


BLOCK_TYPES: Mapping[int, BlockType] = {  # by ggml's number
    0: BlockType("F32", 1, 4, _float32),
    1: BlockType("F16", 1, 2, _float16),
    2: BlockType("Q4_0", 32, 18, Quants(32, 4, _q4_0_codes, _half(0))),
    3: BlockType("Q4_1", 32, 20, Quants(32, 4, _q4_1_codes, _half(0), _minus_half(2))),
    6: BlockType("Q5_0", 32, 22, Quants(32, 8, _q5_0_codes, _half(0))),
    7: BlockType("Q5_1", 32, 24, Quants(32, 8, _q5_1_codes, _half(0), _minus_half(2))),
    8: BlockType("Q8_0", 32, 34, Quants(32, 8, _q8_0_codes, _half(0))),
    10: BlockType("Q2_K", 256, 84, Quants(16, 2, _q2_k_codes, _q2_k_scales, _q2_k_minima)),
    11: BlockType("Q3_K", 256, 110, Quants(16, 4, _q3_k_codes, _q3_k_scales)),
    12: BlockType("Q4_K", 256, 144, Quants(32, 4, _q4_k_codes, _q4_k_scales, _q4_k_minima)),
    13: BlockType("Q5_K", 256, 176, Quants(32, 8, _q5_k_codes, _q4_k_scales, _q4_k_minima)),
    14: BlockType("Q6_K", 256, 210, Quants(16, 8, _q6_k_codes, _q6_k_scales)),
    30: BlockType("BF16", 1, 2, _bfloat16),
}
UNREAD: Mapping[int, str] = {  # types of ggml that are refused by name
    9: "Q8_1",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
    40: "NVFP4",
    41: "Q1_0",
}
