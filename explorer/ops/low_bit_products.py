"""Products with weights of few bits in blocks along the sum: MatMulNBits of onnxruntime, float8.

The weights are [N, blocks, block_size * bits / 8] bytes, the first element in the lowest bits. Each
block has a scale and, if given, a zero point: packed like the weights by rows, or a float.

    W[k, n] = (B[n, k] - zero[n, k / block_size]) * scale[n, k / block_size];  y = A @ W + bias

Constant weights become int4, two a byte in panels, where all of them fit, else a byte each. A
block's scale leaves its sum:

    y[i, n] = sum over b: scale[b, n] * (sum over p: a[i, b * block_size + p] * w[b, p, n])

A zero point that is no integer, or that does not fit, is a second product, of the sums of the left
operand's blocks, and the codes stay unsigned. Weights that a run computes are decoded by integer
expressions in each run.

With `accuracy_level` 4 the left operand becomes an int8 and a scale for each of its blocks, so that
integers are multiplied; onnxruntime and llama.cpp do the same:

    s = max |a| / 127,  c = round(a / s);  y = sum over b: s * scale * (sum over p: c * (B - zero))

MatMulFloat8, which passes write, takes constant weights of float8 as [blocks, block_size, N], and
scales [blocks, N]; it has no zero points.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from explorer.errors import DtypeError
from explorer.ir.affine import var
from explorer.ir.calls import Var
from explorer.ir.dims import product as product_of
from explorer.ir.dtypes import DType, integer_limits, numpy_dtype
from explorer.ir.kernel import Apply, Axis, Const, Expr, IndexValue
from explorer.ir.program import Constant
from explorer.ir.types import Tensor
from explorer.ops import products
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, Nest, at
from explorer.ops.products import check_depth
from explorer.ops.record import Array, OperatorRecord, Site

WIDTHS = (2, 4, 8)  # bits of an element
LEAST_BLOCK = 16
BY_INTEGERS = 4  # the accuracy level at which rows may be rounded to int8
MOST_CODE = 127  # of a rounded row
MANY_ROWS = 128  # of float32, where decoding weights once is as fast on a Zen 5
COLUMNS = 512  # that are unpacked at a time
LONGEST_BLOCK = 1 << 16  # whose products of bytes fit the sum of an int32
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
    product = _before_bias(low)
    if (codes := _codes(low)) is not None:
        _by_integers(low, codes, product)
    elif (constants := _constants(low)) is not None:
        _by_constants(low, constants, product)
    else:
        _by_decoding(low, product)
    _add_bias(low, product)


def _lower_float8(low: Lowering) -> None:
    weights, scales = (low.constant_of(low.site.arg(i)) for i in (WEIGHTS, SCALES))
    assert weights is not None and scales is not None, "they are constants"
    product = _before_bias(low)
    _by_constants(low, Blocks(weights, scales), product)
    _add_bias(low, product)


def _by_constants(low: Lowering, c: Blocks, product: Var) -> None:
    """Bind the product; weights are decoded once for many rows."""
    rows = low.site.env.hint(product_of(low.shape[:-1]))
    by = by_decoded_constants if rows >= MANY_ROWS else _by_blocks
    by(low, c, product)


def _before_bias(low: Lowering) -> Var:
    """Return the value that the product is bound to."""
    if low.site.has(BIAS):
        return low.temporary("product", low.shape, low.site.dtype())
    return low.result


def _add_bias(low: Lowering, product: Var) -> None:
    """Bind the result as the product and its bias, if there is one."""
    if low.site.has(BIAS):
        nest, bias = low.nest("bias"), low.site.arg(BIAS)
        nest.map(
            "y",
            low.result,
            lambda axes: call(
                "add", nest.along(product, "x", axes), nest.along(bias, "bias", axes)
            ),
        )


@dataclass(frozen=True, slots=True)
class Blocks:
    """Constant weights as integers [blocks, block, N], scales, and zero points times scales.

    A block's sum times `zero_terms` [blocks, N] is subtracted for zero points that the weights do
    not include; None if they include all. The weights may number the floats of a `table`.
    """

    weights: Constant
    scales: Constant
    zero_terms: Constant | None = None
    table: tuple[float, ...] = ()


def _constants(low: Lowering) -> Blocks | None:
    """Return the weights in blocks if they, their scales and zero points are constants."""
    packing, constants = _packing(low.site), _constant_args(low)
    if constants is None:
        return None
    packed, scales, zeros = constants
    by_columns, narrow = _by_columns(packing, scales), "int8" if packing.bits == 8 else "int4"
    if zeros is None:
        return Blocks(_of_blocks(packing, packed, narrow), by_columns, None)
    if zeros.type.dtype == "uint8" and (kind := _kind_of_shifted(packing, packed, zeros)):
        return Blocks(_of_blocks(packing, packed, kind, zeros), by_columns, None)
    weights = _of_blocks(packing, packed, _unsigned(packing))
    return Blocks(weights, by_columns, _zero_terms(packing, zeros, scales))


def _constant_args(low: Lowering) -> tuple[Constant, Constant, Constant | None] | None:
    """Return weights, scales and zero points; None if one is no constant."""
    site = low.site
    packed, scales, zeros = (
        low.constant_of(site.arg(i)) if site.has(i) else None for i in (WEIGHTS, SCALES, ZEROS)
    )
    if packed is None or scales is None or (zeros is None and site.has(ZEROS)):
        return None
    return packed, scales, zeros


@dataclass(frozen=True, slots=True)
class Codes:
    """Constant weights as they are, [blocks, block, N] of uint4 or uint8, scales and zero points.

    `zeros` is the zero point of all blocks, or that of each, uint8[blocks, N]. A constant of floats
    holds them times the scales.
    """

    weights: Constant
    scales: Constant
    zeros: int | Array | Constant


def _rounds(low: Lowering) -> bool:
    """Return True if the rows of the left operand are rounded to int8."""
    site = low.site
    is_allowed = site.integer("accuracy_level", 0) == BY_INTEGERS and site.dtype() == "float32"
    return is_allowed and _packing(site).block <= LONGEST_BLOCK


def _codes(low: Lowering) -> Codes | None:
    """Return the weights if rows may be rounded, and all about the weights is constant."""
    packing, constants = _packing(low.site), _constant_args(low)
    if constants is None or not _rounds(low):
        return None
    packed, scales, zeros = constants
    zero: int | Array | Constant = 1 << (packing.bits - 1)
    if zeros is not None and zeros.type.dtype == "uint8":
        zero = np.ascontiguousarray(_zeros(zeros.array, packing).T)
    elif zeros is not None:
        zero = _zero_terms(packing, zeros, scales)
    weights = _of_blocks(packing, packed, _unsigned(packing))
    return Codes(weights, _by_columns(packing, scales), zero)


def _unsigned(packing: Packing) -> DType:
    """Return the dtype of codes as they are."""
    return "uint8" if packing.bits == 8 else "uint4"


def _zero_terms(packing: Packing, zeros: Constant, scales: Constant) -> Constant:
    """Return zero points times scales, [blocks, N]."""

    def make(zeros: Array, scales: Array) -> Array:
        scale = scales.reshape(packing.columns, packing.blocks).astype(np.float32)
        return (_zeros(zeros, packing).astype(np.float32) * scale).T

    kind = Tensor((packing.blocks, packing.columns), "float32")
    return zeros.derived(("zero terms", packing), kind, make, (scales,))


def _by_columns(packing: Packing, scales: Constant) -> Constant:
    """Return scales as [blocks, N], float16 if that has them exactly, as files of GGUF do."""
    array = scales.array.astype(np.float32)
    half = array.astype(np.float16)
    dtype = "float16" if np.array_equal(half.astype(np.float32), array) else "float32"
    kind = Tensor((packing.blocks, packing.columns), dtype)

    def make(scales: Array) -> Array:
        by_rows = scales.reshape(packing.columns, packing.blocks)
        return by_rows.astype(np.float32).astype(numpy_dtype(dtype)).T

    return scales.derived(("by columns", packing), kind, make)


def _kind_of_shifted(packing: Packing, packed: Constant, zeros: Constant) -> DType | None:
    """Return int4 or int8, whichever holds the weights minus zero points; None if neither does."""
    zero, codes = _zeros(zeros.array, packing).astype(np.int16), packed.array
    parts = (_codes_of(packing, codes[rows]) - zero[rows, :, None] for rows in _parts(packing))
    limits = [(part.min(), part.max()) for part in parts]
    least, most = min(a for a, _ in limits), max(b for _, b in limits)
    for dtype in ("int4", "int8"):
        low, high = integer_limits(dtype)
        if low <= least and most <= high:
            return dtype
    return None


def _of_blocks(packing: Packing, packed: Constant, dtype: DType, *zeros: Constant) -> Constant:
    """Return weights as [blocks, block, N]; signed ones are minus their zero points or the middle.

    It is written some columns at a time: between, an element takes several bytes.
    """
    kind = Tensor((packing.blocks, packing.block, packing.columns), dtype)

    def make(packed: Array, *zeros: Array) -> Array:
        is_signed = dtype.startswith("int")
        zero = _zeros(zeros[0] if zeros else None, packing) if is_signed else None
        result = np.empty(kind.dims, np.uint8)  # of all kinds: int4 is the low bits of a byte
        for rows in _parts(packing):
            codes = _codes_of(packing, packed[rows])
            if zero is not None:
                codes = codes - zero[rows, :, None]  # modulo 256, where both are less
            result[..., rows] = codes.transpose(1, 2, 0)
        return result.view(numpy_dtype(dtype))

    return packed.derived(("of blocks", packing), kind, make, zeros)


def _parts(packing: Packing) -> Iterator[slice]:
    """Yield slices of columns."""
    for first in range(0, packing.columns, COLUMNS):
        yield slice(first, first + COLUMNS)


def _codes_of(packing: Packing, packed: Array) -> Array:
    """Return the codes of packed columns, uint8[columns, blocks, block]."""
    return unpacked(packed, packing.bits).reshape(-1, packing.blocks, packing.block)


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
    weights = low.constant(c.weights, "weights")
    scales = low.constant(c.scales, "scales")
    left = _in_blocks(low, lead, b, p)
    nest = low.nest("low_bit_product")
    a = call("cast_float32", at(nest.tensor(left, "a"), (*lead, b, p)))
    at_block = (b, *lead, j)
    weight = call("cast_float32", at(nest.tensor(weights, "w"), (b, p, j)))
    inner = (blocks, *shape[:-1], columns)
    if c.zero_terms is not None:
        of_block = nest.compute("block_sums", inner[:-1], "float32", at_block[:-1], a, [p], "sum")
    sums = nest.compute("sums", inner, "float32", at_block, call("mul", a, weight), [p], "sum")
    scale = call("cast_float32", at(nest.tensor(scales, "scale"), (b, j)))
    term = call("mul", at(sums, at_block), scale)
    if c.zero_terms is not None:
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


def by_decoded_constants(low: Lowering, c: Blocks, product: Var) -> None:
    """Bind the product with weights that are decoded first, each once for all rows."""
    blocks, block, columns = c.weights.shape
    b, p, j = Axis("b", blocks), Axis("p", block), Axis("j", columns)
    lead = tuple(Axis(f"i{d}", n) for d, n in enumerate(low.shape[:-1]))
    weights = low.constant(c.weights, "weights")
    scales = low.constant(c.scales, "scales")
    left = _in_blocks(low, lead, b, p)
    nest = low.nest("decoded_product")
    code = at(nest.tensor(weights, "w"), (b, p, j))
    scale = call("cast_float32", at(nest.tensor(scales, "scale"), (b, j)))
    number = call("mul", _number(c.table, code), scale)
    if c.zero_terms is not None:
        zeros = low.constant(c.zero_terms, "zero_terms")
        number = call("sub", number, at(nest.tensor(zeros, "zero_terms"), (b, j)))
    decoded = nest.compute("decoded", c.weights.shape, "float32", (b, p, j), number)
    a = call("cast_float32", at(nest.tensor(left, "a"), (*lead, b, p)))
    term = call("mul", a, at(decoded, (b, p, j)))
    nest.compute("y", low.shape, low.site.dtype(), (*lead, j), term, [b, p], "sum")
    nest.into(product)


def _number(table: tuple[float, ...], code: Expr) -> Expr:
    """Return a code as a number, or the number of a table that it names, by a tree of selections.

    Vectors have no load of an element for each lane that is as fast.
    """
    if not table:
        return call("cast_float32", code)
    code, parts = call("cast_int32", code), [Const(n) for n in table]
    numbers: list[Expr] = [*parts]
    bit = 1
    while len(numbers) > 1:
        is_set = call("ne", call("bitand", code, Const(bit, "int32")), 0, dtype="int32")
        pairs = zip(numbers[1::2], numbers[::2], strict=True)
        numbers, bit = [call("where", is_set, x, y) for x, y in pairs], bit * 2
    return numbers[0]


def _by_integers(low: Lowering, c: Codes, product: Var) -> None:
    """Bind the product of rounded rows as a sum of the blocks' integer sums, each times scales."""
    shape = low.shape
    blocks, block, columns = c.weights.shape
    lead = tuple(Axis(f"i{d}", n) for d, n in enumerate(shape[:-1]))
    b, p, j = Axis("b", blocks), Axis("p", block), Axis("j", columns)
    rows, row_scales, row_sums = _rounded_rows(low, lead, b, p)
    weights = low.constant(c.weights, "weights")
    scales = low.constant(c.scales, "scales")
    nest = low.nest("integer_product")
    a = call("cast_int32", at(nest.tensor(rows, "a"), (*lead, b, p)))
    weight = call("cast_int32", at(nest.tensor(weights, "w"), (b, p, j)))
    at_block, inner = (b, *lead, j), (blocks, *shape[:-1], columns)
    sums = nest.compute("sums", inner, "int32", at_block, call("mul", a, weight), [p], "sum")
    zero: Expr = Const(c.zeros, "int32") if isinstance(c.zeros, int) else Const(0)
    if not isinstance(c.zeros, int):
        zero = at(nest.tensor(low.constant(c.zeros, "zeros"), "zero"), (b, j))
    row_sum = at(nest.tensor(row_sums, "row_sum"), (*lead, b))
    scale = call("cast_float32", at(nest.tensor(scales, "scale"), (b, j)))
    row_scale = at(nest.tensor(row_scales, "row_scale"), (*lead, b))
    block_sum = at(sums, at_block)
    if not isinstance(c.zeros, Constant):
        exact = call("sub", block_sum, call("mul", call("cast_int32", zero), row_sum))
        number = call("mul", call("cast_float32", exact), scale)
    else:
        number = call("mul", call("cast_float32", block_sum), scale)
        number = call("sub", number, call("mul", call("cast_float32", row_sum), zero))
    term = call("mul", number, row_scale)
    nest.compute("y", shape, "float32", (*lead, j), term, [b], "sum")
    nest.into(product)


