"""Vector loads, words of two elements, and bfloat16 in the GPU simulator.

`memory` is a flat array with bounds checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.errors import CheckFailed

BFLOAT16_NAN = 0x7FFF  # PTX ISA, cvt: the result for every NaN


def to_bfloat16(x: Any) -> Any:
    """Round to bfloat16 as the instruction does."""
    bits = int(np.float32(x).view(np.uint32))
    return np.uint16(BFLOAT16_NAN if x != x else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def of_bfloat16(bits: Any) -> Any:
    """Reinterpret bits as the upper half of a float32."""
    return np.uint32(int(bits) << 16).view(np.float32)


def load(count: int) -> Callable[[Any, Any], tuple[Any, ...]]:
    """Return a function that loads `count` elements from a multiple of `count` on."""
    return lambda memory, at: tuple(memory.run(at, count))


def word2(memory: Any, at: Any) -> Any:
    """Load two elements from an even one on."""
    return memory.run(at, 2).view(np.uint32)[0]


def word_of(memory: Any, low: Any, high: Any) -> Any:
    """Load two elements from anywhere."""
    halves = memory[low].view(np.uint16), memory[high].view(np.uint16)
    return np.uint32(int(halves[0]) | int(halves[1]) << 16)


def store2(memory: Any, at: Any, first: Any, second: Any) -> None:
    """Store two neighbours, from an even one on."""
    if int(at) % 2:
        message = f"a thread stores a word of {memory.name} from {at} on"
        raise CheckFailed(message, where=memory.name)
    memory[int(at)], memory[int(at) + 1] = first, second
