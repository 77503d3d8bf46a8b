"""Index assignment: `x[...] = y` as a new array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from explorer.frontends.python.arrays.creation import arange
from explorer.frontends.python.arrays.indexing import (
    basic_items,
    checked_index,
    getitem,
    is_number,
    items_by_dim,
)
from explorer.frontends.python.arrays.shaping import broadcast_to, ravel, refuse, reshape
from explorer.frontends.python.arrays.ufuncs import where
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.dims import plain_dim, python_dim
from explorer.frontends.python.tracing.emit import converted, emit, traced
from explorer.frontends.python.tracing.frames import attributed_to_call, current_frame
from explorer.ir.calls import OpCall
from explorer.ir.dims import Dim, product, simplify


@dataclass(frozen=True, slots=True)
class DimBlock:
    """A contiguous part of one dim.

    `start` is its first element, None for the full dim; `size` is its extent. `removes_dim` is True
    if the index removes the dim.
    """

    start: Any
    size: Dim
    removes_dim: bool = False


def setitem(x: Any, index: Any, value: Any) -> TracedArray:
    """Return x after NumPy's `x[index] = value`.

    Writes outside of x at run time are dropped. Of several values for one element, the last one
    wins.
    """
    with attributed_to_call("index"):
        array = traced(x)
        return _assign(array, index, converted(value, array.dtype))


def _assign(x: TracedArray, index: Any, value: TracedArray) -> TracedArray:
    written = index if isinstance(index, tuple) else (index,)
    masks = [m for m in written if _is_mask(m)]
    if len(masks) == len(written) == 1 and not value.ndim:
        mask = traced(masks[0])
        ones = (1,) * (x.ndim - mask.ndim)
        return _check_shape(where(reshape(mask, (*mask.shape, *ones)), value, x), x)
    blocks = None if masks else _blocks(x, written)
    if blocks is not None:
        return _assign_blocks(x, blocks, value)
    every = reshape(arange(python_dim(product(x.type.dims))), x.shape)
    places = traced(getitem(every, index))
    _check_broadcast(value, places.type.dims)
    new = broadcast_to(_drop_leading_ones(value, places.ndim), places.shape)
    flat = emit("ScatterElements", ravel(x), ravel(places), ravel(new), axis=0)
    return _check_shape(reshape(flat, x.shape), x)


def _is_mask(item: Any) -> bool:
    if isinstance(item, (TracedArray, numpy.ndarray, list)):
        return traced(item).dtype.kind == "b"
    return isinstance(item, bool)


def _check_shape(y: TracedArray, x: TracedArray) -> TracedArray:
    if y.type.dims != x.type.dims:
        refuse(f"the index has {y.ndim} dims for an array of {x.ndim} dims, or different extents")
    return y


# Blocks.


def _blocks(x: TracedArray, written: tuple[Any, ...]) -> list[DimBlock] | None:
    """Return the block of each dim; None unless all indices are numbers and slices of step 1."""
    items = items_by_dim([i for item in written for i in basic_items(item)], x.ndim)
    blocks: list[DimBlock] = []
    for axis, item in enumerate(items):
        block = None if item is None else _block(x, axis, item)
        if block is None:
            return None
        blocks.append(block)
    return blocks


def _block(x: TracedArray, axis: int, item: Any) -> DimBlock | None:
    extent = x.type.dims[axis]
    if is_number(item):
        return DimBlock(checked_index(item, x, axis), 1, removes_dim=True)
    if isinstance(item, TracedArray):
        return None if item.ndim else DimBlock(item, 1, removes_dim=True)
    if item.step not in (None, 1):
        return None
    if item.start is None and item.stop is None:
        return DimBlock(None, extent)
    return _slice_block(extent, 0 if item.start is None else item.start, item.stop)


def _slice_block(extent: Dim, start: Any, stop: Any) -> DimBlock | None:
    """Return the block of `start : stop`; None if its extent is unknown while tracing."""
    first, last = plain_dim(start), extent if stop is None else plain_dim(stop)
    if isinstance(first, int) and isinstance(last, int) and isinstance(extent, int):
        low, high, _ = slice(first, last).indices(extent)
        return DimBlock(low, max(high - low, 0))
    env = current_frame().recorder.env
    if first is not None and last is not None:
        size = simplify(last - first)
        is_inside = all(env.bounds(d)[0] >= 0 for d in (first, size, simplify(extent - last)))
        return DimBlock(python_dim(first), size) if is_inside else None
    count = _constant_extent(start, stop)
    if count is None or env.bounds(simplify(extent - count))[0] < 0:
        return None
    return DimBlock(start, count)


def _constant_extent(start: Any, stop: Any) -> Dim | None:
    """Return n if the index is `start : start + n` for a constant n."""
    frame = current_frame()
    if not isinstance(start, TracedArray) or not isinstance(stop, TracedArray):
        return None
    start_var = frame.own(start.value, start.home)
    bindings = {v.name: b.expr for b in frame.body for v in b.vars}
    match bindings.get(stop.value.name):
        case OpCall("Add", (a, b)) if a is not None and b is not None and start_var in (a, b):
            other = frame.recorder.constants.get((b if a == start_var else a).name)
            return None if other is None else int(other.array.item())
    return None


def _assign_blocks(x: TracedArray, blocks: list[DimBlock], value: TracedArray) -> TracedArray:
    extents = tuple(b.size for b in blocks if not b.removes_dim)
    value = _drop_leading_ones(value, len(extents))
    _check_broadcast(value, extents)
    axes = tuple(d for d, b in enumerate(blocks) if b.start is not None)
    if not axes:
        return traced(broadcast_to(value, x.shape))
    # Along a block the value must have every element, since its extent is the block's.
    dims = (1,) * (len(extents) - value.ndim) + value.type.dims
    cut = [b.start is not None for b in blocks if not b.removes_dim]
    wide = tuple(python_dim(n if c else d) for n, d, c in zip(extents, dims, cut, strict=True))
    extent_iter = iter(wide)
    update = reshape(
        broadcast_to(value, wide), tuple(1 if b.removes_dim else next(extent_iter) for b in blocks)
    )
    starts = [_start_index(blocks[d].start) for d in axes]
    return emit("SetSlice", x, update, *starts, axes=axes)


def _start_index(start: Any) -> TracedArray:
    index = traced(numpy.int64(start)) if isinstance(start, int) else converted(start, "int64")
    return traced(reshape(index, ()))


def _drop_leading_ones(value: TracedArray, rank: int) -> TracedArray:
    """Drop leading dims of 1 beyond the rank of the indexed part."""
    more = value.ndim - rank
    if more > 0 and all(d == 1 for d in value.type.dims[:more]):
        return traced(reshape(value, value.shape[more:]))
    return value


def _check_broadcast(value: TracedArray, extents: tuple[Dim, ...]) -> None:
    """Raise ShapeError unless the value broadcasts to the assigned part."""
    dims, env = value.type.dims, current_frame().recorder.env
    pairs = zip(reversed(dims), reversed(extents), strict=False)
    if len(dims) <= len(extents) and all(d == 1 or env.equal(d, n) is not False for d, n in pairs):
        return
    actual, expected = (", ".join(map(str, s)) for s in (dims, extents))
    refuse(f"a value of shape [{actual}] does not broadcast to a part of shape [{expected}]")