def _rounded_rows(low: Lowering, lead: tuple[Axis, ...], b: Axis, p: Axis) -> tuple[Var, Var, Var]:
    """Bind the left operand as int8 [..., blocks, block], each block's scale, and its sum."""
    left, shape = _in_blocks(low, lead, b, p), tuple(a.extent for a in (*lead, b, p))
    of_block, each = (*lead, b), (*lead, b, p)
    nest = low.nest("rounded_rows")
    a = at(nest.tensor(left, "a"), each)
    most = nest.compute("most", shape[:-1], "float32", of_block, call("abs", a), [p], "max")
    step = call("mul", at(most, of_block), float(np.float32(1 / MOST_CODE)))
    scale = at(nest.compute("scale", shape[:-1], "float32", of_block, step), of_block)
    per_step = call("where", call("gt", scale, 0.0), call("div", 1.0, scale), 0.0)
    code = call("round", call("mul", a, per_step))
    code = call("max", call("min", code, float(MOST_CODE)), -float(MOST_CODE))
    codes = nest.compute("codes", shape, "int8", each, call("cast_int8", code))
    number = call("cast_int32", at(codes, each))
    nest.compute("sums", shape[:-1], "int32", of_block, number, [p], "sum")
    results = (
        low.temporary("row_codes", shape, "int8"),
        low.temporary("row_scales", shape[:-1], "float32"),
        low.temporary("row_sums", shape[:-1], "int32"),
    )
    nest.bind_outputs(dict(zip(("codes", "scale", "sums"), results, strict=True)))
    return results


