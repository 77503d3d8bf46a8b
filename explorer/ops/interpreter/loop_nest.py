"""Semantics of a loop-level kernel in NumPy: computes in order, over boxes that fit a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product as every
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from explorer.errors import ShapeError, VerifyError
from explorer.ir.affine import Affine
from explorer.ir.combiners import COMBINERS
from explorer.ir.dims import Sizes, evaluate_dim, evaluate_shape
from explorer.ir.dtypes import (
    as_computed,
    computed,
    dtype_of,
    is_float,
    is_stored_otherwise,
    numpy_dtype,
)
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Const,
    Expr,
    IndexValue,
    Kernel,
    Read,
    variables,
)
from explorer.ir.kernels.scatter import Scatter, scatter
from explorer.ir.scalar_functions import Value
from explorer.ops.interpreter.scalar import call, identity, number
from explorer.process.budget import check_room

MAP_ELEMENTS = 1 << 19  # in a temporary: 2 MB of float32
REDUCE_ELEMENTS = 1 << 22
CONTRACT_ELEMENTS = 1 << 22  # 16 MB of float32

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Span:
    """The iterations `start .. start + size` of an axis."""

    name: str
    start: int
    size: int


Box = tuple[Span, ...]


def evaluate_kernel(kernel: Kernel, arrays: Sequence[Array], sizes: Sizes) -> Array:
    """Return the only output of a kernel."""
    (output,) = evaluate_outputs(kernel, arrays, sizes)
    return output


def evaluate_outputs(kernel: Kernel, arrays: Sequence[Array], sizes: Sizes) -> tuple[Array, ...]:
    """Evaluate a kernel on its inputs, under a binding of the symbols."""
    values = dict(zip(kernel.inputs, arrays, strict=True))
    with np.errstate(all="ignore"):
        for compute in kernel.computes:
            if compute.out not in values:
                taken = kernel.updated(compute.out)
                values[compute.out] = (
                    np.array(values[taken]) if taken else _blank(kernel, compute, sizes)
                )
            to = scatter(kernel, compute)
            if to is None or _varies(to):
                _run(compute, values, sizes)
            else:
                _scatter(compute, to, values, sizes)
    return tuple(values[name] for name in kernel.outputs)


def _blank(kernel: Kernel, compute: Compute, sizes: Sizes) -> Array:
    """Allocate a compute's tensor; NaN where it could be left unwritten."""
    spec = kernel.spec(compute.out)
    shape, dtype = evaluate_shape(spec.shape, sizes), numpy_dtype(spec.dtype)
    check_room(prod(shape) * dtype.itemsize, f"{compute.out!r}, {dtype}{list(shape)},", compute.out)
    out = np.empty(shape, dtype)
    if not compute.is_plain and is_float(spec.dtype):
        out.fill(np.nan)
    return out


def _spans(axes: Sequence[Axis], sizes: Sizes) -> Box:
    return tuple(Span(a.name, 0, evaluate_dim(a.extent, sizes)) for a in axes)


def _run(compute: Compute, values: dict[str, Array], sizes: Sizes) -> None:
    out, box, over = (
        values[compute.out],
        _spans(compute.axes, sizes),
        _spans(compute.reduce, sizes),
    )
    if any(s.size == 0 for s in box):
        return
    plan = _plan_parts(compute, _Nest(values, sizes), box, over, dtype_of(out))
    for part in _parts(box, plan):
        index = [bind(i, part, sizes) for i in compute.target]
        window(out, index, part, writeable=True)[...] = plan.value(part)


def _varies(to: Scatter) -> bool:
    """Return True if an element depends on the position that it is scattered to."""
    return bool(variables(to.update) & {a.name for a, _ in to.places})


def _scatter(compute: Compute, to: Scatter, values: dict[str, Array], sizes: Sizes) -> None:
    """Scatter elements in order, each result as a reduction of the elements that hit it."""
    out, nest = values[compute.out], _Nest(values, sizes)
    result_box = _spans(compute.axes, sizes)
    index = [bind(i, result_box, sizes) for i in compute.target]
    combiner = compute.combiner or "sum"
    results = np.full([s.size for s in result_box], identity(combiner, dtype_of(out)))
    if results.size:
        over = frozenset(a.name for a in to.over)
        plan = _PartPlan(lambda part: None, _elements, MAP_ELEMENTS, over)
        scattered_box = _spans((*to.over, *to.apart, *to.rows), sizes)
        for part in _parts(scattered_box, plan) if _elements(scattered_box) else ():
            _combine(results, compute, to, nest, part)
        window(out, index, result_box, writeable=True)[...] = results


