"""ATen's operators with index arrays, and those that sort."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from explorer.frontends.python import arrays as np
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.emit import converted, emit, emit_several, traced
from explorer.frontends.torch.call import OperatorCall
from explorer.frontends.torch.elementwise import cast, is_floats, is_nan, like
from explorer.frontends.torch.reductions import extreme, reduce_dims
from explorer.frontends.torch.shaping import axis_of, slice_dim, strided_places
from explorer.ir.dtypes import ml_dtypes
from explorer.ir.types import Tensor

Handler = Callable[..., Any]
REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add"}
REDUCTIONS |= {"multiply": "mul", "mean": "add"}


def as_indices(index: Any) -> TracedArray:
    """Return indices as int32 or int64."""
    places = traced(index)
    return places if places.dtype.name in ("int32", "int64") else converted(places, "int64")


# Reads.


def _numpy_index(indices: Sequence[Any]) -> tuple[Any, ...]:
    """Return NumPy's index expression; uint8 indices are masks in PyTorch."""
    items: list[Any] = []
    for index in indices:
        if index is None:
            items.append(slice(None))
            continue
        places = traced(index)
        items.append(converted(places, "bool") if places.dtype.name == "uint8" else places)
    return tuple(items)


def _index(call: OperatorCall, x: Any, indices: Sequence[Any]) -> Any:
    return traced(x)[_numpy_index(indices)]


def _gather(call: OperatorCall, x: Any, dim: int, index: Any, sparse: bool = False) -> Any:
    array, places = traced(x), as_indices(index)
    if not array.ndim or not places.ndim:
        wide = np.reshape(array, (-1,))
        result = emit("GatherElements", wide, np.reshape(places, (-1,)), axis=0)
        return np.reshape(result, places.shape)
    return emit("GatherElements", array, places, axis=axis_of(dim, array.ndim))


def _index_select(call: OperatorCall, x: Any, dim: int, index: Any) -> Any:
    array, places = traced(x), as_indices(index)
    if not array.ndim:
        return array
    row = np.reshape(places, (-1,)) if not places.ndim else places
    return emit("Gather", array, row, axis=axis_of(dim, array.ndim))


def _take(call: OperatorCall, x: Any, index: Any) -> Any:
    return emit("Gather", np.reshape(x, (-1,)), as_indices(index), axis=0)


def _embedding(call: OperatorCall, weight: Any, index: Any, padding: int = -1, *_: Any) -> Any:
    """Gather rows of a table; the padding row gets no gradient."""
    places = as_indices(index)
    rows = emit("Gather", traced(weight), places, axis=0)
    if padding < 0 or not call.trains:
        return rows
    pads = np.expand_dims(np.equal(places, like(padding, places)), -1)
    return np.where(pads, call.stop_gradient(rows), rows)


def _masked_select(call: OperatorCall, x: Any, mask: Any) -> Any:
    array, where = np.broadcast_arrays(traced(x), converted(mask, "bool"))
    return array[where] if array.ndim else np.reshape(array, (1,))[np.reshape(where, (1,))]


def _nonzero(call: OperatorCall, x: Any) -> Any:
    array = traced(x)
    if not array.ndim:
        result = np.nonzero(np.reshape(array, (1,)))[0]
        return np.reshape(result, (-1, 1))[:, :0]
    return np.argwhere(array)


# Writes.


def _flat_places(x: TracedArray, key: Any) -> TracedArray:
    """Return the indices of `x[key]` in the flattened array."""
    places: TracedArray = traced(np.reshape(np.arange(x.size), x.shape))[key]
    return places


def _index_put(
    call: OperatorCall,
    x: Any,
    indices: Sequence[Any],
    values: Any,
    accumulate: bool = False,
    *_: Any,
) -> Any:
    array, new, key = call.cast(x), call.cast(values), _numpy_index(indices)
    masks = [k for k in key if isinstance(k, TracedArray) and k.dtype.kind == "b"]
    if len(masks) == len(key) == 1 and new.size == 1 and not accumulate:
        wide = np.reshape(masks[0], (*masks[0].shape, *(1,) * (array.ndim - masks[0].ndim)))
        return np.where(wide, np.reshape(new, ()), array)
    places = _flat_places(array, key)
    row = np.ravel(np.broadcast_to(new, places.shape))
    how = "add" if accumulate else "none"
    return _scatter_flat(array, np.ravel(places), row, how)


def _scatter_flat(
    x: TracedArray, places: TracedArray, values: TracedArray, how: str
) -> TracedArray:
    """Scatter values at indices of the flattened array."""
    flat = scatter(np.ravel(x), 0, places, values, how)
    scattered: TracedArray = np.reshape(flat, x.shape)
    return scattered


