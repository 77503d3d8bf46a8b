"""What calls of a run gave, by what they were given: a pure function gives it again.

f(2) = f(1) + f(0); f(3) = f(2) + f(1)   ->   f(1) is asked for twice, and done once

Source: Michie 1968, "Memo" functions and machine learning. No value is changed once it is made, so
that one may stand in several places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from explorer.ir.shapes.dims import Sizes

MOST_COMPARED_BYTES = (
    4096  # of an argument; a larger one is the same where it is that array; chosen
)
Key: TypeAlias = tuple[object, ...]


@dataclass(slots=True)
class MemoizedCalls:
    """The `results` of calls until a run ends. Large arguments are `held`, so that no other array
    gets their number meanwhile.
    """

    results: dict[Key, list[np.ndarray]] = field(default_factory=dict)
    held: dict[int, np.ndarray] = field(default_factory=dict)

    def key(self, function: str, args: Sequence[np.ndarray], sizes: Sizes | None) -> Key:
        """What says that two calls are one: NaN is the same as itself, and 0.0 is not -0.0."""
        symbols = tuple(sorted((sizes or {}).items()))
        return (function, symbols, *(self._said(a) for a in args))

    def _said(self, value: np.ndarray) -> Key:
        if isinstance(value, np.ndarray) and value.nbytes <= MOST_COMPARED_BYTES:
            return value.dtype.str, value.shape, value.tobytes()
        self.held[id(value)] = value
        return (id(value),)
