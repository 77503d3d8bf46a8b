"""Writes at places that are data, turned round: each result looks for the updates that reach it.

A kernel writes at indices of its own axes only, so a scatter reads every row of indices for each
result. That is right for small numbers of rows; beyond `MOST_STEPS` a library call takes over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from explorer.ir.combiners import COMBINERS
from explorer.ir.kernel import Affine, Axis, Const, Expr, IndexValue, Read, var
from explorer.ir.shapes.dims import Dim, Shape, product, whole
from explorer.ir.types import DType, Tensor
from explorer.ops.arithmetic.broadcast import demand_shape, demand_within
from explorer.ops.arithmetic.elementwise import call
from explorer.ops.indexing.gather import from_end
from explorer.ops.kernels.scalar import identity
from explorer.ops.lowering import Lowering, letters
from explorer.ops.record import OperatorRecord
from explorer.ops.site import Array, Site

MOST_STEPS = 1 << 24  # results times rows of indices, at the symbols' hints
BY_STEP = {c.step: c for c in COMBINERS.values()}  # ONNX names a reduction by what it does


def _same(site: Site) -> tuple[Tensor, ...]:
    return (site.tensor(0),)


def _check_steps(low: Lowering, rows: Dim) -> None:
    env = low.site.env
    steps = env.hint(product(low.shape)) * env.hint(rows)
    if steps > MOST_STEPS:
        low.site.unsupported(f"{steps} pairs of results and updates have no kernel rule")


class _Scatter:
    """A scatter being lowered: which updates hit a result, and how they are combined."""

    def __init__(self, low: Lowering, name: str, over: Sequence[Axis]) -> None:
        self.low, self.site, self.nest = low, low.site, low.nest(name)
        self.over, self.axes = tuple(over), letters(low.shape)
        self.dtype, self.how = low.site.dtype(), low.site.text("reduction", "none")
        if self.how != "none" and (self.how not in BY_STEP or self.dtype == "bool"):
            low.site.unsupported(f"the reduction {self.how!r} of {self.dtype} has no kernel rule")
        self.x = Read(self.nest.tensor(low.site.arg(0), "x"), tuple(var(a.name) for a in self.axes))

    def place(self, value: Any, at: Sequence[Affine], extent: Dim) -> Expr:
        """An index that an update goes to."""
        dtype = value.type.element
        known = self.low.array(value)
        found = self.nest.load(value, "index", at)
        if known is not None and known.size and known.min() >= 0:
            return found
        return from_end(found, extent, dtype)

    def here(self, axis: Axis, dtype: DType) -> Expr:
        """The index of a result along one dim."""
        place = IndexValue(var(axis.name))
        return place if dtype == "int64" else call(f"cast_{dtype}", place)

    def last(self, hit: Expr, order: Expr, update: Any) -> None:
        """The last update that hits a result takes its place; `update(n)` is the nth."""
        none = Const(-1, "int64")
        shape = self.low.shape
        found = call("where", hit, order, none)
        self.nest.compute("last", shape, "int64", self.axes, found, self.over, "max")
        place = Read("last", tuple(var(a.name) for a in self.axes))
        y = call("where", call("ge", place, 0, dtype="int64"), update(place), self.x)
        self.nest.compute("y", shape, self.dtype, self.axes, y)
        self.nest.into(self.low.result)

    def combined(self, hit: Expr, update: Expr) -> None:
        """All updates that hit a result are combined with it."""
        combiner = BY_STEP[self.how].name
        shape, nothing = self.low.shape, identity(combiner, self.dtype).item()
        found = call("where", hit, update, Const(nothing, self.dtype))
        self.nest.compute("all", shape, self.dtype, self.axes, found, self.over, combiner)
        total = Read("all", tuple(var(a.name) for a in self.axes))
        self.nest.compute("y", shape, self.dtype, self.axes, call(self.how, self.x, total))
        self.nest.into(self.low.result)


# ScatterElements: an index for each update, along one axis.


def _elements_types(site: Site) -> tuple[Tensor, ...]:
    x = site.shape(0)
    demand_within(site, 1, x, site.axis(len(x)), "the tensor of indices")
    demand_shape(site, 2, site.shape(1), "the tensor of updates")
    return (site.tensor(0),)


def _lower_elements(low: Lowering) -> None:
    site, shape, rows = low.site, low.site.shape(0), low.site.shape(1)
    axis = site.axis(len(shape))
    _check_steps(low, rows[axis])
    s = _Scatter(low, "scatter_elements", [Axis("r", rows[axis])])
    index: list[Any] = [_kept(a, n, m) for a, n, m in zip(s.axes, shape, rows, strict=True)]
    inside = [_inside(a, n, m) for a, n, m in zip(s.axes, shape, rows, strict=True)]
    del inside[axis]
    index[axis] = var("r")
    dtype = site.dtype(1)
    place = s.place(site.arg(1), index, shape[axis])
    hits = [call("eq", place, s.here(s.axes[axis], dtype)), *(i for i in inside if i is not None)]
    hit = reduce(lambda a, b: call("and", a, b), hits)
    updates = s.nest.tensor(site.arg(2), "updates")

    def at(row: Affine | Expr) -> Expr:
        return Read(updates, tuple(row if d == axis else i for d, i in enumerate(index)))

    if s.how == "none":
        s.last(hit, IndexValue(var("r")), at)
    else:
        s.combined(hit, at(var("r")))


def _kept(axis: Axis, extent: Dim, rows: Dim) -> Affine | Expr:
    """A result's index into a dim of the updates, which may be shorter."""
    return var(axis.name) if extent == rows else IndexValue(var(axis.name))


