"""ATen's operators whose places are data, and those that order elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from explorer.frontends import arrays as np
from explorer.frontends.aten.call import Call
from explorer.frontends.aten.elementwise import cast, is_floats, is_nan, like
from explorer.frontends.aten.reductions import extreme, reduced
from explorer.frontends.aten.shaping import axis_of, cut, strided_places
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.emit import emit, emit_several
from explorer.frontends.tracing.promote import converted, traced
from explorer.ir.dtypes import ml_dtypes
from explorer.ir.types import Tensor

Handler = Callable[..., Any]
REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add"}
REDUCTIONS |= {"multiply": "mul", "mean": "add"}


def places_of(index: Any) -> TracedArray:
    """Indices in a dtype that places have."""
    given = traced(index)
    return given if given.dtype.name in ("int32", "int64") else converted(given, "int64")


# Reads.


def _key(indices: Sequence[Any]) -> tuple[Any, ...]:
    """What stands in the brackets of NumPy; bytes are masks in PyTorch."""
    found: list[Any] = []
    for index in indices:
        if index is None:
            found.append(slice(None))
            continue
        given = traced(index)
        found.append(converted(given, "bool") if given.dtype.name == "uint8" else given)
    return tuple(found)


def _index(call: Call, x: Any, indices: Sequence[Any]) -> Any:
    return traced(x)[_key(indices)]


def _gather(call: Call, x: Any, dim: int, index: Any, sparse: bool = False) -> Any:
    given, places = traced(x), places_of(index)
    if not given.ndim or not places.ndim:
        wide = np.reshape(given, (-1,))
        found = emit("GatherElements", wide, np.reshape(places, (-1,)), axis=0)
        return np.reshape(found, places.shape)
    return emit("GatherElements", given, places, axis=axis_of(dim, given.ndim))


def _index_select(call: Call, x: Any, dim: int, index: Any) -> Any:
    given, places = traced(x), places_of(index)
    if not given.ndim:
        return given
    row = np.reshape(places, (-1,)) if not places.ndim else places
    return emit("Gather", given, row, axis=axis_of(dim, given.ndim))


def _take(call: Call, x: Any, index: Any) -> Any:
    return emit("Gather", np.reshape(x, (-1,)), places_of(index), axis=0)


def _embedding(call: Call, weight: Any, index: Any, padding: int = -1, *_: Any) -> Any:
    """The row that pads learns nothing."""
    places = places_of(index)
    rows = emit("Gather", traced(weight), places, axis=0)
    if padding < 0 or not call.trains:
        return rows
    pads = np.expand_dims(np.equal(places, like(padding, places)), -1)
    return np.where(pads, call.stopped(rows), rows)


def _masked_select(call: Call, x: Any, mask: Any) -> Any:
    given, where = np.broadcast_arrays(traced(x), converted(mask, "bool"))
    return given[where] if given.ndim else np.reshape(given, (1,))[np.reshape(where, (1,))]


def _nonzero(call: Call, x: Any) -> Any:
    given = traced(x)
    if not given.ndim:
        found = np.nonzero(np.reshape(given, (1,)))[0]
        return np.reshape(found, (-1, 1))[:, :0]
    return np.argwhere(given)


# Writes.


def _flat_places(x: TracedArray, key: Any) -> TracedArray:
    """The places of `x[key]` in the row of all elements."""
    found: TracedArray = traced(np.reshape(np.arange(x.size), x.shape))[key]
    return found


def _index_put(
    call: Call, x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False, *_: Any
) -> Any:
    given, new, key = call.cast(x), call.cast(values), _key(indices)
    masks = [k for k in key if isinstance(k, TracedArray) and k.dtype.kind == "b"]
    if len(masks) == len(key) == 1 and new.size == 1 and not accumulate:
        wide = np.reshape(masks[0], (*masks[0].shape, *(1,) * (given.ndim - masks[0].ndim)))
        return np.where(wide, np.reshape(new, ()), given)
    places = _flat_places(given, key)
    row = np.ravel(np.broadcast_to(new, places.shape))
    how = "add" if accumulate else "none"
    return _onto(given, np.ravel(places), row, how)


def _onto(x: TracedArray, places: TracedArray, values: TracedArray, how: str) -> TracedArray:
    """Values at places of the row of all elements."""
    flat = scatter(np.ravel(x), 0, places, values, how)
    found: TracedArray = np.reshape(flat, x.shape)
    return found


def scatter(
    x: TracedArray, dim: int, index: TracedArray, source: TracedArray, how: str = "none"
) -> TracedArray:
    """The language's scatter along a dim; bools are added up as numbers are."""
    if x.dtype.kind == "b" and how != "none":
        wide = scatter(converted(x, "int32"), dim, index, converted(source, "int32"), how)
        return converted(wide, "bool")
    return emit("ScatterElements", x, index, source, axis=dim, reduction=how)


