"""Contractions of small integers without zero points, in a form for vector instructions.

Operands stay narrow, and zero points are taken out of the sum where that is exact.

    sum (a - za) * (b - zb)  ->  sum a * b' - za * sum b',  b' = b - zb an int8, a a uint8; else
                                 sum a' * b',               a' = a - za and b' = b - zb in int16

All of it holds modulo 2 ** 32. A convolution pads with `za`, which the second term cancels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.calls import KernelCall, Var
from explorer.ir.kernel import Apply, Axis, Const, Expr, Kernel, Read, rewrite
from explorer.ir.types import Tensor
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, at, letters, shape_of
from explorer.ops.quantization import aligned, along
from explorer.ops.record import Array, OperatorRecord

BYTES = ("int8", "uint8")
FLIP = 128  # an int8 and this is a uint8: its upper bit is turned


@dataclass(frozen=True, slots=True)
class Operand:
    """An argument, its zero point's position, and the axis along which zero points may differ."""

    position: int
    zero: int
    axis: int | None


def narrow_product(
    low: Lowering, record: OperatorRecord, a: Operand, b: Operand, bias: Var | None, result: Var
) -> bool:
    """Bind the int32 sums of a MatMul or a Conv of bytes; return False for other operands."""
    site = low.site
    if any(site.dtype(x.position) not in BYTES or len(site.shape(x.position)) < 2 for x in (a, b)):
        return False
    weights = _as_int8(low, b)
    z = _number(low, a)
    if weights is None or (
        record.name == "Conv" and (z is None or low.constant_of(weights) is None)
    ):
        left, right = _in_int16(low, a, "a16"), _in_int16(low, b, "b16")
        _bind(low, record, left, right, bias, 0, result)
    elif record.name == "Conv":
        assert z is not None
        _convolution(low, record, a, weights, z, bias, result)
    else:
        _matrix_product(low, record, a, weights, z, result)
    return True


def _convolution(
    low: Lowering,
    record: OperatorRecord,
    a: Operand,
    weights: Var,
    z: int,
    bias: Var | None,
    result: Var,
) -> None:
    left, moved = _as_uint8(low, a)
    z, array = z + moved, low.array(weights)
    assert array is not None
    if z and (bias is None or low.constant_of(bias) is not None):
        sums = z * array.reshape(array.shape[0], -1).sum(axis=1, dtype=np.int64)
        start = 0 if bias is None else low.array(bias)
        bias = low.constant((start - sums).astype(np.int32), "bias")
    elif z:
        left, weights, z = _in_int16(low, a, "a16"), low.constant(array.astype(np.int16), "b16"), 0
    _bind(low, record, left, weights, bias, z, result)


def _matrix_product(
    low: Lowering, record: OperatorRecord, a: Operand, weights: Var, z: int | None, result: Var
) -> None:
    left, moved = _as_uint8(low, a)
    if z is not None and z + moved == 0:
        _bind(low, record, left, weights, None, 0, result)
        return
    total = low.temporary("products", shape_of(result), "int32")
    _bind(low, record, left, weights, None, 0, total)
    sums, nest = _column_sums(low, weights, z, moved), low.nest("zero_point")

    def body(axes: tuple[Axis, ...]) -> Expr:
        term = nest.along(sums, "columns", axes)
        if z is None:
            zero: Expr = call("cast_int32", along(nest, low.site, a.zero, "zero", axes, a.axis))
            zero = call("add", zero, moved, dtype="int32") if moved else zero
            term = call("mul", zero, term)
        return call("sub", nest.along(total, "sum", axes), term)

    nest.map("y", result, body)


def _column_sums(low: Lowering, weights: Var, z: int | None, moved: int) -> Var:
    """Return the sums over the depth of each column, times a zero point that is a number."""
    array, shape = low.array(weights), shape_of(weights)
    if array is not None:
        sums = array.sum(axis=-2, keepdims=True, dtype=np.int64)
        sums = sums if z is None else sums * (z + moved)
        return low.constant(sums.astype(np.int32), "columns")
    sums_var, nest = (
        low.temporary("columns", (*shape[:-2], 1, shape[-1]), "int32"),
        low.nest("columns"),
    )
    axes = letters(shape)
    load = call("cast_int32", at(nest.tensor(weights, "b"), axes))
    spatial = (*axes[:-2], Axis("one", 1), axes[-1])
    is_number = z is not None
    out = nest.compute(
        "t" if is_number else "y", shape_of(sums_var), "int32", spatial, load, [axes[-2]], "sum"
    )
    if is_number:
        zero = Const((z or 0) + moved, "int32")
        nest.compute("y", shape_of(sums_var), "int32", spatial, call("mul", at(out, spatial), zero))
    return nest.into(sums_var)


