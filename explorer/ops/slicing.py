"""Slice, Pad and Trilu: a part of a tensor, or a tensor in a larger one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.ir.dims import Dim, ceil_div, product, simplify
from explorer.ir.kernel import Affine, Axis, Const, Expr, IndexValue, Read, var
from explorer.ir.types import Tensor
from explorer.ops.dim_arithmetic import least, most
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, entry
from explorer.ops.record import OperatorRecord, Site, Values

_END = 1 << 31  # exporters write the end of a dim as a huge number


@dataclass(frozen=True, slots=True)
class Cut:
    """`start :: step` of a dim, `extent` of them."""

    start: Dim
    step: int
    extent: Dim


def cuts(site: Site) -> tuple[Cut, ...]:
    """What a Slice keeps of each dim."""
    shape = site.shape()
    starts, ends = site.dims("starts") or (), site.dims("ends") or ()
    axes = site.axes(len(shape)) or tuple(range(len(starts)))
    steps = site.integers("steps", (1,) * len(starts)) or ()
    if not len(starts) == len(ends) == len(axes) == len(steps):
        site.fail(f"{len(starts)} starts, {len(ends)} ends, {len(axes)} axes, {len(steps)} steps")
    found = [Cut(0, 1, n) for n in shape]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        found[axis] = _cut(site, shape[axis], start, end, step)
    return tuple(found)


def _cut(site: Site, extent: Dim, start: Dim, end: Dim, step: int) -> Cut:
    if step == 0:
        site.fail("a step is 0")
    low, high = (0, extent) if step > 0 else (-1, simplify(extent - 1))
    first = _place(site, start, extent, 0 if step > 0 else low, high)
    last = _place(site, end, extent, low, high)
    room = simplify(last - first) if step > 0 else simplify(first - last)
    count = most(site.env, (0, ceil_div(room, abs(step))))
    return Cut(first, step, count)


def _place(site: Site, at: Dim, extent: Dim, low: Dim, high: Dim) -> Dim:
    """A start or an end, counted from the end if negative, kept inside of the dim."""
    env = site.env
    if isinstance(at, int) and abs(at) >= _END:
        return high if at > 0 else low
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


def lower_slice(low: Lowering, result: Any, start: Sequence[Dim], steps: Sequence[int]) -> None:
    """Bind `x[start :: step]`; a view where only the outermost dim longer than 1 is cut."""
    shape, kept = low.site.shape(), result.type.dims
    cut = [d for d, n in enumerate(shape) if n != kept[d]]
    outer = next((d for d, n in enumerate(shape) if n != 1), 0)
    if all(s == 1 for s in steps) and all(d <= outer for d in cut):
        offset = product((start[outer], *shape[outer + 1 :])) if cut else 0
        low.view(result, low.site.arg(0), offset)
        return
    nest = low.nest("slice")

    def body(axes: tuple[Axis, ...]) -> Expr:
        index = (entry(a, n) * s + b for a, n, s, b in zip(axes, kept, steps, start, strict=True))
        return Read(nest.tensor(low.site.arg(0), "x"), tuple(index))

    nest.map("y", result, body)


def _slice(attrs: Mapping[str, Any], args: Any) -> Any:
    x, starts, ends = args[0], attrs["starts"], attrs["ends"]
    axes, steps = attrs.get("axes") or range(len(starts)), attrs.get("steps") or (1,) * len(starts)
    index = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        n = x.shape[axis]
        below = step < 0 and end < -n
        index[axis] = slice(start, None if below else end, step)
    return x[tuple(index)]


def _fold_slice(site: Site) -> tuple[Values | None, ...]:
    known = site.values[0]
    if known is None or not all(isinstance(c.start, int) for c in cuts(site)):
        return (None,)
    attrs = {k: site.integers(k) for k in ("starts", "ends", "axes", "steps") if k in site.attrs}
    return (_slice(attrs, [known]),)


# Pad.


def _pads(site: Site) -> tuple[tuple[Dim, Dim], ...]:
    rank, given = len(site.shape()), site.dims("pads") or ()
    axes = site.axes(rank) or tuple(range(rank))
    if len(given) != 2 * len(axes):
        site.fail(f"{len(given)} pads for {len(axes)} axes")
    found: list[tuple[Dim, Dim]] = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        found[axis] = (given[i], given[len(axes) + i])
    return tuple(found)


def _pad_types(site: Site) -> tuple[Tensor, ...]:
    pairs = zip(site.shape(), _pads(site), strict=True)
    return (Tensor(tuple(simplify(n + a + b) for n, (a, b) in pairs), site.dtype()),)


def _lower_pad(low: Lowering) -> None:
    site, mode, pads = low.site, low.site.text("mode", "constant"), _pads(low.site)
    nest, shape = low.nest("pad"), low.site.shape()
    fill: Any = site.number("value", 0.0)
    if site.has(2):
        fill = low.scalar(site.arg(2))
    if fill is None or mode not in ("constant", "edge", "reflect"):
        site.unsupported(f"mode {mode!r}, or a value that is not known, has no kernel rule")

    def body(axes: tuple[Axis, ...]) -> Expr:
        places = [var(a.name) - p for a, (p, _) in zip(axes, pads, strict=True)]
        x = nest.tensor(site.arg(0), "x")
        if mode == "constant":
            return Read(x, tuple(places), float(fill))
        cut = [pad != (0, 0) for pad in pads]
        index = [
            _inside(p, n, mode) if c else p for p, n, c in zip(places, shape, cut, strict=True)
        ]
        return Read(x, tuple(index))

    nest.map("y", low.result, body)


def _inside(place: Affine, extent: Dim, mode: str) -> Expr:
    """An index expression; what is still outside is clamped to the edge."""
    if mode == "edge":
        return call("max", IndexValue(place), Const(0, "int64"))
    last = Const(simplify(extent - 1), "int64")
    return call("sub", last, call("abs", call("sub", last, call("abs", IndexValue(place)))))


def _pad(attrs: Mapping[str, Any], args: Any) -> Any:
    x, given = args[0], attrs["pads"]
    axes = attrs.get("axes") or range(x.ndim)
    half = len(given) // 2
    around = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        around[axis] = (given[i], given[half + i])
    crop = tuple(slice(max(0, -a), x.shape[d] + min(0, b)) for d, (a, b) in enumerate(around))
    around = [(max(0, a), max(0, b)) for a, b in around]
    mode = attrs.get("mode", "constant")
    if mode != "constant":
        return np.pad(x[crop], around, mode=mode)
    value = args[2] if len(args) > 2 and args[2] is not None else attrs.get("value", 0)
    return np.pad(x[crop], around, constant_values=np.asarray(value).item())


# Trilu.


def _same(site: Site) -> tuple[Tensor, ...]:
    return (site.tensor(0),)


def _lower_trilu(low: Lowering) -> None:
    site, nest, shift = low.site, low.nest("trilu"), low.site.integer("k")

    def body(axes: tuple[Axis, ...]) -> Expr:
        row, column = axes[-2], axes[-1]
        gap = IndexValue(var(column.name) - var(row.name) - shift)
        keep = call("ge" if site.integer("upper", 1) else "le", gap, 0, dtype="int64")
        zero = Const(False if site.dtype() == "bool" else 0, site.dtype())
        return call("where", keep, nest.along(site.arg(0), "x", axes), zero)

    nest.map("y", low.result, body)


def _trilu(attrs: Mapping[str, Any], args: Any) -> Any:
    return (np.triu if attrs.get("upper", 1) else np.tril)(args[0], attrs.get("k", 0))


RECORDS = (
    OperatorRecord(
        "Slice",
        "layout",
        _slice_types,
        _slice,
        _lower_slice,
        _fold_slice,
        {1: "starts", 2: "ends", 3: "axes", 4: "steps"},
    ),
    OperatorRecord("Pad", "layout", _pad_types, _pad, _lower_pad, None, {1: "pads", 3: "axes"}),
    OperatorRecord("Trilu", "layout", _same, _trilu, _lower_trilu, None, {1: "k"}),
)
