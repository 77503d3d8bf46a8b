"""Products of quantized numbers, summed in int32.

The operands are shifted by their zero points, multiplied by the plain operator, and rescaled.

    y = QLinearMatMul(a, b)  ->  p = int32(a) - zero_a;  q = int32(b) - zero_b;  s = MatMul(p, q);
                                 y = clamp(round(s * scale_a * scale_b / scale_y) + zero_y)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from explorer.ir.calls import Var
from explorer.ir.dtypes import dtype_of
from explorer.ir.kernel import Axis, Expr
from explorer.ir.types import Tensor
from explorer.ops import products
from explorer.ops.elementwise import call
from explorer.ops.images import conv
from explorer.ops.integer_products import Operand, narrow_product
from explorer.ops.lowering import Lowering, shape_of
from explorer.ops.quantization import aligned, along, check_along, clamped, limited
from explorer.ops.record import Array, OperatorRecord, Site

PRODUCTS = {r.name: r for r in (*products.RECORDS, *conv.RECORDS) if r.name in ("MatMul", "Conv")}


def _plain_site(site: Site, op: str, args: Sequence[Var | None]) -> Site:
    """Return the site of the plain operator on int32 that replaces a quantized one."""
    return replace(site, op=op, args=tuple(args))


def _as_int32(site: Site, i: int) -> Var:
    arg = site.arg(i)
    return Var(arg.name, Tensor(shape_of(arg), "int32"))


def _shifted(low: Lowering, i: int, zero: int, axis: int | None) -> Var:
    """Return an argument as int32 minus its zero point, one number or one along an axis."""
    site, arg = low.site, low.site.arg(i)
    result = low.temporary(f"{'ab'[i > 0]}32", shape_of(arg), "int32")
    nest = low.nest("shift")

    def body(axes: tuple[Axis, ...]) -> Expr:
        x: Expr = call("cast_int32", nest.along(arg, "x", axes))
        if not site.has(zero):
            return x
        point = along(nest, site, zero, "zero", axes, axis)
        return call("sub", x, call("cast_int32", point))

    return nest.map("y", result, body)


# MatMulInteger and ConvInteger.


def _check_zeros(site: Site, op: str, a: tuple[int, int], b: tuple[int, int]) -> None:
    """Raise ShapeError unless the zero points fit.

    `a` and `b` are the positions of an operand and its zero point.
    """
    for (operand, zero), axis in zip((a, b), _places(op), strict=True):
        check_along(site, zero, site.shape(operand), axis, "the zero point")


def _integer_types(op: str) -> Callable[[Site], tuple[Tensor, ...]]:
    def deduce(site: Site) -> tuple[Tensor, ...]:
        _check_zeros(site, op, (0, 2), (1, 3))
        plain = _plain_site(site, op, (_as_int32(site, 0), _as_int32(site, 1)))
        return PRODUCTS[op].deduce(plain)

    return deduce


def _lower_integer(op: str) -> Callable[[Lowering], None]:
    rows, columns = _places(op)

    def lower(low: Lowering) -> None:
        left, right = Operand(0, 2, _row(low, rows)), Operand(1, 3, columns)
        if narrow_product(low, PRODUCTS[op], left, right, None, low.result):
            return
        a, b = _shifted(low, 0, 2, _row(low, rows)), _shifted(low, 1, 3, columns)
        _product(low, op, (a, b), low.result)

    return lower


def _places(op: str) -> tuple[int | None, int]:
    """Return the axes of the operands along which zero points and scales may differ."""
    return (-2, -1) if op == "MatMul" else (None, 0)


def _row(low: Lowering, rows: int | None) -> int | None:
    return rows if rows is not None and len(low.site.shape(0)) > 1 else None


def _product(low: Lowering, op: str, args: Sequence[Var | None], result: Var) -> None:
    """Bind the plain operator of int32 values."""
    site = _plain_site(low.site, op, args)
    inner = low.lowering_of(site, (result,), {**low.outer_constants, **low.constants})
    PRODUCTS[op].lower(inner)
    low.absorb(inner)


def _sum(
    op: str, attrs: Mapping[str, Any], a: Array, b: Array, zeros: Sequence[Any], bias: Any = None
) -> Array:
    """Multiply shifted operands in NumPy."""
    rows, columns = _places(op)
    left, right = a.astype(np.int32), b.astype(np.int32)
    left = left - aligned(zeros[0], left.ndim, rows or 0).astype(np.int32)
    right = right - aligned(zeros[1], right.ndim, columns).astype(np.int32)
    args = (left, right) if bias is None else (left, right, bias)
    return np.asarray(PRODUCTS[op].reference(attrs, args), np.int32)


def _integer_reference(op: str) -> Callable[[Mapping[str, Any], Any], Any]:
    def reference(attrs: Mapping[str, Any], args: Any) -> Any:
        a, b, *zeros = (*args, None, None)[:4]
        return _sum(op, attrs, a, b, zeros)

    return reference


# QLinearMatMul and QLinearConv: x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias.


def _linear_types(op: str) -> Callable[[Site], tuple[Tensor, ...]]:
    def deduce(site: Site) -> tuple[Tensor, ...]:
        _check_zeros(site, op, (0, 2), (3, 5))
        bias = (site.arg(8),) if site.has(8) else ()
        plain = _plain_site(site, op, (_as_int32(site, 0), _as_int32(site, 3), *bias))
        (product_type,) = PRODUCTS[op].deduce(plain)
        rows, channels = _places(op)[0], -1 if op == "MatMul" else 1
        for i, axis in ((1, rows), (4, channels), (6, rows), (7, rows)):
            check_along(site, i, product_type.dims, axis, "the scale or zero point")
        return (Tensor(product_type.dims, site.dtype(7)),)

    return deduce


def _lower_linear(op: str) -> Callable[[Lowering], None]:
    rows, columns = _places(op)
    channels = -1 if op == "MatMul" else 1  # of the result

    def lower(low: Lowering) -> None:
        site = low.site
        bias = (site.arg(8),) if site.has(8) else ()
        total = low.temporary("sum", low.shape, "int32")
        left, right = Operand(0, 2, _row(low, rows)), Operand(3, 5, columns)
        if not narrow_product(low, PRODUCTS[op], left, right, bias[0] if bias else None, total):
            a, b = _shifted(low, 0, 2, _row(low, rows)), _shifted(low, 3, 5, columns)
            _product(low, op, (a, b, *bias), total)
        nest, target = low.nest("requantize"), site.dtype(7)

        def body(axes: tuple[Axis, ...]) -> Expr:
            def real(i: int, name: str, axis: int | None) -> Expr:
                return call("cast_float32", along(nest, site, i, name, axes, axis))

            left, right = real(1, "a_scale", rows), real(4, "b_scale", channels)
            scale = call("div", call("mul", left, right), real(6, "y_scale", rows))
            y = call("mul", call("cast_float32", nest.along(total, "sum", axes)), scale)
            return clamped(call("add", call("round", y), real(7, "y_zero", rows)), target)

        nest.map("y", low.result, body)

    return lower


def _linear_reference(op: str) -> Callable[[Mapping[str, Any], Any], Any]:
    rows, _ = _places(op)
    channels = -1 if op == "MatMul" else 1

    def reference(attrs: Mapping[str, Any], args: Any) -> Any:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, bias = (*args, None)[:9]
        total = _sum(op, attrs, a, b, (a_zero, b_zero), bias)
        rank = total.ndim

        def real(values: Array, axis: int | None) -> Array:
            return aligned(values, rank, axis or 0).astype(np.float32)

        scale = real(a_scale, rows) * real(b_scale, channels) / real(y_scale, rows)
        y = np.rint(total.astype(np.float32) * scale) + real(y_zero, rows)
        kind = dtype_of(y_zero)
        return limited(y, kind)

    return reference


def _records(name: str, op: str, family: str) -> tuple[OperatorRecord, OperatorRecord]:
    return (
        OperatorRecord(
            f"{op}Integer",
            family,
            _integer_types(op),
            _integer_reference(op),
            _lower_integer(op),
            first=10,
        ),
        OperatorRecord(
            name, family, _linear_types(op), _linear_reference(op), _lower_linear(op), first=10
        ),
    )


RECORDS = (
    *_records("QLinearMatMul", "MatMul", "matmul"),
    *_records("QLinearConv", "Conv", "conv"),
)
