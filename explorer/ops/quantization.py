"""Quantization and dequantization by a scale and a zero point.

They are for the whole tensor, for each position along an axis, or for each block of positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.errors import DtypeError
from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.dims import Dim, Shape, ceil_div
from explorer.ir.dtypes import DType, as_computed, dtype_of, integer_limits, is_integer, numpy_dtype
from explorer.ir.kernel import Apply, Axis, Const, Expr, IndexValue
from explorer.ir.types import Tensor
from explorer.ops.casting import convert, converted
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, Nest, at, letters, shape_of
from explorer.ops.record import Array, OperatorRecord, Site, dtype_of_code
from explorer.ops.shape_rules import agree


def clamped(x: Expr, target: DType) -> Expr:
    """Return an integral float32 clamped to an integer dtype.

    NaN becomes the least element, as in onnxruntime and onnx's evaluator.
    """
    low, high = integer_limits(target)
    limited = call("where", call("ge", x, float(low)), call("min", x, float(high)), float(low))
    return call(f"cast_{target}", limited)


def limited(x: Array, target: DType) -> Array:
    """Clamp an array as `clamped` does."""
    low, high = integer_limits(target)
    return convert(np.where(x >= low, np.minimum(x, high), low), target)


# The scale of an element.


class _Grain:
    """The scale of an element: one for all, one along an axis, or one for a block."""

    def __init__(self, site: Site, position: int) -> None:
        """Read the axis and the block size, and check the scale's shape."""
        self.site, self.shape = site, site.shape()
        self.scale, self.block = site.shape(position), site.integer("block_size")
        self.is_per_tensor = _is_one(self.scale) and not self.block
        self.axis = 0 if self.is_per_tensor else site.axis(len(self.shape), 1)
        if not self.is_per_tensor:
            self.check()

    def check(self) -> None:
        """Raise ShapeError unless the scales have the shape of the axis or of the blocks."""
        extent, axis = self.shape[self.axis], self.axis
        if self.block:
            count = ceil_div(extent, self.block)
            expected = (*self.shape[:axis], count, *self.shape[axis + 1 :])
        else:
            expected = (extent,)
        if len(expected) != len(self.scale) or not all(
            a == b or agree(a, b, self.site.env) for a, b in zip(expected, self.scale)
        ):
            self.site.fail(
                f"the scale has shape {list(self.scale)}, and {list(expected)} is needed"
            )

    def load(self, nest: Nest, value: Var, name: str, axes: Sequence[Axis]) -> Expr:
        """Load the scale or zero point of the element at these axes."""
        if self.is_per_tensor:
            return nest.load(value, name, (Affine(),) * len(shape_of(value)))
        index: list[Affine | Expr] = [var(a.name) for a in axes]
        if not self.block:
            return nest.load(value, name, [index[self.axis]])
        place = IndexValue(var(axes[self.axis].name))
        index[self.axis] = Apply("floordiv", (place, Const(self.block, "int64")))
        return nest.load(value, name, index)


def _is_one(shape: Sequence[Dim]) -> bool:
    return all(n == 1 for n in shape) and len(shape) < 2


def _spread(values: Array, shape: Sequence[int], axis: int, block: int) -> Array:
    """Return a scale for each element, or an array that broadcasts to that."""
    values = as_computed(values)
    if block:
        return values.repeat(block, axis).take(range(shape[axis]), axis)
    if _is_one(values.shape):
        return values.reshape(())
    return _column(values, len(shape), axis)


def _column(values: Array, rank: int, axis: int) -> Array:
    """Return a vector that broadcasts along an axis of a tensor of this rank."""
    return values.reshape([-1 if d == axis % rank else 1 for d in range(rank)])


def _zero_point(nest: Nest, grain: _Grain, axes: Sequence[Axis]) -> Expr | None:
    return grain.load(nest, grain.site.arg(2), "zero", axes) if grain.site.has(2) else None


# QuantizeLinear.


def _quantized_type(site: Site) -> DType:
    code = site.integer("output_dtype")
    stated = dtype_of_code(site, code) if code else None
    zero_dtype = site.dtype(2) if site.has(2) else None
    if stated and zero_dtype and stated != zero_dtype:
        site.fail(f"the zero point is {zero_dtype} and output_dtype {stated}", DtypeError)
    return zero_dtype or stated or "uint8"