def _scattered(
    call: Call, x: Any, dim: int, index: Any, source: Any, how: str, *, keeps: bool = True
) -> TracedArray:
    given, places, new = call.cast(x), places_of(index), call.cast(source)
    if not places.ndim:
        places = np.reshape(places, (1,))
    if not given.ndim:
        row = _scattered(call, np.reshape(given, (1,)), 0, places, new, how, keeps=keeps)
        found: TracedArray = np.reshape(row, ())
        return found
    if not new.ndim:
        new = np.broadcast_to(new, places.shape)
    for d, (n, m) in enumerate(zip(places.shape, new.shape, strict=True)):
        if n is not m and not (isinstance(n, int) and n == m):
            new = cut(new, d, 0, n)
    at = axis_of(dim, given.ndim)
    if not keeps:
        neutral = np.broadcast_to(_neutral(given, how), places.shape)
        given = scatter(given, at, places, neutral)
    return scatter(given, at, places, new, how)


def _neutral(x: TracedArray, how: str) -> TracedArray:
    if how == "mul":
        return like(1, x)
    if how == "add":
        return like(0, x)
    if is_floats(x):
        return like(-math.inf if how == "max" else math.inf, x)
    if x.dtype.kind == "b":
        return like(how == "min", x)
    limits = ml_dtypes.iinfo(x.dtype)
    return like(int(limits.min if how == "max" else limits.max), x)


def _scatter(call: Call, x: Any, dim: int, index: Any, source: Any, reduce: Any = None) -> Any:
    return _scattered(call, x, dim, index, source, REDUCTIONS[reduce] if reduce else "none")


def _scatter_add(call: Call, x: Any, dim: int, index: Any, source: Any) -> Any:
    return _scattered(call, x, dim, index, source, "add")


def _scatter_reduce(
    call: Call, x: Any, dim: int, index: Any, source: Any, reduce: str, keeps: bool = True
) -> Any:
    found = _scattered(call, x, dim, index, source, REDUCTIONS[reduce], keeps=keeps)
    if reduce != "mean":
        return found
    ones = np.ones_like(found) if keeps else np.zeros_like(found)
    at_each = np.broadcast_to(like(1, found), traced(source).shape or (1,))
    count = _scattered(call, ones, dim, index, at_each, "add")
    return _quotient(found, np.maximum(count, like(1, count)))


def _quotient(a: TracedArray, b: TracedArray) -> Any:
    return np.divide(a, b) if is_floats(a) else np.floor_divide(a, b)


def _along(x: TracedArray, dim: int, index: TracedArray) -> TracedArray:
    """Indices of slices as those of elements."""
    at = axis_of(dim, x.ndim)
    row = np.reshape(index, (-1, *(1,) * (x.ndim - at - 1)))
    shape = tuple(index.shape[0] if d == at else n for d, n in enumerate(x.shape))
    found: TracedArray = np.broadcast_to(row, shape)
    return found


