"""ATen's reductions, and its cumulative operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from explorer.frontends.python import arrays as np
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.control_flow import scan
from explorer.frontends.python.tracing.dims import python_dim
from explorer.frontends.python.tracing.emit import converted, emit, traced
from explorer.frontends.python.tracing.frames import attributed_to, current_source
from explorer.frontends.torch.call import OperatorCall
from explorer.frontends.torch.elementwise import cast, is_floats, is_inf, is_nan, like
from explorer.frontends.torch.shaping import axis_of, slice_dim
from explorer.ir.dims import product
from explorer.ir.dtypes import ml_dtypes

Handler = Callable[..., Any]
NARROW = ("int8", "int16", "uint8", "uint16", "bool")


def axes_of(dims: Any, rank: int) -> tuple[int, ...]:
    """Return the reduced dims; None and an empty list mean all."""
    if dims is None or (not isinstance(dims, int) and not len(dims)):
        return tuple(range(rank))
    listed = [dims] if isinstance(dims, int) else dims
    return tuple(sorted({axis_of(d, rank) for d in listed})) if rank else ()


def reduce_dims(op: str, x: TracedArray, dims: Any = None, keep: bool = False) -> TracedArray:
    """Emit a reduction over dims."""
    axes = axes_of(dims, x.ndim)
    if not axes:
        return x
    return emit(op, x, axes=axes, keepdims=int(keep), noop_with_empty_axes=0)


def _sum(call: OperatorCall, x: Any, dims: Any = None, keep: bool = False) -> Any:
    return reduce_dims("ReduceSum", call.cast(x), dims, keep)


def _prod(call: OperatorCall, x: Any, dims: Any = None, keep: bool = False) -> Any:
    return reduce_dims("ReduceProd", call.cast(x), dims, keep)


def _mean(call: OperatorCall, x: Any, dims: Any = None, keep: bool = False) -> Any:
    return reduce_dims("ReduceMean", call.cast(x), dims, keep)


def _nansum(call: OperatorCall, x: Any, dims: Any = None, keep: bool = False) -> Any:
    array = call.cast(x)
    return reduce_dims("ReduceSum", np.where(is_nan(array), like(0, array), array), dims, keep)


def extreme(op: str, x: TracedArray, dims: Any = None, keep: bool = False) -> TracedArray:
    """Return the maximum or minimum; integers of less than 32 bits are widened."""
    wide = converted(x, "int32") if x.dtype.name in NARROW else x
    return converted(reduce_dims(op, wide, dims, keep), x.dtype)


def _extreme(op: str) -> Handler:
    def handler(call: OperatorCall, x: Any, dims: Any = None, keep: bool = False) -> Any:
        return extreme(op, traced(x), dims, keep)

    return handler


def _extreme_dim(op: str, place: str) -> Handler:
    def handler(call: OperatorCall, x: Any, dim: int, keep: bool = False) -> Any:
        array = traced(x)
        values = extreme(op, array, dim, keep)
        places = _arg_extreme(place, array, dim, keep) if 1 in call.read else None
        return [values, places]

    return handler


def _arg_extreme(op: str, x: TracedArray, dim: int | None, keep: bool) -> TracedArray:
    wide = converted(x, "int32") if x.dtype.name in NARROW else x
    if not wide.ndim:
        return traced(np.zeros_like(converted(wide, "int64")))
    if dim is not None:
        return emit(op, wide, axis=axis_of(dim, wide.ndim), keepdims=int(keep))
    index = emit(op, np.reshape(wide, (-1,)), axis=0, keepdims=0)
    return np.reshape(index, (1,) * wide.ndim) if keep else index


def _argument(op: str) -> Handler:
    def handler(call: OperatorCall, x: Any, dim: int | None = None, keep: bool = False) -> Any:
        return _arg_extreme(op, traced(x), dim, keep)

    return handler


def _aminmax(call: OperatorCall, x: Any, dim: int | None = None, keep: bool = False) -> Any:
    array = traced(x)
    return [extreme(op, array, dim, keep) for op in ("ReduceMin", "ReduceMax")]


def _any(call: OperatorCall, x: Any, dims: Any = None, keep: bool = False) -> Any:
    truths = converted(traced(x), "bool")
    count = reduce_dims("ReduceSum", converted(truths, "int64"), dims, keep)
    return (
        converted(count, call.dtype)
        if call.dtype == "bool"
        else cast(converted(count, "bool"), call.dtype)
    )


def _all(call: OperatorCall, x: Any, dims: Any = None, keep: bool = False) -> Any:
    missing = np.logical_not(converted(traced(x), "bool"))
    count = reduce_dims("ReduceSum", converted(missing, "int64"), dims, keep)
    return cast(np.logical_not(converted(count, "bool")), call.dtype)


def _count_nonzero(call: OperatorCall, x: Any, dims: Any = None) -> Any:
    return reduce_dims("ReduceSum", converted(converted(traced(x), "bool"), "int64"), dims)


def count_of(x: TracedArray, dims: Any) -> Any:
    """Return the number of elements that each result reduces."""
    return python_dim(product(x.type.dims[d] for d in axes_of(dims, x.ndim)))


def moments(x: TracedArray, dims: Any, correction: Any) -> tuple[TracedArray, TracedArray]:
    """Return variance and mean; the reduced dims are 1."""
    mean = reduce_dims("ReduceMean", x, dims, keep=True)
    off = np.subtract(x, mean)
    total = reduce_dims("ReduceSum", np.multiply(off, off), dims, keep=True)
    count = count_of(x, dims)
    is_static = isinstance(count, int) and isinstance(correction, (int, float))
    least = max(count - correction, 0) if is_static else np.maximum(count - correction, 0)
    return np.divide(total, converted(least, x.dtype)), mean


def _drop_dims(x: TracedArray, dims: Any, keep: bool) -> TracedArray:
    axes = axes_of(dims, x.ndim)
    return x if keep or not axes else np.squeeze(x, axes)


def _var(
    call: OperatorCall, x: Any, dims: Any = None, correction: Any = 1, keep: bool = False
) -> Any:
    array = call.cast(x)
    by = 1 if correction is None else correction
    return _drop_dims(moments(array, dims, by)[0], dims, keep)


def _std(
    call: OperatorCall, x: Any, dims: Any = None, correction: Any = 1, keep: bool = False
) -> Any:
    return np.sqrt(_var(call, x, dims, correction, keep))


def _var_mean(call: OperatorCall, x: Any, dims: Any = None, by: Any = 1, keep: bool = False) -> Any:
    results = moments(call.cast(x), dims, 1 if by is None else by)
    return [_drop_dims(v, dims, keep) for v in results]


def _std_mean(call: OperatorCall, x: Any, dims: Any = None, by: Any = 1, keep: bool = False) -> Any:
    variance, mean = moments(call.cast(x), dims, 1 if by is None else by)
    return [_drop_dims(v, dims, keep) for v in (np.sqrt(variance), mean)]


def _logsumexp(call: OperatorCall, x: Any, dims: Any, keep: bool = False) -> Any:
    return reduce_dims("ReduceLogSumExp", call.cast(x), dims, keep)


def norm(x: TracedArray, order: float, dims: Any, keep: bool) -> TracedArray:
    """Return a vector norm."""
    size = np.abs(x)
    match float(order):
        case 2.0:
            return reduce_dims("ReduceL2", x, dims, keep) if axes_of(dims, x.ndim) else size
        case 1.0:
            return reduce_dims("ReduceSum", size, dims, keep)
        case math.inf:
            return extreme("ReduceMax", size, dims, keep)
        case v if v == -math.inf:
            return extreme("ReduceMin", size, dims, keep)
        case 0.0:
            is_nonzero = np.not_equal(x, like(0, x))
            return reduce_dims("ReduceSum", converted(is_nonzero, x.dtype), dims, keep)
    power = _power(size, float(order), 0.0 if order > 0 else math.inf)
    return _power(reduce_dims("ReduceSum", power, dims, keep), 1 / float(order), 0.0)


def _power(x: TracedArray, exponent: float, at_zero: float) -> TracedArray:
    """Raise to a power with gradient 0 at 0, as in PyTorch's norms."""
    zero = np.equal(x, like(0, x))
    raised = emit("Pow", np.where(zero, like(1, x), x), like(exponent, x))
    result: TracedArray = np.where(zero, like(at_zero, x), raised)
    return result


