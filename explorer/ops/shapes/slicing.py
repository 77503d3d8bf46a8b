"""Slice, Pad and Trilu: a part of a tensor, or a tensor in a larger one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read
from explorer.ir.shapes.dims import Dim, ceil_div, product, simplify
from explorer.ir.types import Tensor
from explorer.ops.arithmetic.broadcast import Unprovable
from explorer.ops.arithmetic.dim_arithmetic import least, most
from explorer.ops.arithmetic.elementwise import call
from explorer.ops.lowering import Lowering, Nest, entry
from explorer.ops.record import OperatorRecord
from explorer.ops.run_time.cuts import PAD, SLICE, TRILU, clamp_step, cut
from explorer.ops.site import Array, Site, Values

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


# Pad.


@dataclass(frozen=True, slots=True)
class PaddedDim:
    """A padded dim: `inner` elements from `begin` on, `before` positions before them."""

    before: Dim
    begin: Dim
    inner: Dim
    extent: Dim

    @property
    def is_unchanged(self) -> bool:
        """Return True if nothing is cropped or added."""
        return self.before == 0 and self.begin == 0 and self.inner == self.extent

    @property
    def is_near(self) -> bool:
        """Return True if no position is further away than there are elements to reflect."""
        n = self.inner
        is_constant = all(isinstance(d, int) for d in (self.before, n, self.extent))
        return is_constant and bool(self.before < n and self.extent - self.before - n < n)


def _frames(site: Site) -> tuple[PaddedDim, ...]:
    names, shape = ("before", "begin", "inner", "extent"), site.shape()
    if "before" in site.attrs:  # computed by the host
        return tuple(map(PaddedDim, *(site.dims(n) or () for n in names)))
    axes, pads = site.axes(len(shape)), site.dims("pads") or ()
    axes = tuple(range(len(shape))) if axes is None else axes
    if len(pads) != 2 * len(axes):
        site.fail(f"{len(pads)} pads for {len(axes)} axes")
    frames = [PaddedDim(0, 0, n, n) for n in shape]
    for i, axis in enumerate(axes):
        frames[axis] = _frame(shape[axis], pads[i], pads[len(axes) + i])
    return tuple(frames)


def _frame(n: Dim, before: Dim, after: Dim) -> PaddedDim:
    """Return the frame of a dim; a negative pad crops, a symbolic one is taken to be positive."""
    begin = max(0, -before) if isinstance(before, int) else 0
    end = max(0, -after) if isinstance(after, int) else 0
    first = max(0, before) if isinstance(before, int) else before
    return PaddedDim(first, begin, simplify(n - begin - end), simplify(n + before + after))


PAD_MODES = ("constant", "edge", "reflect", "wrap")


def _pad_types(site: Site) -> tuple[Tensor, ...]:
    mode, frames = site.text("mode", "constant"), _frames(site)
    if mode not in PAD_MODES:
        site.fail(f"mode must be one of {', '.join(PAD_MODES)} and is {mode!r}")
    if mode != "constant" and "before" not in site.attrs:
        for d, frame in enumerate(frames):
            _check_repeated(site, d, frame)
    return (Tensor(tuple(f.extent for f in frames), site.dtype()),)


def _check_repeated(site: Site, d: int, frame: PaddedDim) -> None:
    """Raise ShapeError if positions repeat elements of an empty dim.

    Raises Unprovable if only a run knows whether the dim is empty.
    """
    if frame.inner == frame.extent or site.env.bounds(frame.inner)[0] > 0:
        return
    if isinstance(frame.inner, int) and isinstance(frame.extent, int):
        if frame.inner == 0 < frame.extent:
            site.fail(f"there is nothing in dim {d} to fill {frame.extent} places with")
        return
    if not site.has(1):
        site.unsupported(f"dim {d} may have no element to repeat")
    raise Unprovable(f"whether {frame.inner} elements are more than none")


def _lower_pad(low: Lowering) -> None:
    site, mode, frames = low.site, low.site.text("mode", "constant"), _frames(low.site)
    nest = low.nest("pad")

    def body(axes: tuple[Axis, ...]) -> Expr:
        x = nest.tensor(site.arg(0), "x")
        if mode == "constant":
            return _filled(low, nest, x, axes, frames)
        return Read(x, tuple(_inside(a, f, mode) for a, f in zip(axes, frames, strict=True)))

    nest.map("y", low.result, body)


def _filled(
    low: Lowering, nest: Nest, x: str, axes: tuple[Axis, ...], frames: tuple[PaddedDim, ...]
) -> Expr:
    """Load the element, or the fill; a constant fill is a property of the read."""
    site, places = low.site, [var(a.name) - f.before + f.begin for a, f in zip(axes, frames)]
    fill: Any = low.scalar(site.arg(2)) if site.has(2) else site.number("value", 0.0)
    if fill is not None:
        return Read(x, tuple(places), fill)
    rank = len(site.shape(2))
    value_or_fill: Expr = Read(x, tuple(places), 0.0)
    value = nest.load(site.arg(2), "value", (Affine(),) * rank)
    for place, f, n in zip(places, frames, site.shape(), strict=True):
        if not f.is_unchanged:
            for outside in (
                call("lt", IndexValue(place), 0, dtype="int64"),
                call("ge", IndexValue(place), Const(n, "int64")),
            ):
                value_or_fill = call("where", outside, value, value_or_fill)
    return value_or_fill


def _inside(axis: Axis, frame: PaddedDim, mode: str) -> Affine | Expr:
    """Return an index expression for the element that a position repeats."""
    if frame.is_unchanged:
        return var(axis.name)
    place = IndexValue(var(axis.name) - frame.before)
    last = Const(simplify(frame.inner - 1), "int64")
    unit = Const(1, "int64")
    match mode:
        case "edge":
            index = call("min", call("max", place, Const(0, "int64")), last)
        case "wrap":
            index = call("mod", place, call("max", Const(frame.inner, "int64"), unit))
        case _:
            distance: Expr = call("abs", place)
            if not frame.is_near:
                twice = Const(simplify(2 * frame.inner - 2), "int64")
                distance = call("mod", place, call("max", twice, unit))
            index = call("sub", last, call("abs", call("sub", last, distance)))
    return index if frame.begin == 0 else call("add", index, Const(frame.begin, "int64"))


def _pad(attrs: Mapping[str, Any], args: Any) -> Any:
    x = args[0]
    crop, around = _pads(attrs, x)
    mode = attrs.get("mode", "constant")
    if mode != "constant":
        return np.pad(x[crop], around, mode=mode)
    value = args[2] if len(args) > 2 and args[2] is not None else attrs.get("value", 0)
    return np.pad(x[crop], around, constant_values=np.asarray(value).item())


def _pads(attrs: Mapping[str, Any], x: Array) -> tuple[tuple[slice, ...], list[tuple[int, int]]]:
    """Return the crop of an array, and the padding around it."""
    if "before" in attrs:
        rows = [attrs[n] for n in ("before", "begin", "inner", "extent")]
        crop = tuple(slice(b, b + n) for _, b, n, _ in zip(*rows, strict=True))
        return crop, [(p, e - p - n) for p, _, n, e in zip(*rows, strict=True)]
    pads, axes = attrs["pads"], attrs.get("axes")
    axes = range(x.ndim) if axes is None else axes
    half = len(pads) // 2
    around = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        around[axis] = (pads[i], pads[half + i])
    crop = tuple(slice(max(0, -a), x.shape[d] + min(0, b)) for d, (a, b) in enumerate(around))
    return crop, [(max(0, a), max(0, b)) for a, b in around]


# Trilu.


def _trilu_types(site: Site) -> tuple[Tensor, ...]:
    if len(site.shape()) < 2 or len(site.dims("k") or (0,)) != 1:
        site.fail("it takes matrices, and one number for the diagonal")
    return (site.tensor(0),)


def _lower_trilu(low: Lowering) -> None:
    site, nest, shift = low.site, low.nest("trilu"), (low.site.dims("k") or (0,))[0]

    def body(axes: tuple[Axis, ...]) -> Expr:
        row, column = axes[-2], axes[-1]
        gap = IndexValue(var(column.name) - var(row.name) - shift)
        keep = call("ge" if site.integer("upper", 1) else "le", gap, 0, dtype="int64")
        zero = Const(False if site.dtype() == "bool" else 0, site.dtype())
        return call("where", keep, nest.along(site.arg(0), "x", axes), zero)

    nest.map("y", low.result, body)


def _trilu(attrs: Mapping[str, Any], args: Any) -> Any:
    return (np.triu if attrs.get("upper", 1) else np.tril)(
        args[0], int(np.reshape(attrs.get("k", 0), ()))
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
    OperatorRecord(
        "Pad",
        "layout",
        _pad_types,
        _pad,
        _lower_pad,
        None,
        {1: "pads", 3: "axes"},
        run_time=PAD,
    ),
    OperatorRecord(
        "Trilu", "layout", _trilu_types, _trilu, _lower_trilu, None, {1: "k"}, run_time=TRILU
    ),
)
