"""Reads between the elements of an image: RoiAlign and DeformConv."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import product as every
from math import prod
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.dims import Dim, product, simplify
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read, apply
from explorer.ir.types import DType, Tensor
from explorer.ops.elementwise import call
from explorer.ops.images.windows import Windows, windows
from explorer.ops.interpreter.libraries import onnx_reference
from explorer.ops.lowering import Lowering, Nest
from explorer.ops.record import OperatorRecord, Site
from explorer.ops.shape_rules import agree, demand_shape

Pixel = Callable[[Sequence[Expr]], Expr]


def total(terms: Sequence[Expr]) -> Expr:
    """Return the sum of terms, from the left."""
    return reduce(lambda a, b: call("add", a, b), terms)


def inside(at: Sequence[Expr], extents: Sequence[Dim], dtype: DType) -> Expr:
    """Return whether a position is one of the elements, along every dim."""
    checks = []
    for place, n in zip(at, extents, strict=True):
        checks.append(call("ge", place, Const(0, dtype)))
        checks.append(call("lt", place, Const(n, dtype)))
    return reduce(lambda a, b: call("and", a, b), checks)


def mixed(taps: Sequence[Sequence[tuple[Expr, Expr]]], pixel: Pixel) -> Expr:
    """Return the weighted sum of the elements around a position."""
    terms = []
    for corner in every(*taps):
        element = pixel([place for place, _ in corner])
        terms.append(reduce(lambda a, b: call("mul", a, b), [element, *(w for _, w in corner)]))
    return total(terms)


# RoiAlign.


def _roi_types(site: Site) -> tuple[Tensor, ...]:
    x, rois = site.shape(0), site.shape(1)
    if len(x) != 4 or len(rois) != 2:
        site.fail(f"an input of rank {len(x)} and boxes of rank {len(rois)} do not fit")
    demand_shape(site, 2, (rois[0],), "the row of images of boxes")
    size = site.integer("output_height", 1), site.integer("output_width", 1)
    return (Tensor((rois[0], x[1], *size), site.dtype()),)


def _lower_roi(low: Lowering) -> None:
    site, nest, dtype = low.site, low.nest("roi_align"), low.site.dtype()
    samples, mode = site.integer("sampling_ratio"), site.text("mode", "avg")
    if samples < 1 or mode not in ("avg", "max"):
        site.unsupported("a number of samples that depends on the boxes has no kernel rule")
    half = site.text("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    r, c = Axis("r", low.shape[0]), Axis("c", low.shape[1])
    out = [Axis("h", low.shape[2]), Axis("w", low.shape[3])]
    inner = [Axis("sh", samples), Axis("sw", samples)]
    checks, taps = [], []
    for d in range(2):
        place = _roi_place(low, nest, d, out[d], inner[d], half)
        n = site.shape(0)[2 + d]
        checks.append(call("ge", place, Const(-1.0, dtype)))
        checks.append(call("le", place, Const(n, dtype)))
        cut = call("min", call("max", place, Const(0.0, dtype)), Const(simplify(n - 1), dtype))
        low_place = call("floor", cut)
        share = call("sub", cut, low_place)
        complement = call("sub", Const(1.0, dtype), share)
        taps.append([(low_place, complement), (call("add", low_place, Const(1.0, dtype)), share)])
    batch = nest.load(site.arg(2), "batch", (var("r"),))
    x = nest.tensor(site.arg(0), "x")

    def pixel(at: Sequence[Expr]) -> Expr:
        return Read(x, (batch, var("c"), *(call("cast_int64", p) for p in at)))

    corners = [call("mul", pixel([a, b]), call("mul", p, q)) for (a, p), (b, q) in every(*taps)]
    op = "add" if mode == "avg" else "max"
    value = reduce(lambda a, b: call(op, a, b), corners)
    masked = call("where", reduce(lambda a, b: call("and", a, b), checks), value, Const(0.0, dtype))
    axes = [r, c, *out]
    if mode == "max":
        nest.compute("y", low.shape, dtype, axes, masked, inner, "max")
    else:
        nest.compute("acc", low.shape, dtype, axes, masked, inner, "sum")
        mean = call(
            "mul", Read("acc", tuple(var(a.name) for a in axes)), 1 / samples**2, dtype=dtype
        )
        nest.compute("y", low.shape, dtype, axes, mean)
    nest.into(low.result)


def _roi_place(low: Lowering, nest: Nest, d: int, out: Axis, inner: Axis, half: bool) -> Expr:
    """Return where a sample of a bin of a box lies along one dim of the image."""
    site, dtype = low.site, low.site.dtype()

    def f(op: str, a: Expr, b: Expr | float) -> Expr:
        return call(op, a, b, dtype=dtype)

    scale, shift = site.number("spatial_scale", 1.0), 0.5 if half else 0.0
    first, last = (
        f("sub", f("mul", nest.load(site.arg(1), "rois", (var("r"), Affine((), i))), scale), shift)
        for i in (1 - d, 3 - d)
    )
    size = f("sub", last, first)
    if not half:
        size = f("max", size, 1.0)
    count, samples = out.extent, inner.extent
    bin_size = f("div", size, Const(count, dtype))
    cell = call(f"cast_{dtype}", IndexValue(var(out.name)))
    part = f("add", call(f"cast_{dtype}", IndexValue(var(inner.name))), 0.5)
    within = f("mul", part, f("div", bin_size, Const(samples, dtype)))
    return f("add", f("add", first, f("mul", cell, bin_size)), within)


# DeformConv: the image is sampled where the offsets say, then contracted with the weight.


def _deform_windows(site: Site) -> Windows:
    sizes = site.integers("kernel_shape") or tuple(
        d for d in site.shape(1)[2:] if isinstance(d, int)
    )
    if len(sizes) < len(site.shape(1)[2:]):
        site.unsupported(f"a kernel of {site.shape(1)[2:]}, which only a run knows")
    if len(sizes) != len(site.shape(0)) - 2 or not all(
        agree(k, n, site.env) for k, n in zip(sizes, site.shape(1)[2:], strict=True)
    ):
        site.fail(f"the kernel's shape {sizes} does not fit an input of rank {len(site.shape())}")
    return windows(site, site.shape(0)[2:], sizes)


def _deform_types(site: Site) -> tuple[Tensor, ...]:
    x, w = site.shape(0), site.shape(1)
    if len(x) != len(w) or len(x) < 3:
        site.fail(f"the input has rank {len(x)} and the weight rank {len(w)}")
    groups = site.integer("group", 1)
    if not agree(x[1], simplify(groups * w[1]), site.env):
        site.fail(f"{x[1]} channels do not fit {groups} groups of {w[1]}")
    window, group = _deform_windows(site), site.integer("offset_group", 1)
    if group < 1 or groups < 1:
        site.fail("group and offset_group must be positive", expected="positive integers")
    count = group * product(window.sizes)
    demand_shape(site, 2, (x[0], len(w[2:]) * count, *window.extents), "the offset")
    for i, name, expected in (
        (3, "the bias", (w[0],)),
        (4, "the mask", (x[0], count, *window.extents)),
    ):
        if site.has(i):
            demand_shape(site, i, expected, name)
    return (Tensor((x[0], w[0], *window.extents), site.dtype()),)


def _lower_deform(low: Lowering) -> None:
    site, w = low.site, _deform_windows(low.site)
    channels, outputs = site.shape(0)[1], site.shape(1)[0]
    groups, offsets = site.integer("group", 1), site.integer("offset_group", 1)
    if not isinstance(channels, int) or not isinstance(outputs, int):
        site.unsupported("channels that are symbols have no kernel rule")
    if channels % offsets or channels % groups or outputs % groups:
        site.fail(f"{channels} channels do not divide into {groups} and {offsets} groups")
    sampled = _sampled(low, w, channels, offsets)
    _contracted(low, w, sampled, channels // groups, outputs // groups, groups)


def _sampled(low: Lowering, w: Windows, channels: int, offsets: int) -> Any:
    """Sample the elements for each weight: [n, channel, *positions in a window, *positions]."""
    site, nest, dtype = low.site, low.nest("deform_samples"), low.site.dtype()
    each, spatial = channels // offsets, site.shape(0)[2:]
    shape = (low.shape[0], channels, *w.sizes, *w.extents)
    axes = [Axis("n", shape[0]), Axis("g", offsets), Axis("c", each), *w.offsets, *w.axes]
    number = Affine()
    for k, size in zip(w.offsets, w.sizes, strict=True):
        number = number * size + var(k.name)
    number = var("g") * product(w.sizes) + number
    at = tuple(var(a.name) for a in w.axes)
    taps, places = [], []
    for d, index in enumerate(w.index):
        shift = nest.load(site.arg(2), "offset", (var("n"), number * len(spatial) + d, *at))
        place = call("add", call(f"cast_{dtype}", IndexValue(index)), shift)
        first = call("floor", place)
        share = call("sub", place, first)
        complement = call("sub", Const(1.0, dtype), share)
        taps.append([(first, complement), (call("add", first, Const(1.0, dtype)), share)])
        places.append(place)
    channel = var("g") * each + var("c")
    x = nest.tensor(site.arg(0), "x")

    def pixel(at: Sequence[Expr]) -> Expr:
        element = Read(x, (var("n"), channel, *(call("cast_int64", p) for p in at)))
        return call("where", inside(at, spatial, dtype), element, Const(0.0, dtype))

    value = mixed(taps, pixel)
    if site.has(4):
        value = call("mul", value, nest.load(site.arg(4), "mask", (var("n"), number, *at)))
    store = (var("n"), channel, *(var(a.name) for a in (*w.offsets, *w.axes)))
    samples = low.temporary("samples", shape, dtype)
    nest.compute("y", shape, dtype, axes, value, store=store)
    return nest.into(samples)


def _contracted(
    low: Lowering, w: Windows, sampled: Any, inputs: int, outputs: int, groups: int
) -> None:
    site, nest, dtype = low.site, low.nest("deform_conv"), low.site.dtype()
    axes = [Axis("n", low.shape[0]), Axis("g", groups), Axis("o", outputs), *w.axes]
    places, at = (tuple(var(a.name) for a in group) for group in (w.offsets, w.axes))
    output = var("g") * outputs + var("o")
    data = Read(nest.tensor(sampled, "x"), (var("n"), var("g") * inputs + var("c"), *places, *at))
    weight = Read(nest.tensor(site.arg(1), "weight"), (output, var("c"), *places))
    store = (var("n"), output, *at)
    sums = [Axis("c", inputs), *w.offsets]
    out = "acc" if site.has(3) else "y"
    nest.compute(out, low.shape, dtype, axes, apply("mul", data, weight), sums, "sum", store)
    if site.has(3):
        bias = nest.load(site.arg(3), "bias", (output,))
        nest.compute(
            "y", low.shape, dtype, axes, call("add", Read("acc", store), bias), store=store
        )
    nest.into(low.result)


def _deform(attrs: Mapping[str, Any], args: Sequence[Any]) -> Any:
    """Evaluate DeformConv; onnx's own evaluator divides by the extents less 1."""
    x, w, offset, bias, mask = (*args, None, None)[:5]
    kernel, out, rank = w.shape[2:], offset.shape[2:], w.ndim - 2
    groups, parts = attrs.get("group", 1), attrs.get("offset_group", 1)
    strides, dilations = (attrs.get(n) or (1,) * rank for n in ("strides", "dilations"))
    pads = attrs.get("pads") or (0,) * rank
    moved = offset.reshape(len(x), parts, *kernel, rank, *out)
    grid = np.indices((*kernel, *out))
    places = []
    for d in range(rank):
        steady = grid[rank + d] * strides[d] - pads[d] + grid[d] * dilations[d]
        places.append(steady.astype(x.dtype) + moved.take(d, 2 + rank))
    image = x.reshape(len(x), parts, -1, *x.shape[2:])
    rows = np.arange(len(x)).reshape(-1, *(1,) * (2 * rank + 1))
    columns = np.arange(parts).reshape(1, -1, *(1,) * (2 * rank))
    sampled: Any = 0
    for corner in every((0, 1), repeat=rank):
        share: Any = np.ones((), x.dtype)
        there: Any = True
        index = []
        for place, up, n in zip(places, corner, x.shape[2:], strict=True):
            first = np.floor(place)
            share = share * (place - first if up else 1 - (place - first))
            there = there & (first + up >= 0) & (first + up < n)
            index.append(np.where(there, first + up, 0).astype(np.int64))
        element = image[rows, columns, :, *index]  # the channels of a part stand last
        sampled = sampled + np.where(there[..., None], element, 0) * share[..., None]
    if mask is not None:
        sampled = sampled * mask.reshape(len(x), parts, *kernel, *out, 1)
    sampled = np.moveaxis(sampled, -1, 2).reshape(len(x), groups, -1, prod(kernel), prod(out))
    weight = w.reshape(groups, len(w) // groups, -1, prod(kernel))
    result = np.einsum("ngckp,gock->ngop", sampled, weight).reshape(len(x), len(w), *out)
    return result if bias is None else result + bias.reshape(-1, *(1,) * rank)


RECORDS = (
    OperatorRecord(
        "RoiAlign", "layout", _roi_types, onnx_reference("RoiAlign", 22), _lower_roi, first=16
    ),
    OperatorRecord("DeformConv", "conv", _deform_types, _deform, _lower_deform, first=19),
)
