"""Operators that move elements: slices with negative steps, pads, gathers, scatters, views."""

from __future__ import annotations

from math import prod

import numpy as np

from tests.strategies.choices import Refused
from tests.strategies.onnx.graph import FLOATS, WHOLE, Graph, Value
from tests.strategies.onnx.recipes import axes_of, random_array

ANY = (*FLOATS, "float32", "int64", "int32", "bool")


def transpose(g: Graph) -> None:
    value = g.pick(ANY)
    g.add("Transpose", value, perm=g.choices.permutation(value.rank))


def reshape(g: Graph) -> None:
    value = g.pick(ANY)
    if not value.static:  # the first dim stays
        rest = value.shape[1:]
        if not all(isinstance(n, int) for n in rest):
            raise Refused
        g.add("Reshape", value, g.whole(0, -1))
        return
    size = prod(value.extents)
    parts: list[int] = []
    while size > 1 and len(parts) < 4:
        divisors = [d for d in range(2, min(size, 70) + 1) if size % d == 0] or [size]
        parts.append(int(g.one(divisors)))
        size //= parts[-1]
    parts.append(size)
    if g.chance(0.3):
        parts.insert(g.number(0, len(parts)), 1)
    if 0 not in parts and g.chance(0.3):
        parts[g.number(0, len(parts) - 1)] = -1
    g.add("Reshape", value, g.whole(*parts[:6]), allowzero=int(0 in parts))


def flatten(g: Graph) -> None:
    value = g.pick(ANY)
    g.add("Flatten", value, axis=g.number(-value.rank, value.rank))


def squeeze(g: Graph) -> None:
    value = g.pick(ANY)
    ones = [n for n, extent in enumerate(value.shape) if extent == 1]
    if ones and g.chance(0.6):
        chosen = [int(n) - (value.rank if g.chance(0.4) else 0) for n in ones[: g.number(1, 3)]]
        g.add("Squeeze", value, g.whole(*chosen))
    elif value.rank < 5:
        g.add("Unsqueeze", value, g.whole(g.number(-value.rank - 1, value.rank)))


def sliced(g: Graph) -> None:
    value = g.pick(ANY)
    axes = axes_of(g, value)
    starts, ends, steps = [], [], []
    for axis in axes:
        n = value.extent(axis)
        step = g.one((1, 1, 2, -1, -1, -2, 3, -3))
        low, high = sorted((g.number(0, n), g.number(0, n)))
        if g.chance(0.4):
            low, high = 0, n
        if step > 0:
            start, end = low, high if g.chance(0.7) else 2**31
        else:
            start, end = high - 1 if high else 0, low - 1 if low else -(2**31)
        starts.append(start - n if g.chance(0.3) and start < n else start)
        ends.append(end)
        steps.append(step)
    found = g.add("Slice", value, g.whole(*starts), g.whole(*ends), g.whole(*axes), g.whole(*steps))
    if found.static and 0 in found.extents and g.chance(0.8):
        raise Refused


def padded(g: Graph) -> None:
    value = g.pick((*FLOATS, "int64", "int32"))
    mode = g.one(("constant", "constant", "reflect", "edge", "wrap"))
    if mode == "wrap" and g.opset < 19:
        raise Refused
    pads = []
    for n in value.shape * 2:
        most = 3 if mode in ("constant", "edge") else (n if isinstance(n, int) else 1) - 1
        least = -1 if mode == "constant" and isinstance(n, int) and n > 4 else 0
        pads.append(g.number(least, max(0, min(3, most))) if g.chance(0.5) else 0)
    filler = None
    if mode == "constant" and g.chance(0.5):
        filler = g.constant(g.one((0, 1, -2)), value.dtype)
    g.add("Pad", value, g.whole(*pads), filler, mode=mode)


def tiled(g: Graph) -> None:
    value = g.pick(ANY)
    g.add("Tile", value, g.whole(*(g.one((1, 1, 2, 3)) for _ in value.shape)))


def expanded(g: Graph) -> None:
    value = g.pick(ANY)
    shape = [g.one((1, 3, 8)) if n == 1 else 1 for n in value.shape]
    g.add("Expand", value, g.whole(*([g.one((2, 1))] if g.chance(0.3) else []), *shape))


def joined(g: Graph) -> None:
    value = g.pick(ANY)
    axis = g.axis(value)
    rest = [n for i, n in enumerate(value.shape) if i != axis % value.rank]

    def fits(v: Value) -> bool:
        return (
            v.dtype == value.dtype
            and v.rank == value.rank
            and rest == [n for i, n in enumerate(v.shape) if i != axis % value.rank]
        )

    others = [v for v in g.values if fits(v)]
    chosen = [value, *(g.one(others) for _ in range(g.number(0, 3)))]
    g.add("Concat", *chosen, axis=axis)


def split(g: Graph) -> None:
    value = g.pick(ANY)
    axis = g.axis(value)
    n = value.extent(axis)
    if n < 1:
        raise Refused
    count = g.number(1, min(4, n))
    if g.chance(0.3):
        g.add_all("Split", value, axis=axis, num_outputs=count, results=count)
        return
    cuts = sorted(int(c) for c in g.rng.integers(0, n + 1, count - 1))
    sizes = np.diff([0, *cuts, n])
    g.add_all("Split", value, g.whole(*(int(s) for s in sizes)), axis=axis, results=count)