def _inside(axis: Axis, extent: Dim, rows: Dim) -> Expr | None:
    if extent == rows:
        return None
    return call("lt", IndexValue(var(axis.name)), Const(rows, "int64"))


def _elements(attrs: Mapping[str, Any], args: Any) -> Any:
    x, index, updates = args[:3]
    y, axis, how = x.copy(), attrs.get("axis", 0), attrs.get("reduction", "none")
    index = np.where(index < 0, index + x.shape[axis], index)
    for at in np.ndindex(*index.shape):
        place = list(at)
        place[axis] = index[at]
        _put(y, tuple(place), updates[at], how)
    return y


def _put(y: Array, place: Any, update: Any, how: str) -> None:
    y[place] = update if how == "none" else BY_STEP[how].numpy(y[place], update)


# ScatterND: each row of indices names a place in the leading dims.


def _nd_types(site: Site) -> tuple[Tensor, ...]:
    x, rows = site.shape(0), site.shape(1)
    depth = rows[-1] if rows else 0
    if not isinstance(depth, int) or not 1 <= depth <= len(x):
        site.fail(f"rows of {depth} indices do not fit into a tensor of rank {len(x)}")
    demand_shape(site, 2, (*rows[:-1], *x[depth:]), "the tensor of updates")
    return (site.tensor(0),)


def _lower_nd(low: Lowering) -> None:
    site, shape, index = low.site, low.site.shape(0), low.site.shape(1)
    rows, depth = index[:-1], whole(index[-1])
    _check_steps(low, product(rows))
    s = _Scatter(low, "scatter_nd", [Axis(f"r{d}", n) for d, n in enumerate(rows)])
    at = tuple(var(a.name) for a in s.over)
    hits = [
        call(
            "eq",
            s.place(site.arg(1), (*at, Affine((), d)), shape[d]),
            s.here(s.axes[d], site.dtype(1)),
        )
        for d in range(depth)
    ]
    hit = reduce(lambda a, b: call("and", a, b), hits)
    updates = s.nest.tensor(site.arg(2), "updates")
    rest = tuple(var(a.name) for a in s.axes[depth:])
    if s.how != "none":
        s.combined(hit, Read(updates, (*at, *rest)))
        return
    if not rows:  # one row: it hits or it does not
        s.nest.compute("y", shape, s.dtype, s.axes, call("where", hit, Read(updates, rest), s.x))
        s.nest.into(low.result)
        return
    order = IndexValue(_row_number(at, rows))
    s.last(hit, order, lambda n: Read(updates, (*_unravelled(n, rows), *rest)))