def _combine(results: Array, compute: Compute, to: Scatter, nest: _Nest, part: Box) -> None:
    """Combine one part of the elements into the results, in order."""
    shape = [s.size for s in part]
    places = {a.name: np.broadcast_to(nest.value(e, part), shape) for a, e in to.places}
    hit = np.ones(shape, np.bool_)
    for axis, n in zip(compute.axes, results.shape, strict=True):
        if axis.name in places:
            hit &= (places[axis.name] >= 0) & (places[axis.name] < n)
    every = places | dict(zip((s.name for s in part), np.indices(shape, sparse=True)))
    for s in part:
        every[s.name] = every[s.name] + s.start
    at = tuple(np.broadcast_to(every[a.name], shape)[hit] for a in compute.axes)
    update = np.broadcast_to(nest.value(to.update, part), shape)[hit]
    COMBINERS[compute.combiner or "sum"].numpy.at(results, at, update)


@dataclass(frozen=True, slots=True)
class _PartPlan:
    """How to compute a part of a box, its limit on weight, and the axes to split."""

    value: Callable[[Box], Value]
    weight: Callable[[Box], int]
    limit: int
    cut: frozenset[str]


def _plan_parts(compute: Compute, nest: _Nest, box: Box, over: Box, dtype: str) -> _PartPlan:
    expr, combiner, points_each = compute.expr, compute.combiner, prod(s.size for s in over)
    every_axis = frozenset(s.name for s in box)
    if combiner is None:
        return _PartPlan(lambda part: nest.value(expr, part), _elements, MAP_ELEMENTS, every_axis)
    if points_each == 0:
        return _PartPlan(
            lambda part: identity(combiner, dtype), _elements, _elements(box), every_axis
        )
    if combiner == "sum" and isinstance(expr, Apply) and is_contraction(expr, box, over):
        return _contraction(expr, nest, box, over)
    combine = COMBINERS[combiner].numpy
    if points_each <= 128 and _elements(box) >= 32 * points_each:
        return _PartPlan(
            lambda part: nest.reduction(expr, part, over, combine),
            _elements,
            MAP_ELEMENTS,
            every_axis,
        )
    return _PartPlan(
        lambda part: nest.reduce(expr, part, over, combine, dtype),
        lambda part: _elements(part) * points_each,
        REDUCE_ELEMENTS,
        every_axis,
    )


def _contraction(expr: Apply, nest: _Nest, box: Box, over: Box) -> _PartPlan:
    a, b = expr.args
    largest = max(expr.args, key=lambda x: nest.touched(x, box + over))
    return _PartPlan(
        lambda part: contract(nest.value(a, part + over), nest.value(b, part + over), part, over),
        lambda part: nest.touched(largest, part + over),
        CONTRACT_ELEMENTS,
        variables(largest),
    )


def _elements(box: Box) -> int:
    return prod(s.size for s in box)


def _parts(box: Box, plan: _PartPlan) -> Iterator[Box]:
    """Yield the box, halved along its first long span until each part is light enough."""
    long = [d for d, s in enumerate(box) if s.size > 1 and s.name in plan.cut]
    if not long or plan.weight(box) <= plan.limit:
        yield box
        return
    at = long[0]
    span, half = box[at], box[at].size // 2
    for first, last in ((0, half), (half, span.size)):
        yield from _parts(
            (*box[:at], Span(span.name, span.start + first, last - first), *box[at + 1 :]), plan
        )


class _Nest:
    """The tensors and symbols that expressions are evaluated in."""

    def __init__(self, tensors: dict[str, Array], sizes: Sizes) -> None:
        """Hold the tensors and the sizes."""
        self.tensors, self.sizes = tensors, sizes

    def value(self, expr: Expr, box: Box) -> Value:
        """Evaluate an expression at every point of a box, as an array that broadcasts to it."""
        match expr:
            case Const(value, dtype):
                return number(value, dtype, self.sizes)
            case IndexValue(index):
                return points(bind(index, box, self.sizes), box)
            case Read():
                return self._read(expr, box)
            case Apply(op, args):
                return call(op, [self.value(a, box) for a in args])

    def _read(self, expr: Read, box: Box) -> Array:
        array, affine = self.tensors[expr.tensor], [i for i in expr.index if isinstance(i, Affine)]
        if len(affine) == len(expr.index):
            elements = read(array, [bind(i, box, self.sizes) for i in affine], expr.fill, box)
        else:
            elements = gather(array, [self._points(i, box) for i in expr.index], expr.fill)
        return np.asarray(as_computed(elements))

    def _points(self, index: Affine | Expr, box: Box) -> Array:
        if isinstance(index, Affine):
            return points(bind(index, box, self.sizes), box)
        return np.asarray(self.value(index, box))

    def touched(self, expr: Expr, box: Box) -> int:
        """Return how many elements of a box an expression distinguishes."""
        names = variables(expr)
        return prod(s.size for s in box if s.name in names)

    def reduction(self, expr: Expr, part: Box, over: Box, combine: np.ufunc) -> Value:
        """Reduce one point of `over` at a time: each step is a long vector."""
        total: Value = None
        for at in every(*(range(s.size) for s in over)):
            point = tuple(Span(s.name, i, 1) for s, i in zip(over, at, strict=True))
            value = np.asarray(self.value(expr, part + point))
            value = value.reshape(value.shape[: len(part)])
            total = value if total is None else combine(total, value)
        return total

    def reduce(self, expr: Expr, part: Box, over: Box, combine: np.ufunc, dtype: str) -> Value:
        """Reduce over the whole box at once."""
        value = np.asarray(self.value(expr, part + over))
        value = value.reshape(value.shape or (1,) * len(part + over))
        outer = tuple(value.shape[: len(part)])
        value = np.broadcast_to(value, outer + tuple(s.size for s in over))
        axes = tuple(range(len(part), len(part + over)))
        return combine.reduce(value, axis=axes, dtype=numpy_dtype(computed(dtype)))


