"""Functions of NumPy that take some dims away, and sums along one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from explorer.frontends.arrays.axes import axes_of, axis_of, refuse
from explorer.frontends.arrays.choices import equal, maximum, not_equal, where
from explorer.frontends.arrays.elementwise import divide, multiply, sqrt, subtract
from explorer.frontends.arrays.shaping import (
    broadcast_to,
    expand_dims,
    ravel,
    reshape,
    transpose,
)
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.dims import python_dim
from explorer.frontends.tracing.emit import emit
from explorer.frontends.tracing.operation import operation
from explorer.frontends.tracing.promote import converted, traced
from explorer.ir.shapes.dims import product

SMALL = ("int8", "int16", "uint8", "uint16", "bool")  # ONNX's reductions take larger ones


def _reduce(op: str, x: TracedArray, axis: Any, keepdims: bool) -> TracedArray:
    axes = axes_of(axis, x.ndim)
    return emit(op, x, axes=axes, keepdims=int(keepdims), noop_with_empty_axes=int(not axes))


def _total_dtype(of: Callable[..., Any], x: TracedArray, dtype: Any) -> Any:
    """NumPy adds small integers up as large ones."""
    return dtype if dtype is not None else of(numpy.empty(1, x.dtype)).dtype


def _total(op: str, of: Callable[..., Any], x: Any, axis: Any, dtype: Any, keepdims: bool) -> Any:
    """A sum or product in NumPy's dtype, or in another; in int64 where ONNX has none so small."""
    given = traced(x)
    result = numpy.dtype(_total_dtype(of, given, dtype))
    wide = "int64" if result.name in SMALL and result.kind != "b" else result
    return converted(_reduce(op, converted(given, wide), axis, keepdims), result)


