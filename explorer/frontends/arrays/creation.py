"""Functions of NumPy that make arrays of shapes and numbers."""

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
from explorer.frontends.tracing.frames import is_tracing, source_of
from explorer.frontends.tracing.operation import apart, operation
from explorer.frontends.tracing.promote import common_dtype, converted, is_traced, traced
from explorer.ir.types import Tensor


@operation(numpy.full)
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """NumPy's `full`."""
    kind = numpy.dtype(common_dtype([fill_value]) if dtype is None else dtype)
    if is_traced(fill_value):
        return broadcast_to(converted(fill_value, kind), shape)
    value = numpy.asarray(fill_value).astype(kind).item()
    return emit("ConstantOfShape", shape=shape_of(shape), value=value, dtype=kind.name)


@operation(numpy.zeros)
def zeros(shape: Any, dtype: Any = "float64") -> Any:
    """NumPy's `zeros`."""
    return full(shape, 0, dtype)


@operation(numpy.ones)
def ones(shape: Any, dtype: Any = "float64") -> Any:
    """NumPy's `ones`."""
    return full(shape, 1, dtype)


@operation(numpy.full_like)
def full_like(x: Any, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """NumPy's `full_like`: of the shape, and unless another is given the dtype, of x."""
    if device not in (None, "cpu"):
        refuse(f"arrays are on the device 'cpu' while a program is recorded, not on {device!r}")
    given = traced(x)
    return full(given.shape, fill_value, given.dtype if dtype is None else dtype)


@operation(numpy.zeros_like)
def zeros_like(x: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """NumPy's `zeros_like`."""
    return full_like(x, 0, dtype, device=device)


@operation(numpy.ones_like)
def ones_like(x: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """NumPy's `ones_like`."""
    return full_like(x, 1, dtype, device=device)


@operation(numpy.arange)
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """NumPy's `arange`; of numbers that only a run knows it has a length that the run finds."""
    start, stop = (0, start) if stop is None else (start, stop)
    kind = numpy.dtype(common_dtype([start, stop, step]) if dtype is None else dtype)
    dims = [plain_dim(v) for v in (start, stop, step)]
    if None not in dims and isinstance(dims[2], int):
        if dims[2] == 0:
            refuse("the step of arange is 0")
        found = emit("Range", start=dims[0], limit=dims[1], delta=dims[2], dtype="int64")
        return converted(found, kind)
    if numpy.result_type(kind).kind not in "iu":
        refuse("arange of values of the run counts in integers")
    args = [converted(v, "int64") for v in (start, stop, step)]
    found = emit("Range", *args, types=[Tensor(None, "int64", 1)], dims=(None,))
    return converted(found, kind)


@operation(numpy.linspace)
def linspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True) -> Any:
    """NumPy's `linspace`, of numbers."""
    kind = numpy.result_type(common_dtype([start, stop]), float)
    places = astype(arange(num), kind) if is_traced(num) else numpy.arange(num).astype(kind)
    gaps = num - 1 if endpoint else num
    step = divide(subtract(converted(stop, kind), start), maximum_of(gaps, 1))
    return add(multiply(places, step), start)


def maximum_of(a: Any, b: Any) -> Any:
    """The greater one, of dims or numbers."""
    return TracedArray.functions.maximum(a, b)


@operation(numpy.eye)
def eye(n: Any, m: Any = None, k: int = 0, dtype: Any = "float64") -> Any:
    """NumPy's `eye`: ones on a diagonal."""
    rows, columns = expand_dims(arange(n), 1), arange(n if m is None else m)
    return astype(equal(add(rows, k) if k else rows, columns), dtype)


@operation(numpy.identity)
def identity(n: Any, dtype: Any = "float64") -> Any:
    """NumPy's `identity`."""
    return eye(n, dtype=dtype)


def asarray(x: Any, dtype: Any = None) -> Any:
    """NumPy's `asarray`; while tracing always a traced array, of a table a constant, which may be
    cut at dims. A list of values is stacked.
    """
    if not is_tracing():
        return numpy.asarray(x, dtype)
    with source_of("asarray"):
        if is_complex(x) or (dtype is not None and numpy.dtype(dtype).kind == "c"):
            return astype(x, dtype or numpy.result_type(common_dtype([x])))
        found = traced(x)
        if dtype is not None:
            return converted(x, dtype)
        return TracedArray(found.value, found.home) if found.weak else found


def array(x: Any, dtype: Any = None) -> Any:
    """NumPy's `array`: as `asarray`, and always an array of its own."""
    return apart(asarray(x, dtype), (x,)) if is_tracing() else numpy.array(x, dtype)


@operation(numpy.copy, on_complex="parts")
def copy(x: Any) -> Any:
    """NumPy's `copy`: what changes one of them is not seen in the other."""
    return x


def _triangle(x: Any, k: int, upper: int) -> TracedArray:
    given = traced(x)
    if given.ndim < 2:
        refuse("a triangle is of an array of two dims or more")
    return emit("Trilu", given, k=k, upper=upper)


@operation(numpy.tril)
def tril(x: Any, k: int = 0) -> Any:
    """NumPy's `tril`: zeros above a diagonal."""
    return _triangle(x, k, 0)


@operation(numpy.triu)
def triu(x: Any, k: int = 0) -> Any:
    """NumPy's `triu`: zeros below a diagonal."""
    return _triangle(x, k, 1)


@operation(numpy.tri)
def tri(n: Any, m: Any = None, k: int = 0, dtype: Any = "float64") -> Any:
    """NumPy's `tri`: ones on and below a diagonal."""
    rows, columns = expand_dims(arange(n), 1), arange(n if m is None else m)
    return astype(less_equal(columns, add(rows, k) if k else rows), dtype)


@operation(numpy.diag)
def diag(x: Any, k: int = 0) -> Any:
    """NumPy's `diag`, of one dim: a matrix with these elements on a diagonal."""
    given = traced(x)
    if given.ndim != 1:
        refuse("diag of a matrix has no rule; einsum('ii->i', x) takes a diagonal")
    zero, n = numpy.zeros((), given.dtype), given.shape[0]
    square = where(eye(n, dtype=bool), given, zero)
    above, below = max(k, 0), max(-k, 0)
    return TracedArray.functions.pad(square, ((below, above), (above, below))) if k else square


@operation(numpy.empty)
def empty(shape: Any, dtype: Any = "float64") -> Any:
    """NumPy's `empty`; its elements are zeros."""
    return full(shape, 0, dtype)


@operation(numpy.empty_like)
def empty_like(x: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """NumPy's `empty_like`; its elements are zeros."""
    return full_like(x, 0, dtype, device=device)


@operation(numpy.meshgrid)
def meshgrid(*arrays: Any, indexing: str = "xy") -> Any:
    """NumPy's `meshgrid`: each array along a dim of its own, broadcast to all of them."""
    given = [TracedArray.functions.ravel(traced(a)) for a in arrays]
    if indexing not in ("xy", "ij"):
        refuse(f"meshgrid has no indexing {indexing!r}; it has xy and ij")
    order = [*range(len(given))]
    if indexing == "xy" and len(given) > 1:
        order[:2] = 1, 0
    places = {n: order.index(n) for n in order}
    rest = [tuple(d for d in order if d != places[n]) for n in range(len(given))]
    wide = [expand_dims(a, r) if r else a for a, r in zip(given, rest, strict=True)]
    return list(TracedArray.functions.broadcast_arrays(*wide))