# Sums of products as matrix products: axes sorted into batch, rows, columns and depth.


def is_contraction(expr: Expr, axes: Box, over: Box) -> bool:
    """Return True for a sum of products in which one operand lacks an output axis."""
    if not (isinstance(expr, Apply) and expr.op == "mul"):
        return False
    a, b = (variables(x) for x in expr.args)
    free = {s.name for s in axes if s.size > 1}
    return {s.name for s in over} <= a | b and bool((free & a) ^ (free & b))


def contract(a: Array, b: Array, axes: Box, over: Box) -> Array:
    """Return `sum over over of a * b` by `axes`.

    a, b and the result broadcast; a and b may also be single numbers.
    """
    dims, split = range(len(axes) + len(over)), len(axes)
    a, b = (np.reshape(x, np.shape(x) or (1,) * len(dims)) for x in (a, b))
    in_a, in_b = ({d for d in dims if x.shape[d] > 1} for x in (a, b))
    alone = [d for d in dims if d >= split and (d in in_a) != (d in in_b)]
    if alone and not (np.isfinite(a).all() and np.isfinite(b).all()):
        a, b = _spread(a, b, alone)  # inf * 1 + inf * -1 is NaN, and inf * (1 - 2) is not
        in_a, in_b = in_a.union(alone), in_b.union(alone)
    a = _sum_away(a, [d for d in alone if d not in in_b])
    b = _sum_away(b, [d for d in alone if d not in in_a])
    batch = [d for d in dims if d < split and d in in_a & in_b]
    depth = [d for d in dims if d >= split and d in in_a & in_b]
    rows = [d for d in dims if d < split and d in in_a - in_b]
    columns = [d for d in dims if d < split and d in in_b - in_a]
    left, right = _matrix(a, batch, rows, depth), _matrix(b, batch, columns, depth).swapaxes(-1, -2)
    result: Array = np.matmul(left, right)
    order = (*batch, *rows, *columns)
    result = result.reshape([(axes[d].size) for d in order])
    missing = [d for d in range(split) if d not in order]
    result = result.reshape(result.shape + (1,) * len(missing))
    return result.transpose(np.argsort((*order, *missing)))


def _spread(a: Array, b: Array, dims: Sequence[int]) -> tuple[Array, Array]:
    """Broadcast both operands against each other at these dims."""
    shapes = (list(a.shape), list(b.shape))
    for d in dims:
        for shape in shapes:
            shape[d] = max(a.shape[d], b.shape[d])
    return np.broadcast_to(a, shapes[0]), np.broadcast_to(b, shapes[1])


def _sum_away(x: Array, dims: Sequence[int]) -> Array:
    return x.sum(axis=tuple(dims), keepdims=True, dtype=x.dtype) if dims else x


def _matrix(x: Array, batch: Sequence[int], free: Sequence[int], depth: Sequence[int]) -> Array:
    """Return `x[batch, free, depth]`, each group one dim; if copied, along its densest dim."""
    sizes = [prod(x.shape[d] for d in group) for group in (batch, free, depth)]
    absent = [d for d in range(x.ndim) if d not in (*batch, *free, *depth)]
    densest = min((*free, *depth), key=lambda d: abs(x.strides[d]), default=-1)
    if densest in free:
        return (
            x.transpose(*absent, *batch, *depth, *free)
            .reshape(sizes[0], sizes[2], sizes[1])
            .swapaxes(1, 2)
        )
    matrix: Array = x.transpose(*absent, *batch, *free, *depth).reshape(sizes)
    return matrix


# Affine reads and writes of a box of iterations as strided views: only padding copies.


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
    if fill is None:
        spans = ", ".join(f"{i.low} to {i.high}" for i in index)
        raise VerifyError(f"a read without a fill is at {spans} in a tensor of {array.shape}")
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
