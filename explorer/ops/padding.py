"""Pad and Trilu: a tensor in a larger one, or a part of a matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.dims import Dim, simplify
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read
from explorer.ir.types import Tensor
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, Nest
from explorer.ops.record import Array, HostNumber, OperatorRecord, RunTime, Site
from explorer.ops.run_time import Host, difference, parts, signed, symbolic
from explorer.ops.shape_rules import Unprovable


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


# Pads that only a run knows: for each dim the padding or crop before it, the remaining elements,
# and the extent after.


def _pad_names(site: Site) -> tuple[HostNumber, ...]:
    numbers: list[HostNumber] = []
    for d in range(len(site.shape())):
        high = site.env.at_most(site.shape()[d])
        numbers += [HostNumber(f"before{d}"), HostNumber(f"begin{d}", 0, high)]
        numbers += [HostNumber(f"inner{d}", 0, high), HostNumber(f"extent{d}")]
    return tuple(numbers)


def _pad_values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Pad", attrs, args)
    shape, pads, axes = host.required(0), host.required(1), host.integers(3)
    axes = host.axes(range(len(shape)) if axes is None else axes, len(shape))
    if len(pads) != 2 * len(axes):
        host.fail(f"{len(pads)} pads for {len(axes)} axes")
    values: dict[str, int] = {}
    for d, n in enumerate(shape):
        place = axes.index(d) if d in axes else None
        before, after = (0, 0) if place is None else (pads[place], pads[place + len(axes)])
        begin, inner = max(0, -before), n + min(0, before) + min(0, after)
        extent = n + before + after
        if inner < 0:
            host.fail(f"pads {before} and {after} cut more than the {n} of dim {d}")
        if inner == 0 and extent and attrs.get("mode", "constant") != "constant":
            host.fail(f"there is nothing in dim {d} to fill {extent} places with")
        values |= {f"before{d}": max(0, before), f"begin{d}": begin}
        values |= {f"inner{d}": inner, f"extent{d}": extent}
    return values


def _padded(site: Site, symbols: Mapping[str, Dim]) -> Site:
    rank = range(len(site.shape()))
    value = site.args[2] if site.has(2) else None
    return symbolic(
        site,
        site.arg(0),
        *((None, value) if value is not None else ()),
        before=tuple(symbols[f"before{d}"] for d in rank),
        begin=tuple(symbols[f"begin{d}"] for d in rank),
        inner=tuple(symbols[f"inner{d}"] for d in rank),
        extent=tuple(symbols[f"extent{d}"] for d in rank),
    )


# A diagonal that only a run knows, clamped to the matrix.


def _trilu_values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Trilu", attrs, args)
    rows, columns = host.required(0)[-2:]
    return parts("k", min(max(host.single(1), -rows), columns))


PAD = RunTime(frozenset({1, 3}), _pad_names, _pad_values, _padded, "before")
TRILU = RunTime(
    frozenset({1}),
    lambda site: signed("k"),
    _trilu_values,
    lambda site, symbols: symbolic(site, site.arg(0), k=difference(symbols, "k")),
)


RECORDS = (
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
