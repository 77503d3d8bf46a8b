"""Unique as ONNX means it, of which the onnx package's evaluator sorts what must not be sorted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def unique(attrs: Mapping[str, Any], args: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """Return the distinct elements or rows, where each stands first, the place of each element
    among them, and their counts; in the order of the first places unless `sorted`.
    """
    x, axis = args[0], attrs.get("axis")
    values, first, places, counts = np.unique(x, True, True, True, axis=axis)
    places = places.reshape(-1)
    if not attrs.get("sorted", 1):
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        first, counts, places = first[order], counts[order], np.argsort(order)[places]
    return values, *(a.astype(np.int64) for a in (first, places, counts))