def indices(g: Graph, shape: tuple[int, ...], limit: int) -> Value:
    """Whole numbers from -limit to limit - 1."""
    if limit < 1:
        raise Refused
    dtype = g.one(("int64", "int64", "int32"))
    return g.constant(g.rng.integers(-limit if g.chance(0.4) else 0, limit, shape), dtype)


def gather(g: Graph) -> None:
    value = g.pick(ANY)
    axis = g.axis(value)
    shape = tuple(g.one((1, 2, 3, 5)) for _ in range(g.number(0, 2)))
    g.add("Gather", value, indices(g, shape, value.extent(axis)), axis=axis)


def gather_elements(g: Graph) -> None:
    value = g.pick(ANY)
    axis = g.axis(value)
    shape = tuple(g.number(1, min(n, 9)) if n else 0 for n in value.extents)
    at = indices(g, shape, value.extent(axis))
    if g.chance(0.6):
        g.add("GatherElements", value, at, axis=axis)
        return
    updates = g.constant(random_array(g, value.dtype, shape))
    reduction = "none" if value.dtype == "bool" else g.one(("none", "add", "mul", "max", "min"))
    if reduction == "none":  # no element is written twice
        chosen = g.choices.permutation(value.extent(axis))[: shape[axis]]
        turned = np.moveaxis(np.empty(shape, np.int64), axis, -1)
        turned[...] = chosen
        at = g.constant(np.moveaxis(turned, -1, axis))
    g.add("ScatterElements", value, at, updates, axis=axis, reduction=reduction)


def gather_nd(g: Graph) -> None:
    value = g.pick(ANY)
    depth = g.number(1, value.rank)
    shape = tuple(g.number(1, 4) for _ in range(g.number(1, 2)))
    rows = [g.rng.integers(0, max(1, n), shape) for n in value.extents[:depth]]
    if not all(value.extents[:depth]):
        raise Refused
    at = np.stack(rows, -1)
    if g.chance(0.5):
        g.add("GatherND", value, g.constant(at))
        return
    updates = random_array(g, value.dtype, (*shape, *value.extents[depth:]))
    reduction = "none" if value.dtype == "bool" else g.one(("none", "add", "mul", "max", "min"))
    if reduction == "none" and len({tuple(r) for r in at.reshape(-1, depth)}) < prod(shape):
        raise Refused
    g.add("ScatterND", value, g.constant(at), g.constant(updates), reduction=reduction)


def scatter(g: Graph) -> None:
    """Many updates that are computed, several on one element, by indices of both signs."""
    value = g.pick(ANY)
    if value.dtype == "bool":
        raise Refused
    reduction, rows = g.one(("add", "add", "max", "min", "mul")), g.number(1, 40)
    if g.chance(0.5):
        axis = g.axis(value)
        shape = [g.number(1, n) if n and g.chance(0.3) else n for n in value.extents]
        shape[axis] = rows
        here, there = (indices(g, tuple(shape), value.extent(axis)) for _ in "ab")
        updates = g.add("GatherElements", value, there, axis=axis)
        g.add("ScatterElements", value, here, updates, axis=axis, reduction=reduction)
        return
    limits = value.extents[: g.number(1, value.rank)]
    if not all(limits):
        raise Refused
    here, there = (
        g.constant(np.stack([g.rng.integers(-n, n, rows) for n in limits], -1)) for _ in "ab"
    )
    updates = g.add("GatherND", value, there)
    g.add("ScatterND", value, here, updates, reduction=reduction)


def trilu(g: Graph) -> None:
    value = g.pick(ANY, (2, 3, 4, 5))
    offset = g.constant(g.number(-3, 3), np.int64) if g.chance(0.7) else None
    g.add("Trilu", value, offset, upper=g.number(0, 1))


def top(g: Graph) -> None:
    value = g.pick((*FLOATS, "int64", "int32"))
    axis = g.axis(value)
    n = value.extent(axis)
    if n < 1:
        raise Refused
    count, largest = g.whole(g.number(1, n)), g.number(0, 1)
    g.add_all("TopK", value, count, axis=axis, largest=largest, sorted=1, results=2)


def one_hot(g: Graph) -> None:
    value = g.pick(("int64", "int32"), (0, 1, 2, 3))
    depth = g.number(1, 9)
    pair = g.constant([0, 1], g.one(("float32", "int64")))
    many, axis = g.constant(depth, "int64"), g.number(-value.rank - 1, value.rank)
    g.add("OneHot", value, many, pair, axis=axis)


def reversed_rows(g: Graph) -> None:
    value = g.pick(FLOATS, (2, 3, 4))
    time = g.number(0, 1)
    steps, batch = value.extent(time), value.extent(1 - time)
    if not steps:
        raise Refused
    lengths = g.constant(g.rng.integers(1, steps + 1, (batch,)), "int64")
    g.add("ReverseSequence", value, lengths, time_axis=time, batch_axis=1 - time)


def shape_of(g: Graph) -> None:
    value = g.pick(ANY)
    shape = g.add("Shape", value)
    if g.chance(0.5):
        return
    filled = g.add("ConstantOfShape", shape)
    g.add("Add", value, filled) if value.dtype == "float32" else None


def numbers(g: Graph) -> None:
    dtype = g.one((*WHOLE[:2], "float32"))
    low, high, step = g.number(-3, 3), g.number(4, 20), g.one((1, 2, 3))
    if g.chance(0.3):
        low, high, step = high, low, -step
    g.add("Range", *(g.constant(n, dtype) for n in (low, high, step)))
