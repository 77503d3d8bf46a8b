"""Semantics of a loop-level kernel in NumPy: computes in order, over boxes that fit a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product as every
from math import prod

import numpy as np

from explorer.budget import check_room
from explorer.ir.affine import Affine
from explorer.ir.combiners import COMBINERS
from explorer.ir.dtypes import as_computed, computed, dtype_of, is_float, numpy_dtype
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
from explorer.ir.patterns.scatter import Scatter, scatter
from explorer.ir.scalar_functions import Value
from explorer.ir.shapes.dims import Sizes, evaluate_dim, evaluate_shape
from explorer.ops.kernels.contract import contract, is_contraction
from explorer.ops.kernels.scalar import call, identity, number
from explorer.ops.kernels.strided import Array, Box, Span, bind, gather, points, read, window

MAP_ELEMENTS = 1 << 19  # in a temporary: 2 MB of float32
REDUCE_ELEMENTS = 1 << 22
CONTRACT_ELEMENTS = 1 << 22  # 16 MB of float32


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
