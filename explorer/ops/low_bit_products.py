"""MatMulNBits of onnxruntime: a product with weights of 2, 4 or 8 bits in blocks along the sum.

The weights are [N, blocks, block_size * bits / 8] bytes, the first element in the lowest bits. Each
block has a scale and, if given, a zero point: packed like the weights by rows, or a float.

    W[k, n] = (B[n, k] - zero[n, k / block_size]) * scale[n, k / block_size];  y = A @ W + bias

Constant weights become a byte each, and a block's scale leaves its sum:

    y[i, n] = sum over b: scale[b, n] * (sum over p: a[i, b * block_size + p] * w[b, p, n])

A zero point that is no integer, or that does not fit, is a second product, of the sums of the left
operand's blocks. Weights that a run computes are decoded by integer expressions in each run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from explorer.errors import DtypeError
from explorer.ir.affine import var
from explorer.ir.calls import Var
from explorer.ir.dtypes import integer_limits
from explorer.ir.kernel import Apply, Axis, Const, Expr, IndexValue
from explorer.ir.types import Tensor
from explorer.ops import products
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, Nest, at
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
    site = low.site
    product = low.temporary("product", low.shape, site.dtype()) if site.has(BIAS) else low.result
    if (constants := _constants(low)) is not None:
        _by_blocks(low, constants, product)
    else:
        _by_decoding(low, product)
    if site.has(BIAS):
        nest, bias = low.nest("bias"), site.arg(BIAS)
        nest.map(
            "y",
            low.result,
            lambda axes: call(
                "add", nest.along(product, "x", axes), nest.along(bias, "bias", axes)
            ),
        )


@dataclass(frozen=True, slots=True)
class Blocks:
    """Constant weights as int8 [blocks, block, N], their scales, and zero points times scales.

    A block's sum times `zero_terms` [blocks, N] is subtracted for zero points that the weights do
    not include; None if they include all.
    """

    weights: Array
    scales: Array
    zero_terms: Array | None


def _constants(low: Lowering) -> Blocks | None:
    """Return the weights in blocks if they, their scales and zero points are constants."""
    site, packing = low.site, _packing(low.site)
    arrays = [low.array(site.arg(i)) if site.has(i) else None for i in (WEIGHTS, SCALES, ZEROS)]
    packed, scales, zeros = arrays
    if packed is None or scales is None or (zeros is None and site.has(ZEROS)):
        return None
    n, blocks = packing.columns, packing.blocks
    codes = unpacked(packed, packing.bits).reshape(n, blocks, packing.block)
    middle, zero = 1 << (packing.bits - 1), _zeros(zeros, packing)
    scale = scales.reshape(n, blocks).astype(np.float32).T
    if zero.dtype != np.float32:
        shifted = codes.astype(np.int16) - zero.astype(np.int16)[..., None]
        low_end, high_end = integer_limits("int8")
        if shifted.min() >= low_end and shifted.max() <= high_end:
            return Blocks(_of_blocks(shifted), scale, None)
    left = np.float32(zero) - np.float32(middle)
    shifted = codes.astype(np.int16) - np.int16(middle)
    return Blocks(_of_blocks(shifted), scale, np.ascontiguousarray(left.T) * scale)


def _of_blocks(codes: Array) -> Array:
    """Return codes [N, blocks, block] as int8 [blocks, block, N]."""
    return np.ascontiguousarray(codes.transpose(1, 2, 0).astype(np.int8))


def _zeros(zeros: Array | None, packing: Packing) -> Array:
    """Return the zero point of each block of a column: integers, or float32."""
    n, blocks = packing.columns, packing.blocks
    if zeros is None:
        return np.full((n, blocks), 1 << (packing.bits - 1), np.uint8)
    if zeros.dtype != np.uint8:
        return np.asarray(zeros.reshape(n, blocks), np.float32)
    return unpacked(zeros.reshape(n, -1), packing.bits)[:, :blocks]


def _by_blocks(low: Lowering, c: Blocks, product: Var) -> None:
    """Bind the product as a sum of the blocks' sums, each times its scale."""
    site, shape = low.site, low.shape
    blocks, block, columns = c.weights.shape
    lead = tuple(Axis(f"i{d}", n) for d, n in enumerate(shape[:-1]))
    b, p, j = Axis("b", blocks), Axis("p", block), Axis("j", columns)
    weights, scales = low.constant(c.weights, "weights"), low.constant(c.scales, "scales")
    left = _in_blocks(low, lead, b, p)
    nest = low.nest("low_bit_product")
    a = call("cast_float32", at(nest.tensor(left, "a"), (*lead, b, p)))
    at_block = (b, *lead, j)
    weight = call("cast_float32", at(nest.tensor(weights, "w"), (b, p, j)))
    inner = (blocks, *shape[:-1], columns)
    sums = nest.compute("sums", inner, "float32", at_block, call("mul", a, weight), [p], "sum")
    term = call("mul", at(sums, at_block), at(nest.tensor(scales, "scale"), (b, j)))
    if c.zero_terms is not None:
        of_block = nest.compute("block_sums", inner[:-1], "float32", at_block[:-1], a, [p], "sum")
        zeros = low.constant(c.zero_terms, "zero_terms")
        zero = at(nest.tensor(zeros, "zero_terms"), (b, j))
        term = call("sub", term, call("mul", at(of_block, at_block[:-1]), zero))
    if site.dtype() == "float32":
        nest.compute("y", shape, "float32", (*lead, j), term, [b], "sum")
    else:
        total = nest.compute("total", shape, "float32", (*lead, j), term, [b], "sum")
        rounded = call(f"cast_{site.dtype()}", at(total, (*lead, j)))
        nest.compute("y", shape, site.dtype(), (*lead, j), rounded)
    nest.into(product)


