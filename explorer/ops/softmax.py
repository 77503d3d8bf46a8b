"""Softmax, its logarithm, and Hardmax: the maximum of each row, and what is computed from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.dtypes import is_float
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read
from explorer.ir.types import Tensor
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, at, letters
from explorer.ops.record import OperatorRecord, Site, same_type


def _types(site: Site) -> tuple[Tensor, ...]:
    site.axis(len(site.shape()), -1)
    return (site.tensor(0),)


def _rows(site: Site) -> tuple[tuple[Axis, ...], tuple[Axis, ...], tuple[Axis, ...]]:
    """Return all axes, the outer ones, and the normalised ones.

    Before opset 13 every axis from `axis` on is normalised.
    """
    axes, first = letters(site.shape()), site.axis(len(site.shape()), -1)
    last = len(axes) if site.integer("flatten") else first + 1
    return axes, axes[:first] + axes[last:], axes[first:last]


def _lower_softmax(low: Lowering) -> None:
    nest, dtype, shape = low.nest("softmax"), low.site.dtype(), low.shape
    axes, outer, over = _rows(low.site)
    rows = tuple(a.extent for a in outer)
    x = at(nest.tensor(low.site.arg(0), "x"), axes)
    nest.compute("top", rows, dtype, outer, x, over, "max")
    nest.compute("e", shape, dtype, axes, call("exp", call("sub", x, at("top", outer))))
    nest.compute("total", rows, dtype, outer, at("e", axes), over, "sum")
    inverse = call("div", Const(1.0, dtype), at("total", outer))
    nest.compute("y", shape, dtype, axes, call("mul", at("e", axes), inverse))
    nest.into(low.result)


def _lower_log_softmax(low: Lowering) -> None:
    nest, dtype, shape = low.nest("log_softmax"), low.site.dtype(), low.shape
    axes, outer, over = _rows(low.site)
    rows = tuple(a.extent for a in outer)
    x = at(nest.tensor(low.site.arg(0), "x"), axes)
    nest.compute("top", rows, dtype, outer, x, over, "max")
    shifted = call("sub", x, at("top", outer))
    nest.compute("total", rows, dtype, outer, call("exp", shifted), over, "sum")
    nest.compute("y", shape, dtype, axes, call("sub", shifted, call("log", at("total", outer))))
    nest.into(low.result)


def _axis(attrs: Mapping[str, Any], x: np.ndarray) -> tuple[int, ...]:
    first = attrs.get("axis", -1) % max(x.ndim, 1)
    return tuple(range(first, x.ndim if attrs.get("flatten") else first + 1))


def _softmax(attrs: Mapping[str, Any], args: Any) -> Any:
    x, axis = args[0], _axis(attrs, args[0])
    if not x.size:
        return x
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _log_softmax(attrs: Mapping[str, Any], args: Any) -> Any:
    x, axis = args[0], _axis(attrs, args[0])
    if not x.size:
        return x
    x = x - x.max(axis=axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=axis, keepdims=True))


# Hardmax: one at the first greatest element.


def _lower_hardmax(low: Lowering) -> None:
    site, nest, dtype = low.site, low.nest("hardmax"), low.site.dtype()
    axes, outer, over = _rows(site)
    rows = tuple(a.extent for a in outer)
    x = Read(nest.tensor(site.arg(0), "x"), tuple(var(a.name) for a in axes))
    top = Read("top", tuple(var(a.name) for a in outer))
    number = IndexValue(_number(over))
    nest.compute("top", rows, dtype, outer, x, over, "max")
    far = Const((1 << 62), "int64")
    first: Expr = call("eq", x, top)
    if is_float(dtype):  # NaN is the largest, and equals no element
        first = call("or", first, call("isnan", x))
    place = call("where", first, number, far)
    nest.compute("place", rows, "int64", outer, place, over, "min")
    hit = call("eq", number, Read("place", tuple(var(a.name) for a in outer)))
    y = call("where", hit, Const(1, dtype), Const(0, dtype))
    nest.compute("y", low.shape, dtype, axes, y)
    nest.into(low.result)


def _number(over: Sequence[Axis]) -> Affine:
    total, inner = Affine(), 1
    for axis in reversed(over):
        total = total + var(axis.name) * inner
        inner = inner * axis.extent
    return total


def _hardmax(attrs: Mapping[str, Any], args: Any) -> Any:
    x = args[0]
    axis = attrs.get("axis", -1) % max(x.ndim, 1)
    if attrs.get("flatten"):
        flat = x.reshape(int(np.prod(x.shape[:axis], dtype=int)), -1)
        return _hardmax({"axis": 1}, [flat]).reshape(x.shape)
    y = np.zeros_like(x)
    if not x.size:
        return y
    np.put_along_axis(y, np.expand_dims(np.argmax(x, axis), axis), 1, axis)
    return y


RECORDS = (
    OperatorRecord("Softmax", "reduction", _types, _softmax, _lower_softmax),
    OperatorRecord("LogSoftmax", "reduction", _types, _log_softmax, _lower_log_softmax),
    OperatorRecord("Hardmax", "reduction", same_type, _hardmax, _lower_hardmax),
)