def _vector_norm(
    call: OperatorCall, x: Any, order: Any = 2, dims: Any = None, keep: bool = False
) -> Any:
    return norm(call.cast(x), order, dims, keep)


def _norm(call: OperatorCall, x: Any, order: Any = 2, dims: Any = None, keep: bool = False) -> Any:
    return norm(call.cast(x), 2 if order is None else order, dims, keep)


# Along a dim.


def _cumsum(call: OperatorCall, x: Any, dim: int) -> Any:
    array = call.cast(x)
    return emit("CumSum", array, axis=axis_of(dim, array.ndim)) if array.ndim else array


def _diff(
    call: OperatorCall, x: Any, n: int = 1, dim: int = -1, before: Any = None, after: Any = None
) -> Any:
    array = traced(x)
    at = axis_of(dim, array.ndim)
    parts = [p for p in (before, array, after) if p is not None]
    joined = np.concatenate(parts, at) if len(parts) > 1 else array
    return np.diff(joined, n, at)


Step = Callable[[Sequence[TracedArray], Sequence[TracedArray]], Sequence[TracedArray]]


def inclusive_scan(
    call: OperatorCall, values: Sequence[TracedArray], dim: int, first: Sequence[Any], step: Step
) -> Sequence[TracedArray]:
    """Return an inclusive scan of an associative step, with neutral elements `first`.

    A constant extent is scanned by doubling (Hillis and Steele 1986), a symbolic one row by row.
    """
    current = list(values)
    if not current[0].ndim:
        return current
    at = axis_of(dim, current[0].ndim)
    extent = current[0].shape[at]
    if not isinstance(extent, int):
        return _scan_rows(current, at, first, step)
    reach = 1
    while reach < extent:
        before = []
        for value, neutral in zip(current, first, strict=True):
            shape = tuple(reach if d == at else n for d, n in enumerate(value.shape))
            lead = np.broadcast_to(converted(neutral, value.dtype), shape)
            before.append(np.concatenate([lead, slice_dim(value, at, 0, extent - reach)], at))
        current = list(step(before, current))
        reach *= 2
    return current


