"""NumPy's array creation functions."""

from __future__ import annotations

from typing import Any

import numpy

from explorer.frontends.arrays.axes import refuse, shape_of
from explorer.frontends.arrays.choices import equal, less_equal, where
from explorer.frontends.arrays.elementwise import add, astype, divide, multiply, subtract
from explorer.frontends.arrays.shaping import broadcast_to, expand_dims
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.complex_array import is_complex
from explorer.frontends.tracing.dims import plain_dim
from explorer.frontends.tracing.emit import emit
from explorer.frontends.tracing.frames import attributed_to_call, is_tracing
from explorer.frontends.tracing.operation import distinct, operation
from explorer.frontends.tracing.promote import common_dtype, converted, is_traced, traced
from explorer.ir.types import Tensor


@operation(numpy.full)
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """Apply NumPy's `full`."""
    kind = numpy.dtype(common_dtype([fill_value]) if dtype is None else dtype)
    if is_traced(fill_value):
        return broadcast_to(converted(fill_value, kind), shape)
    value = numpy.asarray(fill_value).astype(kind).item()
    return emit("ConstantOfShape", shape=shape_of(shape), value=value, dtype=kind.name)


@operation(numpy.zeros)
def zeros(shape: Any, dtype: Any = "float64") -> Any:
    """Apply NumPy's `zeros`."""
    return full(shape, 0, dtype)


@operation(numpy.ones)
def ones(shape: Any, dtype: Any = "float64") -> Any:
    """Apply NumPy's `ones`."""
    return full(shape, 1, dtype)


