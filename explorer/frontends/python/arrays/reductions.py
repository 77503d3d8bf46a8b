"""NumPy's reductions, cumulative operations along one dim, and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from explorer.frontends.python.arrays.elementwise import divide, multiply, sqrt, subtract
from explorer.frontends.python.arrays.shaping import (
    axes_of,
    axis_of,
    broadcast_to,
    expand_dims,
    moveaxis,
    ravel,
    refuse,
    reshape,
    transpose,
)
from explorer.frontends.python.arrays.ufuncs import equal, maximum, not_equal, where
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.dims import python_dim
from explorer.frontends.python.tracing.emit import common_dtype, converted, emit, traced
from explorer.frontends.python.tracing.operation import mark_views, operation
from explorer.ir.dims import product

SMALL = ("int8", "int16", "uint8", "uint16", "bool")  # ONNX's reductions lack these


def _reduce(op: str, x: TracedArray, axis: Any, keepdims: bool) -> TracedArray:
    axes = axes_of(axis, x.ndim)
    return emit(op, x, axes=axes, keepdims=int(keepdims), noop_with_empty_axes=int(not axes))


def _total_dtype(of: Callable[..., Any], x: TracedArray, dtype: Any) -> Any:
    """Return the dtype of a sum; NumPy accumulates small integers in large ones."""
    return dtype if dtype is not None else of(numpy.empty(1, x.dtype)).dtype


def _reduce_in_dtype(
    op: str, of: Callable[..., Any], x: Any, axis: Any, dtype: Any, keepdims: bool
) -> Any:
    """Reduce in NumPy's result dtype or a requested one; small integers are reduced in int64."""
    array = traced(x)
    result = numpy.dtype(_total_dtype(of, array, dtype))
    wide = "int64" if result.name in SMALL and result.kind != "b" else result
    return converted(_reduce(op, converted(array, wide), axis, keepdims), result)