def _quantize_types(site: Site) -> tuple[Tensor, ...]:
    _Grain(site, 1)
    return (Tensor(site.shape(), _quantized_type(site)),)


def _lower_quantize(low: Lowering) -> None:
    site, grain, target = low.site, _Grain(low.site, 1), _quantized_type(low.site)
    nest = low.nest("quantize")

    def body(axes: tuple[Axis, ...]) -> Expr:
        x = call("cast_float32", nest.along(site.arg(0), "x", axes))
        scale = call("cast_float32", grain.load(nest, site.arg(1), "scale", axes))
        y: Expr = call("div", x, scale)
        zero = _zero_point(nest, grain, axes)
        if not is_integer(target):
            saturate = bool(site.integer("saturate", 1))
            return converted(y, "float32", target, saturate=saturate)
        y = call("round", y)
        return clamped(y if zero is None else call("add", y, call("cast_float32", zero)), target)

    nest.map("y", low.result, body)


def _quantize_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, scale, zero = (*args, None)[:3]
    code = attrs.get("output_dtype", 0)
    site = Site("QuantizeLinear", "QuantizeLinear", (), attrs)
    target = dtype_of(zero) if zero is not None else dtype_of_code(site, code) if code else "uint8"
    spread = x.shape, attrs.get("axis", 1), attrs.get("block_size", 0)
    y = x.astype(np.float32) / _spread(scale, *spread).astype(np.float32)
    if not is_integer(target):
        return convert(y, target, saturate=bool(attrs.get("saturate", 1)))
    y = np.rint(y) + (0 if zero is None else _spread(zero, *spread).astype(np.float32))
    return limited(y, target)


# DequantizeLinear.


def _dequantized_type(site: Site) -> DType:
    code = site.integer("output_dtype")
    return dtype_of_code(site, code) if code else site.dtype(1)


def _dequantize_types(site: Site) -> tuple[Tensor, ...]:
    _Grain(site, 1)
    return (Tensor(site.shape(), _dequantized_type(site)),)


def _lower_dequantize(low: Lowering) -> None:
    site, grain = low.site, _Grain(low.site, 1)
    nest, is_integral = low.nest("dequantize"), is_integer(low.site.dtype())
    inner = "int32" if is_integral else "float32"

    def body(axes: tuple[Axis, ...]) -> Expr:
        x: Expr = call(f"cast_{inner}", nest.along(site.arg(0), "x", axes))
        zero = _zero_point(nest, grain, axes)
        if zero is not None and is_integral:
            x = call("sub", x, call(f"cast_{inner}", zero))
        scale = call("cast_float32", grain.load(nest, site.arg(1), "scale", axes))
        return call(f"cast_{_dequantized_type(site)}", call("mul", call("cast_float32", x), scale))

    nest.map("y", low.result, body)


def _dequantize_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, scale, zero = (*args, None)[:3]
    site = Site("DequantizeLinear", "DequantizeLinear", (), attrs)
    code = attrs.get("output_dtype", 0)
    target = dtype_of_code(site, code) if code else dtype_of(scale)
    spread = x.shape, attrs.get("axis", 1), attrs.get("block_size", 0)
    if zero is not None and is_integer(dtype_of(x)):
        x = as_computed(x).astype(np.int32) - _spread(zero, *spread).astype(np.int32)
    y = x.astype(np.float32) * _spread(scale, *spread).astype(np.float32)
    return y.astype(numpy_dtype(target))


# DynamicQuantizeLinear: the scale is computed from the tensor.


def _dynamic_types(site: Site) -> tuple[Tensor, ...]:
    return (Tensor(site.shape(), "uint8"), Tensor((), "float32"), Tensor((), "uint8"))


def _extreme(nest: Nest, x: Var, combiner: str) -> Expr:
    """Return the least or the greatest element; 0 if all are above or below."""
    axes = letters(shape_of(x))
    read = nest.along(x, "x", axes)
    if axes:
        nest.compute(combiner, (), "float32", (), read, axes, combiner)
    else:
        nest.compute(combiner, (), "float32", (), read)
    return call(combiner, at(combiner, ()), 0.0)


