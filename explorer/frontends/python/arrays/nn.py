"""Neural network functions that NumPy lacks; eager calls run the operator's NumPy reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from explorer.errors import DtypeError
from explorer.frontends.python.arrays.shaping import axes_of, axis_of
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.emit import common_dtype, converted, emit, traced
from explorer.frontends.python.tracing.frames import calling_line
from explorer.frontends.python.tracing.operation import operation
from explorer.ir.dtypes import is_float
from explorer.ops import RECORDS


def _run_reference(op: str, *args: Any, **attrs: Any) -> Any:
    """Run an operator's NumPy reference."""
    with numpy.errstate(all="ignore"):
        return RECORDS[op].reference(attrs, [None if a is None else numpy.asarray(a) for a in args])


def _as_floats(*values: Any) -> list[TracedArray | None]:
    """Convert the values to their common dtype; raise DtypeError unless it is a float."""
    dtype = common_dtype([v for v in values if v is not None])
    if not is_float(str(dtype)):
        raise DtypeError(f"{calling_line()}: expected floats, found {dtype}")
    return [None if v is None else converted(v, dtype) for v in values]


def _unary(name: str, op: str, what: str) -> Callable[[Any], Any]:
    def record(x: Any) -> Any:
        return emit(op, *_as_floats(x))

    record.__name__, record.__doc__ = name, what
    return operation(lambda x: _run_reference(op, x))(record)


relu = _unary("relu", "Relu", "x where it is positive, else 0.")
sigmoid = _unary("sigmoid", "Sigmoid", "1 / (1 + exp(-x)).")
silu = _unary("silu", "Swish", "x sigmoid(x), also called swish.")
softplus = _unary("softplus", "Softplus", "log(1 + exp x).")


@operation(lambda x, approximate="none": _run_reference("Gelu", x, approximate=approximate))
def gelu(x: Any, approximate: str = "none") -> Any:
    """Return x times the normal distribution function of x; with "tanh", its tanh approximation."""
    return emit("Gelu", *_as_floats(x), approximate=approximate)


@operation(numpy.asarray)
def stop_gradient(x: Any) -> Any:
    """Return x; no gradient flows through it."""
    return emit("StopGradient", traced(x))


@operation(lambda x, axis=-1: _run_reference("Softmax", x, axis=axis))
def softmax(x: Any, axis: int = -1) -> Any:
    """Return exp x over its sum along an axis."""
    return emit("Softmax", *_as_floats(x), axis=axis_of(axis, traced(x).ndim))


@operation(lambda x, axis=-1: _run_reference("LogSoftmax", x, axis=axis))
def log_softmax(x: Any, axis: int = -1) -> Any:
    """Return the logarithm of softmax."""
    return emit("LogSoftmax", *_as_floats(x), axis=axis_of(axis, traced(x).ndim))


def _reduction_attributes(axis: Any, rank: int, keepdims: bool) -> dict[str, Any]:
    """Return the attributes of a reduction; over no axes it is the identity, unlike in ONNX."""
    axes = axes_of(axis, rank)
    return {"axes": axes, "keepdims": int(keepdims), "noop_with_empty_axes": int(not axes)}


def _log_sum_exp(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    array = numpy.asarray(x)
    return _run_reference(
        "ReduceLogSumExp", array, **_reduction_attributes(axis, array.ndim, keepdims)
    )


@operation(_log_sum_exp)
def logsumexp(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Return the logarithm of the sum of exp x along axes, without overflow."""
    return emit(
        "ReduceLogSumExp", *_as_floats(x), **_reduction_attributes(axis, traced(x).ndim, keepdims)
    )


def _eager_norm(op: str) -> Callable[..., Any]:
    def run(x: Any, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5) -> Any:
        args = (x, scale) if bias is None else (x, scale, bias)
        outputs = _run_reference(op, *args, axis=axis, epsilon=epsilon)
        return outputs[0] if isinstance(outputs, tuple) else outputs

    return run


@operation(_eager_norm("LayerNormalization"))
def layer_norm(
    x: Any, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5
) -> Any:
    """Return (x - mean) / deviation over the dims from an axis on, times scale, plus bias."""
    at = axis_of(axis, traced(x).ndim)
    return emit("LayerNormalization", *_as_floats(x, scale, bias), axis=at, epsilon=epsilon)


@operation(_eager_norm("RMSNormalization"))
def rms_norm(x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5) -> Any:
    """Return x over its root mean square over the dims from an axis on, times scale."""
    at = axis_of(axis, traced(x).ndim)
    return emit("RMSNormalization", *_as_floats(x, scale), axis=at, epsilon=epsilon)


def _window_attributes(strides: Any, padding: Any, dilations: Any, rank: int) -> dict[str, Any]:
    """Return ONNX's window attributes; a number applies to every dim, a padding to both ends."""

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
    attrs = _window_attributes(strides, padding, dilations, numpy.ndim(x) - 2)
    shape = numpy.shape(weight)[2:]
    args = (x, weight) if bias is None else (x, weight, bias)
    return _run_reference("Conv", *args, group=groups, kernel_shape=shape, **attrs)


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
    """Convolve x (batch, channels, …) with a weight (outputs, channels / groups, …)."""
    rank = traced(x).ndim - 2
    shape = traced(weight).shape[2:]
    attrs = _window_attributes(strides, padding, dilations, rank)
    return emit("Conv", *_as_floats(x, weight, bias), group=groups, kernel_shape=shape, **attrs)


def _eager_max_pool(x: Any, size: Any, *, strides: Any = 1, padding: Any = 0) -> Any:
    rank = numpy.ndim(x) - 2
    pooled, _ = _run_reference("MaxPool", x, **_pool_attributes(size, strides, padding, rank))
    return pooled


def _pool_attributes(size: Any, strides: Any, padding: Any, rank: int) -> dict[str, Any]:
    shape = (size,) * rank if isinstance(size, int) else tuple(size)
    return {"kernel_shape": shape, **_window_attributes(strides, padding, 1, rank)}


@operation(_eager_max_pool)
def max_pool(
    x: Any,
    size: int | Sequence[int],
    *,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
) -> Any:
    """Return the maximum of each window of x (batch, channels, …); padding never wins."""
    return emit(
        "MaxPool", *_as_floats(x), **_pool_attributes(size, strides, padding, traced(x).ndim - 2)
    )


def _eager_one_hot(x: Any, depth: int, dtype: Any = "float32") -> Any:
    places = numpy.asarray(x)[..., None]
    places = numpy.where(places < 0, places + depth, places)
    return (places == numpy.arange(depth)).astype(dtype)


@operation(_eager_one_hot)
def one_hot(x: Any, depth: int, dtype: Any = "float32") -> Any:
    """Return 1 at the index that x holds along a new last dim, else 0."""
    values = traced(numpy.array([0, 1], dtype))
    return emit("OneHot", converted(x, "int64"), None, values, depth=depth, axis=-1)