@operation(numpy.sum, on_complex="parts")
def sum(x: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """Apply NumPy's `sum`."""
    return _reduce_in_dtype("ReduceSum", numpy.sum, x, axis, dtype, keepdims)


@operation(numpy.prod)
def prod(x: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """Apply NumPy's `prod`."""
    return _reduce_in_dtype("ReduceProd", numpy.prod, x, axis, dtype, keepdims)


@operation(numpy.mean, on_complex="parts")
def mean(x: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """Apply NumPy's `mean`; float16 is accumulated in float32."""
    array = traced(x)
    result = numpy.dtype(dtype or _total_dtype(numpy.mean, array, None))
    wide = "float32" if result == numpy.float16 else result
    return converted(_reduce("ReduceMean", converted(array, wide), axis, keepdims), result)


def _extreme(op: str) -> Callable[..., Any]:
    def record(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        array = traced(x)
        _refuse_empty(array, axis, op.removeprefix("Reduce").lower())
        wide = converted(array, "int32") if array.dtype.name in SMALL else array
        return converted(_reduce(op, wide, axis, keepdims), array.dtype)

    return record


def _refuse_empty(x: TracedArray, axis: Any, what: str) -> None:
    """Raise ShapeError if an element of the result would reduce no elements, as in NumPy."""
    axes = axes_of(axis, x.ndim)
    reduced = [n for a, n in enumerate(x.type.dims) if a in axes]
    remaining = [n for a, n in enumerate(x.type.dims) if a not in axes]
    if 0 in reduced and 0 not in remaining:
        refuse(f"{what} of no elements has no value")


def _as_numpy_function(
    name: str, of: Callable[..., Any], record: Callable[..., Any]
) -> Callable[..., Any]:
    record.__name__, record.__doc__ = name, f"Apply NumPy's `{name}`."
    return operation(of)(record)


max = amax = _as_numpy_function("max", numpy.max, _extreme("ReduceMax"))
min = amin = _as_numpy_function("min", numpy.min, _extreme("ReduceMin"))


@operation(numpy.any)
def any(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Apply NumPy's `any`; False for no elements."""
    return converted(_count(x, axis, keepdims), "bool")


@operation(numpy.all)
def all(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Apply NumPy's `all`; True for no elements."""
    missing = _count(emit("Not", converted(traced(x), "bool")), axis, keepdims)
    return emit("Not", converted(missing, "bool"))


@operation(numpy.count_nonzero)
def count_nonzero(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Apply NumPy's `count_nonzero`."""
    return _count(x, axis, keepdims)


def _count(x: Any, axis: Any, keepdims: bool) -> TracedArray:
    return _reduce("ReduceSum", converted(converted(traced(x), "bool"), "int64"), axis, keepdims)


@operation(numpy.var)
def var(
    x: Any, axis: Any = None, *, ddof: Any = 0, keepdims: bool = False, correction: Any = None
) -> Any:
    """Apply NumPy's `var`: the sum of squared deviations from the mean, over n - ddof."""
    return _variance(traced(x), axis, ddof if correction is None else correction, keepdims)


@operation(numpy.std)
def std(
    x: Any, axis: Any = None, *, ddof: Any = 0, keepdims: bool = False, correction: Any = None
) -> Any:
    """Apply NumPy's `std`: the root of `var`, with gradient 0 where all elements are equal."""
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
    degrees = maximum(count - ddof, 0)
    return divide(total, converted(degrees, total.dtype))


@operation(numpy.ptp)
def ptp(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Apply NumPy's `ptp`: the maximum minus the minimum."""
    return subtract(max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims))


# Indices of extremes.


def _arg_extreme(op: str) -> Callable[..., Any]:
    def record(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        array = traced(x)
        wide = converted(array, "int32") if array.dtype.kind == "b" else array
        if isinstance(axis, (tuple, list)):
            refuse(f"{op.lower()} takes one axis or None, not {axis}")
        _refuse_empty(array, axis, op.lower())
        if axis is not None:
            return emit(op, wide, axis=axis_of(axis, wide.ndim), keepdims=int(keepdims))
        index = emit(op, ravel(wide), axis=0, keepdims=0)
        return reshape(index, (1,) * wide.ndim) if keepdims else index

    return record


argmax = _as_numpy_function("argmax", numpy.argmax, _arg_extreme("ArgMax"))
argmin = _as_numpy_function("argmin", numpy.argmin, _arg_extreme("ArgMin"))


# Cumulative operations.


@operation(numpy.cumsum, on_complex="parts")
def cumsum(x: Any, axis: Any = None, dtype: Any = None) -> Any:
    """Apply NumPy's `cumsum`; without an axis, of the flattened array."""
    array = traced(x)
    wide = converted(array, _total_dtype(numpy.sum, array, dtype))
    flat = ravel(wide) if axis is None else wide
    return emit("CumSum", flat, axis=axis_of(axis or 0, flat.ndim))


@operation(numpy.cumprod)
def cumprod(x: Any, axis: Any = None, dtype: Any = None) -> Any:
    """Apply NumPy's `cumprod`; without an axis, of the flattened array."""
    array = traced(x)
    wide = converted(array, _total_dtype(numpy.prod, array, dtype))
    flat = ravel(wide) if axis is None else wide
    return emit("CumProd", flat, axis=axis_of(axis or 0, flat.ndim))


def _cumulative(of: Callable[..., Any], neutral: int, record: Callable[..., Any]) -> Any:
    def record_all(
        x: Any, *, axis: Any = None, dtype: Any = None, include_initial: bool = False
    ) -> Any:
        array = traced(x)
        if axis is None and array.ndim > 1:
            refuse(f"{of.__name__} of an array of several dims needs an axis")
        at = axis_of(axis or 0, array.ndim)
        accumulated = record(array, at, dtype)
        if not include_initial:
            return accumulated
        pads = tuple((int(d == at), 0) for d in range(array.ndim))
        return TracedArray.functions.pad(accumulated, pads, constant_values=neutral)

    return _as_numpy_function(of.__name__, of, record_all)


cumulative_sum = _cumulative(numpy.cumulative_sum, 0, cumsum)
cumulative_prod = _cumulative(numpy.cumulative_prod, 1, cumprod)


@operation(numpy.diff)
def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Apply NumPy's `diff`: each element minus the preceding one."""
    array = traced(x)
    at = axis_of(axis, array.ndim)
    ends = [None if end is None else _boundary(end, array, at) for end in (prepend, append)]
    if any(end is not None for end in ends):
        row = [part for part in (ends[0], array, ends[1]) if part is not None]
        array = TracedArray.functions.concatenate(row, at)
    lead = (slice(None),) * at
    for _ in range(n):
        differ = not_equal if array.dtype.kind == "b" else subtract
        array = differ(array[(*lead, slice(1, None))], array[(*lead, slice(None, -1))])
    return array


def _boundary(end: Any, x: TracedArray, axis: int) -> Any:
    """Return an array to prepend or append; a scalar is broadcast to one slice along the axis."""
    if traced(end).ndim:
        return end
    dims = tuple(1 if d == axis else python_dim(n) for d, n in enumerate(x.type.dims))
    return broadcast_to(end, dims)


@operation(numpy.average)
def average(x: Any, axis: Any = None, weights: Any = None) -> Any:
    """Apply NumPy's `average`.

    The weights have the array's shape, or that of the axes. Integers are averaged in float64.
    """
    if weights is None:
        return mean(x, axis)
    array, by_axis = traced(x), traced(weights)
    dtype = numpy.result_type(array.dtype, by_axis.dtype)
    if array.dtype.kind in "iub":
        dtype = numpy.result_type(dtype, numpy.float64)
    array, by_axis = converted(array, dtype), converted(by_axis, dtype)
    axes = axes_of(axis, array.ndim)
    if array.ndim != by_axis.ndim:
        if by_axis.ndim != len(axes):
            refuse("the weights of an average have the shape of the array, or that of its axes")
        order = tuple(sorted(range(by_axis.ndim), key=axes.__getitem__))
        new_axes = tuple(d for d in range(array.ndim) if d not in axes)
        by_axis = broadcast_to(expand_dims(transpose(by_axis, order), new_axes), array.shape)
    return divide(sum(multiply(array, by_axis), axis), sum(by_axis, axis))


# Products of matrices and vectors, and einsum.


WIDER = {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}


def _emit_product(op: str, *values: Any, **attrs: Any) -> TracedArray:
    """Emit a product in the common dtype; small integers are widened, then wrapped like NumPy's."""
    dtype = common_dtype(values)
    if dtype.kind == "b":
        refuse("matrix products of bools are not supported; use astype first")
    wide = WIDER.get(dtype.name, dtype)
    product_ = emit(op, *(converted(v, wide) for v in values), **attrs)
    return converted(product_, dtype)


@operation(numpy.matmul)
def matmul(a: Any, b: Any) -> Any:
    """Apply NumPy's `matmul`."""
    if not traced(a).ndim or not traced(b).ndim:
        refuse("matmul takes no scalars; use multiply")
    return _emit_product("MatMul", a, b)


@operation(numpy.dot)
def dot(a: Any, b: Any) -> Any:
    """Apply NumPy's `dot`: matmul up to two dims, multiply for scalars."""
    x, y = traced(a), traced(b)
    if not x.ndim or not y.ndim:
        return multiply(a, b)
    return _emit_product("MatMul", a, b) if y.ndim <= 2 else tensordot(a, b, ((-1,), (-2,)))


@operation(numpy.vdot)
def vdot(a: Any, b: Any) -> Any:
    """Apply NumPy's `vdot` to real numbers."""
    return _emit_product("MatMul", ravel(traced(a)), ravel(traced(b)))


@operation(numpy.inner)
def inner(a: Any, b: Any) -> Any:
    """Apply NumPy's `inner`: a contraction of both last dims."""
    x, y = traced(a), traced(b)
    return multiply(a, b) if not x.ndim or not y.ndim else tensordot(a, b, ((-1,), (-1,)))


@operation(numpy.outer)
def outer(a: Any, b: Any) -> Any:
    """Apply NumPy's `outer`: all products of two elements."""
    return multiply(expand_dims(ravel(traced(a)), 1), ravel(traced(b)))


@operation(numpy.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Apply NumPy's `vecdot` to real numbers: a contraction of one dim, in the common dtype."""
    products = multiply(moveaxis(traced(x1), axis, -1), moveaxis(traced(x2), axis, -1))
    return sum(products, -1, products.dtype)


@operation(numpy.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Apply NumPy's `tensordot`: a contraction of pairs of dims."""
    x, y = traced(a), traced(b)
    if isinstance(axes, int):
        axes = (tuple(range(x.ndim - axes, x.ndim)), tuple(range(axes)))
    over = axes_of(axes[0], x.ndim), axes_of(axes[1], y.ndim)
    if len(over[0]) != len(over[1]):
        refuse(f"tensordot contracts {len(over[0])} dims with {len(over[1])} dims")
    rows = [d for d in range(x.ndim) if d not in over[0]]
    columns = [d for d in range(y.ndim) if d not in over[1]]
    depth = product(x.type.dims[d] for d in over[0])
    free_dims = tuple(x.type.dims[d] for d in rows), tuple(y.type.dims[d] for d in columns)
    left = reshape(transpose(x, (*rows, *over[0])), (product(free_dims[0]), depth))
    right = reshape(transpose(y, (*over[1], *columns)), (depth, product(free_dims[1])))
    return reshape(_emit_product("MatMul", left, right), (*free_dims[0], *free_dims[1]))


@operation(numpy.einsum, views=None)
def einsum(subscripts: str, *operands: Any) -> Any:
    """Apply NumPy's `einsum` with textual subscripts; a view if it only permutes one operand."""
    if not isinstance(subscripts, str):
        refuse("einsum takes its subscripts as text, 'ij,jk->ik'")
    equation = subscripts.replace(" ", "")
    result = _emit_product("Einsum", *operands, equation=equation)
    if len(operands) > 1:
        return result
    inputs, arrow, output = equation.partition("->")
    summed = {*inputs} - {*output} if arrow else {a for a in inputs if inputs.count(a) > 1}
    return result if summed - {"."} else mark_views(result, operands[0])
