"""SetSlice, x[.., i : i + n, ..] = y: assignment to a block of a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np

from explorer.ir.affine import var
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read
from explorer.ir.shapes.dims import Dim, Shape
from explorer.ir.types import Tensor
from explorer.ops.arithmetic.broadcast import agree
from explorer.ops.arithmetic.elementwise import call
from explorer.ops.indexing.gather import from_end
from explorer.ops.lowering import Lowering, entry
from explorer.ops.record import OperatorRecord
from explorer.ops.site import Site

FIRST_START = 2  # the position of the first of the places where the block begins


def _types(site: Site) -> tuple[Tensor, ...]:
    x, update, axes = site.shape(0), site.shape(1), _axes(site)
    if len(update) != len(x):
        site.fail(f"the update has rank {len(update)}, and must have {len(x)}")
    for d, (part, extent) in enumerate(zip(update, x, strict=True)):
        if part == 1 or part == extent:
            continue
        if d in axes:
            if site.env.bounds(extent - part)[1] in range(-(1 << 62), 0):
                site.fail(f"{part} elements do not fit into dim {d}, which has {extent}")
        elif not agree(part, extent, site.env):
            site.fail(f"dim {d} of the update has {part} elements, and must have {extent}")
    for n in range(len(axes)):
        start = site.tensor(FIRST_START + n)
        if start.dims or start.element != "int64":
            site.fail(f"the place {n} where the block begins is {start}, and must be an int64")
    return (site.tensor(0),)


def _axes(site: Site) -> tuple[int, ...]:
    axes = site.axes(len(site.shape(0))) or ()
    if not axes or len(set(axes)) != len(axes):
        site.fail(f"the axes {list(axes)} must be different ones, and one at least")
    return axes


def _lower(low: Lowering) -> None:
    """Select for each element whether it lies in the block.

    If the result may lie in the memory of x, only the block is written (`ir.patterns.patch`).
    """
    site, nest, shape = low.site, low.nest("set_slice"), low.shape
    axes, update = _axes(site), site.shape(1)

    def body(every: tuple[Axis, ...]) -> Expr:
        index: list[Any] = [entry(a, n) for a, n in zip(every, update, strict=True)]
        inside: list[Expr] = []
        for n, d in enumerate(axes):
            start = _start(nest.load(site.arg(FIRST_START + n), "start", ()), shape[d])
            place = IndexValue(var(every[d].name))
            if update[d] == 1:
                inside.append(call("lands", start, place))
                continue
            index[d] = call("sub", place, start)
            inside += _within(index[d], update[d])
        new = Read(nest.tensor(site.arg(1), "update"), tuple(index))
        here = reduce(lambda a, b: call("and", a, b), inside)
        return call("where", here, new, nest.along(site.arg(0), "x", every))

    nest.map("y", low.result, body)


def _start(place: Expr, extent: Dim) -> Expr:
    """Return where a block begins; a negative start counts from the end of the dim."""
    if not isinstance(place, Const):
        return from_end(place, extent, "int64")
    return place if place.number >= 0 else Const(extent + int(place.number), "int64")


def _within(place: Expr, extent: Dim) -> tuple[Expr, Expr]:
    low = call("ge", place, 0, dtype="int64")
    return low, call("lt", place, Const(extent, "int64"))


def _reference(attrs: Mapping[str, Any], args: Any) -> Any:
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


RECORDS = (OperatorRecord("SetSlice", "layout", _types, _reference, _lower),)
