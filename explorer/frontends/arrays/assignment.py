"""`x[...] = y`, as the array that x is then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from explorer.frontends.arrays.axes import refuse
from explorer.frontends.arrays.choices import where
from explorer.frontends.arrays.creation import arange
from explorer.frontends.arrays.indexing import for_each_dim, getitem, items_of
from explorer.frontends.arrays.shaping import broadcast_to, ravel, reshape
from explorer.frontends.arrays.slices import checked, is_number
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.dims import plain_dim, python_dim
from explorer.frontends.tracing.emit import emit
from explorer.frontends.tracing.frames import current_frame, source_of
from explorer.frontends.tracing.promote import converted, traced
from explorer.ir.calls import OpCall
from explorer.ir.shapes.dims import Dim, product, simplify


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a dim: where it begins, None for all of it, and how many elements it has; `gone`
    where the index takes the dim away.
    """

    start: Any
    size: Dim
    gone: bool = False


def setitem(x: Any, index: Any, value: Any) -> TracedArray:
    """The array that is x with NumPy's `x[index] = value`; what a run places outside of x goes
    nowhere, and of several values for one element the last one stays.
    """
    with source_of("index"):
        given = traced(x)
        return _put(given, index, converted(value, given.dtype))


def _put(x: TracedArray, index: Any, value: TracedArray) -> TracedArray:
    written = index if isinstance(index, tuple) else (index,)
    masks = [m for m in written if _is_mask(m)]
    if len(masks) == len(written) == 1 and not value.ndim:
        mask = traced(masks[0])
        ones = (1,) * (x.ndim - mask.ndim)
        return _same(where(reshape(mask, (*mask.shape, *ones)), value, x), x)
    blocks = None if masks else _blocks(x, written)
    if blocks is not None:
        return _set_slice(x, blocks, value)
    every = reshape(arange(python_dim(product(x.type.dims))), x.shape)
    places = traced(getitem(every, index))
    _check_fit(value, places.type.dims)
    new = broadcast_to(_without_ones(value, places.ndim), places.shape)
    flat = emit("ScatterElements", ravel(x), ravel(places), ravel(new), axis=0)
    return _same(reshape(flat, x.shape), x)


def _is_mask(item: Any) -> bool:
    if isinstance(item, (TracedArray, numpy.ndarray, list)):
        return traced(item).dtype.kind == "b"
    return isinstance(item, bool)


def _same(y: TracedArray, x: TracedArray) -> TracedArray:
    if y.type.dims != x.type.dims:
        refuse(f"the index has {y.ndim} dims for an array of {x.ndim}, or other extents")
    return y


# Blocks.


def _blocks(x: TracedArray, written: tuple[Any, ...]) -> list[Block] | None:
    """The part of each dim, where all are numbers and slices in steps of one; else None."""
    items = for_each_dim([i for item in written for i in items_of(item)], x.ndim)
    found: list[Block] = []
    for axis, item in enumerate(items):
        block = None if item is None else _block(x, axis, item)
        if block is None:
            return None
        found.append(block)
    return found


def _block(x: TracedArray, axis: int, item: Any) -> Block | None:
    extent = x.type.dims[axis]
    if is_number(item):
        return Block(checked(item, x, axis), 1, gone=True)
    if isinstance(item, TracedArray):
        return None if item.ndim else Block(item, 1, gone=True)
    if item.step not in (None, 1):
        return None
    if item.start is None and item.stop is None:
        return Block(None, extent)
    return _part(extent, 0 if item.start is None else item.start, item.stop)


def _part(extent: Dim, start: Any, stop: Any) -> Block | None:
    """`start : stop` where how many elements that are is known."""
    first, last = plain_dim(start), extent if stop is None else plain_dim(stop)
    if isinstance(first, int) and isinstance(last, int) and isinstance(extent, int):
        low, high, _ = slice(first, last).indices(extent)
        return Block(low, max(high - low, 0))
    env = current_frame().recorder.env
    if first is not None and last is not None:
        size = simplify(last - first)
        known = all(env.bounds(d)[0] >= 0 for d in (first, size, simplify(extent - last)))
        return Block(python_dim(first), size) if known else None
    count = _distance(start, stop)
    if count is None or env.bounds(simplify(extent - count))[0] < 0:
        return None
    return Block(start, count)


def _distance(start: Any, stop: Any) -> Dim | None:
    """n where an index is `start : start + n`, n a number."""
    frame = current_frame()
    if not isinstance(start, TracedArray) or not isinstance(stop, TracedArray):
        return None
    wanted = frame.own(start.value, start.home)
    made = {v.name: b.expr for b in frame.body for v in b.vars}
    match made.get(stop.value.name):
        case OpCall("Add", (a, b)) if a is not None and b is not None and wanted in (a, b):
            other = frame.recorder.constants.get((b if a == wanted else a).name)
            return None if other is None else int(other.array.item())
    return None


def _set_slice(x: TracedArray, blocks: list[Block], value: TracedArray) -> TracedArray:
    kept = tuple(b.size for b in blocks if not b.gone)
    value = _without_ones(value, len(kept))
    _check_fit(value, kept)
    axes = tuple(d for d, b in enumerate(blocks) if b.start is not None)
    if not axes:
        return traced(broadcast_to(value, x.shape))
    # Along a block there must be all elements: how many there are says how long it is.
    dims = (1,) * (len(kept) - value.ndim) + value.type.dims
    cut = [b.start is not None for b in blocks if not b.gone]
    wide = tuple(python_dim(n if c else d) for n, d, c in zip(kept, dims, cut, strict=True))
    rest = iter(wide)
    update = reshape(broadcast_to(value, wide), tuple(1 if b.gone else next(rest) for b in blocks))
    starts = [_place(blocks[d].start) for d in axes]
    return emit("SetSlice", x, update, *starts, axes=axes)


def _place(start: Any) -> TracedArray:
    found = traced(numpy.int64(start)) if isinstance(start, int) else converted(start, "int64")
    return traced(reshape(found, ()))


def _without_ones(value: TracedArray, rank: int) -> TracedArray:
    """The value without the leading dims of 1 that the index has no dims for."""
    more = value.ndim - rank
    if more > 0 and all(d == 1 for d in value.type.dims[:more]):
        return traced(reshape(value, value.shape[more:]))
    return value


def _check_fit(value: TracedArray, wanted: tuple[Dim, ...]) -> None:
    """ShapeError where a value does not broadcast to the part that it is to be."""
    dims, env = value.type.dims, current_frame().recorder.env
    pairs = zip(reversed(dims), reversed(wanted), strict=False)
    if len(dims) <= len(wanted) and all(d == 1 or env.equal(d, n) is not False for d, n in pairs):
        return
    have, want = (", ".join(map(str, s)) for s in (dims, wanted))
    refuse(f"a value of shape [{have}] does not fit into a part of shape [{want}]")
