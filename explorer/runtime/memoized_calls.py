"""Memoised results of a run's calls by their arguments: a pure function is called once.

f(2) = f(1) + f(0); f(3) = f(2) + f(1)   ->   f(1) is requested twice, and computed once

Source: Michie 1968, "Memo" functions and machine learning. No value changes once it is computed, so
one value may stand in several places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from explorer.ir.shapes.dims import Sizes

MOST_COMPARED_BYTES = 4096  # of an argument; larger ones compare by identity; chosen
Key: TypeAlias = tuple[object, ...]


@dataclass(slots=True)
class MemoizedCalls:
    """The `results` of calls until a run ends.

    Large arguments are kept alive in `pinned`, so that no other array gets their identity.
    """

    results: dict[Key, list[np.ndarray]] = field(default_factory=dict)
    pinned: dict[int, np.ndarray] = field(default_factory=dict)

    def key(self, function: str, args: Sequence[np.ndarray], sizes: Sizes | None) -> Key:
        """Return the key of equal calls: NaN equals itself, and 0.0 differs from -0.0."""
        symbols = tuple(sorted((sizes or {}).items()))
        return (function, symbols, *(self._argument_key(a) for a in args))

    def _argument_key(self, value: np.ndarray) -> Key:
        if isinstance(value, np.ndarray) and value.nbytes <= MOST_COMPARED_BYTES:
            return value.dtype.str, value.shape, value.tobytes()
        self.pinned[id(value)] = value
        return (id(value),)
