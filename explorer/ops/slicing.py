"""Slice, Concat and Split: parts of tensors.

Each part is an affine copy, or a view along the outermost dim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.dims import Dim, ceil_div, floor_div, product, simplify, total_of
from explorer.ir.kernel import Axis, Expr, Read
from explorer.ir.types import Tensor
from explorer.ops.lowering import Lowering, entry, letters, shape_of
from explorer.ops.record import HostNumber, OperatorRecord, RunTime, Site, Values
from explorer.ops.reshaping import text
from explorer.ops.run_time import (
    Host,
    difference,
    dim_names,
    dim_symbols,
    dim_values,
    parts,
    signed,
    symbolic,
)
from explorer.ops.shape_rules import Unprovable, agree, least, most

_END = 1 << 31  # exporters write the end of a dim as a huge number


@dataclass(frozen=True, slots=True)
class Cut:
    """The slice `start :: step` of a dim, with `extent` elements."""

    start: Dim
    step: Dim
    extent: Dim


def cuts(site: Site) -> tuple[Cut, ...]:
    """Return the slice of each dim."""
    shape, begin = site.shape(), site.dims("begin")
    if begin is not None:  # computed by the host
        steps_and_extents = zip(site.dims("step") or (), site.dims("extent") or (), strict=True)
        return tuple(Cut(b, *r) for b, r in zip(begin, steps_and_extents, strict=True))
    starts, ends = site.dims("starts") or (), site.dims("ends") or ()
    axes = site.axes(len(shape))
    if axes is None:
        axes = tuple(site.in_rank(d, len(shape)) for d in range(len(starts)))
    steps = site.integers("steps", (1,) * len(starts)) or ()
    if not len(starts) == len(ends) == len(axes) == len(steps):
        site.fail(f"{len(starts)} starts, {len(ends)} ends, {len(axes)} axes, {len(steps)} steps")
    slices = [Cut(0, 1, n) for n in shape]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        slices[axis] = _cut(site, shape[axis], start, end, clamp_step(site, axis, step))
    return tuple(slices)


def _cut(site: Site, extent: Dim, start: Dim, end: Dim, step: int) -> Cut:
    if step == 0:
        site.fail("a step is 0")
    low, high = (0, extent) if step > 0 else (-1, simplify(extent - 1))
    first = _place(site, start, extent, 0, high)
    last = _place(site, end, extent, low, high)
    distance = simplify(last - first) if step > 0 else simplify(first - last)
    count = ceil_div(distance, abs(step))
    if distance != extent:  # an extent is never negative, whatever its bounds are
        count = most(site.env, (0, count))
    return Cut(first, step, count)


def _place(site: Site, at: Dim, extent: Dim, low: Dim, high: Dim) -> Dim:
    """Return a start or an end, counted from the end if negative, clipped to the dim."""
    env = site.env
    if isinstance(at, int) and abs(at) >= _END:
        return high if at > 0 else low
    forward = high == extent
    if isinstance(at, int) and at == low == 0 and (forward or env.bounds(high)[0] >= 0):
        return 0
    bounds = env.bounds(at)
    if bounds[0] < 0:
        if bounds[1] is None or bounds[1] >= 0:
            site.unsupported(f"the sign of {at} is not known")
        at = simplify(at + extent)
    return least(env, (most(env, (at, low)), high))


def _slice_types(site: Site) -> tuple[Tensor, ...]:
    return (Tensor(tuple(c.extent for c in cuts(site)), site.dtype()),)


def _lower_slice(low: Lowering) -> None:
    parts = cuts(low.site)
    lower_slice(low, low.result, [c.start for c in parts], [c.step for c in parts])


def lower_slice(low: Lowering, result: Any, start: Sequence[Dim], steps: Sequence[Dim]) -> None:
    """Bind `x[start :: step]`; a view if only the outermost dim longer than 1 is sliced."""
    shape, result_dims = low.site.shape(), result.type.dims
    cut = [d for d, n in enumerate(shape) if n != result_dims[d]]
    outer = next((d for d, n in enumerate(shape) if n != 1), 0)
    if all(s == 1 for s in steps) and all(d <= outer for d in cut):
        offset = product((start[outer], *shape[outer + 1 :])) if cut else 0
        low.view(result, low.site.arg(0), offset)
        return
    nest = low.nest("slice")

    def body(axes: tuple[Axis, ...]) -> Expr:
        index = (
            entry(a, n) * s + b for a, n, s, b in zip(axes, result_dims, steps, start, strict=True)
        )
        return Read(nest.tensor(low.site.arg(0), "x"), tuple(index))

    nest.map("y", result, body)


def _slice(attrs: Mapping[str, Any], args: Any) -> Any:
    if "begin" in attrs:
        rows = zip(*(attrs[n] for n in ("begin", "step", "extent")), strict=True)
        return args[0][np.ix_(*(b + s * np.arange(n) for b, s, n in rows))]
    x, starts, ends = args[0], attrs["starts"], attrs["ends"]
    axes, steps = attrs.get("axes") or range(len(starts)), attrs.get("steps") or (1,) * len(starts)
    index = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        begin, count = cut(start, end, step, x.shape[axis])
        last = begin + count * step
        index[axis] = slice(begin, last if last >= 0 else None, step)
    return x[tuple(index)]


def _fold_slice(site: Site) -> tuple[Values | None, ...]:
    elements = site.values[0]
    if (
        elements is None
        or "begin" in site.attrs
        or not all(isinstance(c.start, int) for c in cuts(site))
    ):
        return (None,)
    attrs = {k: site.integers(k) for k in ("starts", "ends", "axes", "steps") if k in site.attrs}
    return (_slice(attrs, [elements]),)


# Slices that only a run knows: for each dim that may be sliced its begin, its extent, its step.


def _cut_dims(site: Site) -> tuple[int, ...]:
    """Return the dims that may be sliced: the axes if they are known, otherwise all."""
    rank = len(site.shape())
    axes = site.values[3] if site.has(3) else None
    if axes is not None:
        return tuple(sorted({site.in_rank(int(a), rank) for a in axes.reshape(-1)}))
    count = site.shape(1)[0]
    return tuple(range(min(count, rank) if isinstance(count, int) and not site.has(3) else rank))


def _known_steps(site: Site) -> dict[int, int] | None:
    """Return the step of each dim that may be sliced, or None if only the run knows them."""
    dims = _cut_dims(site)
    if not site.has(4):
        return dict.fromkeys(dims, 1)
    steps, axes = site.values[4], site.values[3] if site.has(3) else None
    if steps is not None and all(s == 1 for s in steps):
        return dict.fromkeys(dims, 1)
    if steps is None or (site.has(3) and axes is None):
        return None
    order = [site.in_rank(int(a), len(site.shape())) for a in axes] if axes is not None else dims
    return {d: clamp_step(site, d, int(s)) for d, s in zip(order, steps, strict=False)}


FARTHEST = 1 << 47  # elements: no address space holds more


def clamp_step(site: Site, d: int, step: int) -> int:
    """Return an equivalent step that is no larger than the dim's extent.

    So indices, and addresses computed from them, stay within 64 bits.
    """
    shape = site.shape()
    most = site.env.at_most(shape[d])
    if most is None:
        most = FARTHEST // max(1, prod(n for n in shape if isinstance(n, int)))
    most = max(1, most)
    return max(-most, min(step, most))


def _slice_names(site: Site) -> tuple[HostNumber, ...]:
    numbers: list[HostNumber] = []
    for d in _cut_dims(site):
        high = site.env.at_most(site.shape()[d])
        numbers += [HostNumber(f"begin{d}", 0, high), HostNumber(f"extent{d}", 0, high)]
        if _known_steps(site) is None:
            numbers += signed(f"step{d}")
    return tuple(numbers)


def _slice_values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Slice", attrs, args)
    shape, starts, ends = host.required(0), host.required(1), host.required(2)
    axes, steps = host.integers(3), host.integers(4)
    axes = host.axes(range(len(starts)) if axes is None else axes, len(shape))
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        host.fail(f"{len(starts)} starts, {len(ends)} ends, {len(axes)} axes, {len(steps)} steps")
    if 0 in steps:
        host.fail("a step is 0")
    values: dict[str, int] = {}
    for d, n in enumerate(shape):
        values |= {f"begin{d}": 0, f"extent{d}": n, **parts(f"step{d}", 1)}
    for d, start, end, step in zip(axes, starts, ends, steps, strict=True):
        begin, extent = cut(start, end, step, shape[d])
        values |= {f"begin{d}": begin, f"extent{d}": extent}
        values |= parts(f"step{d}", step if extent > 1 else 1)
    return values


def cut(start: int, end: int, step: int, n: int) -> tuple[int, int]:
    """Return where a slice of a dim of `n` begins, and how many elements it has.

    A start is clipped into the dim, an end to one position outside of it (the ONNX standard).
    """
    low, high = (0, n) if step > 0 else (-1, n - 1)
    first = min(max(start + n if start < 0 else start, 0), high)
    last = min(max(end + n if end < 0 else end, low), high)
    count = max(0, -((first - last) // step)) if n else 0
    return (first if count else 0), count


def _sliced(site: Site, symbols: Mapping[str, Dim]) -> Site:
    shape, dims, known_steps = site.shape(), _cut_dims(site), _known_steps(site)
    begin: list[Dim] = [0] * len(shape)
    extent, step = list(shape), [1] * len(shape)
    steps: list[Dim] = list(step)
    for d in dims:
        begin[d], extent[d] = symbols[f"begin{d}"], symbols[f"extent{d}"]
        steps[d] = difference(symbols, f"step{d}") if known_steps is None else known_steps.get(d, 1)
    return symbolic(site, site.arg(0), begin=tuple(begin), extent=tuple(extent), step=tuple(steps))


SLICE = RunTime(frozenset({1, 2, 3, 4}), _slice_names, _slice_values, _sliced, "begin")


# Concat and Split: each part an affine copy, or a view along the outermost dim.


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


# Split with parts that only a run knows.


def _split_names(site: Site) -> tuple[HostNumber, ...]:
    shape = site.shape()
    high = site.env.at_most(shape[site.axis(len(shape), 0)])
    return dim_names(site.results, high)


def even_parts(extent: int, parts: int) -> list[int]:
    """Split an extent into equal parts, rounded up; the last ones get the remainder."""
    each = -(-extent // parts)
    return [min(each, max(0, extent - i * each)) for i in range(parts)]


def _split_values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Split", attrs, args)
    shape, sizes = host.required(0), host.integers(1)
    extent = shape[host.axis(attrs.get("axis", 0), len(shape))]
    if sizes is None:
        sizes = even_parts(extent, attrs.get("num_outputs", len(attrs["names"])))
    if sum(sizes) != extent or any(n < 0 for n in sizes):
        host.fail(f"parts {sizes} do not add up to {extent}")
    return dim_values(sizes)


SPLIT = RunTime(
    frozenset({1}),
    _split_names,
    _split_values,
    lambda site, symbols: symbolic(site, site.arg(0), sizes=dim_symbols(symbols)),
)


RECORDS = (
    OperatorRecord(
        "Slice",
        "layout",
        _slice_types,
        _slice,
        _lower_slice,
        _fold_slice,
        {1: "starts", 2: "ends", 3: "axes", 4: "steps"},
        run_time=SLICE,
        ranks=dict.fromkeys((1, 2, 3, 4), (1, 1)),
    ),
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