def _scan_rows(
    values: Sequence[TracedArray], at: int, first: Sequence[Any], step: Step
) -> Sequence[TracedArray]:
    rows = tuple(np.moveaxis(v, at, 0) for v in values)
    start = tuple(
        np.broadcast_to(converted(neutral, row.dtype), row.shape[1:])
        for neutral, row in zip(first, rows, strict=True)
    )

    source = current_source()

    def body(before: Any, row: Any) -> Any:
        with attributed_to(source):
            combined = tuple(step(before, row))
        return combined, combined

    _, stacked = scan(body, start, rows)
    return [np.moveaxis(v, 0, at) for v in stacked]


def _cumprod(call: OperatorCall, x: Any, dim: int) -> Any:
    def step(a: Any, b: Any) -> Any:
        return [np.multiply(a[0], b[0])]

    return inclusive_scan(call, [call.cast(x)], dim, [1], step)[0]


def _logcumsumexp(call: OperatorCall, x: Any, dim: int) -> Any:
    def step(a: Any, b: Any) -> Any:
        x, y = a[0], b[0]
        same = np.logical_and(np.equal(x, y), is_inf(x))
        off = np.negative(np.abs(np.subtract(x, np.where(same, like(0, y), y))))
        return [np.where(same, x, np.add(np.maximum(x, y), np.log1p(np.exp(off))))]

    return inclusive_scan(call, [call.cast(x)], dim, [-math.inf], step)[0]


