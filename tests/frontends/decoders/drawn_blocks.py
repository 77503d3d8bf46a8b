"""Random blocks of GGUF's quantised types, with scales as files have them."""

from __future__ import annotations

import numpy as np

from explorer.frontends.decoders.gguf_blocks import BLOCK_TYPES, BlockType

KINDS = {kind.name: kind for kind in BLOCK_TYPES.values()}
QUANTISED = [k for k in KINDS if k.startswith("Q")]
# Bytes of float16 numbers, and their sizes, so that weights are around zero and about as large.
HALVES: dict[str, dict[int, float]] = {
    "Q4_0": {0: 0.01},
    "Q4_1": {0: 0.01, 2: -0.08},
    "Q5_0": {0: 0.005},
    "Q5_1": {0: 0.005, 2: -0.08},
    "Q8_0": {0: 0.0006},
    "Q2_K": {80: 0.006, 82: 0.009},
    "Q3_K": {108: 0.001},
    "Q4_K": {0: 0.0003, 2: 0.0024},
    "Q5_K": {0: 0.00015, 2: 0.0024},
    "Q6_K": {208: 0.00003},
}


def drawn_blocks(kind: BlockType, shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    """The bytes of a random matrix, uint8[rows, bytes]."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (shape[0] * shape[1] // kind.elements, kind.size), np.uint8)
    for at, size in HALVES[kind.name].items():
        numbers = (size * rng.uniform(0.5, 1.5, (len(blocks), 1))).astype("<f2")
        blocks[:, at : at + 2] = numbers.view(np.uint8)
    return blocks.reshape(shape[0], -1)
