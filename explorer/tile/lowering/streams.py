"""Tensors that no cache holds: results are stored non-temporally, so that their lines are not
loaded before they are written; rows are prefetched a row ahead.
"""

from __future__ import annotations

from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.shapes.dims import Dim, ShapeEnv, product
from explorer.ir.types import DType

LEAST_BYTES = 32 << 20  # two cores of Zen 5 beside 32 MiB of L3: a copy of 64 MiB gains 1.2 to 1.5


def is_streamed(size: Dim, dtype: DType, env: ShapeEnv) -> bool:
    """Whether a tensor of so many elements is too large for caches, under the hints."""
    return env.hint(product((size, ITEM_BYTES[dtype]))) > LEAST_BYTES
