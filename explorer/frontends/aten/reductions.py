"""ATen's operators that take dims away, and those that go along one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from explorer.frontends import arrays as np
from explorer.frontends.aten.call import Call
from explorer.frontends.aten.elementwise import cast, is_floats, is_inf, is_nan, like
from explorer.frontends.aten.shaping import axis_of, cut
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.scans import scan
from explorer.frontends.tracing.dims import python_dim
from explorer.frontends.tracing.emit import emit
from explorer.frontends.tracing.frames import current_source, under
from explorer.frontends.tracing.promote import converted, traced
from explorer.ir.dtypes import ml_dtypes
from explorer.ir.shapes.dims import product

Handler = Callable[..., Any]
NARROW = ("int8", "int16", "uint8", "uint16", "bool")


def axes_of(dims: Any, rank: int) -> tuple[int, ...]:
    """The dims that are reduced: of None, and of none, all of them."""
    if dims is None or (not isinstance(dims, int) and not len(dims)):
        return tuple(range(rank))
    given = [dims] if isinstance(dims, int) else dims
    return tuple(sorted({axis_of(d, rank) for d in given})) if rank else ()


def reduced(op: str, x: TracedArray, dims: Any = None, keep: bool = False) -> TracedArray:
    """A reduction of the language over dims."""
    axes = axes_of(dims, x.ndim)
    if not axes:
        return x
    return emit(op, x, axes=axes, keepdims=int(keep), noop_with_empty_axes=0)


def _sum(call: Call, x: Any, dims: Any = None, keep: bool = False) -> Any:
    return reduced("ReduceSum", call.cast(x), dims, keep)


def _prod(call: Call, x: Any, dims: Any = None, keep: bool = False) -> Any:
    return reduced("ReduceProd", call.cast(x), dims, keep)


def _mean(call: Call, x: Any, dims: Any = None, keep: bool = False) -> Any:
    return reduced("ReduceMean", call.cast(x), dims, keep)


def _nansum(call: Call, x: Any, dims: Any = None, keep: bool = False) -> Any:
    given = call.cast(x)
    return reduced("ReduceSum", np.where(is_nan(given), like(0, given), given), dims, keep)


def extreme(op: str, x: TracedArray, dims: Any = None, keep: bool = False) -> TracedArray:
    """The greatest or the least; the language compares integers of 32 bits and more."""
    wide = converted(x, "int32") if x.dtype.name in NARROW else x
    return converted(reduced(op, wide, dims, keep), x.dtype)


def _extreme(op: str) -> Handler:
    def handler(call: Call, x: Any, dims: Any = None, keep: bool = False) -> Any:
        return extreme(op, traced(x), dims, keep)

    return handler


def _extreme_dim(op: str, place: str) -> Handler:
    def handler(call: Call, x: Any, dim: int, keep: bool = False) -> Any:
        given = traced(x)
        values = extreme(op, given, dim, keep)
        places = _place(place, given, dim, keep) if 1 in call.read else None
        return [values, places]

    return handler


def _place(op: str, x: TracedArray, dim: int | None, keep: bool) -> TracedArray:
    wide = converted(x, "int32") if x.dtype.name in NARROW else x
    if not wide.ndim:
        return traced(np.zeros_like(converted(wide, "int64")))
    if dim is not None:
        return emit(op, wide, axis=axis_of(dim, wide.ndim), keepdims=int(keep))
    found = emit(op, np.reshape(wide, (-1,)), axis=0, keepdims=0)
    return np.reshape(found, (1,) * wide.ndim) if keep else found


def _argument(op: str) -> Handler:
    def handler(call: Call, x: Any, dim: int | None = None, keep: bool = False) -> Any:
        return _place(op, traced(x), dim, keep)

    return handler


def _aminmax(call: Call, x: Any, dim: int | None = None, keep: bool = False) -> Any:
    given = traced(x)
    return [extreme(op, given, dim, keep) for op in ("ReduceMin", "ReduceMax")]


def _any(call: Call, x: Any, dims: Any = None, keep: bool = False) -> Any:
    truths = converted(traced(x), "bool")
    found = reduced("ReduceSum", converted(truths, "int64"), dims, keep)
    return (
        converted(found, call.dtype)
        if call.dtype == "bool"
        else cast(converted(found, "bool"), call.dtype)
    )


def _all(call: Call, x: Any, dims: Any = None, keep: bool = False) -> Any:
    missing = np.logical_not(converted(traced(x), "bool"))
    found = reduced("ReduceSum", converted(missing, "int64"), dims, keep)
    return cast(np.logical_not(converted(found, "bool")), call.dtype)


def _count_nonzero(call: Call, x: Any, dims: Any = None) -> Any:
    return reduced("ReduceSum", converted(converted(traced(x), "bool"), "int64"), dims)


def count_of(x: TracedArray, dims: Any) -> Any:
    """How many elements each result of a reduction has."""
    return python_dim(product(x.type.dims[d] for d in axes_of(dims, x.ndim)))


def moments(x: TracedArray, dims: Any, correction: Any) -> tuple[TracedArray, TracedArray]:
    """Variance and mean, with the dims kept as ones."""
    mean = reduced("ReduceMean", x, dims, keep=True)
    off = np.subtract(x, mean)
    total = reduced("ReduceSum", np.multiply(off, off), dims, keep=True)
    count = count_of(x, dims)
    known = isinstance(count, int) and isinstance(correction, (int, float))
    least = max(count - correction, 0) if known else np.maximum(count - correction, 0)
    return np.divide(total, converted(least, x.dtype)), mean


def _without(x: TracedArray, dims: Any, keep: bool) -> TracedArray:
    axes = axes_of(dims, x.ndim)
    return x if keep or not axes else np.squeeze(x, axes)


def _var(call: Call, x: Any, dims: Any = None, correction: Any = 1, keep: bool = False) -> Any:
    given = call.cast(x)
    by = 1 if correction is None else correction
    return _without(moments(given, dims, by)[0], dims, keep)


def _std(call: Call, x: Any, dims: Any = None, correction: Any = 1, keep: bool = False) -> Any:
    return np.sqrt(_var(call, x, dims, correction, keep))


def _var_mean(call: Call, x: Any, dims: Any = None, by: Any = 1, keep: bool = False) -> Any:
    found = moments(call.cast(x), dims, 1 if by is None else by)
    return [_without(v, dims, keep) for v in found]


def _std_mean(call: Call, x: Any, dims: Any = None, by: Any = 1, keep: bool = False) -> Any:
    variance, mean = moments(call.cast(x), dims, 1 if by is None else by)
    return [_without(v, dims, keep) for v in (np.sqrt(variance), mean)]


def _logsumexp(call: Call, x: Any, dims: Any, keep: bool = False) -> Any:
    return reduced("ReduceLogSumExp", call.cast(x), dims, keep)


def norm(x: TracedArray, order: float, dims: Any, keep: bool) -> TracedArray:
    """The norm of vectors."""
    size = np.abs(x)
    match float(order):
        case 2.0:
            return reduced("ReduceL2", x, dims, keep) if axes_of(dims, x.ndim) else size
        case 1.0:
            return reduced("ReduceSum", size, dims, keep)
        case math.inf:
            return extreme("ReduceMax", size, dims, keep)
        case v if v == -math.inf:
            return extreme("ReduceMin", size, dims, keep)
        case 0.0:
            there = np.not_equal(x, like(0, x))
            return reduced("ReduceSum", converted(there, x.dtype), dims, keep)
    power = _power(size, float(order), 0.0 if order > 0 else math.inf)
    return _power(reduced("ReduceSum", power, dims, keep), 1 / float(order), 0.0)


def _power(x: TracedArray, exponent: float, at_zero: float) -> TracedArray:
    """A power that is flat at 0, as PyTorch has the slopes of norms there."""
    zero = np.equal(x, like(0, x))
    found = emit("Pow", np.where(zero, like(1, x), x), like(exponent, x))
    result: TracedArray = np.where(zero, like(at_zero, x), found)
    return result


def _vector_norm(call: Call, x: Any, order: Any = 2, dims: Any = None, keep: bool = False) -> Any:
    return norm(call.cast(x), order, dims, keep)


def _norm(call: Call, x: Any, order: Any = 2, dims: Any = None, keep: bool = False) -> Any:
    return norm(call.cast(x), 2 if order is None else order, dims, keep)


# Along a dim.


def _cumsum(call: Call, x: Any, dim: int) -> Any:
    given = call.cast(x)
    return emit("CumSum", given, axis=axis_of(dim, given.ndim)) if given.ndim else given


def _diff(
    call: Call, x: Any, n: int = 1, dim: int = -1, before: Any = None, after: Any = None
) -> Any:
    given = traced(x)
    at = axis_of(dim, given.ndim)
    parts = [p for p in (before, given, after) if p is not None]
    joined = np.concatenate(parts, at) if len(parts) > 1 else given
    return np.diff(joined, n, at)


Step = Callable[[Sequence[TracedArray], Sequence[TracedArray]], Sequence[TracedArray]]


def running(
    call: Call, values: Sequence[TracedArray], dim: int, first: Sequence[Any], step: Step
) -> Sequence[TracedArray]:
    """Each element combined with all before it, by an associative step: doubling, Hillis and Steele
    1986, and row by row where a run knows how many there are. `first` are its neutral elements.
    """
    given = list(values)
    if not given[0].ndim:
        return given
    at = axis_of(dim, given[0].ndim)
    extent = given[0].shape[at]
    if not isinstance(extent, int):
        return _by_rows(given, at, first, step)
    reach = 1
    while reach < extent:
        before = []
        for value, neutral in zip(given, first, strict=True):
            shape = tuple(reach if d == at else n for d, n in enumerate(value.shape))
            lead = np.broadcast_to(converted(neutral, value.dtype), shape)
            before.append(np.concatenate([lead, cut(value, at, 0, extent - reach)], at))
        given = list(step(before, given))
        reach *= 2
    return given


def _by_rows(
    values: Sequence[TracedArray], at: int, first: Sequence[Any], step: Step
) -> Sequence[TracedArray]:
    rows = tuple(np.moveaxis(v, at, 0) for v in values)
    start = tuple(
        np.broadcast_to(converted(neutral, row.dtype), row.shape[1:])
        for neutral, row in zip(first, rows, strict=True)
    )

    source = current_source()

    def body(before: Any, row: Any) -> Any:
        with under(source):
            found = tuple(step(before, row))
        return found, found

    _, stacked = scan(body, start, rows)
    return [np.moveaxis(v, 0, at) for v in stacked]


def _cumprod(call: Call, x: Any, dim: int) -> Any:
    def step(a: Any, b: Any) -> Any:
        return [np.multiply(a[0], b[0])]

    return running(call, [call.cast(x)], dim, [1], step)[0]


def _logcumsumexp(call: Call, x: Any, dim: int) -> Any:
    def step(a: Any, b: Any) -> Any:
        x, y = a[0], b[0]
        same = np.logical_and(np.equal(x, y), is_inf(x))
        off = np.negative(np.abs(np.subtract(x, np.where(same, like(0, y), y))))
        return [np.where(same, x, np.add(np.maximum(x, y), np.log1p(np.exp(off))))]

    return running(call, [call.cast(x)], dim, [-math.inf], step)[0]


def _cumulative_extreme(greatest: bool) -> Handler:
    def handler(call: Call, x: Any, dim: int) -> Any:
        given = traced(x)
        wide = converted(given, "int32") if given.dtype.name in NARROW else given
        places = _places(call, wide, dim)

        def step(a: Any, b: Any) -> Any:
            compare = np.greater_equal if greatest else np.less_equal
            later = compare(b[0], a[0])
            if is_floats(wide):
                later = np.logical_or(
                    is_nan(b[0]), np.logical_and(later, np.logical_not(is_nan(a[0])))
                )
            return [np.where(later, b[0], a[0]), np.where(later, b[1], a[1])]

        found = running(call, [wide, places], dim, [_limit(wide, greatest), 0], step)
        return [converted(found[0], given.dtype), found[1]]

    return handler


def _limit(x: TracedArray, least: bool) -> Any:
    if is_floats(x):
        return -math.inf if least else math.inf
    limits = ml_dtypes.iinfo(x.dtype)
    return int(limits.min if least else limits.max)


def _places(call: Call, x: TracedArray, dim: int) -> TracedArray:
    if not x.ndim:
        return traced(np.zeros_like(converted(x, "int64")))
    at = axis_of(dim, x.ndim)
    row = np.reshape(np.arange(x.shape[at]), (-1, *(1,) * (x.ndim - at - 1)))
    found: TracedArray = np.broadcast_to(row, x.shape)
    return found


def _softmax(op: str) -> Handler:
    def handler(call: Call, x: Any, dim: int, *_: Any) -> Any:
        given = call.cast(x)
        if not given.ndim:
            return np.reshape(emit(op, np.reshape(given, (1,)), axis=0), ())
        return emit(op, given, axis=axis_of(dim, given.ndim))

    return handler


def _safe_softmax(call: Call, x: Any, dim: int) -> Any:
    """Softmax that is 0 where all elements are endless below."""
    given = call.cast(x)
    seen = np.greater(extreme("ReduceMax", given, dim, keep=True), like(-math.inf, given))
    low = like(float(ml_dtypes.finfo(call.dtype).min) / 2, given)
    found = emit("Softmax", np.maximum(given, low), axis=axis_of(dim, given.ndim))
    return np.where(seen, found, like(0, found))


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