def _cumulative_extreme(greatest: bool) -> Handler:
    def handler(call: OperatorCall, x: Any, dim: int) -> Any:
        array = traced(x)
        wide = converted(array, "int32") if array.dtype.name in NARROW else array
        places = _dim_indices(call, wide, dim)

        def step(a: Any, b: Any) -> Any:
            compare = np.greater_equal if greatest else np.less_equal
            later = compare(b[0], a[0])
            if is_floats(wide):
                later = np.logical_or(
                    is_nan(b[0]), np.logical_and(later, np.logical_not(is_nan(a[0])))
                )
            return [np.where(later, b[0], a[0]), np.where(later, b[1], a[1])]

        results = inclusive_scan(
            call, [wide, places], dim, [_neutral_extreme(wide, greatest), 0], step
        )
        return [converted(results[0], array.dtype), results[1]]

    return handler


def _neutral_extreme(x: TracedArray, least: bool) -> Any:
    if is_floats(x):
        return -math.inf if least else math.inf
    limits = ml_dtypes.iinfo(x.dtype)
    return int(limits.min if least else limits.max)


def _dim_indices(call: OperatorCall, x: TracedArray, dim: int) -> TracedArray:
    if not x.ndim:
        return traced(np.zeros_like(converted(x, "int64")))
    at = axis_of(dim, x.ndim)
    row = np.reshape(np.arange(x.shape[at]), (-1, *(1,) * (x.ndim - at - 1)))
    places: TracedArray = np.broadcast_to(row, x.shape)
    return places


def _softmax(op: str) -> Handler:
    def handler(call: OperatorCall, x: Any, dim: int, *_: Any) -> Any:
        array = call.cast(x)
        if not array.ndim:
            return np.reshape(emit(op, np.reshape(array, (1,)), axis=0), ())
        return emit(op, array, axis=axis_of(dim, array.ndim))

    return handler


def _safe_softmax(call: OperatorCall, x: Any, dim: int) -> Any:
    """Return softmax, with 0 where all elements are -infinity."""
    array = call.cast(x)
    has_finite = np.greater(extreme("ReduceMax", array, dim, keep=True), like(-math.inf, array))
    low = like(float(ml_dtypes.finfo(call.dtype).min) / 2, array)
    softmax = emit("Softmax", np.maximum(array, low), axis=axis_of(dim, array.ndim))
    return np.where(has_finite, softmax, like(0, softmax))


REDUCTIONS: Mapping[str, Handler] = {
    "sum": _sum,
    "prod": _prod,
    "mean": _mean,
    "nansum": _nansum,
    "amax": _extreme("ReduceMax"),
    "amin": _extreme("ReduceMin"),
    "max.default": _extreme("ReduceMax"),
    "min.default": _extreme("ReduceMin"),
    "max.dim": _extreme_dim("ReduceMax", "ArgMax"),
    "min.dim": _extreme_dim("ReduceMin", "ArgMin"),
    "argmax": _argument("ArgMax"),
    "argmin": _argument("ArgMin"),
    "aminmax": _aminmax,
    "any": _any,
    "all": _all,
    "count_nonzero": _count_nonzero,
    "var.correction": _var,
    "std.correction": _std,
    "var_mean.correction": _var_mean,
    "std_mean.correction": _std_mean,
    "logsumexp": _logsumexp,
    "linalg_vector_norm": _vector_norm,
    "norm.ScalarOpt_dim": _norm,
    "norm.Scalar": _norm,
    "cumsum": _cumsum,
    "diff": _diff,
    "cumprod": _cumprod,
    "logcumsumexp": _logcumsumexp,
    "cummax": _cumulative_extreme(greatest=True),
    "cummin": _cumulative_extreme(greatest=False),
    "softmax.int": _softmax("Softmax"),
    "_softmax": _softmax("Softmax"),
    "log_softmax.int": _softmax("LogSoftmax"),
    "_log_softmax": _softmax("LogSoftmax"),
    "_safe_softmax": _safe_softmax,
}
