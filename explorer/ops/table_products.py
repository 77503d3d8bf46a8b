"""MatMulBnb4 of onnxruntime: a product with weights of four bits that number a table's floats.

The weights are the rows of [N, K], two elements a byte, the first in the high bits. Runs of
`block_size` elements share a scale, their largest magnitude:

    W[k, n] = table[code[n * K + k]] * scale[(n * K + k) / block_size];  y = A @ W

The numbers of nf4 are quantiles of the normal distribution (Dettmers et al. 2023, QLoRA: Efficient
finetuning of quantized LLMs); those of fp4 are floats with two bits of exponent. Constant weights
stay packed, and are decoded where they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from explorer.errors import DtypeError
from explorer.ir.affine import var
from explorer.ir.calls import Var
from explorer.ir.kernel import Apply, Axis, Const, Expr, IndexValue, Read
from explorer.ir.types import Tensor
from explorer.ops.elementwise import call
from explorer.ops.low_bit_products import (
    LEAST_BLOCK,
    MATMUL,
    SCALES,
    WEIGHTS,
    Blocks,
    by_decoded_constants,
)
from explorer.ops.lowering import Lowering, Nest
from explorer.ops.products import check_depth
from explorer.ops.record import Array, OperatorRecord, Site

FP4, NF4 = 0, 1  # quant_type
SIXTHS = (0.0, 0.03125, 4.0, 6.0, 2.0, 3.0, 1.0, 1.5)  # of fp4, without their signs
TABLES: Mapping[int, Array] = {
    FP4: np.array([s * n / 6 for s in (1.0, -1.0) for n in SIXTHS], np.float32),
    NF4: np.array(
        [
            -1.0,
            -0.6961928009986877,
            -0.5250730514526367,
            -0.39491748809814453,
            -0.28444138169288635,
            -0.18477343022823334,
            -0.09105003625154495,
            0.0,
            0.07958029955625534,
            0.16093020141124725,
            0.24611230194568634,
            0.33791524171829224,
            0.44070982933044434,
            0.5626170039176941,
            0.7229568362236023,
            1.0,
        ],
        np.float32,
    ),
}


@dataclass(frozen=True, slots=True)
class Runs:
    """Sizes of the packed weights: `columns` rows of `depth` elements, and of a scale's run."""

    depth: int
    columns: int
    block: int
    kind: int

    @property
    def elements(self) -> int:
        """The number of elements."""
        return self.depth * self.columns

    @property
    def runs(self) -> int:
        """The number of scales."""
        return -(-self.elements // self.block)


def _runs(site: Site) -> Runs:
    """Return the sizes that the attributes state; raises ShapeError for impossible ones."""
    runs = Runs(*(site.integer(name, 0) for name in ("K", "N", "block_size", "quant_type")))
    if runs.kind not in TABLES:
        site.fail(f"quant_type is {runs.kind}, and 0 (fp4) or 1 (nf4) is needed")
    block = runs.block
    if block < LEAST_BLOCK or block & (block - 1):
        site.fail(f"block_size is {block}, and a power of two from {LEAST_BLOCK} on is needed")
    if runs.depth < 1 or runs.columns < 1:
        site.fail(f"K is {runs.depth} and N is {runs.columns}; both are at least 1")
    if not site.integer("transB", 1):
        site.fail("transB is 0, and weights that are not transposed are not read")
    return runs


def _types(site: Site) -> tuple[Tensor, ...]:
    runs, a = _runs(site), site.shape()
    if not a:
        site.fail("the left operand is a scalar")
    check_depth(site, a[-1], runs.depth)
    sizes = ((WEIGHTS, "weights", -(-runs.elements // 2), "uint8"),)
    for i, what, count, dtype in (*sizes, (SCALES, "scales", runs.runs, site.dtype())):
        if site.shape(i) != (count,):
            site.fail(f"the {what} have shape {list(site.shape(i))}, and [{count}] is needed")
        if site.dtype(i) != dtype:
            site.fail(f"the {what} are {site.dtype(i)}, and {dtype} is needed", DtypeError)
    return (Tensor((*a[:-1], runs.columns), site.dtype()),)


def _lower(low: Lowering) -> None:
    site, runs = low.site, _runs(low.site)
    packed, scales = (low.constant_of(site.arg(i)) for i in (WEIGHTS, SCALES))
    if packed is None or scales is None or runs.depth % runs.block:
        _by_decoding(low, runs)
        return
    blocks = runs.depth // runs.block

    def by_columns(packed: Array) -> Array:
        codes = unpacked_pairs(packed)[: runs.elements].reshape(runs.columns, blocks, runs.block)
        return np.ascontiguousarray(codes.transpose(1, 2, 0))

    def scales_by_columns(scales: Array) -> Array:
        return scales.reshape(runs.columns, blocks).T.astype(np.float32)

    codes = Tensor((blocks, runs.block, runs.columns), "uint8")
    weights = packed.derived(("codes of pairs", runs), codes, by_columns)
    kind = Tensor((blocks, runs.columns), "float32")
    scale = scales.derived(("scales of runs", runs), kind, scales_by_columns)
    table = tuple(TABLES[runs.kind].tolist())
    by_decoded_constants(low, Blocks(weights, scale, table=table), low.result)


def _by_decoding(low: Lowering, runs: Runs) -> None:
    """Bind the weights as numbers, and a plain product with them."""
    site = low.site
    weights = low.temporary("weights", (runs.depth, runs.columns), site.dtype())
    nest = low.nest("decode")
    table = low.constant(TABLES[runs.kind], "table")
    nest.map("w", weights, lambda axes: _decoded(nest, site, runs, table, axes))
    plain = replace(site, op="MatMul", args=(site.arg(0), weights))
    inner = low.lowering_of(plain, (low.result,), {**low.outer_constants, **low.constants})
    MATMUL.lower(inner)
    low.absorb(inner)


def _decoded(nest: Nest, site: Site, runs: Runs, table: Var, axes: tuple[Axis, ...]) -> Expr:
    """Return the element W[k, n] as a number of the left operand's dtype."""
    k, n = axes
    place = IndexValue(var(n.name) * runs.depth + var(k.name))
    byte = Apply("floordiv", (place, Const(2, "int64")))
    code = call("cast_int32", nest.load(site.arg(WEIGHTS), "b", [byte]))
    is_second = call("cast_int32", Apply("mod", (place, Const(2, "int64"))))
    shift = call("sub", Const(4, "int32"), call("mul", is_second, Const(4, "int32")))
    code = call("bitand", call("shr", code, shift), Const(15, "int32"))
    number = Read(nest.tensor(table, "table"), (code,))
    run = Apply("floordiv", (place, Const(runs.block, "int64")))
    scale = call("cast_float32", nest.load(site.arg(SCALES), "scale", [run]))
    return call(f"cast_{site.dtype()}", call("mul", number, scale))


def unpacked_pairs(packed: Array) -> Array:
    """Return the codes of bytes, the first in the high bits."""
    return np.stack([packed >> np.uint8(4), packed & np.uint8(15)], axis=-1).reshape(-1)


def packed_pairs(codes: Array) -> Array:
    """Return codes as bytes, the first of two in the high bits."""
    pairs = np.pad(codes, (0, codes.size % 2)).reshape(-1, 2)
    return np.asarray(pairs[:, 0] << np.uint8(4) | pairs[:, 1])


def _reference(attrs: Mapping[str, Any], args: Any) -> Any:
    a, packed, scales = args[:3]
    runs = Runs(attrs["K"], attrs["N"], attrs["block_size"], attrs["quant_type"])
    numbers = TABLES[runs.kind][unpacked_pairs(packed)[: runs.elements]]
    numbers = numbers * np.repeat(scales.astype(np.float32), runs.block)[: runs.elements]
    weights = numbers.reshape(runs.columns, runs.depth).T.astype(a.dtype)
    return MATMUL.reference({}, (a, np.ascontiguousarray(weights)))


RECORDS = (OperatorRecord("MatMulBnb4", "matmul", _types, _reference, _lower, first=1),)