def _lower_dynamic(low: Lowering) -> None:
    x = low.site.arg(0)
    y, scale, zero = (*low.results, *_unnamed(low))[:3]
    nest = low.nest("dynamic_scale")
    least, most = _extreme(nest, x, "min"), _extreme(nest, x, "max")
    span = call("sub", most, least)
    step = call("div", call("where", call("eq", span, 0.0), Const(1.0), span), 255.0)
    nest.compute("scale", (), "float32", (), step)
    nest.into(scale)
    nest = low.nest("dynamic_zero")
    least = _extreme(nest, x, "min")
    point = call("div", call("neg", least), nest.load(scale, "scale", ()))
    nest.compute("zero", (), "uint8", (), clamped(call("round", point), "uint8"))
    nest.into(zero)
    nest = low.nest("dynamic_quantize")

    def body(axes: tuple[Axis, ...]) -> Expr:
        steps = call("div", nest.along(x, "x", axes), nest.load(scale, "scale", ()))
        moved = call("add", call("round", steps), call("cast_float32", nest.load(zero, "zero", ())))
        return clamped(moved, "uint8")

    nest.map("y", y, body)


def _unnamed(low: Lowering) -> list[Var]:
    """Return temporaries for the results that the node does not name."""
    missing = [("scale", "float32"), ("zero", "uint8")][len(low.results) - 1 :]
    return [low.temporary(hint, (), dtype) for hint, dtype in missing]


def _dynamic_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x = args[0]
    least, most = np.float32(min(0, x.min(initial=0))), np.float32(max(0, x.max(initial=0)))
    scale = np.float32((most - least) or 1) / np.float32(255)
    zero = limited(np.rint(-least / scale), "uint8")
    y = limited(np.rint(x / scale) + np.float32(zero), "uint8")
    return y, np.asarray(scale), np.asarray(zero)


# Alignment of zero points and scales with the elements that they belong to.


def check_along(site: Site, i: int, full: Shape, axis: int | None, name: str) -> None:
    """Raise ShapeError unless an argument is one number or has one for each position of an axis.

    The axis is one of `full`; other forms are left to `along`.
    """
    shape = site.shape(i) if site.has(i) else ()
    if len(shape) != 1 or shape[0] == 1 or axis is None or not -len(full) <= axis < len(full):
        return
    (count,), places = shape, full[axis]
    if count != places and not isinstance(count, int):
        site.unsupported(f"{name} has {count} elements, which may or may not be 1")
    if not agree(places, count, site.env):
        site.fail(f"{name} has {count} elements for {places} places")


def along(
    nest: Nest, site: Site, i: int, name: str, axes: Sequence[Axis], axis: int | None
) -> Expr:
    """Load an argument that is one number, one for each position of an axis, or of equal rank."""
    value = site.arg(i)
    shape = shape_of(value)
    if len(shape) == len(axes) and len(shape) > 1:
        return nest.along(value, name, axes)
    if all(n == 1 for n in shape):
        return nest.load(value, name, (Affine(),) * len(shape))
    if len(shape) != 1 or axis is None:
        site.unsupported(f"{name} of shape {list(shape)} has no kernel rule")
    if axes[axis].extent != shape[0]:
        site.fail(f"{name} has {shape[0]} elements for {axes[axis].extent} places")
    return nest.load(value, name, (var(axes[axis].name),))


def aligned(values: Array | None, rank: int, axis: int) -> Array:
    """Return an array that broadcasts along an axis of the operand."""
    if values is None:
        return np.zeros((), np.int32)
    values = as_computed(values)
    if values.ndim == 1 and values.size > 1:
        return _column(values, rank, axis)
    return values if values.ndim == rank else values.reshape(())


RECORDS = (
    OperatorRecord(
        "QuantizeLinear",
        "elementwise",
        _quantize_types,
        _quantize_reference,
        _lower_quantize,
        first=10,
    ),
    OperatorRecord(
        "DequantizeLinear",
        "elementwise",
        _dequantize_types,
        _dequantize_reference,
        _lower_dequantize,
        first=10,
    ),
    OperatorRecord(
        "DynamicQuantizeLinear",
        "reduction",
        _dynamic_types,
        _dynamic_reference,
        _lower_dynamic,
        first=11,
    ),
)
