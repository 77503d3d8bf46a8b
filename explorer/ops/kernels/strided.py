"""Affine reads and writes of a box of iterations as strided views: only padding copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from explorer.errors import ShapeError
from explorer.ir.affine import Affine
from explorer.ir.dtypes import dtype_of, is_stored_otherwise
from explorer.ir.shapes.dims import Sizes, evaluate_dim

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Span:
    """The iterations `start .. start + size` of an axis."""

    name: str
    start: int
    size: int


Box = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """An affine index over a box: a step for each span, its bounds, its value at the start."""

    steps: tuple[int, ...]
    low: int
    high: int
    origin: int


def bind(index: Affine, box: Box, sizes: Sizes) -> Index:
    """Evaluate an affine index under a binding of the symbols."""
    at = {name: evaluate_dim(c, sizes) for name, c in index.terms}
    origin, below, above, steps = evaluate_dim(index.const, sizes), 0, 0, list[int]()
    for span in box:  # one loop: it dominates kernels of small tensors
        step = at.pop(span.name, 0)
        end = step * (span.size - 1)
        origin += step * span.start
        below, above = below + min(0, end), above + max(0, end)
        steps.append(step)
    assert not at, f"an index uses {sorted(at)}, which no axis defines"
    return Index(tuple(steps), origin + below, origin + above, origin)


def window(array: Array, index: Sequence[Index], box: Box, *, writeable: bool = False) -> Array:
    """Return `array[index]` for every point of the box; unused spans have extent 1."""
    strides = [
        sum(i.steps[d] * s for i, s in zip(index, array.strides, strict=True))
        for d in range(len(box))
    ]
    used = [any(i.steps[d] for i in index) for d in range(len(box))]
    for i, n in zip(index, array.shape, strict=True):
        assert i.low >= 0 and i.high < n, f"an index runs {i.low} .. {i.high} in an extent of {n}"
    shape = [s.size if u else 1 for s, u in zip(box, used, strict=True)]
    if array.flags.c_contiguous and array.size and array.dtype.isbuiltin:  # the common case
        offset = sum(i.origin * s for i, s in zip(index, array.strides, strict=True))
        return np.ndarray(shape, array.dtype, array, offset, strides)
    first: Any = (*(slice(i.origin, None) for i in index), ...)
    start = array[first]  # a view, also of a scalar
    bits = start.view(_bits(array)) if is_stored_otherwise(dtype_of(array)) else start
    return as_strided(bits, shape, strides, writeable=writeable).view(array.dtype)


def _bits(array: Array) -> str:
    """Return a dtype of the same size that NumPy's strided views support."""
    return f"uint{8 * array.itemsize}"


def read(array: Array, index: Sequence[Index], fill: float | None, box: Box) -> Array:
    """Return `array[index]` for every point of the box, `fill` outside of the array."""
    inside = all(i.low >= 0 and i.high < n for i, n in zip(index, array.shape, strict=True))
    if inside:
        return window(array, index, box)
    assert fill is not None, "a read without a fill runs outside of its tensor"
    if prod(i.high - i.low + 1 for i in index) > 4 * (array.size + prod(s.size for s in box)):
        return gather(array, [points(i, box) for i in index], fill)
    return window(*_padded(array, index, fill), box)


def _padded(array: Array, index: Sequence[Index], fill: float) -> tuple[Array, list[Index]]:
    """Return the part of the array that is read, padded with `fill`, and the index into it."""
    slices = tuple(slice(max(i.low, 0), max(i.high + 1, 0)) for i in index)
    part = array[slices]
    widths = []
    for i, n in zip(index, part.shape, strict=True):
        span = i.high - i.low + 1
        before = min(max(0, -i.low), span)
        widths.append((before, span - before - n))
    value: Any = array.dtype.type(fill)
    return np.pad(part, widths, constant_values=value), [
        Index(i.steps, 0, i.high - i.low, i.origin - i.low) for i in index
    ]


def points(index: Index, box: Box) -> Array:
    """Return the values of an index over a box, as an array that broadcasts."""
    total: Array = np.full((1,) * len(box), index.origin, np.int64)
    for d, (step, span) in enumerate(zip(index.steps, box, strict=True)):
        if step:
            shape = [1] * len(box)
            shape[d] = span.size
            total = total + (step * np.arange(span.size, dtype=np.int64)).reshape(shape)
    return total


def gather(array: Array, index: Sequence[Array], fill: float | None) -> Array:
    """Return `array[index]` by index arrays; outside `fill`, or clamped without a fill."""
    shape = np.broadcast_shapes(*(i.shape for i in index))
    if not array.size and prod(shape):
        if fill is None:
            raise ShapeError(f"there is no element to select in a tensor of shape {array.shape}")
        return np.full(shape, fill, array.dtype)
    limits = [n - 1 for n in array.shape]
    clamped = tuple(np.clip(i, 0, n) for i, n in zip(index, limits, strict=True))
    selected: Array = array[clamped]
    if fill is None:
        return selected
    outside = np.zeros((), np.bool_)
    for i, c in zip(index, clamped, strict=True):
        outside = outside | (i != c)
    return np.where(outside, array.dtype.type(fill), selected)