@operation(numpy.sum, on_complex="parts")
def sum(x: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """NumPy's `sum`."""
    return _total("ReduceSum", numpy.sum, x, axis, dtype, keepdims)


@operation(numpy.prod)
def prod(x: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """NumPy's `prod`."""
    return _total("ReduceProd", numpy.prod, x, axis, dtype, keepdims)


@operation(numpy.mean, on_complex="parts")
def mean(x: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """NumPy's `mean`; float16 is added up as float32."""
    given = traced(x)
    result = numpy.dtype(dtype or _total_dtype(numpy.mean, given, None))
    wide = "float32" if result == numpy.float16 else result
    return converted(_reduce("ReduceMean", converted(given, wide), axis, keepdims), result)


def _extreme(op: str) -> Callable[..., Any]:
    def record(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        given = traced(x)
        _refuse_nothing(given, axis, op.removeprefix("Reduce").lower())
        wide = converted(given, "int32") if given.dtype.name in SMALL else given
        return converted(_reduce(op, wide, axis, keepdims), given.dtype)

    return record


def _refuse_nothing(x: TracedArray, axis: Any, what: str) -> None:
    """ShapeError where a result is of no elements, as in NumPy."""
    axes = axes_of(axis, x.ndim)
    reduced = [n for a, n in enumerate(x.type.dims) if a in axes]
    kept = [n for a, n in enumerate(x.type.dims) if a not in axes]
    if 0 in reduced and 0 not in kept:
        refuse(f"{what} of no elements has no value")


def _named(name: str, of: Callable[..., Any], record: Callable[..., Any]) -> Callable[..., Any]:
    record.__name__, record.__doc__ = name, f"NumPy's `{name}`."
    return operation(of)(record)


max = amax = _named("max", numpy.max, _extreme("ReduceMax"))
min = amin = _named("min", numpy.min, _extreme("ReduceMin"))


@operation(numpy.any)
def any(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """NumPy's `any`: false of nothing."""
    return converted(_count(x, axis, keepdims), "bool")


@operation(numpy.all)
def all(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """NumPy's `all`: true of nothing."""
    missing = _count(emit("Not", converted(traced(x), "bool")), axis, keepdims)
    return emit("Not", converted(missing, "bool"))


@operation(numpy.count_nonzero)
def count_nonzero(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """NumPy's `count_nonzero`."""
    return _count(x, axis, keepdims)


def _count(x: Any, axis: Any, keepdims: bool) -> TracedArray:
    return _reduce("ReduceSum", converted(converted(traced(x), "bool"), "int64"), axis, keepdims)


@operation(numpy.var)
def var(
    x: Any, axis: Any = None, *, ddof: Any = 0, keepdims: bool = False, correction: Any = None
) -> Any:
    """NumPy's `var`: the mean square of what lies off the mean, over n - ddof."""
    return _variance(traced(x), axis, ddof if correction is None else correction, keepdims)


@operation(numpy.std)
def std(
    x: Any, axis: Any = None, *, ddof: Any = 0, keepdims: bool = False, correction: Any = None
) -> Any:
    """NumPy's `std`: the square root of `var`; flat where all elements are the same."""
    less = ddof if correction is None else correction
    squares = _variance(traced(x), axis, less, keepdims)
    flat = equal(squares, 0)
    return where(flat, squares, sqrt(where(flat, 1, squares)))


def _variance(x: TracedArray, axis: Any, ddof: Any, keepdims: bool) -> Any:
    off = subtract(x, mean(x, axis, keepdims=True))
    if not ddof:
        return mean(multiply(off, off), axis, keepdims=keepdims)
    count = python_dim(product(x.type.dims[a] for a in axes_of(axis, x.ndim)))
    total = sum(multiply(off, off), axis, keepdims=keepdims)
    rest = maximum(count - ddof, 0)
    return divide(total, converted(rest, total.dtype))


@operation(numpy.ptp)
def ptp(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """NumPy's `ptp`: the greatest minus the least."""
    return subtract(max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims))


# Places.


def _place(op: str) -> Callable[..., Any]:
    def record(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        given = traced(x)
        wide = converted(given, "int32") if given.dtype.kind == "b" else given
        if isinstance(axis, (tuple, list)):
            refuse(f"{op.lower()} is along one axis, or all of them, not {axis}")
        _refuse_nothing(given, axis, op.lower())
        if axis is not None:
            return emit(op, wide, axis=axis_of(axis, wide.ndim), keepdims=int(keepdims))
        found = emit(op, ravel(wide), axis=0, keepdims=0)
        return reshape(found, (1,) * wide.ndim) if keepdims else found

    return record


argmax = _named("argmax", numpy.argmax, _place("ArgMax"))
argmin = _named("argmin", numpy.argmin, _place("ArgMin"))


# Along one dim.


@operation(numpy.cumsum, on_complex="parts")
def cumsum(x: Any, axis: Any = None, dtype: Any = None) -> Any:
    """NumPy's `cumsum`; over all elements where no axis is given."""
    given = traced(x)
    wide = converted(given, _total_dtype(numpy.sum, given, dtype))
    flat = ravel(wide) if axis is None else wide
    return emit("CumSum", flat, axis=axis_of(axis or 0, flat.ndim))


@operation(numpy.cumprod)
def cumprod(x: Any, axis: Any = None, dtype: Any = None) -> Any:
    """NumPy's `cumprod`; over all elements where no axis is given."""
    given = traced(x)
    wide = converted(given, _total_dtype(numpy.prod, given, dtype))
    flat = ravel(wide) if axis is None else wide
    return emit("CumProd", flat, axis=axis_of(axis or 0, flat.ndim))


def _cumulative(of: Callable[..., Any], neutral: int, record: Callable[..., Any]) -> Any:
    def record_all(
        x: Any, *, axis: Any = None, dtype: Any = None, include_initial: bool = False
    ) -> Any:
        given = traced(x)
        if axis is None and given.ndim > 1:
            refuse(f"{of.__name__} of several dims needs an axis")
        at = axis_of(axis or 0, given.ndim)
        found = record(given, at, dtype)
        if not include_initial:
            return found
        pads = tuple((int(d == at), 0) for d in range(given.ndim))
        return TracedArray.functions.pad(found, pads, constant_values=neutral)

    return _named(of.__name__, of, record_all)


cumulative_sum = _cumulative(numpy.cumulative_sum, 0, cumsum)
cumulative_prod = _cumulative(numpy.cumulative_prod, 1, cumprod)


@operation(numpy.diff)
def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """NumPy's `diff`: each element minus the one before it."""
    found = traced(x)
    at = axis_of(axis, found.ndim)
    ends = [None if end is None else _end(end, found, at) for end in (prepend, append)]
    if any(end is not None for end in ends):
        row = [part for part in (ends[0], found, ends[1]) if part is not None]
        found = TracedArray.functions.concatenate(row, at)
    lead = (slice(None),) * at
    for _ in range(n):
        differ = not_equal if found.dtype.kind == "b" else subtract
        found = differ(found[(*lead, slice(1, None))], found[(*lead, slice(None, -1))])
    return found


def _end(end: Any, x: TracedArray, axis: int) -> Any:
    """An array that is put before or after another one; a number along all other dims."""
    if traced(end).ndim:
        return end
    dims = tuple(1 if d == axis else python_dim(n) for d, n in enumerate(x.type.dims))
    return broadcast_to(end, dims)


@operation(numpy.average)
def average(x: Any, axis: Any = None, weights: Any = None) -> Any:
    """NumPy's `average`, with weights of the array's shape, or of that of the axes; integers are
    weighed in float64.
    """
    if weights is None:
        return mean(x, axis)
    given, by = traced(x), traced(weights)
    dtype = numpy.result_type(given.dtype, by.dtype)
    if given.dtype.kind in "iub":
        dtype = numpy.result_type(dtype, numpy.float64)
    given, by = converted(given, dtype), converted(by, dtype)
    axes = axes_of(axis, given.ndim)
    if given.ndim != by.ndim:
        if by.ndim != len(axes):
            refuse("the weights of an average have the shape of the array, or that of its axes")
        order = tuple(sorted(range(by.ndim), key=axes.__getitem__))
        rest = tuple(d for d in range(given.ndim) if d not in axes)
        by = broadcast_to(expand_dims(transpose(by, order), rest), given.shape)
    return divide(sum(multiply(given, by), axis), sum(by, axis))
