"""Unique with ONNX's order; the onnx package's evaluator sorts even if it must not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def unique(attrs: Mapping[str, Any], args: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """Return distinct elements or rows, their first positions, each element's position, and counts.

    They are in the order of the first positions unless `sorted`.
    """
    x, axis = args[0], attrs.get("axis")
    values, first, places, counts = np.unique(x, True, True, True, axis=axis)
    places = places.reshape(-1)
    if not attrs.get("sorted", 1):
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        first, counts, places = first[order], counts[order], np.argsort(order)[places]
    return values, *(a.astype(np.int64) for a in (first, places, counts))
