"""MatMulNBits of onnxruntime: a product with weights of 2, 4 or 8 bits in blocks along the sum.

The weights are [N, blocks, block_size * bits / 8] bytes, the first element in the lowest bits. Each
block has a scale and, if given, a zero point: packed like the weights by rows, or a float.

    W[k, n] = (B[n, k] - zero[n, k / block_size]) * scale[n, k / block_size];  y = A @ W + bias

The decode is an ordinary kernel of integer expressions: constant weights are decoded when the model
is compiled, within the budget of constant folding, and others in each run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from explorer.errors import DtypeError
from explorer.ir.affine import var
from explorer.ir.kernel import Apply, Axis, Const, Expr, IndexValue
from explorer.ir.types import Tensor
from explorer.ops import products
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, Nest
from explorer.ops.products import check_depth
from explorer.ops.record import Array, OperatorRecord, Site

WIDTHS = (2, 4, 8)  # bits of an element
LEAST_BLOCK = 16
WEIGHTS, SCALES, ZEROS, GROUPS, BIAS = 1, 2, 3, 4, 5  # positions of the arguments
MATMUL = next(r for r in products.RECORDS if r.name == "MatMul")


@dataclass(frozen=True, slots=True)
class Packing:
    """Sizes of the packed weights: `depth` elements of `bits` bits in blocks, for each column."""

    depth: int
    columns: int
    bits: int
    block: int

    @property
    def blocks(self) -> int:
        """The number of blocks of a column."""
        return -(-self.depth // self.block)

    @property
    def of_byte(self) -> int:
        """The number of elements of a byte."""
        return 8 // self.bits

    @property
    def zero_bytes(self) -> int:
        """The bytes of a column's packed zero points."""
        return -(-self.blocks // self.of_byte)


def _packing(site: Site) -> Packing:
    """Return the sizes that the attributes state; raises ShapeError for impossible ones."""
    sizes = (("K", 0), ("N", 0), ("bits", 4), ("block_size", 0))
    packing = Packing(*(site.integer(name, default) for name, default in sizes))
    if packing.bits not in WIDTHS:
        site.fail(f"bits is {packing.bits}, and 2, 4 or 8 is needed")
    block = packing.block
    if block < LEAST_BLOCK or block & (block - 1):
        site.fail(f"block_size is {block}, and a power of two from {LEAST_BLOCK} on is needed")
    if packing.depth < 1 or packing.columns < 1:
        site.fail(f"K is {packing.depth} and N is {packing.columns}; both are at least 1")
    return packing


def _types(site: Site) -> tuple[Tensor, ...]:
    packing, a = _packing(site), site.shape()
    if not a:
        site.fail("the left operand is a scalar")
    if site.has(GROUPS):
        site.fail("g_idx is given, and blocks in another order are not read")
    check_depth(site, a[-1], packing.depth)
    n, blocks = packing.columns, packing.blocks
    _check(site, WEIGHTS, "the weights", [(n, blocks, packing.block // packing.of_byte)], "uint8")
    _check(site, SCALES, "the scales", [(n, blocks), (n * blocks,)], site.dtype())
    if site.has(ZEROS):
        if site.dtype(ZEROS) == "uint8":
            shapes = [(n, packing.zero_bytes), (n * packing.zero_bytes,)]
            _check(site, ZEROS, "the zero points", shapes, "uint8")
        else:
            _check(site, ZEROS, "the zero points", [(n, blocks), (n * blocks,)], site.dtype())
    if site.has(BIAS):
        _check(site, BIAS, "the bias", [(n,)], site.dtype())
    return (Tensor((*a[:-1], n), site.dtype()),)


def _check(site: Site, i: int, what: str, shapes: list[tuple[int, ...]], dtype: str) -> None:
    """Raise ShapeError or DtypeError unless an argument is as the sizes say."""
    if site.shape(i) not in shapes:
        wanted = " or ".join(str(list(s)) for s in shapes)
        site.fail(f"{what} have shape {list(site.shape(i))}, and {wanted} is needed")
    if site.dtype(i) != dtype:
        site.fail(f"{what} are {site.dtype(i)}, and {dtype} is needed", DtypeError)


def _lower(low: Lowering) -> None:
    site, packing = low.site, _packing(low.site)
    weights = low.temporary("weights", (packing.depth, packing.columns), site.dtype())
    nest = low.nest("decode")
    nest.map("w", weights, lambda axes: _decoded(nest, site, packing, axes))
    result = low.temporary("product", low.shape, site.dtype()) if site.has(BIAS) else low.result
    plain = replace(site, op="MatMul", args=(site.arg(0), weights))
    inner = low.lowering_of(plain, (result,), {**low.outer_constants, **low.constants})
    MATMUL.lower(inner)
    low.absorb(inner)
    if site.has(BIAS):
        nest = low.nest("bias")
        added = site.arg(BIAS)
        nest.map(
            "y",
            low.result,
            lambda axes: call(
                "add", nest.along(result, "x", axes), nest.along(added, "bias", axes)
            ),
        )


def _decoded(nest: Nest, site: Site, packing: Packing, axes: tuple[Axis, ...]) -> Expr:
    """Return the element W[k, n] as a number of the left operand's dtype."""
    k, n = axes
    place = IndexValue(var(k.name))
    block = Apply("floordiv", (place, Const(packing.block, "int64")))
    within = Apply("mod", (place, Const(packing.block, "int64")))
    code = _code(nest, site, WEIGHTS, "b", packing, [var(n.name), block], within)
    scale = _of_block(nest, site, SCALES, "scale", packing, n, block)
    zero: Expr = Const(float(1 << (packing.bits - 1)))
    if site.has(ZEROS) and site.dtype(ZEROS) == "uint8":
        flat = len(site.shape(ZEROS)) == 1
        column = var(n.name) * packing.zero_bytes if flat else var(n.name)
        zero = _code(nest, site, ZEROS, "zero", packing, [column], block, is_flat=flat)
    elif site.has(ZEROS):
        zero = call("cast_float32", _of_block(nest, site, ZEROS, "zero", packing, n, block))
    number = call("mul", call("sub", code, zero), call("cast_float32", scale))
    return call(f"cast_{site.dtype()}", number)


def _of_block(
    nest: Nest, site: Site, i: int, name: str, packing: Packing, n: Axis, block: Expr
) -> Expr:
    """Load a number of a block, of an argument of rank 1 or 2."""
    if len(site.shape(i)) == 2:
        return nest.load(site.arg(i), name, [var(n.name), block])
    first = IndexValue(var(n.name) * packing.blocks)
    return nest.load(site.arg(i), name, [Apply("add", (first, block))])


def _code(
    nest: Nest,
    site: Site,
    i: int,
    name: str,
    packing: Packing,
    outer: list[Any],
    place: Expr,
    is_flat: bool = False,
) -> Expr:
    """Load the byte that holds an element, and return the element's code as a float32."""
    each = Const(packing.of_byte, "int64")
    byte: Expr = Apply("floordiv", (place, each))
    if is_flat:
        index: list[Any] = [Apply("add", (IndexValue(outer[0]), byte))]
    else:
        index = [*outer, byte]
    loaded = call("cast_int32", nest.load(site.arg(i), name, index))
    if packing.of_byte > 1:
        within = call("cast_int32", Apply("mod", (place, each)))
        by = call("mul", within, Const(packing.bits, "int32"))
        loaded = call("shr", loaded, by)
        loaded = call("bitand", loaded, Const((1 << packing.bits) - 1, "int32"))
    return call("cast_float32", loaded)


def unpacked(codes: Array, bits: int) -> Array:
    """Return the elements of packed bytes along the last axis, the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = codes[..., None] >> shifts & np.uint8((1 << bits) - 1)
    return parts.reshape(*codes.shape[:-1], -1)


def _reference(attrs: Mapping[str, Any], args: Any) -> Any:
    a, b, scales, zeros, _, bias = (*args, None, None, None)[:6]
    packing = Packing(attrs["K"], attrs["N"], attrs.get("bits", 4), attrs["block_size"])
    n, blocks = packing.columns, packing.blocks
    codes = unpacked(b, packing.bits).reshape(n, blocks, packing.block).astype(np.float32)
    zero: Any = np.float32(1 << (packing.bits - 1))
    if zeros is not None and zeros.dtype == np.uint8:
        zero = unpacked(zeros.reshape(n, -1), packing.bits)[:, :blocks, None].astype(np.float32)
    elif zeros is not None:
        zero = zeros.reshape(n, blocks, 1).astype(np.float32)
    scale = scales.reshape(n, blocks, 1).astype(np.float32)
    weights = ((codes - zero) * scale).reshape(n, -1)[:, : packing.depth].T.astype(a.dtype)
    y = MATMUL.reference({}, (a, np.ascontiguousarray(weights)))
    return y if bias is None else (y + bias).astype(a.dtype)


RECORDS = (OperatorRecord("MatMulNBits", "matmul", _types, _reference, _lower, first=1),)