def _by_slices(how: str) -> Handler:
    def handler(call: Call, x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
        given, places, new = call.cast(x), np.reshape(places_of(index), (-1,)), call.cast(source)
        if not (isinstance(alpha, (int, float)) and alpha == 1):
            new = np.multiply(new, call.cast(alpha))
        if not given.ndim:
            row = handler(call, np.reshape(given, (1,)), 0, places, np.reshape(new, (-1,)))
            return np.reshape(row, ())
        wide = _along(given, dim, places)
        new = np.broadcast_to(new, wide.shape)
        return scatter(given, axis_of(dim, given.ndim), wide, new, how)

    return handler


def _index_reduce(
    call: Call, x: Any, dim: int, index: Any, source: Any, reduce: str, keeps: bool = True
) -> Any:
    given, places = call.cast(x), np.reshape(places_of(index), (-1,))
    if not given.ndim:
        new = np.reshape(source, (-1,))
        row = _index_reduce(call, np.reshape(given, (1,)), 0, places, new, reduce, keeps)
        return np.reshape(row, ())
    wide = _along(given, dim, places)
    return _scatter_reduce(call, given, dim, wide, source, reduce, keeps)


def _masked_scatter(call: Call, x: Any, mask: Any, source: Any) -> Any:
    """The next element of the source at each place of the mask."""
    given, where = np.broadcast_arrays(call.cast(x), converted(mask, "bool"))
    row = np.ravel(where)
    count = emit("CumSum", converted(row, "int64"), axis=0)
    nth = np.maximum(np.subtract(count, 1), 0)
    flat = np.ravel(call.cast(source))
    values = emit("Gather", flat, np.minimum(nth, traced(flat.shape[0] - 1)), axis=0)
    return np.reshape(np.where(row, values, np.ravel(given)), given.shape)


def _put(call: Call, x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    given, how = call.cast(x), "add" if accumulate else "none"
    places = np.ravel(places_of(index))
    values = np.reshape(np.ravel(call.cast(source)), places.shape)
    return _onto(given, places, values, how)


def _slice_scatter(
    call: Call, x: Any, source: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    given = call.cast(x)
    at = axis_of(dim, given.ndim)
    key = (*(slice(None),) * at, slice(_limit(start), _limit(end), step))
    return np.setitem(given, key, call.cast(source))


def _limit(value: Any) -> Any:
    return None if isinstance(value, int) and abs(value) >= 1 << 62 else value


def _select_scatter(call: Call, x: Any, source: Any, dim: int, index: Any) -> Any:
    given = call.cast(x)
    key = (*(slice(None),) * axis_of(dim, given.ndim), index)
    return np.setitem(given, key, call.cast(source))


def _diagonal_scatter(
    call: Call, x: Any, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Any:
    given = call.cast(x)
    if not all(isinstance(n, int) for n in given.shape):
        call.refuse("a diagonal of dims that only a run knows")
    every = numpy.arange(numpy.prod(given.shape, dtype=int)).reshape(given.shape)
    places = traced(numpy.ascontiguousarray(numpy.diagonal(every, offset, dim1, dim2)))
    new = np.broadcast_to(call.cast(source), places.shape)
    return _onto(given, np.ravel(places), np.ravel(new), "none")


def _strided_scatter(
    call: Call, x: Any, source: Any, size: Sequence[Any], stride: Sequence[Any], offset: Any = None
) -> Any:
    known = strided_places(call, size, stride, offset)
    if call.trains and numpy.unique(known).size < known.size:
        call.refuse("the gradient of elements that are written several times")
    places = traced(known)
    return _onto(call.cast(x), np.ravel(places), np.ravel(call.cast(source)), "none")


def _unique(
    call: Call, x: Any, ordered: bool = True, inverse: bool = False, counts: bool = False
) -> Any:
    values, _, places, each = np.unique(x, True, True, True)
    empty = traced(numpy.zeros(0, numpy.int64))
    return [values, np.reshape(places, traced(x).shape) if inverse else empty, each]


def _unique_consecutive(
    call: Call, x: Any, inverse: bool = False, counts: bool = False, dim: int | None = None
) -> Any:
    """Each value that differs from the one before it; which one each element is, how many each."""
    if dim is not None and traced(x).ndim != 1:
        call.refuse("rows that differ from those before them")
    given = traced(x)
    row = np.ravel(given)
    first = traced(numpy.ones(1, bool))
    new = np.concatenate([first, np.not_equal(row[1:], row[:-1])])
    (at,) = np.nonzero(new)
    nth = np.subtract(emit("CumSum", converted(new, "int64"), axis=0), 1)
    ends = np.concatenate([at[1:], traced(np.reshape(traced(row.shape[0]), (1,)))])
    empty = traced(numpy.zeros(0, numpy.int64))
    return [
        row[at],
        np.reshape(nth, given.shape) if inverse else empty,
        np.subtract(ends, at) if counts else empty,
    ]


def _index_fill(call: Call, x: Any, dim: int, index: Any, value: Any) -> Any:
    given, places = call.cast(x), np.reshape(places_of(index), (-1,))
    if not given.ndim:
        return call.cast(value)
    wide = _along(given, dim, places)
    new = np.broadcast_to(call.cast(value), wide.shape)
    return scatter(given, axis_of(dim, given.ndim), wide, new)


# Order.


def ordered(x: TracedArray, dim: int, down: bool = False) -> list[TracedArray]:
    """All elements in order, and where they stood; equal ones as they stood."""
    if not x.ndim:
        return [x, traced(np.zeros_like(converted(x, "int64")))]
    at = axis_of(dim, x.ndim)
    wide = converted(x, "int32") if x.dtype.name in ("bool", "int8", "int16", "uint8") else x
    values, places = emit_several(
        "TopK", 2, wide, k=(x.type.dims[at],), axis=at, largest=int(down), sorted=1
    )
    return [converted(values, x.dtype), places]


def _sort(call: Call, x: Any, dim: int = -1, down: bool = False) -> Any:
    return ordered(traced(x), dim, down)


def _stable_sort(
    call: Call, x: Any, stable: bool | None = None, dim: int = -1, down: bool = False
) -> Any:
    return ordered(traced(x), dim, down)


def _argsort(call: Call, x: Any, dim: int = -1, down: bool = False) -> Any:
    return ordered(traced(x), dim, down)[1]


def _stable_argsort(call: Call, x: Any, stable: bool, dim: int = -1, down: bool = False) -> Any:
    return ordered(traced(x), dim, down)[1]


def _msort(call: Call, x: Any) -> Any:
    return ordered(traced(x), 0)[0]


def _topk(call: Call, x: Any, k: Any, dim: int = -1, largest: bool = True, *_: Any) -> Any:
    given = traced(x)
    if not given.ndim:
        return [given, traced(np.zeros_like(converted(given, "int64")))]
    return [
        *emit_several(
            "TopK",
            2,
            given,
            k=(k,),
            axis=axis_of(dim, given.ndim),
            largest=int(largest),
            sorted=1,
        )
    ]


def _nth(values: Sequence[TracedArray], dim: int, place: Any, keep: bool) -> list[Any]:
    if not values[0].ndim:
        return list(values)
    at = axis_of(dim, values[0].ndim)
    found = [cut(v, at, place, place + 1) for v in values]
    return found if keep else [np.squeeze(v, (at,)) for v in found]


def _kthvalue(call: Call, x: Any, k: int, dim: int = -1, keep: bool = False) -> Any:
    return _nth(ordered(traced(x), dim), dim, k - 1, keep)


def _median_dim(call: Call, x: Any, dim: int, keep: bool = False) -> Any:
    """The lower one of the middle; the first that is not a number, where there is one."""
    given = traced(x)
    if not given.ndim:
        return ordered(given, 0)
    at = axis_of(dim, given.ndim)
    values, places = _nth(ordered(given, at), at, (given.shape[at] - 1) // 2, True)
    if is_floats(given):
        gone = is_nan(given)
        some = np.any(gone, at, keepdims=True)
        first = emit("ArgMax", converted(gone, "int32"), axis=at, keepdims=1)
        places = np.where(some, first, places)
        values = np.where(some, like(math.nan, given), values)
    return [values, places] if keep else [np.squeeze(v, (at,)) for v in (values, places)]


def _median(call: Call, x: Any) -> Any:
    return _median_dim(call, np.reshape(x, (-1,)), 0)[0]


def _nanmedian_dim(call: Call, x: Any, dim: int, keep: bool = False) -> Any:
    given = traced(x)
    if not is_floats(given) or not given.ndim:
        return _median_dim(call, given, dim, keep)
    at = axis_of(dim, given.ndim)
    gone = is_nan(given)
    filled = np.where(gone, like(math.inf, given), given)
    values, places = ordered(filled, at)
    count = reduced("ReduceSum", converted(np.logical_not(gone), "int64"), at, keep=True)
    middle = np.maximum(np.floor_divide(np.subtract(count, 1), 2), 0)
    found = [emit("GatherElements", v, middle, axis=at) for v in (values, places)]
    found[0] = np.where(np.equal(count, 0), like(math.nan, given), found[0])
    return found if keep else [np.squeeze(v, (at,)) for v in found]


def _nanmedian(call: Call, x: Any) -> Any:
    return _nanmedian_dim(call, np.reshape(x, (-1,)), 0)[0]


def _mode(call: Call, x: Any, dim: int = -1, keep: bool = False) -> Any:
    """The least of the values that are there most often, and where it is last."""
    given = traced(x)
    if not given.ndim:
        return ordered(given, 0)
    at = axis_of(dim, given.ndim)
    moved = np.moveaxis(given, at, -1)
    same = np.equal(np.expand_dims(moved, -1), np.expand_dims(moved, -2))
    count = reduced("ReduceSum", converted(same, "int64"), -1)
    often = np.equal(count, extreme("ReduceMax", count, -1, keep=True))
    values = extreme("ReduceMin", np.where(often, moved, _neutral(moved, "min")), -1, keep=True)
    there = np.equal(moved, values)
    places = np.arange(moved.shape[-1])
    last = extreme("ReduceMax", np.where(there, places, traced(numpy.int64(-1))), -1, keep=True)
    found = [np.moveaxis(v, -1, at) for v in (values, last)]
    return found if keep else [np.squeeze(v, (at,)) for v in found]


def _searchsorted(
    call: Call,
    row: Any,
    values: Any,
    narrow: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """How many elements of a row stand before each value."""
    edges, given = call.alike(row, values)
    if sorter is not None:
        edges = emit("GatherElements", edges, places_of(sorter), axis=edges.ndim - 1)
    after = right or side == "right"
    if edges.ndim == 1:
        wide, each = edges, np.expand_dims(given, -1)
    else:
        wide, each = np.expand_dims(edges, -2), np.expand_dims(given, -1)
    compare = np.less_equal if after else np.less
    before = compare(wide, each)
    found = reduced("ReduceSum", converted(before, "int64"), -1)
    return cast(found, call.dtype)


def _bucketize(call: Call, values: Any, row: Any, narrow: bool = False, right: bool = False) -> Any:
    return _searchsorted(call, row, values, narrow, right)


def _isin(call: Call, x: Any, of: Any, unique: bool = False, invert: bool = False) -> Any:
    a, b = call.alike(x, of)
    same = np.equal(np.expand_dims(a, -1), np.reshape(b, (-1,)))
    found = np.any(same, -1)
    return np.logical_not(found) if invert else found


def _repeat_interleave(call: Call, x: Any, repeats: Any, dim: int | None = None, *_: Any) -> Any:
    given = traced(x)
    if dim is None:
        given, dim = np.reshape(given, (-1,)), 0
    if not given.ndim:
        given = np.reshape(given, (1,))
    at = axis_of(dim, given.ndim)
    if isinstance(repeats, int):
        return np.repeat(given, repeats, at)
    counts = converted(repeats, "int64")
    if counts.ndim == 0 or counts.type.dims == (1,):
        counts = np.broadcast_to(np.reshape(counts, (1,)), (given.shape[at],))
    return emit("Gather", given, repeated(counts), axis=at)


def _repeats(call: Call, repeats: Any, *_: Any) -> Any:
    return cast(repeated(converted(repeats, "int64")), call.dtype)


def repeated(counts: TracedArray) -> TracedArray:
    """0 so many times as the first number says, 1 as the second does, and so on."""
    most = extreme("ReduceMax", counts, 0, keep=True)
    found: TracedArray = np.nonzero(np.less(_range(most), np.expand_dims(counts, -1)))[0]
    return found


def _range(count: TracedArray) -> TracedArray:
    """0, 1, … below a number of the run."""
    zero, one = traced(numpy.int64(0)), traced(numpy.int64(1))
    kind = Tensor(None, "int64", 1)
    return emit("Range", zero, np.reshape(count, ()), one, types=[kind], dims=(None,))


def _histc(call: Call, x: Any, bins: int = 100, low: Any = 0, high: Any = 0) -> Any:
    given = np.ravel(call.cast(x))
    if low == high == 0:
        a, b = extreme("ReduceMin", given), extreme("ReduceMax", given)
        flat = np.equal(a, b)
        a, b = (np.where(flat, np.add(v, like(d, v)), v) for v, d in ((a, -1), (b, 1)))
    else:
        a, b = like(low, given), like(high, given)
    inside = np.logical_and(np.greater_equal(given, a), np.less_equal(given, b))
    share = np.divide(np.multiply(np.subtract(given, a), like(bins, a)), np.subtract(b, a))
    place = np.minimum(converted(np.floor(np.where(inside, share, like(0, a))), "int64"), bins - 1)
    ones = converted(inside, given.dtype)
    zeros = np.broadcast_to(like(0, given), (bins,))
    return scatter(zeros, 0, place, ones, "add")


INDEXING: Mapping[str, Handler] = {
    "index.Tensor": _index,
    "_unsafe_index.Tensor": _index,
    "gather": _gather,
    "index_select": _index_select,
    "take": _take,
    "embedding": _embedding,
    "masked_select": _masked_select,
    "nonzero": _nonzero,
    "index_put": _index_put,
    "_unsafe_index_put": _index_put,
    "scatter.src": _scatter,
    "scatter.value": _scatter,
    "scatter.reduce": _scatter,
    "scatter.value_reduce": _scatter,
    "scatter_add": _scatter_add,
    "scatter_reduce.two": _scatter_reduce,
    "index_add": _by_slices("add"),
    "index_copy": _by_slices("none"),
    "index_fill": _index_fill,
    "as_strided_scatter": _strided_scatter,
    "_unique2": _unique,
    "unique_consecutive": _unique_consecutive,
    "index_reduce": _index_reduce,
    "masked_scatter": _masked_scatter,
    "put": _put,
    "slice_scatter": _slice_scatter,
    "select_scatter": _select_scatter,
    "diagonal_scatter": _diagonal_scatter,
    "sort.default": _sort,
    "sort.stable": _stable_sort,
    "argsort.default": _argsort,
    "argsort.stable": _stable_argsort,
    "msort": _msort,
    "topk": _topk,
    "kthvalue": _kthvalue,
    "median.default": _median,
    "median.dim": _median_dim,
    "nanmedian.default": _nanmedian,
    "nanmedian.dim": _nanmedian_dim,
    "mode": _mode,
    "searchsorted": _searchsorted,
    "bucketize": _bucketize,
    "isin.Tensor_Tensor": _isin,
    "repeat_interleave.self_int": _repeat_interleave,
    "repeat_interleave.self_Tensor": _repeat_interleave,
    "repeat_interleave.Tensor": _repeats,
    "histc": _histc,
}