def _row_number(at: Sequence[Affine], rows: Shape) -> Affine:
    total = Affine()
    for d, place in enumerate(at):
        total = total + place * product(rows[d + 1 :])
    return total


def _unravelled(number: Expr, rows: Shape) -> tuple[Expr, ...]:
    """The index of a row from its number."""
    found = []
    for d in range(len(rows)):
        inner = product(rows[d + 1 :])
        place = number if inner == 1 else call("floordiv", number, Const(inner, "int64"))
        found.append(place if d == 0 else call("mod", place, Const(rows[d], "int64")))
    return tuple(found)


def _nd(attrs: Mapping[str, Any], args: Any) -> Any:
    x, index, updates = args[:3]
    y, how = x.copy(), attrs.get("reduction", "none")
    for at in np.ndindex(*index.shape[:-1]):
        place = tuple(index[at])
        y[place] = updates[at] if how == "none" else BY_STEP[how].numpy(y[place], updates[at])
    return y


# TensorScatter: rows of a cache from a place on, which each batch names.


def _cache_types(site: Site) -> tuple[Tensor, ...]:
    x, update = site.shape(0), site.shape(1)
    axis = site.axis(len(x), -2)
    if not axis:
        site.fail("the cache is a row for each of a batch: its axis cannot be the first dim")
    demand_within(site, 1, x, -1, "the update")
    demand_shape(site, 1, (*x[:axis], *update[axis : axis + 1], *x[axis + 1 :]), "the update")
    if site.has(2):
        demand_shape(site, 2, x[:1], "the tensor of first places")
    return (site.tensor(0),)


def _lower_cache(low: Lowering) -> None:
    site, nest, shape = low.site, low.nest("tensor_scatter"), low.shape
    axis, rows = site.axis(len(shape), -2), site.shape(1)[site.axis(len(shape), -2)]
    circular = site.text("mode", "linear") == "circular"

    def body(axes: tuple[Axis, ...]) -> Expr:
        place: Expr = IndexValue(var(axes[axis].name))
        if site.has(2):
            start = nest.load(site.arg(2), "start", (var(axes[0].name),))
            place = call("sub", place, call("cast_int64", start))
        if circular:
            place = call("mod", place, Const(shape[axis], "int64"))
        inside = call(
            "and",
            call("ge", place, 0, dtype="int64"),
            call("lt", place, Const(rows, "int64")),
        )
        index = tuple(place if d == axis else var(a.name) for d, a in enumerate(axes))
        update = Read(nest.tensor(site.arg(1), "update"), index)
        return call("where", inside, update, nest.along(site.arg(0), "x", axes))

    nest.map("y", low.result, body)


def _cache(attrs: Mapping[str, Any], args: Any) -> Any:
    x, update, starts = (*args, None)[:3]
    y, axis = x.copy(), attrs.get("axis", -2) % x.ndim
    for b in range(x.shape[0]):
        first = 0 if starts is None else int(starts[b])
        for i in range(update.shape[axis]):
            at = (first + i) % x.shape[axis] if attrs.get("mode") == "circular" else first + i
            rows: Any = [b] + [slice(None)] * (x.ndim - 1)
            source = list(rows)
            rows[axis], source[axis] = at, i
            y[tuple(rows)] = update[tuple(source)]
    return y


RECORDS = (
    OperatorRecord("ScatterElements", "layout", _elements_types, _elements, _lower_elements),
    OperatorRecord("ScatterND", "layout", _nd_types, _nd, _lower_nd),
    OperatorRecord("TensorScatter", "layout", _cache_types, _cache, _lower_cache, first=24),
)
