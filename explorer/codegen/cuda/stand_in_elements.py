"""What a printed kernel's functions of a few elements mean in the stand-in for a GPU: several
neighbours at once, words of two, bfloat16. `memory` is a flat array that knows its ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.errors import CheckFailed

BFLOAT16_NAN = 0x7FFF  # PTX ISA, cvt: it is made of each


def to_bfloat16(x: Any) -> Any:
    """As the instruction does."""
    bits = int(np.float32(x).view(np.uint32))
    return np.uint16(BFLOAT16_NAN if x != x else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def of_bfloat16(bits: Any) -> Any:
    """The float32 that bits are."""
    return np.uint32(int(bits) << 16).view(np.float32)


def load(count: int) -> Callable[[Any, Any], tuple[Any, ...]]:
    """So many elements from a multiple of their number on."""
    return lambda memory, at: tuple(memory.run(at, count))


def word2(memory: Any, at: Any) -> Any:
    """Two elements from an even one on."""
    return memory.run(at, 2).view(np.uint32)[0]


def word_of(memory: Any, low: Any, high: Any) -> Any:
    """Two elements from anywhere."""
    halves = memory[low].view(np.uint16), memory[high].view(np.uint16)
    return np.uint32(int(halves[0]) | int(halves[1]) << 16)


def store2(memory: Any, at: Any, first: Any, second: Any) -> None:
    """Two elements become neighbours, from an even one on."""
    if int(at) % 2:
        what = f"a thread stores a word of {memory.name} from {at} on"
        raise CheckFailed(what, where=memory.name)
    memory[int(at)], memory[int(at) + 1] = first, second
