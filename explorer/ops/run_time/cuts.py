"""Slice, Pad and Trilu with run-time slices and padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from explorer.ir.shapes.dims import Dim
from explorer.ops.record import HostNumber, RunTime
from explorer.ops.run_time.site import Host, difference, parts, signed, symbolic
from explorer.ops.site import Site

Attrs = Mapping[str, Any]


# Slice: for each dim that may be sliced its begin, its extent, and its step.


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


def _slice_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
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


# Pad: for each dim the padding or crop before it, the remaining elements, and the extent after.


def _pad_names(site: Site) -> tuple[HostNumber, ...]:
    numbers: list[HostNumber] = []
    for d in range(len(site.shape())):
        high = site.env.at_most(site.shape()[d])
        numbers += [HostNumber(f"before{d}"), HostNumber(f"begin{d}", 0, high)]
        numbers += [HostNumber(f"inner{d}", 0, high), HostNumber(f"extent{d}")]
    return tuple(numbers)


def _pad_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
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


# Trilu: the diagonal, clamped to the matrix.


def _trilu_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Trilu", attrs, args)
    rows, columns = host.required(0)[-2:]
    return parts("k", min(max(host.single(1), -rows), columns))


SLICE = RunTime(frozenset({1, 2, 3, 4}), _slice_names, _slice_values, _sliced, "begin")
PAD = RunTime(frozenset({1, 3}), _pad_names, _pad_values, _padded, "before")
TRILU = RunTime(
    frozenset({1}),
    lambda site: signed("k"),
    _trilu_values,
    lambda site, symbols: symbolic(site, site.arg(0), k=difference(symbols, "k")),
)
