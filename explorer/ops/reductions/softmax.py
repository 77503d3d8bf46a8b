"""Softmax and its logarithm: the maximum, the exponentials, their sum, and the quotient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.ir.kernel import Axis, Const
from explorer.ir.types import Tensor
from explorer.ops.arithmetic.elementwise import call
from explorer.ops.lowering import Lowering, at, letters
from explorer.ops.record import OperatorRecord
from explorer.ops.site import Site


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


RECORDS = (
    OperatorRecord("Softmax", "reduction", _types, _softmax, _lower_softmax),
    OperatorRecord("LogSoftmax", "reduction", _types, _log_softmax, _lower_log_softmax),
)
