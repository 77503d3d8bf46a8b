"""Sliding windows over the trailing dims: sizes, strides, dilations, pads, and extents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.dims import Dim, Shape, ceil_div, floor_div, simplify
from explorer.ir.kernel import Axis
from explorer.ops.record import Site
from explorer.ops.shape_rules import least, most

LONGEST = 1 << 31  # window
SPATIAL = {1: "w", 2: "hw", 3: "dhw"}


@dataclass(frozen=True, slots=True)
class Windows:
    """One window along each spatial dim; `before` and `after` are zeros around the input.

    The model asks for `before` and `requested_after`; ceil_mode may reach further.
    """

    extents: Shape
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[Dim, ...]
    after: tuple[Dim, ...]
    requested_after: tuple[Dim, ...]

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The output positions: h, w."""
        names = spatial_names(self.extents)
        return tuple(Axis(n, e) for n, e in zip(names, self.extents, strict=True))

    @property
    def offsets(self) -> tuple[Axis, ...]:
        """The positions in a window: kh, kw."""
        names = spatial_names(self.extents)
        return tuple(Axis(f"k{n}", e) for n, e in zip(names, self.sizes, strict=True))

    @property
    def index(self) -> tuple[Affine, ...]:
        """The index that a window reads: h * stride + kh * dilation - pad."""
        parts = zip(self.axes, self.offsets, self.strides, self.dilations, self.before, strict=True)
        return tuple(var(a.name) * s + var(k.name) * d - p for a, k, s, d, p in parts)

    @property
    def pads(self) -> bool:
        """Return True if windows reach outside."""
        return any(p != 0 for p in (*self.before, *self.after))


PADDING_MODES = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def spatial_names(shape: Sequence[Any]) -> Sequence[str]:
    """Return the names of the axes of spatial dims: h, w."""
    return SPATIAL.get(len(shape), tuple(f"s{d}" for d in range(len(shape))))


def windows(site: Site, spatial: Shape, sizes: Sequence[int]) -> Windows:
    """Return the windows of a convolution or a pool over extents `spatial`."""
    count = len(spatial)
    strides = each_positive(site, "strides", count, 1)
    dilations = each_positive(site, "dilations", count, 1)
    if len(sizes) != count or any(not 1 <= k < LONGEST for k in sizes):
        site.fail(f"a window has {count} positive extents, not {tuple(sizes)}")
    spans = [d * (k - 1) + 1 for k, d in zip(sizes, dilations, strict=True)]
    before, after = _pads(site, spatial, spans, strides)
    up, same = bool(site.integer("ceil_mode")), padding_mode(site).startswith("SAME")
    extents, reach = [], []
    for n, span, s, p, q in zip(spatial, spans, strides, before, after, strict=True):
        free_extent = simplify(n + p + q - span)
        steps = _ceil_steps(site, n, span, s, (p, q)) if up else floor_div(free_extent, s)
        extent = ceil_div(n, s) if same else simplify(steps + 1)
        if isinstance(extent, int) and extent <= 0 and not (same and n == 0):
            site.fail(f"a window of {span} does not fit into {n} and its padding")
        extents.append(extent)
        reach.append(simplify(q + (extent - 1) * s - free_extent) if up else q)
    around = (tuple(before), tuple(reach), tuple(after))
    return Windows(tuple(extents), tuple(sizes), strides, dilations, *around)


def _ceil_steps(site: Site, n: Dim, span: int, stride: int, pads: tuple[Dim, Dim]) -> Dim:
    """Return the steps rounded up; no window starts in the padding after the tensor."""
    before, after = pads
    steps = ceil_div(simplify(n + before + after - span), stride)
    if isinstance(after, int) and after + stride <= span:
        return steps  # so far after the tensor no window starts
    return least(site.env, [steps, floor_div(simplify(n + before - 1), stride)])


def each_positive(site: Site, name: str, count: int, default: int) -> tuple[int, ...]:
    """Return an attribute of one positive integer for each spatial dim."""
    values = site.integers(name, (default,) * count)
    assert values is not None
    if len(values) != count or any(v < 1 for v in values):
        site.fail(f"{name} must be {count} positive integers and is {values}")
    return values


def _pads(
    site: Site, spatial: Shape, spans: Sequence[int], strides: Sequence[int]
) -> tuple[list[Dim], list[Dim]]:
    mode, count = padding_mode(site), len(spatial)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        totals = [_same(site, n, k, s) for n, k, s in zip(spatial, spans, strides, strict=True)]
        small = [floor_div(t, 2) for t in totals]
        large = [simplify(t - s) for t, s in zip(totals, small, strict=True)]
        return (small, large) if mode == "SAME_UPPER" else (large, small)
    pads = pads_of(site, count) if mode == "NOTSET" else (0,) * 2 * count
    return list(pads[:count]), list(pads[count:])


def pads_of(site: Site, count: int) -> tuple[int, ...]:
    """Return the attribute `pads`, before and after each spatial dim."""
    pads = site.integers("pads", (0,) * 2 * count)
    assert pads is not None
    if len(pads) != 2 * count or any(p < 0 for p in pads):
        site.fail(f"pads must be {2 * count} integers, none negative, and is {pads}")
    return pads


def padding_mode(site: Site) -> str:
    """Return the padding mode, one of ONNX's four."""
    mode = site.text("auto_pad", "NOTSET")
    if mode not in PADDING_MODES:
        site.fail(f"auto_pad must be one of {', '.join(PADDING_MODES)} and is {mode!r}")
    return mode


def _same(site: Site, n: Dim, span: int, stride: int) -> Dim:
    """Return the padding that makes ceil(n / stride) windows."""
    total = simplify((ceil_div(n, stride) - 1) * stride + span - n)
    return total if stride <= span and n != 0 else most(site.env, [total, 0])


# NumPy: the windows of an array.


def attribute_site(op: str, attrs: Mapping[str, Any]) -> Site:
    """Return a site that has attributes only, for the references."""
    return Site(op, op, (), attrs)


def padded(x: np.ndarray, w: Windows, fill: Any) -> np.ndarray:
    """Return the array with the padding that its windows read."""
    lead: list[tuple[Any, Any]] = [(0, 0)] * (x.ndim - len(w.extents))
    around = [(int(p), max(int(q), 0)) for p, q in zip(w.before, w.after, strict=True)]
    return np.pad(x, lead + around, constant_values=fill)


def views(x: np.ndarray, w: Windows, fill: Any) -> np.ndarray:
    """Return the windows of an array: [..., *output positions, *positions in a window]."""
    count = len(w.extents)
    if 0 in w.extents:
        return np.empty((*x.shape[: x.ndim - count], *map(int, w.extents), *w.sizes), x.dtype)
    x = padded(x, w, fill)
    first = x.ndim - count
    spans = [d * (k - 1) + 1 for k, d in zip(w.sizes, w.dilations, strict=True)]
    window_views = np.lib.stride_tricks.sliding_window_view(x, spans, tuple(range(first, x.ndim)))
    lead = (slice(None),) * first
    steps = tuple(
        slice(0, (int(e) - 1) * s + 1, s) for e, s in zip(w.extents, w.strides, strict=True)
    )
    inner = tuple(slice(None, None, d) for d in w.dilations)
    return window_views[(*lead, *steps, *inner)]
