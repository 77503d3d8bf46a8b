"""What neural networks are made of and NumPy has no name for; eagerly, what the operator's record
says in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from explorer.errors import DtypeError
from explorer.frontends.arrays.axes import axes_of, axis_of
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.emit import emit
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.operation import operation
from explorer.frontends.tracing.promote import common_dtype, converted, traced
from explorer.ir.dtypes import is_float
from explorer.ops import RECORDS


def _reference(op: str, *args: Any, **attrs: Any) -> Any:
    """The operator's record in NumPy."""
    with numpy.errstate(all="ignore"):
        return RECORDS[op].reference(attrs, [None if a is None else numpy.asarray(a) for a in args])


def _floats(*values: Any) -> list[TracedArray | None]:
    """Values of one dtype, which must be of floats."""
    dtype = common_dtype([v for v in values if v is not None])
    if not is_float(str(dtype)):
        raise DtypeError(f"{calling_line()}: floats are wanted, and these are {dtype}")
    return [None if v is None else converted(v, dtype) for v in values]


def _unary(name: str, op: str, what: str) -> Callable[[Any], Any]:
    def record(x: Any) -> Any:
        return emit(op, *_floats(x))

    record.__name__, record.__doc__ = name, what
    return operation(lambda x: _reference(op, x))(record)


relu = _unary("relu", "Relu", "x where it is positive, else 0.")
sigmoid = _unary("sigmoid", "Sigmoid", "1 / (1 + exp(-x)).")
silu = _unary("silu", "Swish", "x sigmoid(x), also called swish.")
softplus = _unary("softplus", "Softplus", "log(1 + exp x).")


@operation(lambda x, approximate="none": _reference("Gelu", x, approximate=approximate))
def gelu(x: Any, approximate: str = "none") -> Any:
    """x times the normal distribution at x; with "tanh" as a product of tanh."""
    return emit("Gelu", *_floats(x), approximate=approximate)


@operation(numpy.asarray)
def stop_gradient(x: Any) -> Any:
    """x itself, as a value that no gradient goes through."""
    return emit("StopGradient", traced(x))


@operation(lambda x, axis=-1: _reference("Softmax", x, axis=axis))
def softmax(x: Any, axis: int = -1) -> Any:
    """exp x over its sum along an axis."""
    return emit("Softmax", *_floats(x), axis=axis_of(axis, traced(x).ndim))


@operation(lambda x, axis=-1: _reference("LogSoftmax", x, axis=axis))
def log_softmax(x: Any, axis: int = -1) -> Any:
    """The logarithm of softmax."""
    return emit("LogSoftmax", *_floats(x), axis=axis_of(axis, traced(x).ndim))


def _along(axis: Any, rank: int, keepdims: bool) -> dict[str, Any]:
    """Attributes of a reduction; of no axes it is none, where ONNX means all of them."""
    axes = axes_of(axis, rank)
    return {"axes": axes, "keepdims": int(keepdims), "noop_with_empty_axes": int(not axes)}


def _log_sum_exp(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    given = numpy.asarray(x)
    return _reference("ReduceLogSumExp", given, **_along(axis, given.ndim, keepdims))


@operation(_log_sum_exp)
def logsumexp(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The logarithm of the sum of exp x along axes, without overflow."""
    return emit("ReduceLogSumExp", *_floats(x), **_along(axis, traced(x).ndim, keepdims))


def _eager_norm(op: str) -> Callable[..., Any]:
    def run(x: Any, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5) -> Any:
        args = (x, scale) if bias is None else (x, scale, bias)
        found = _reference(op, *args, axis=axis, epsilon=epsilon)
        return found[0] if isinstance(found, tuple) else found

    return run


@operation(_eager_norm("LayerNormalization"))
def layer_norm(
    x: Any, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5
) -> Any:
    """x less its mean over its deviation, from an axis on; times scale, plus bias."""
    at = axis_of(axis, traced(x).ndim)
    return emit("LayerNormalization", *_floats(x, scale, bias), axis=at, epsilon=epsilon)


@operation(_eager_norm("RMSNormalization"))
def rms_norm(x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5) -> Any:
    """x over the root of its mean square, from an axis on; times scale."""
    at = axis_of(axis, traced(x).ndim)
    return emit("RMSNormalization", *_floats(x, scale), axis=at, epsilon=epsilon)


def _window(strides: Any, padding: Any, dilations: Any, rank: int) -> dict[str, Any]:
    """ONNX's attributes of a window; numbers count for each dim, paddings for both sides."""

    def each(value: Any) -> tuple[int, ...]:
        return (int(value),) * rank if isinstance(value, int) else tuple(value)

    pads = each(padding)
    pads = pads * 2 if len(pads) == rank else pads
    return {"strides": each(strides), "pads": pads, "dilations": each(dilations)}


def _eager_conv(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    strides: Any = 1,
    padding: Any = 0,
    dilations: Any = 1,
    groups: int = 1,
) -> Any:
    attrs = _window(strides, padding, dilations, numpy.ndim(x) - 2)
    shape = numpy.shape(weight)[2:]
    args = (x, weight) if bias is None else (x, weight, bias)
    return _reference("Conv", *args, group=groups, kernel_shape=shape, **attrs)


@operation(_eager_conv)
def conv(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    groups: int = 1,
) -> Any:
    """A convolution: x is (batch, channels, …), the weight (outputs, channels / groups, …)."""
    rank = traced(x).ndim - 2
    shape = traced(weight).shape[2:]
    attrs = _window(strides, padding, dilations, rank)
    return emit("Conv", *_floats(x, weight, bias), group=groups, kernel_shape=shape, **attrs)


def _eager_max_pool(x: Any, size: Any, *, strides: Any = 1, padding: Any = 0) -> Any:
    rank = numpy.ndim(x) - 2
    found, _ = _reference("MaxPool", x, **_pool(size, strides, padding, rank))
    return found


def _pool(size: Any, strides: Any, padding: Any, rank: int) -> dict[str, Any]:
    shape = (size,) * rank if isinstance(size, int) else tuple(size)
    return {"kernel_shape": shape, **_window(strides, padding, 1, rank)}


@operation(_eager_max_pool)
def max_pool(
    x: Any,
    size: int | Sequence[int],
    *,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
) -> Any:
    """The largest of each window of x, which is (batch, channels, …); what pads it is less."""
    return emit("MaxPool", *_floats(x), **_pool(size, strides, padding, traced(x).ndim - 2))


def _eager_one_hot(x: Any, depth: int, dtype: Any = "float32") -> Any:
    places = numpy.asarray(x)[..., None]
    places = numpy.where(places < 0, places + depth, places)
    return (places == numpy.arange(depth)).astype(dtype)


@operation(_eager_one_hot)
def one_hot(x: Any, depth: int, dtype: Any = "float32") -> Any:
    """1 at the place that x names along a new last dim, else 0."""
    values = traced(numpy.array([0, 1], dtype))
    return emit("OneHot", converted(x, "int64"), None, values, depth=depth, axis=-1)
