"""Convolution: one contraction over channels and positions; padding is the fill of a read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from math import gcd, prod
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.dims import Dim, Shape, ceil_div, floor_div, simplify
from explorer.ir.dtypes import as_computed
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read, apply
from explorer.ir.types import DType, Tensor
from explorer.ops.images.windows import (
    Windows,
    attribute_site,
    each_positive,
    padding_mode,
    views,
    windows,
)
from explorer.ops.lowering import Lowering, Nest
from explorer.ops.record import OperatorRecord, Site
from explorer.ops.shape_rules import agree, most


def _window(site: Site) -> Windows:
    shape = site.shape(1)[2:]
    sizes = site.integers("kernel_shape") or tuple(d for d in shape if isinstance(d, int))
    if sizes != shape:
        site.fail(f"kernel_shape is {sizes} and the weight is {shape}")
    return windows(site, site.shape(0)[2:], sizes)


def _check_static(site: Site) -> None:
    if not all(isinstance(d, int) for d in site.shape(1)):
        site.unsupported(f"the weight's extents {site.shape(1)} are not all known")


def _check_bias(site: Site, channels: Dim) -> None:
    if site.has(2) and not (
        len(site.shape(2)) == 1 and agree(site.shape(2)[0], channels, site.env)
    ):
        site.fail(f"the bias has shape {site.shape(2)} for {channels} channels")


def _conv_types(site: Site) -> tuple[Tensor, ...]:
    x, w = site.shape(0), site.shape(1)
    if len(x) < 3 or len(x) != len(w):
        site.fail(f"the input has rank {len(x)} and the weight rank {len(w)}")
    _check_static(site)
    group = site.integer("group", 1)
    if not isinstance(w[0], int) or not isinstance(w[1], int) or group < 1 or w[0] % group:
        site.fail(f"{w[0]} output channels do not divide into {group} groups")
    if x[1] != w[1] * group and not agree(x[1], w[1] * group, site.env):
        site.fail(f"the input has {x[1]} channels; the weight takes {group} x {w[1]}")
    _check_bias(site, w[0])
    return (Tensor((x[0], w[0], *_window(site).extents), site.dtype()),)


class _Channels:
    """The channel axes of a convolution: o, or g and o; c if a group has several."""

    def __init__(self, outputs: int, inputs: int, groups: int) -> None:
        """Compute the axes and the channel indices."""
        each = outputs // groups
        g = [Axis("g", groups)] if groups > 1 else []
        o = [Axis("o", each)] if each > 1 or groups == 1 else []
        self.axes = [*g, *o]
        self.reduce = [Axis("c", inputs)] if inputs > 1 or groups == 1 else []
        self.group = var("g") if g else Affine()
        self.output = self.group * each + (var("o") if o else Affine())
        self.inner = var("c") if self.reduce else Affine()
        self.input = self.group * inputs + self.inner


def _lower_conv(low: Lowering) -> None:
    site, nest, shape = low.site, low.nest("conv"), low.shape
    w, groups = _window(site), site.integer("group", 1)
    outputs, inputs = _static_dims(site.shape(1)[:2])
    channels = _Channels(outputs, inputs, groups)
    places = [var(k.name) for k in w.offsets]
    index = (var("n"), channels.input, *w.index)
    x = Read(nest.tensor(site.arg(0), "x"), index, 0.0 if w.pads else None)
    weight = Read(nest.tensor(site.arg(1), "weight"), (channels.output, channels.inner, *places))
    axes = [Axis("n", shape[0]), *channels.axes, *w.axes]
    store = () if groups == 1 else (var("n"), channels.output, *(var(a.name) for a in w.axes))
    sums = [*channels.reduce, *w.offsets]
    out = "acc" if site.has(2) else "y"
    nest.compute(out, shape, site.dtype(), axes, apply("mul", x, weight), sums, "sum", store)
    _add_bias(nest, low, axes, (var("n"), channels.output, *(var(a.name) for a in w.axes)), store)
    nest.into(low.result)


def _static_dims(dims: Sequence[Dim]) -> tuple[int, ...]:
    return tuple(d for d in dims if isinstance(d, int))


def _add_bias(
    nest: Nest, low: Lowering, axes: list[Axis], at: tuple[Affine, ...], store: tuple[Affine, ...]
) -> None:
    if low.site.has(2):
        bias = nest.load(low.site.arg(2), "bias", (at[1],))
        total = apply("add", Read("acc", at), bias)
        nest.compute("y", low.shape, low.site.dtype(), axes, total, store=store)


def _conv_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, w, bias = (*args, None)[:3]
    site, groups = attribute_site("Conv", attrs), attrs.get("group", 1)
    win = windows(site, x.shape[2:], w.shape[2:])
    patches = views(x, win, 0)  # n c [positions] [places]
    n, count = x.shape[0], len(win.extents)
    patches = np.moveaxis(patches, 1, 1 + count)  # n [positions] c [places]
    inputs, outputs = w.shape[1], w.shape[0] // groups
    by_group = []
    for g in range(groups):
        at = (slice(None),) * (1 + count) + (slice(g * inputs, (g + 1) * inputs),)
        rows = patches[at].reshape(n, prod(win.extents), inputs * prod(win.sizes))
        columns = w[g * outputs : (g + 1) * outputs].reshape(outputs, rows.shape[2])
        by_group.append(np.swapaxes(rows @ columns.T, 1, 2))
    y = np.concatenate(by_group, axis=1).reshape(n, w.shape[0], *win.extents)
    return y if bias is None else y + bias.reshape(-1, *(1,) * count)


# ConvTranspose: one contraction for each residue of the output position modulo the stride.


class _Transposed:
    """The sizes of a transposed convolution along its spatial dims."""

    def __init__(self, site: Site, spatial: Sequence[Dim], sizes: Sequence[int]) -> None:
        """Compute the extents and the padding before each dim from the attributes."""
        count = len(spatial)
        self.sizes = tuple(sizes)
        self.strides = each_positive(site, "strides", count, 1)
        self.dilations = each_positive(site, "dilations", count, 1)
        extra = _none_negative(site, "output_padding", count)
        pads: list[Dim] = list(_none_negative(site, "pads", 2 * count))
        spans = [d * (k - 1) + 1 for k, d in zip(sizes, self.dilations, strict=True)]
        full_extents = [
            simplify((n - 1) * s + span + e)
            for n, s, span, e in zip(spatial, self.strides, spans, extra, strict=True)
        ]
        output_shape, mode = site.dims("output_shape"), padding_mode(site)
        if output_shape is not None and len(output_shape) not in (count, count + 2):
            site.fail(f"output_shape must be {count} extents and is {output_shape}")
        if output_shape is None and mode in ("SAME_UPPER", "SAME_LOWER"):
            output_shape = tuple(
                simplify(n * s) for n, s in zip(spatial, self.strides, strict=True)
            )
        if output_shape is not None:
            output_shape = output_shape[len(output_shape) - count :]
            pads = [0] * 2 * count
            for d, (n, full) in enumerate(zip(output_shape, full_extents, strict=True)):
                total_padding = most(site.env, [simplify(full - n), 0])
                small = floor_div(total_padding, 2)
                pads[d] = small if mode == "SAME_UPPER" else simplify(total_padding - small)
            self.before, self.extents = tuple(pads[:count]), tuple(output_shape)
            return
        if mode == "VALID":
            pads = [0] * 2 * count
        self.before = tuple(pads[:count])
        self.extents = tuple(
            simplify(full - pads[d] - pads[d + count]) for d, full in enumerate(full_extents)
        )


def _none_negative(site: Site, name: str, count: int) -> tuple[int, ...]:
    values = site.integers(name, (0,) * count) or ()
    if len(values) != count or any(v < 0 for v in values):
        site.fail(f"{name} must be {count} integers, none negative, and is {values}")
    return values


def _transposed(site: Site) -> _Transposed:
    return _Transposed(site, site.shape(0)[2:], _static_dims(site.shape(1)[2:]))


def _transposed_types(site: Site) -> tuple[Tensor, ...]:
    x, w = site.shape(0), site.shape(1)
    if len(x) < 3 or len(x) != len(w):
        site.fail(f"the input has rank {len(x)} and the weight rank {len(w)}")
    _check_static(site)
    if x[1] != w[0] and not agree(x[1], w[0], site.env):
        site.fail(f"the input has {x[1]} channels and the weight takes {w[0]}")
    group = site.integer("group", 1)
    if not isinstance(w[0], int) or group < 1 or w[0] % group:
        site.fail(f"{w[0]} input channels do not divide into {group} groups")
    channels = simplify(w[1] * group)
    _check_bias(site, channels)
    return (Tensor((x[0], channels, *_transposed(site).extents), site.dtype()),)


def _lower_transposed(low: Lowering) -> None:
    site, nest, t = low.site, low.nest("conv_transpose"), _transposed(low.site)
    groups, inputs = site.integer("group", 1), _static_dims(site.shape(1)[:1])[0]
    channels = _Channels(_static_dims(site.shape(1)[1:2])[0] * groups, inputs // groups, groups)
    inner = channels.output - channels.group * (_static_dims(site.shape(1)[1:2])[0])
    out = "acc" if site.has(2) else "y"
    if any(s > 1 and not isinstance(p, int) for s, p in zip(t.strides, t.before, strict=True)):
        _sum_taps(low, nest, t, channels, inner)
        return
    if prod(t.strides) > MOST_RESIDUES:
        site.unsupported(f"strides of {t.strides}: each place between two is a loop of its own")
    for residues in reversed(list(np.ndindex(*t.strides))):  # the residue with most positions last
        parts = [_Residue(t, d, r, low.shape[2 + d]) for d, r in enumerate(residues)]
        if any(p.axis.extent == 0 for p in parts) and any(residues):
            continue  # a result shorter than the stride has no position of this residue
        axes = [Axis("n", low.shape[0]), *channels.axes, *(p.axis for p in parts)]
        store = (var("n"), channels.output, *(p.store for p in parts))
        if all(p.taps for p in parts):
            x = Read(
                nest.tensor(site.arg(0), "x"),
                (var("n"), channels.input, *(p.read for p in parts)),
                0.0,
            )
            weight = Read(
                nest.tensor(site.arg(1), "weight"),
                (channels.input, inner, *(p.place for p in parts)),
            )
            expr: Expr = apply("mul", x, weight)
            if not _is_finite(low, site.arg(1)):
                expr = _where_inside(expr, parts, site.shape(0)[2:], site.dtype())
            sums = [*channels.reduce, *(p.tap for p in parts)]
            nest.compute(out, low.shape, site.dtype(), axes, expr, sums, "sum", store)
        else:
            zero = Const(0.0, site.dtype())
            nest.compute(out, low.shape, site.dtype(), axes, zero, store=store)
    result_axes, at = _places(low, t, channels)
    _add_bias(nest, low, result_axes, at, at if groups > 1 else ())
    nest.into(low.result)


MOST_RESIDUES = 256


def _places(
    low: Lowering, t: _Transposed, channels: _Channels
) -> tuple[list[Axis], tuple[Affine, ...]]:
    """Return the axes of the result, and the element of the result at each position."""
    over = [Axis(n, e) for n, e in zip("dhw"[3 - len(t.extents) :], t.extents, strict=True)]
    at = (var("n"), channels.output, *(var(a.name) for a in over))
    return [Axis("n", low.shape[0]), *channels.axes, *over], at


def _sum_taps(
    low: Lowering, nest: Nest, t: _Transposed, channels: _Channels, inner: Affine
) -> None:
    """Sum every tap at every position; only a run knows which taps its padding lets through."""
    site, dtype, spatial = low.site, low.site.dtype(), low.site.shape(0)[2:]
    axes, at = _places(low, t, channels)
    taps = [Axis(f"k{a.name}", k) for a, k in zip(axes[-len(spatial) :], t.sizes, strict=True)]
    index: list[Expr] = []
    tests: list[Expr] = []
    for d, (axis, tap, n) in enumerate(zip(axes[-len(spatial) :], taps, spatial, strict=True)):
        place = IndexValue(var(axis.name) + t.before[d] - var(tap.name) * t.dilations[d])
        stride = Const(t.strides[d], "int64")
        row = apply("floordiv", place, stride)
        zero = Const(0, "int64")
        tests.append(apply("eq", apply("mod", place, stride), zero))
        tests.append(apply("ge", row, zero))
        tests.append(apply("lt", row, Const(n, "int64")))
        index.append(row)
    x = Read(nest.tensor(site.arg(0), "x"), (var("n"), channels.input, *index), 0.0)
    weight_index = (channels.input, inner, *(var(tap.name) for tap in taps))
    weight = Read(nest.tensor(site.arg(1), "weight"), weight_index)
    hit = reduce(partial(apply, "and"), tests)
    term = apply("where", hit, apply("mul", x, weight), Const(0.0, dtype))
    store = at if site.integer("group", 1) > 1 else ()
    out = "acc" if site.has(2) else "y"
    nest.compute(out, low.shape, dtype, axes, term, [*channels.reduce, *taps], "sum", store)
    _add_bias(nest, low, axes, at, store)
    nest.into(low.result)


def _is_finite(low: Lowering, weight: Var) -> bool:
    """Return True if a weight is known and finite: then elements past the border add 0."""
    constant = low.array(weight)
    return constant is not None and bool(np.isfinite(as_computed(constant)).all())


def _where_inside(x: Expr, parts: Sequence[_Residue], extents: Shape, dtype: DType) -> Expr:
    """Return the term of a sum, and 0 if its element lies past the border."""
    tests = [
        apply(name, IndexValue(p.read), Const(end, "int64"))
        for p, extent in zip(parts, extents, strict=True)
        for name, end in (("ge", 0), ("lt", extent))
    ]
    return apply("where", reduce(partial(apply, "and"), tests), x, Const(0.0, dtype))


class _Residue:
    """Output positions h = q * stride + residue along one dim, and the taps that reach them.

    The axis q is shared by all residues, so that a tile has neighbours of each; it may end one
    earlier.

    Tap k reaches h if `h + before - k * dilation` is a multiple of the stride: every `step`th
    tap from `first` on, if any.
    """

    def __init__(self, t: _Transposed, d: int, residue: int, extent: Dim) -> None:
        """Compute the axes and the indices of one residue."""
        stride, dilation, name = t.strides[d], t.dilations[d], "dhw"[3 - len(t.extents) :][d]
        start, shared = residue + t.before[d], gcd(dilation, stride)
        step = stride // shared
        first = next((k for k in range(step) if (start - k * dilation) % stride == 0), None)
        self.taps = 0 if first is None else max(0, -(-(t.sizes[d] - first) // step))
        first = first or 0
        self.axis = Axis(name, ceil_div(simplify(extent - residue), stride))
        self.tap = Axis(f"k{name}{residue}", self.taps)
        self.store = var(self.axis.name) * stride + residue
        self.place = var(self.tap.name) * step + first
        shift = (start - first * dilation) // stride
        self.read = var(self.axis.name) - var(self.tap.name) * (dilation // shared) + shift


def _transposed_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, w, bias = (*args, None)[:3]
    t = _Transposed(attribute_site("ConvTranspose", attrs), x.shape[2:], w.shape[2:])
    groups, n, each = attrs.get("group", 1), x.shape[0], w.shape[1]
    spatial = x.shape[2:]
    full_extents = [
        (m - 1) * s + d * (k - 1) + 1
        for m, s, d, k in zip(spatial, t.strides, t.dilations, t.sizes, strict=True)
    ]
    padded_extents = [
        max(m, p + int(e)) for m, p, e in zip(full_extents, t.before, t.extents, strict=True)
    ]
    y = np.zeros((n, each * groups, *padded_extents), x.dtype)
    inputs = x.shape[1] // groups
    for g in range(groups):
        rows = slice(g * inputs, (g + 1) * inputs)
        for place in np.ndindex(*t.sizes):
            value = np.einsum("nc...,co->no...", x[:, rows], w[(rows, slice(None), *place)])
            steps = tuple(
                slice(k * d, k * d + m * s, s)
                for k, d, m, s in zip(place, t.dilations, spatial, t.strides, strict=True)
            )
            y[(slice(None), slice(g * each, (g + 1) * each), *steps)] += value
    crop = tuple(slice(p, p + int(e)) for p, e in zip(t.before, t.extents, strict=True))
    y = y[(slice(None), slice(None), *crop)]
    return y if bias is None else y + bias.reshape(-1, *(1,) * len(spatial))


RECORDS = (
    OperatorRecord("Conv", "conv", _conv_types, _conv_reference, _lower_conv),
    OperatorRecord(
        "ConvTranspose", "conv", _transposed_types, _transposed_reference, _lower_transposed
    ),
)