def _in_blocks(low: Lowering, lead: tuple[Axis, ...], b: Axis, p: Axis) -> Var:
    """Return the left operand as [..., blocks, block]; what is missing in the last one is zero."""
    arg = low.site.arg(0)
    inner = (*(a.extent for a in lead), b.extent, p.extent)
    result = low.temporary("blocks", inner, low.site.dtype())
    assert isinstance(b.extent, int) and isinstance(p.extent, int)
    if b.extent * p.extent == _packing(low.site).depth:
        return low.view(result, arg)
    nest = low.nest("in_blocks")
    place = [*(var(a.name) for a in lead), var(b.name) * p.extent + var(p.name)]
    nest.compute("y", inner, low.site.dtype(), (*lead, b, p), nest.load(arg, "x", place, 0.0))
    return nest.into(result)


def _by_decoding(low: Lowering, product: Var) -> None:
    """Bind the weights as numbers, and a plain product with them."""
    site, packing = low.site, _packing(low.site)
    weights = low.temporary("weights", (packing.depth, packing.columns), site.dtype())
    nest = low.nest("decode")
    nest.map("w", weights, lambda axes: _decoded(nest, site, packing, axes))
    plain = replace(site, op="MatMul", args=(site.arg(0), weights))
    inner = low.lowering_of(plain, (product,), {**low.outer_constants, **low.constants})
    MATMUL.lower(inner)
    low.absorb(inner)


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


def packed(codes: Array, bits: int) -> Array:
    """Pack elements along the last axis into bytes, the first in the lowest bits."""
    each = 8 // bits
    padded = np.pad(codes, [*[(0, 0)] * (codes.ndim - 1), (0, -codes.shape[-1] % each)])
    parts = padded.astype(np.uint8).reshape(*codes.shape[:-1], -1, each)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.asarray(np.bitwise_or.reduce(parts << shifts, axis=-1))


def _reference(attrs: Mapping[str, Any], args: Any) -> Any:
    a, b, scales, zeros, _, bias = (*args, None, None, None)[:6]
    packing = Packing(attrs["K"], attrs["N"], attrs.get("bits", 4), attrs["block_size"])
    n, blocks = packing.columns, packing.blocks
    codes = unpacked(b, packing.bits).reshape(n, blocks, packing.block).astype(np.float32)
    zero = _zeros(zeros, packing).astype(np.float32)[..., None]
    scale = scales.reshape(n, blocks, 1).astype(np.float32)
    weights = ((codes - zero) * scale).reshape(n, -1)[:, : packing.depth].T.astype(a.dtype)
    y = MATMUL.reference({}, (a, np.ascontiguousarray(weights)))
    return y if bias is None else (y + bias).astype(a.dtype)


RECORDS = (OperatorRecord("MatMulNBits", "matmul", _types, _reference, _lower, first=1),)
