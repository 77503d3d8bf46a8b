"""Writes at data-dependent positions: each result reduces the updates that hit it.

A scatter is a store with a combiner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.combiners import COMBINERS
from explorer.ir.dims import Dim, Shape, concrete_dim, product
from explorer.ir.dtypes import computed
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read, variables
from explorer.ir.kernels.scatter import scattered
from explorer.ir.types import Tensor
from explorer.ops.elementwise import call
from explorer.ops.gather import check_indices, from_end
from explorer.ops.lowering import Lowering, entry, letters
from explorer.ops.record import Array, OperatorRecord, Site
from explorer.ops.shape_rules import agree, demand_shape, demand_within

Places: TypeAlias = Sequence[tuple[Axis, Expr]]  # the position of an update, by axis of the results
BY_STEP = {c.step: c for c in COMBINERS.values()}  # ONNX names a reduction by its step


class _Scatter:
    """A scatter being lowered: the positions of updates, and how they are combined."""

    def __init__(self, low: Lowering, name: str, over: Sequence[Axis]) -> None:
        """Check the reduction, and start the kernel."""
        self.low, self.site, self.nest = low, low.site, low.nest(name)
        self.over, self.axes = tuple(over), letters(low.shape)
        self.dtype, self.how = low.site.dtype(), low.site.text("reduction", "none")
        if self.how != "none" and (self.how not in BY_STEP or self.dtype == "bool"):
            low.site.unsupported(f"the reduction {self.how!r} of {self.dtype} has no kernel rule")
        self.x = Read(self.nest.tensor(low.site.arg(0), "x"), tuple(var(a.name) for a in self.axes))

    def place(self, value: Var, at: Sequence[Affine], extent: Dim) -> Expr:
        """Return the position that an element of a tensor of indices names."""
        dtype = value.tensor.element
        constant = self.low.array(value)
        index = self.nest.load(value, "index", at)
        if constant is None or not constant.size or constant.min() < 0:
            index = from_end(index, extent, dtype)
        return index if dtype == "int64" else call("cast_int64", index)

    def last(self, places: Places, order: Affine, update: Callable[[Expr], Expr]) -> None:
        """Replace a result by the last update that hits it; `update(n)` is the nth."""
        used = {a.name for a, _ in places}.union(*(variables(e) for _, e in places))
        axes = tuple(a for a in self.axes if a.name in used)
        last_update = scattered(IndexValue(order), places, "max", "int64")
        shape = tuple(a.extent for a in axes)
        self.nest.compute("last", shape, "int64", axes, last_update, self.over, "max")
        place = Read("last", tuple(var(a.name) for a in axes))
        y = call("where", call("ge", place, 0, dtype="int64"), update(place), self.x)
        self.nest.compute("y", self.low.shape, self.dtype, self.axes, y)
        self.nest.into(self.low.result)

    def combined(self, places: Places, update: Expr) -> None:
        """Combine all updates that hit a result, in order, and then the result with them."""
        combiner, shape, dtype = BY_STEP[self.how].name, self.low.shape, computed(self.dtype)
        wide = update if dtype == self.dtype else call(f"cast_{dtype}", update)
        reduced = scattered(wide, places, combiner, dtype)
        self.nest.compute("all", shape, dtype, self.axes, reduced, self.over, combiner)
        total = Read("all", tuple(var(a.name) for a in self.axes))
        x = self.x if dtype == self.dtype else call(f"cast_{dtype}", self.x)
        y = call(self.how, x, total)
        y = y if dtype == self.dtype else call(f"cast_{self.dtype}", y)
        self.nest.compute("y", shape, self.dtype, self.axes, y)
        self.nest.into(self.low.result)


# ScatterElements: an index for each update, along one axis.


def _elements_types(site: Site) -> tuple[Tensor, ...]:
    x = site.shape(0)
    demand_within(site, 1, x, site.axis(len(x)), "the tensor of indices")
    check_indices(site, x[site.axis(len(x))])
    demand_shape(site, 2, site.shape(1), "the tensor of updates")
    return (site.tensor(0),)


def _lower_elements(low: Lowering) -> None:
    """Lower ScatterElements.

    Dims with fewer updates than results are iterated over like the axis itself.
    """
    site, shape, rows = low.site, low.site.shape(0), low.site.shape(1)
    axis = site.axis(len(shape))
    short = {d: Axis(f"r{d}", m) for d, (n, m) in enumerate(zip(shape, rows)) if n != m}
    over = short | {axis: Axis(f"r{axis}", rows[axis])}
    s = _Scatter(low, "scatter_elements", [over[d] for d in sorted(over)])
    index = tuple(var((over.get(d) or a).name) for d, a in enumerate(s.axes))
    places: list[tuple[Axis, Expr]] = [(s.axes[axis], s.place(site.arg(1), index, shape[axis]))]
    places += [(s.axes[d], IndexValue(var(a.name))) for d, a in short.items() if d != axis]
    updates = s.nest.tensor(site.arg(2), "updates")
    if s.how != "none":
        s.combined(places, Read(updates, index))
        return
    here = [IndexValue(var(a.name)) if d in short else var(a.name) for d, a in enumerate(s.axes)]
    s.last(
        places,
        var(over[axis].name),
        lambda n: Read(updates, tuple(n if d == axis else i for d, i in enumerate(here))),
    )


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
    if not isinstance(depth, int):
        site.unsupported(f"rows of {depth} indices, which only a run knows")
    if not 1 <= depth <= len(x):
        site.fail(f"rows of {depth} indices do not fit into a tensor of rank {len(x)}")
    demand_shape(site, 2, (*rows[:-1], *x[depth:]), "the tensor of updates")
    for d, extent in enumerate(x[:depth]):
        check_indices(site, extent, d)
    return (site.tensor(0),)


def _lower_nd(low: Lowering) -> None:
    site, shape, index = low.site, low.site.shape(0), low.site.shape(1)
    rows, depth = index[:-1], concrete_dim(index[-1])
    s = _Scatter(low, "scatter_nd", [Axis(f"r{d}", n) for d, n in enumerate(rows or (1,))])
    at = tuple(var(a.name) for a, _ in zip(s.over, rows))
    places = [
        (s.axes[d], s.place(site.arg(1), (*at, Affine((), d)), shape[d])) for d in range(depth)
    ]
    updates = s.nest.tensor(site.arg(2), "updates")
    trailing = tuple(var(a.name) for a in s.axes[depth:])
    if s.how != "none":
        s.combined(places, Read(updates, (*at, *trailing)))
    else:
        s.last(
            places,
            _row_number(at, rows),
            lambda n: Read(updates, (*_unravelled(n, rows), *trailing)),
        )


def _row_number(at: Sequence[Affine], rows: Shape) -> Affine:
    total = Affine()
    for d, place in enumerate(at):
        total = total + place * product(rows[d + 1 :])
    return total


def _unravelled(number: Expr, rows: Shape) -> tuple[Expr, ...]:
    """Return the index of a row from its number."""
    index = []
    for d in range(len(rows)):
        inner = product(rows[d + 1 :])
        place = number if inner == 1 else call("floordiv", number, Const(inner, "int64"))
        index.append(place if d == 0 else call("mod", place, Const(rows[d], "int64")))
    return tuple(index)


def _nd(attrs: Mapping[str, Any], args: Any) -> Any:
    x, index, updates = args[:3]
    y, how = x.copy(), attrs.get("reduction", "none")
    for at in np.ndindex(*index.shape[:-1]):
        place = tuple(index[at])
        y[place] = updates[at] if how == "none" else BY_STEP[how].numpy(y[place], updates[at])
    return y


# TensorScatter: rows of a cache, from a position given for each batch. ONNX's modes are linear and
# circular; in our own, `drop`, rows outside of the cache are dropped, and there may be any number.


DROP = "drop"


def _cache_types(site: Site) -> tuple[Tensor, ...]:
    x, update = site.shape(0), site.shape(1)
    axis = site.axis(len(x), -2)
    if not axis:
        site.fail("the cache is a row for each of a batch: its axis cannot be the first dim")
    if site.text("mode", "linear") != DROP:
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


def _never_fits(site: Site, part: Dim, extent: Dim) -> bool:
    """Return True if a part has more elements than its dim at all sizes."""
    high = site.env.bounds(extent - part)[1]
    return high is not None and high < 0


def _cache(attrs: Mapping[str, Any], args: Any) -> Any:
    x, update, starts = (*args, None)[:3]
    y, axis = x.copy(), attrs.get("axis", -2) % x.ndim
    for b in range(x.shape[0]):
        first = 0 if starts is None else int(starts[b])
        for i in range(update.shape[axis]):
            at = (first + i) % x.shape[axis] if attrs.get("mode") == "circular" else first + i
            if attrs.get("mode") == DROP and not 0 <= at < x.shape[axis]:
                continue
            rows: Any = [b] + [slice(None)] * (x.ndim - 1)
            source = list(rows)
            rows[axis], source[axis] = at, i
            y[tuple(rows)] = update[tuple(source)]
    return y


# SetSlice, x[.., i : i + n, ..] = y: assignment to a block of a tensor.


FIRST_START = 2  # the position of the first of the places where the block begins


def _block_types(site: Site) -> tuple[Tensor, ...]:
    x, update, axes = site.shape(0), site.shape(1), _block_axes(site)
    if len(update) != len(x):
        site.fail(f"the update has rank {len(update)}, and must have {len(x)}")
    for d, (part, extent) in enumerate(zip(update, x, strict=True)):
        if part == 1 or part == extent:
            continue
        if d in axes:
            if _never_fits(site, part, extent):
                site.fail(f"{part} elements do not fit into dim {d}, which has {extent}")
        elif not agree(part, extent, site.env):
            site.fail(f"dim {d} of the update has {part} elements, and must have {extent}")
    for n in range(len(axes)):
        start = site.tensor(FIRST_START + n)
        if start.dims or start.element != "int64":
            site.fail(f"the place {n} where the block begins is {start}, and must be an int64")
    return (site.tensor(0),)


def _block_axes(site: Site) -> tuple[int, ...]:
    axes = site.axes(len(site.shape(0))) or ()
    if not axes or len(set(axes)) != len(axes):
        site.fail(f"the axes {list(axes)} must be different ones, and one at least")
    return axes


def _lower_block(low: Lowering) -> None:
    """Select for each element whether it lies in the block.

    If the result may lie in the memory of x, only the block is written (`ir.kernels.scatter`).
    """
    site, nest, shape = low.site, low.nest("set_slice"), low.shape
    axes, update = _block_axes(site), site.shape(1)

    def body(every: tuple[Axis, ...]) -> Expr:
        index: list[Any] = [entry(a, n) for a, n in zip(every, update, strict=True)]
        inside: list[Expr] = []
        for n, d in enumerate(axes):
            start = _block_start(nest.load(site.arg(FIRST_START + n), "start", ()), shape[d])
            place = IndexValue(var(every[d].name))
            if update[d] == 1:
                inside.append(call("lands", start, place))
                continue
            index[d] = call("sub", place, start)
            inside += _inside_block(index[d], update[d])
        new = Read(nest.tensor(site.arg(1), "update"), tuple(index))
        here = reduce(lambda a, b: call("and", a, b), inside)
        return call("where", here, new, nest.along(site.arg(0), "x", every))

    nest.map("y", low.result, body)


def _block_start(place: Expr, extent: Dim) -> Expr:
    """Return where a block begins; a negative start counts from the end of the dim."""
    if not isinstance(place, Const):
        return from_end(place, extent, "int64")
    return place if place.number >= 0 else Const(extent + int(place.number), "int64")


def _inside_block(place: Expr, extent: Dim) -> tuple[Expr, Expr]:
    low = call("ge", place, 0, dtype="int64")
    return low, call("lt", place, Const(extent, "int64"))


def _set_slice(attrs: Mapping[str, Any], args: Any) -> Any:
    x, update, *starts = args
    y, axes = x.copy(), [d % x.ndim for d in attrs["axes"]]
    sizes: Shape = tuple(update.shape[d] if d in axes else n for d, n in enumerate(x.shape))
    update = np.broadcast_to(update, sizes)
    here, there = [slice(None)] * x.ndim, [slice(None)] * x.ndim
    for d, start in zip(axes, starts, strict=True):
        first = int(start) + (x.shape[d] if start < 0 else 0)
        low, high = max(first, 0), min(first + update.shape[d], x.shape[d])
        here[d], there[d] = slice(low, max(high, low)), slice(low - first, max(high, low) - first)
    y[tuple(here)] = update[tuple(there)]
    return y


RECORDS = (
    OperatorRecord("ScatterElements", "layout", _elements_types, _elements, _lower_elements),
    OperatorRecord("ScatterND", "layout", _nd_types, _nd, _lower_nd),
    OperatorRecord("TensorScatter", "layout", _cache_types, _cache, _lower_cache, first=24),
    OperatorRecord("SetSlice", "layout", _block_types, _set_slice, _lower_block),
)