def scatter(
    x: TracedArray, dim: int, index: TracedArray, source: TracedArray, how: str = "none"
) -> TracedArray:
    """Scatter along a dim; bools are reduced as integers."""
    if x.dtype.kind == "b" and how != "none":
        wide = scatter(converted(x, "int32"), dim, index, converted(source, "int32"), how)
        return converted(wide, "bool")
    return emit("ScatterElements", x, index, source, axis=dim, reduction=how)


def _scatter_along(
    call: OperatorCall, x: Any, dim: int, index: Any, source: Any, how: str, *, keeps: bool = True
) -> TracedArray:
    array, places, new = call.cast(x), as_indices(index), call.cast(source)
    if not places.ndim:
        places = np.reshape(places, (1,))
    if not array.ndim:
        row = _scatter_along(call, np.reshape(array, (1,)), 0, places, new, how, keeps=keeps)
        scalar: TracedArray = np.reshape(row, ())
        return scalar
    if not new.ndim:
        new = np.broadcast_to(new, places.shape)
    for d, (n, m) in enumerate(zip(places.shape, new.shape, strict=True)):
        if n is not m and not (isinstance(n, int) and n == m):
            new = slice_dim(new, d, 0, n)
    at = axis_of(dim, array.ndim)
    if not keeps:
        neutral = np.broadcast_to(_neutral(array, how), places.shape)
        array = scatter(array, at, places, neutral)
    return scatter(array, at, places, new, how)


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


def _scatter(
    call: OperatorCall, x: Any, dim: int, index: Any, source: Any, reduce: Any = None
) -> Any:
    return _scatter_along(call, x, dim, index, source, REDUCTIONS[reduce] if reduce else "none")


def _scatter_add(call: OperatorCall, x: Any, dim: int, index: Any, source: Any) -> Any:
    return _scatter_along(call, x, dim, index, source, "add")


def _scatter_reduce(
    call: OperatorCall, x: Any, dim: int, index: Any, source: Any, reduce: str, keeps: bool = True
) -> Any:
    totals = _scatter_along(call, x, dim, index, source, REDUCTIONS[reduce], keeps=keeps)
    if reduce != "mean":
        return totals
    ones = np.ones_like(totals) if keeps else np.zeros_like(totals)
    at_each = np.broadcast_to(like(1, totals), traced(source).shape or (1,))
    count = _scatter_along(call, ones, dim, index, at_each, "add")
    return _quotient(totals, np.maximum(count, like(1, count)))


def _quotient(a: TracedArray, b: TracedArray) -> Any:
    return np.divide(a, b) if is_floats(a) else np.floor_divide(a, b)


def _expand_slice_indices(x: TracedArray, dim: int, index: TracedArray) -> TracedArray:
    """Expand indices of slices to indices of elements."""
    at = axis_of(dim, x.ndim)
    row = np.reshape(index, (-1, *(1,) * (x.ndim - at - 1)))
    shape = tuple(index.shape[0] if d == at else n for d, n in enumerate(x.shape))
    indices: TracedArray = np.broadcast_to(row, shape)
    return indices


def _index_scatter(how: str) -> Handler:
    def handler(
        call: OperatorCall, x: Any, dim: int, index: Any, source: Any, alpha: Any = 1
    ) -> Any:
        array, places, new = call.cast(x), np.reshape(as_indices(index), (-1,)), call.cast(source)
        if not (isinstance(alpha, (int, float)) and alpha == 1):
            new = np.multiply(new, call.cast(alpha))
        if not array.ndim:
            row = handler(call, np.reshape(array, (1,)), 0, places, np.reshape(new, (-1,)))
            return np.reshape(row, ())
        wide = _expand_slice_indices(array, dim, places)
        new = np.broadcast_to(new, wide.shape)
        return scatter(array, axis_of(dim, array.ndim), wide, new, how)

    return handler


def _index_reduce(
    call: OperatorCall, x: Any, dim: int, index: Any, source: Any, reduce: str, keeps: bool = True
) -> Any:
    array, places = call.cast(x), np.reshape(as_indices(index), (-1,))
    if not array.ndim:
        new = np.reshape(source, (-1,))
        row = _index_reduce(call, np.reshape(array, (1,)), 0, places, new, reduce, keeps)
        return np.reshape(row, ())
    wide = _expand_slice_indices(array, dim, places)
    return _scatter_reduce(call, array, dim, wide, source, reduce, keeps)


