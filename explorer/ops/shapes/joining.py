"""Concat and Split: each part an affine copy, or a view along the outermost dim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.kernel import Axis, Read
from explorer.ir.shapes.dims import Dim, floor_div, simplify, total_of
from explorer.ir.types import Tensor
from explorer.ops.arithmetic.broadcast import Unprovable, agree
from explorer.ops.lowering import Lowering, letters, shape_of
from explorer.ops.record import OperatorRecord
from explorer.ops.run_time.shapes import SPLIT, even_parts
from explorer.ops.shapes.reshaping import text
from explorer.ops.shapes.slicing import lower_slice
from explorer.ops.site import Site, Values

MOST_PARTS = 64  # of one kernel: each is a compute


def _concat_types(site: Site) -> tuple[Tensor, ...]:
    first = list(site.shape())
    axis = site.axis(len(first), 0)
    for i in range(1, len(site.args)):
        other = site.shape(i)
        if len(other) != len(first) or site.dtype(i) != site.dtype():
            site.fail(
                f"argument {i} is {site.dtype(i)}{text(other)} beside {site.dtype()}{text(first)}"
            )
        for d, (a, b) in enumerate(zip(first, other, strict=True)):
            if d != axis and a != b and not agree(a, b, site.env):
                site.fail(f"argument {i} has extent {b} in dim {d}, where others have {a}")
    first[axis] = total_of([site.shape(i)[axis] for i in range(len(site.args))])
    return (Tensor(tuple(first), site.dtype()),)


def _lower_concat(low: Lowering) -> None:
    """Concatenate many parts a limited number at a time, then the results."""
    parts, axis = low.site.present_args, low.site.axis(len(low.shape), 0)
    for n in count(1):
        if len(parts) <= MOST_PARTS:
            return _join(low, low.result, parts, axis)
        joined = []
        for begin in range(0, len(parts), MOST_PARTS):
            some, shape = parts[begin : begin + MOST_PARTS], list(low.shape)
            shape[axis] = total_of([shape_of(p)[axis] for p in some])
            joined_part = low.temporary(f"join{n}_{begin}", tuple(shape), low.site.dtype())
            _join(low, joined_part, some, axis)
            joined.append(joined_part)
        parts = tuple(joined)


def _join(low: Lowering, result: Var, parts: Sequence[Var], axis: int) -> None:
    nest, shape, at = low.nest("concat"), shape_of(result), Affine()
    axes = list(letters(shape))
    for i, part in enumerate(parts):
        extent = shape_of(part)[axis]
        along = Axis(f"{letters(shape)[axis].name}{i}", extent)
        axes[axis] = along
        if extent != 0 or (i == len(parts) - 1 and not nest.computes):
            store = [var(a.name) for a in axes]
            store[axis] = store[axis] + at
            read = Read(nest.tensor(part, f"x{i}"), tuple(var(a.name) for a in axes))
            nest.compute("y", shape, low.site.dtype(), axes, read, store=store)
        at = at + extent
    nest.into(result)


def _concat(attrs: Mapping[str, Any], args: Any) -> Any:
    return np.concatenate(args, axis=attrs.get("axis", 0))


def _fold_concat(site: Site) -> tuple[Values | None, ...]:
    elements = [v for v in site.values if v is not None]
    if len(elements) < len(site.args) or not elements or not elements[0].ndim:
        return (None,)
    return (np.concatenate(elements, site.axis(elements[0].ndim)),)


def _split_sizes(site: Site) -> tuple[int, tuple[Dim, ...]]:
    axis, sizes = site.axis(len(site.shape()), 0), site.dims("split")
    if sizes is not None and len(sizes) != site.results:
        site.fail(f"{len(sizes)} parts, and {site.results} of them are used")
    extent, host_sizes = site.shape()[axis], site.dims("sizes")
    if host_sizes is not None:  # by the host
        return axis, host_sizes
    if sizes is None:
        parts = site.integer("num_outputs", site.results)
        if parts != site.results:
            site.fail(f"{parts} parts, and {site.results} of them are used")
        return axis, _even(extent, parts)
    total = simplify(sum(sizes[1:], sizes[0]))
    if total != extent and not agree(total, extent, site.env):
        site.fail(f"parts {sizes} do not add up to {extent}")
    return axis, sizes


def _even(extent: Dim, parts: int) -> tuple[Dim, ...]:
    """Split an extent into equal parts, rounded up; the last ones get the remainder."""
    if isinstance(extent, int):
        return tuple(even_parts(extent, parts))
    each = floor_div(extent, parts)
    if simplify(each * parts - extent) != 0:
        raise Unprovable(f"{extent} is divided into {parts}")
    return (each,) * parts


def _split_types(site: Site) -> tuple[Tensor, ...]:
    axis, sizes = _split_sizes(site)
    shape = site.shape()
    return tuple(Tensor((*shape[:axis], n, *shape[axis + 1 :]), site.dtype()) for n in sizes)


def _lower_split(low: Lowering) -> None:
    axis, sizes = _split_sizes(low.site)
    at: Dim = 0
    for result, size in zip(low.results, sizes, strict=True):
        if low.is_read(result.name):
            start: list[Dim] = [0] * len(low.site.shape())
            start[axis] = at
            lower_slice(low, result, start, (1,) * len(start))
        at = simplify(at + size)


def _split(attrs: Mapping[str, Any], args: Any) -> Any:
    x, axis, sizes = args[0], attrs.get("axis", 0), attrs.get("sizes", attrs.get("split"))
    if sizes is None:
        sizes = even_parts(x.shape[axis], attrs["num_outputs"])
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


RECORDS = (
    OperatorRecord("Concat", "layout", _concat_types, _concat, _lower_concat, _fold_concat),
    OperatorRecord(
        "Split",
        "layout",
        _split_types,
        _split,
        _lower_split,
        None,
        {1: "split"},
        run_time=SPLIT,
        ranks={0: (1, None)},
    ),
)
