"""Products with constant weights of float8 in blocks along the sum, as passes write them.

The weights are [blocks, block_size, N], and a block of a column has a scale:

    y[i, n] = sum over b: scale[b, n] * (sum over p: a[i, b * block_size + p] * w[b, p, n])

Arguments are those of MatMulNBits without zero points, the bias too, and so are the kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.ir.types import Tensor
from explorer.ops.low_bit_products import (
    MATMUL,
    SCALES,
    WEIGHTS,
    Blocks,
    add_bias,
    before_bias,
    by_blocks,
    by_decoded_constants,
    has_many_rows,
)
from explorer.ops.lowering import Lowering
from explorer.ops.products import check_depth
from explorer.ops.record import OperatorRecord, Site


def _types(site: Site) -> tuple[Tensor, ...]:
    if not site.shape():
        site.fail("the left operand is a scalar")
    check_depth(site, site.shape()[-1], site.integer("K"))
    return (Tensor((*site.shape()[:-1], site.integer("N")), site.dtype()),)


def _lower(low: Lowering) -> None:
    weights, scales = (low.constant_of(low.site.arg(i)) for i in (WEIGHTS, SCALES))
    assert weights is not None and scales is not None, "they are constants"
    product, blocks = before_bias(low), Blocks(weights, scales)
    if has_many_rows(low):
        by_decoded_constants(low, blocks, product)
    else:
        by_blocks(low, blocks, product)
    add_bias(low, product)


def _reference(attrs: Mapping[str, Any], args: Any) -> Any:
    a, weights, scales, _, _, bias = (*args, None, None, None)[:6]
    numbers = weights.astype(np.float32) * scales[:, None]
    y = MATMUL.reference({}, (a, numbers.reshape(-1, attrs["N"])[: attrs["K"]]))
    return y if bias is None else y + bias


RECORDS = (OperatorRecord("MatMulFloat8", "matmul", _types, _reference, _lower, first=1),)