def _number(low: Lowering, x: Operand) -> int | None:
    """Return the zero point if it is one known number."""
    if not low.site.has(x.zero):
        return 0
    array = low.array(low.site.arg(x.zero))
    same = array is not None and array.size > 0 and bool((array == array.flat[0]).all())
    return int(array.flat[0]) if array is not None and same else None


def _shifted(low: Lowering, x: Operand) -> Array | None:
    """Return a constant argument minus its constant zero point, in int32."""
    array = low.array(low.site.arg(x.position))
    zero = low.array(low.site.arg(x.zero)) if low.site.has(x.zero) else None
    if array is None or (low.site.has(x.zero) and zero is None):
        return None
    points = aligned(zero, array.ndim, 0 if x.axis is None else x.axis)
    return np.asarray(array.astype(np.int32) - points.astype(np.int32))


def _as_int8(low: Lowering, x: Operand) -> Var | None:
    """Return the right operand without its zero point if that fits into int8."""
    value, array = low.site.arg(x.position), _shifted(low, x)
    if low.site.dtype(x.position) == "int8" and _number(low, x) == 0:
        return value
    if array is None or (array.size and (array.min() < -128 or array.max() > 127)):
        return None
    return low.constant(array.astype(np.int8), "b8")


def _as_uint8(low: Lowering, x: Operand) -> tuple[Var, int]:
    """Return the left operand as a uint8, and what was added to it."""
    value = low.site.arg(x.position)
    if low.site.dtype(x.position) == "uint8":
        return value, 0
    array = low.array(value)
    if array is not None:
        return low.constant(array.view(np.uint8) ^ np.uint8(FLIP), "a8"), FLIP
    nest, flipped = low.nest("flip"), low.temporary("a8", shape_of(value), "uint8")

    def body(axes: tuple[Axis, ...]) -> Expr:
        bits = call("bits_uint8", nest.along(value, "x", axes))
        return call("bitxor", bits, Const(FLIP, "uint8"))

    return nest.map("y", flipped, body), FLIP


def _in_int16(low: Lowering, x: Operand, name: str) -> Var:
    """Return an argument minus its zero point: at most 255 away from zero."""
    array = _shifted(low, x)
    if array is not None:
        return low.constant(array.astype(np.int16), name)
    site, value = low.site, low.site.arg(x.position)
    nest, shifted = low.nest("shift"), low.temporary(name, shape_of(value), "int16")

    def body(axes: tuple[Axis, ...]) -> Expr:
        load: Expr = call("cast_int16", nest.along(value, "x", axes))
        if not site.has(x.zero):
            return load
        point = along(nest, site, x.zero, "zero", axes, x.axis)
        return call("sub", load, call("cast_int16", point))

    return nest.map("y", shifted, body)


def _bind(
    low: Lowering,
    record: OperatorRecord,
    a: Var,
    b: Var,
    bias: Var | None,
    padding: int,
    result: Var,
) -> None:
    """Bind the plain int32 operator with operands that are narrower in memory."""
    wide = tuple(replace(v, type=Tensor(shape_of(v), "int32")) for v in (a, b))
    site = replace(low.site, op=record.name, args=(*wide, *(() if bias is None else (bias,))))
    inner = low.lowering_of(site, (result,), {**low.outer_constants, **low.constants})
    record.lower(inner)
    low.constants.update(inner.constants)
    narrow = {v.name: v for v in (a, b)}
    for binding in inner.bindings:
        expr = binding.expr
        if isinstance(expr, KernelCall):
            args = tuple(narrow.get(v.name, v) for v in expr.args)
            kernel = _narrowed(expr.kernel, dict(zip(expr.kernel.inputs, args)), padding)
            expr = replace(expr, kernel=kernel, args=args)
        low.bindings.append(replace(binding, expr=expr))


def _narrowed(kernel: Kernel, args: Mapping[str, Var], padding: int) -> Kernel:
    """Return the kernel with operands of these types, cast to int32 when loaded."""
    dtypes = {n: v.type.element for n, v in args.items() if isinstance(v.type, Tensor)}

    def load(read: Read) -> Expr:
        if dtypes.get(read.tensor, "int32") == "int32":
            return read
        fill = None if read.fill is None else float(padding)
        return Apply("cast_int32", (replace(read, fill=fill),))

    return replace(
        kernel,
        tensors=tuple(replace(t, dtype=dtypes.get(t.name, t.dtype)) for t in kernel.tensors),
        computes=tuple(replace(c, expr=rewrite(c.expr, load)) for c in kernel.computes),
    )