def _in_blocks(low: Lowering, lead: tuple[Axis, ...], b: Axis, p: Axis) -> Var:
    """Return the left operand as [..., blocks, block]; what is missing in the last one is zero."""
    arg = low.site.arg(0)
    inner = (*(a.extent for a in lead), b.extent, p.extent)
    result = low.temporary("blocks", inner, low.site.dtype())
    assert isinstance(b.extent, int) and isinstance(p.extent, int)
    if b.extent * p.extent == low.site.integer("K"):
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
    parts = np.empty((*codes.shape, 8 // bits), np.uint8)
    for n in range(8 // bits):
        parts[..., n] = codes >> np.uint8(n * bits) & np.uint8((1 << bits) - 1)
    return parts.reshape(*codes.shape[:-1], -1)


def packed(codes: Array, bits: int) -> Array:
    """Pack elements along the last axis into bytes, the first in the lowest bits."""
    each = 8 // bits
    padded = np.pad(codes, [*[(0, 0)] * (codes.ndim - 1), (0, -codes.shape[-1] % each)])
    parts = padded.astype(np.uint8).reshape(*codes.shape[:-1], -1, each)
    result = parts[..., 0].copy()
    for n in range(1, each):
        result |= parts[..., n] << np.uint8(n * bits)
    return np.asarray(result)


def _reference(attrs: Mapping[str, Any], args: Any) -> Any:
    a, b, scales, zeros, _, bias = (*args, None, None, None)[:6]
    packing = Packing(attrs["K"], attrs["N"], attrs.get("bits", 4), attrs["block_size"])
    n, blocks = packing.columns, packing.blocks
    codes = unpacked(b, packing.bits).reshape(n, blocks, packing.block).astype(np.float32)
    zero = _zeros(zeros, packing).astype(np.float32)[..., None]
    scale = scales.reshape(n, blocks, 1).astype(np.float32)
    weights = ((codes - zero) * scale).reshape(n, -1)[:, : packing.depth].T.astype(a.dtype)
    is_rounded = attrs.get("accuracy_level", 0) == BY_INTEGERS and a.dtype == np.float32
    rows = _rounded(a, packing) if is_rounded else a
    y = MATMUL.reference({}, (rows, np.ascontiguousarray(weights)))
    return y if bias is None else (y + bias).astype(a.dtype)


def _rounded(a: Array, packing: Packing) -> Array:
    """Return rows as int8 and a scale of each block have them."""
    missing = packing.blocks * packing.block - packing.depth
    rows = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, missing)])
    rows = rows.reshape(*a.shape[:-1], packing.blocks, packing.block)
    scale = np.abs(rows).max(axis=-1, keepdims=True) * np.float32(1 / MOST_CODE)
    per_step = np.where(scale > 0, np.float32(1) / np.where(scale > 0, scale, 1), 0)
    codes = np.clip(np.rint(rows * per_step.astype(np.float32)), -MOST_CODE, MOST_CODE)
    rounded: Array = (codes * scale).reshape(*a.shape[:-1], -1)
    return rounded[..., : packing.depth]


def _float8_types(site: Site) -> tuple[Tensor, ...]:
    if not site.shape():
        site.fail("the left operand is a scalar")
    check_depth(site, site.shape()[-1], site.integer("K"))
    return (Tensor((*site.shape()[:-1], site.integer("N")), site.dtype()),)


def _float8_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    a, weights, scales, _, _, bias = (*args, None, None, None)[:6]
    numbers = weights.astype(np.float32) * scales[:, None]
    y = MATMUL.reference({}, (a, numbers.reshape(-1, attrs["N"])[: attrs["K"]]))
    return y if bias is None else y + bias


RECORDS = (
    OperatorRecord("MatMulNBits", "matmul", _types, _reference, _lower, first=1),
    OperatorRecord(
        "MatMulFloat8", "matmul", _float8_types, _float8_reference, _lower_float8, first=1
    ),
)