def _masked_scatter(call: OperatorCall, x: Any, mask: Any, source: Any) -> Any:
    """Put the next element of the source at each true element of the mask."""
    array, where = np.broadcast_arrays(call.cast(x), converted(mask, "bool"))
    row = np.ravel(where)
    count = emit("CumSum", converted(row, "int64"), axis=0)
    nth = np.maximum(np.subtract(count, 1), 0)
    flat = np.ravel(call.cast(source))
    values = emit("Gather", flat, np.minimum(nth, traced(flat.shape[0] - 1)), axis=0)
    return np.reshape(np.where(row, values, np.ravel(array)), array.shape)


def _put(call: OperatorCall, x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    array, how = call.cast(x), "add" if accumulate else "none"
    places = np.ravel(as_indices(index))
    values = np.reshape(np.ravel(call.cast(source)), places.shape)
    return _scatter_flat(array, places, values, how)


def _slice_scatter(
    call: OperatorCall,
    x: Any,
    source: Any,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> Any:
    array = call.cast(x)
    at = axis_of(dim, array.ndim)
    key = (*(slice(None),) * at, slice(_limit(start), _limit(end), step))
    return np.setitem(array, key, call.cast(source))


def _limit(value: Any) -> Any:
    return None if isinstance(value, int) and abs(value) >= 1 << 62 else value


def _select_scatter(call: OperatorCall, x: Any, source: Any, dim: int, index: Any) -> Any:
    array = call.cast(x)
    key = (*(slice(None),) * axis_of(dim, array.ndim), index)
    return np.setitem(array, key, call.cast(source))


def _diagonal_scatter(
    call: OperatorCall, x: Any, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Any:
    array = call.cast(x)
    if not all(isinstance(n, int) for n in array.shape):
        call.refuse("diagonal_scatter of symbolic dims is not supported")
    every = numpy.arange(numpy.prod(array.shape, dtype=int)).reshape(array.shape)
    places = traced(numpy.ascontiguousarray(numpy.diagonal(every, offset, dim1, dim2)))
    new = np.broadcast_to(call.cast(source), places.shape)
    return _scatter_flat(array, np.ravel(places), np.ravel(new), "none")


def _strided_scatter(
    call: OperatorCall,
    x: Any,
    source: Any,
    size: Sequence[Any],
    stride: Sequence[Any],
    offset: Any = None,
) -> Any:
    indices = strided_places(call, size, stride, offset)
    if call.trains and numpy.unique(indices).size < indices.size:
        call.refuse("the gradient of elements that are written several times is not supported")
    places = traced(indices)
    return _scatter_flat(call.cast(x), np.ravel(places), np.ravel(call.cast(source)), "none")


def _unique(
    call: OperatorCall, x: Any, is_sorted: bool = True, inverse: bool = False, counts: bool = False
) -> Any:
    values, _, places, each = np.unique(x, True, True, True)
    empty = traced(numpy.zeros(0, numpy.int64))
    return [values, np.reshape(places, traced(x).shape) if inverse else empty, each]


def _unique_consecutive(
    call: OperatorCall, x: Any, inverse: bool = False, counts: bool = False, dim: int | None = None
) -> Any:
    """Return each run's value, the index of each element's run, and the run lengths."""
    if dim is not None and traced(x).ndim != 1:
        call.refuse("unique_consecutive along a dim is not supported")
    array = traced(x)
    row = np.ravel(array)
    first = traced(numpy.ones(1, bool))
    new = np.concatenate([first, np.not_equal(row[1:], row[:-1])])
    (at,) = np.nonzero(new)
    nth = np.subtract(emit("CumSum", converted(new, "int64"), axis=0), 1)
    ends = np.concatenate([at[1:], traced(np.reshape(traced(row.shape[0]), (1,)))])
    empty = traced(numpy.zeros(0, numpy.int64))
    return [
        row[at],
        np.reshape(nth, array.shape) if inverse else empty,
        np.subtract(ends, at) if counts else empty,
    ]


def _index_fill(call: OperatorCall, x: Any, dim: int, index: Any, value: Any) -> Any:
    array, places = call.cast(x), np.reshape(as_indices(index), (-1,))
    if not array.ndim:
        return call.cast(value)
    wide = _expand_slice_indices(array, dim, places)
    new = np.broadcast_to(call.cast(value), wide.shape)
    return scatter(array, axis_of(dim, array.ndim), wide, new)


# Sorting.


def sort_with_indices(x: TracedArray, dim: int, down: bool = False) -> list[TracedArray]:
    """Sort along a dim, stably; return the values and their original indices."""
    if not x.ndim:
        return [x, traced(np.zeros_like(converted(x, "int64")))]
    at = axis_of(dim, x.ndim)
    wide = converted(x, "int32") if x.dtype.name in ("bool", "int8", "int16", "uint8") else x
    values, places = emit_several(
        "TopK", 2, wide, k=(x.type.dims[at],), axis=at, largest=int(down), sorted=1
    )
    return [converted(values, x.dtype), places]


def _sort(call: OperatorCall, x: Any, dim: int = -1, down: bool = False) -> Any:
    return sort_with_indices(traced(x), dim, down)


def _stable_sort(
    call: OperatorCall, x: Any, stable: bool | None = None, dim: int = -1, down: bool = False
) -> Any:
    return sort_with_indices(traced(x), dim, down)


def _argsort(call: OperatorCall, x: Any, dim: int = -1, down: bool = False) -> Any:
    return sort_with_indices(traced(x), dim, down)[1]


def _stable_argsort(
    call: OperatorCall, x: Any, stable: bool, dim: int = -1, down: bool = False
) -> Any:
    return sort_with_indices(traced(x), dim, down)[1]


def _msort(call: OperatorCall, x: Any) -> Any:
    return sort_with_indices(traced(x), 0)[0]


def _topk(call: OperatorCall, x: Any, k: Any, dim: int = -1, largest: bool = True, *_: Any) -> Any:
    array = traced(x)
    if not array.ndim:
        return [array, traced(np.zeros_like(converted(array, "int64")))]
    return [
        *emit_several(
            "TopK",
            2,
            array,
            k=(k,),
            axis=axis_of(dim, array.ndim),
            largest=int(largest),
            sorted=1,
        )
    ]


def _select_rank(values: Sequence[TracedArray], dim: int, place: Any, keep: bool) -> list[Any]:
    if not values[0].ndim:
        return list(values)
    at = axis_of(dim, values[0].ndim)
    slices = [slice_dim(v, at, place, place + 1) for v in values]
    return slices if keep else [np.squeeze(v, (at,)) for v in slices]


def _kthvalue(call: OperatorCall, x: Any, k: int, dim: int = -1, keep: bool = False) -> Any:
    return _select_rank(sort_with_indices(traced(x), dim), dim, k - 1, keep)


def _median_dim(call: OperatorCall, x: Any, dim: int, keep: bool = False) -> Any:
    """Return the lower median and its index; the first NaN if there is one."""
    array = traced(x)
    if not array.ndim:
        return sort_with_indices(array, 0)
    at = axis_of(dim, array.ndim)
    values, places = _select_rank(
        sort_with_indices(array, at), at, (array.shape[at] - 1) // 2, True
    )
    if is_floats(array):
        is_missing = is_nan(array)
        some = np.any(is_missing, at, keepdims=True)
        first = emit("ArgMax", converted(is_missing, "int32"), axis=at, keepdims=1)
        places = np.where(some, first, places)
        values = np.where(some, like(math.nan, array), values)
    return [values, places] if keep else [np.squeeze(v, (at,)) for v in (values, places)]


def _median(call: OperatorCall, x: Any) -> Any:
    return _median_dim(call, np.reshape(x, (-1,)), 0)[0]


def _nanmedian_dim(call: OperatorCall, x: Any, dim: int, keep: bool = False) -> Any:
    array = traced(x)
    if not is_floats(array) or not array.ndim:
        return _median_dim(call, array, dim, keep)
    at = axis_of(dim, array.ndim)
    is_missing = is_nan(array)
    filled = np.where(is_missing, like(math.inf, array), array)
    values, places = sort_with_indices(filled, at)
    count = reduce_dims("ReduceSum", converted(np.logical_not(is_missing), "int64"), at, keep=True)
    middle = np.maximum(np.floor_divide(np.subtract(count, 1), 2), 0)
    results = [emit("GatherElements", v, middle, axis=at) for v in (values, places)]
    results[0] = np.where(np.equal(count, 0), like(math.nan, array), results[0])
    return results if keep else [np.squeeze(v, (at,)) for v in results]


def _nanmedian(call: OperatorCall, x: Any) -> Any:
    return _nanmedian_dim(call, np.reshape(x, (-1,)), 0)[0]


def _mode(call: OperatorCall, x: Any, dim: int = -1, keep: bool = False) -> Any:
    """Return the least of the most frequent values, and its last index."""
    array = traced(x)
    if not array.ndim:
        return sort_with_indices(array, 0)
    at = axis_of(dim, array.ndim)
    moved = np.moveaxis(array, at, -1)
    same = np.equal(np.expand_dims(moved, -1), np.expand_dims(moved, -2))
    count = reduce_dims("ReduceSum", converted(same, "int64"), -1)
    often = np.equal(count, extreme("ReduceMax", count, -1, keep=True))
    values = extreme("ReduceMin", np.where(often, moved, _neutral(moved, "min")), -1, keep=True)
    is_mode = np.equal(moved, values)
    places = np.arange(moved.shape[-1])
    last = extreme("ReduceMax", np.where(is_mode, places, traced(numpy.int64(-1))), -1, keep=True)
    results = [np.moveaxis(v, -1, at) for v in (values, last)]
    return results if keep else [np.squeeze(v, (at,)) for v in results]


def _searchsorted(
    call: OperatorCall,
    row: Any,
    values: Any,
    narrow: bool = False,
    right: bool = False,
    edge: str | None = None,
    sorter: Any = None,
) -> Any:
    """Return the insertion index of each value in a sorted row."""
    edges, queries = call.promote(row, values)
    if sorter is not None:
        edges = emit("GatherElements", edges, as_indices(sorter), axis=edges.ndim - 1)
    after = right or edge == "right"
    if edges.ndim == 1:
        wide, each = edges, np.expand_dims(queries, -1)
    else:
        wide, each = np.expand_dims(edges, -2), np.expand_dims(queries, -1)
    compare = np.less_equal if after else np.less
    before = compare(wide, each)
    counts = reduce_dims("ReduceSum", converted(before, "int64"), -1)
    return cast(counts, call.dtype)


def _bucketize(
    call: OperatorCall, values: Any, row: Any, narrow: bool = False, right: bool = False
) -> Any:
    return _searchsorted(call, row, values, narrow, right)


def _isin(call: OperatorCall, x: Any, of: Any, unique: bool = False, invert: bool = False) -> Any:
    a, b = call.promote(x, of)
    same = np.equal(np.expand_dims(a, -1), np.reshape(b, (-1,)))
    is_present = np.any(same, -1)
    return np.logical_not(is_present) if invert else is_present


def _repeat_interleave(
    call: OperatorCall, x: Any, repeats: Any, dim: int | None = None, *_: Any
) -> Any:
    array = traced(x)
    if dim is None:
        array, dim = np.reshape(array, (-1,)), 0
    if not array.ndim:
        array = np.reshape(array, (1,))
    at = axis_of(dim, array.ndim)
    if isinstance(repeats, int):
        return np.repeat(array, repeats, at)
    counts = converted(repeats, "int64")
    if counts.ndim == 0 or counts.type.dims == (1,):
        counts = np.broadcast_to(np.reshape(counts, (1,)), (array.shape[at],))
    return emit("Gather", array, repeat_indices(counts), axis=at)


def _repeats(call: OperatorCall, repeats: Any, *_: Any) -> Any:
    return cast(repeat_indices(converted(repeats, "int64")), call.dtype)


def repeat_indices(counts: TracedArray) -> TracedArray:
    """Return index i repeated counts[i] times, for all i in order."""
    most = extreme("ReduceMax", counts, 0, keep=True)
    indices: TracedArray = np.nonzero(np.less(_runtime_range(most), np.expand_dims(counts, -1)))[0]
    return indices


def _runtime_range(count: TracedArray) -> TracedArray:
    """Return 0, 1, … below a runtime number."""
    zero, step = traced(numpy.int64(0)), traced(numpy.int64(1))
    kind = Tensor(None, "int64", 1)
    return emit("Range", zero, np.reshape(count, ()), step, types=[kind], dims=(None,))


def _histc(call: OperatorCall, x: Any, bins: int = 100, low: Any = 0, high: Any = 0) -> Any:
    array = np.ravel(call.cast(x))
    if low == high == 0:
        a, b = extreme("ReduceMin", array), extreme("ReduceMax", array)
        flat = np.equal(a, b)
        a, b = (np.where(flat, np.add(v, like(d, v)), v) for v, d in ((a, -1), (b, 1)))
    else:
        a, b = like(low, array), like(high, array)
    inside = np.logical_and(np.greater_equal(array, a), np.less_equal(array, b))
    share = np.divide(np.multiply(np.subtract(array, a), like(bins, a)), np.subtract(b, a))
    place = np.minimum(converted(np.floor(np.where(inside, share, like(0, a))), "int64"), bins - 1)
    ones = converted(inside, array.dtype)
    zeros = np.broadcast_to(like(0, array), (bins,))
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
    "index_add": _index_scatter("add"),
    "index_copy": _index_scatter("none"),
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
