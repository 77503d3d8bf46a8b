"""Tensors that no cache holds: results are stored non-temporally, so that their lines are not
loaded before they are written; rows are prefetched a row ahead.
"""

from __future__ import annotations

from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.shapes.dims import Dim, ShapeEnv, product
from explorer.ir.types import DType

LEAST_BYTES = 32 << 20  # two cores of Zen 5 beside 32 MiB of L3: a copy of 64 MiB gains 1.2 to 1.5
STREAM = "stream"  # the level of such a buffer


def level_of(size: Dim, dtype: DType, env: ShapeEnv) -> str:
    """Where a tensor of so many elements comes from or goes to, under the hints."""
    return STREAM if env.hint(product((size, ITEM_BYTES[dtype]))) > LEAST_BYTES else "memory"