@operation(numpy.full_like)
def full_like(x: Any, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """Apply NumPy's `full_like`: the shape of x, and its dtype unless another is requested."""
    if device not in (None, "cpu"):
        refuse(f"arrays are on the device 'cpu' while a program is recorded, not on {device!r}")
    array = traced(x)
    return full(array.shape, fill_value, array.dtype if dtype is None else dtype)


@operation(numpy.zeros_like)
def zeros_like(x: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """Apply NumPy's `zeros_like`."""
    return full_like(x, 0, dtype, device=device)


@operation(numpy.ones_like)
def ones_like(x: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """Apply NumPy's `ones_like`."""
    return full_like(x, 1, dtype, device=device)


@operation(numpy.arange)
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """Apply NumPy's `arange`; the length is unknown until run time if a bound is."""
    start, stop = (0, start) if stop is None else (start, stop)
    kind = numpy.dtype(common_dtype([start, stop, step]) if dtype is None else dtype)
    dims = [plain_dim(v) for v in (start, stop, step)]
    if None not in dims and isinstance(dims[2], int):
        if dims[2] == 0:
            refuse("the step of arange is 0")
        counts = emit("Range", start=dims[0], limit=dims[1], delta=dims[2], dtype="int64")
        return converted(counts, kind)
    if numpy.result_type(kind).kind not in "iu":
        refuse("arange of values known only at run time must be of integers")
    args = [converted(v, "int64") for v in (start, stop, step)]
    counts = emit("Range", *args, types=[Tensor(None, "int64", 1)], dims=(None,))
    return converted(counts, kind)


@operation(numpy.linspace)
def linspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True) -> Any:
    """Apply NumPy's `linspace` to scalars."""
    kind = numpy.result_type(common_dtype([start, stop]), float)
    places = astype(arange(num), kind) if is_traced(num) else numpy.arange(num).astype(kind)
    gaps = num - 1 if endpoint else num
    step = divide(subtract(converted(stop, kind), start), maximum_of(gaps, 1))
    return add(multiply(places, step), start)


def maximum_of(a: Any, b: Any) -> Any:
    """Return the greater of two dims or numbers."""
    return TracedArray.functions.maximum(a, b)


@operation(numpy.eye)
def eye(n: Any, m: Any = None, k: int = 0, dtype: Any = "float64") -> Any:
    """Apply NumPy's `eye`: ones on a diagonal."""
    rows, columns = expand_dims(arange(n), 1), arange(n if m is None else m)
    return astype(equal(add(rows, k) if k else rows, columns), dtype)


@operation(numpy.identity)
def identity(n: Any, dtype: Any = "float64") -> Any:
    """Apply NumPy's `identity`."""
    return eye(n, dtype=dtype)


def asarray(x: Any, dtype: Any = None) -> Any:
    """Apply NumPy's `asarray`; while tracing, return a traced array.

    A NumPy array becomes a constant, which symbolic dims may slice. A list of values is stacked.
    """
    if not is_tracing():
        return numpy.asarray(x, dtype)
    with attributed_to_call("asarray"):
        if is_complex(x) or (dtype is not None and numpy.dtype(dtype).kind == "c"):
            return astype(x, dtype or numpy.result_type(common_dtype([x])))
        array = traced(x)
        if dtype is not None:
            return converted(x, dtype)
        return TracedArray(array.value, array.home) if array.weak else array


def array(x: Any, dtype: Any = None) -> Any:
    """Apply NumPy's `array`: as `asarray`, but never an alias of the argument."""
    return distinct(asarray(x, dtype), (x,)) if is_tracing() else numpy.array(x, dtype)


@operation(numpy.copy, on_complex="parts")
def copy(x: Any) -> Any:
    """Apply NumPy's `copy`: the result does not alias the argument."""
    return x


def _triangle(x: Any, k: int, upper: int) -> TracedArray:
    array = traced(x)
    if array.ndim < 2:
        refuse("tril and triu take arrays of two dims or more")
    return emit("Trilu", array, k=k, upper=upper)


@operation(numpy.tril)
def tril(x: Any, k: int = 0) -> Any:
    """Apply NumPy's `tril`: zeros above a diagonal."""
    return _triangle(x, k, 0)


@operation(numpy.triu)
def triu(x: Any, k: int = 0) -> Any:
    """Apply NumPy's `triu`: zeros below a diagonal."""
    return _triangle(x, k, 1)


@operation(numpy.tri)
def tri(n: Any, m: Any = None, k: int = 0, dtype: Any = "float64") -> Any:
    """Apply NumPy's `tri`: ones on and below a diagonal."""
    rows, columns = expand_dims(arange(n), 1), arange(n if m is None else m)
    return astype(less_equal(columns, add(rows, k) if k else rows), dtype)


@operation(numpy.diag)
def diag(x: Any, k: int = 0) -> Any:
    """Apply NumPy's `diag` to a vector: return a matrix with its elements on a diagonal."""
    array = traced(x)
    if array.ndim != 1:
        refuse("diag of a matrix is not supported; use einsum('ii->i', x)")
    zero, n = numpy.zeros((), array.dtype), array.shape[0]
    square = where(eye(n, dtype=bool), array, zero)
    above, below = max(k, 0), max(-k, 0)
    return TracedArray.functions.pad(square, ((below, above), (above, below))) if k else square


@operation(numpy.empty)
def empty(shape: Any, dtype: Any = "float64") -> Any:
    """Apply NumPy's `empty`; the elements are zeros."""
    return full(shape, 0, dtype)


@operation(numpy.empty_like)
def empty_like(x: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """Apply NumPy's `empty_like`; the elements are zeros."""
    return full_like(x, 0, dtype, device=device)


@operation(numpy.meshgrid)
def meshgrid(*arrays: Any, indexing: str = "xy") -> Any:
    """Apply NumPy's `meshgrid`: each array varies along its own dim; all are broadcast together."""
    vectors = [TracedArray.functions.ravel(traced(a)) for a in arrays]
    if indexing not in ("xy", "ij"):
        refuse(f"meshgrid has no indexing {indexing!r}; use 'xy' or 'ij'")
    order = [*range(len(vectors))]
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = 1, 0
    places = {n: order.index(n) for n in order}
    new_axes = [tuple(d for d in order if d != places[n]) for n in range(len(vectors))]
    wide = [expand_dims(a, r) if r else a for a, r in zip(vectors, new_axes, strict=True)]
    return list(TracedArray.functions.broadcast_arrays(*wide))
