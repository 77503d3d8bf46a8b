"""Resampling dim by dim: for each new element the old ones that it reads, and their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.dims import Shape
from explorer.ir.kernel import Axis, Const, Expr, Read
from explorer.ir.types import DType, Tensor
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, entry, letters
from explorer.ops.record import Array, OperatorRecord, Site
from explorer.process.budget import check_room

MODES = ("nearest", "linear", "cubic")
COORDINATE_MODES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a Resize reads, by its attributes in ONNX."""

    mode: str = "nearest"
    coordinate_mode: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    slope: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False


def sampling(attrs: Mapping[str, Any]) -> Sampling:
    """Return the attributes of a Resize, with ONNX's defaults."""
    return Sampling(
        str(attrs.get("mode", "nearest")),
        str(attrs.get("coordinate_transformation_mode", "half_pixel")),
        str(attrs.get("nearest_mode", "round_prefer_floor")),
        float(attrs.get("cubic_coeff_a", -0.75)),
        bool(attrs.get("antialias", 0)),
        bool(attrs.get("exclude_outside", 0)),
    )


@dataclass(frozen=True, slots=True)
class Stretch:
    """The resizing of one dim; `begin .. end` is the part that is read, as shares of the dim."""

    old: int
    new: int
    scale: float
    begin: float = 0.0
    end: float = 1.0

    @property
    def is_identity(self) -> bool:
        """Return True if every element is read at its own position."""
        return self.old == self.new and self.scale == 1.0 and (self.begin, self.end) == (0.0, 1.0)


def stretches(
    attrs: Mapping[str, Any],
    shape: Sequence[int],
    roi: Sequence[float] | None,
    scales: Sequence[float] | None,
    sizes: Sequence[int] | None,
) -> tuple[Stretch, ...]:
    """Return the resizing of each dim; raise ValueError if the numbers do not fit the shape."""
    rank = len(shape)
    axes = [a % rank for a in attrs.get("axes") or range(rank)]
    requested = sizes if sizes else scales
    if requested is None or len(requested) != len(axes):
        raise ValueError(
            f"{0 if requested is None else len(requested)} sizes or scales for {len(axes)}"
        )
    parts: list[tuple[float, float]] = [(0.0, 1.0)] * rank
    crops = attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    if roi is not None and len(roi) and crops:
        if len(roi) != 2 * len(axes):
            raise ValueError(f"a region of {len(roi)} numbers for {len(axes)} axes")
        for i, d in enumerate(axes):
            parts[d] = float(roi[i]), float(roi[i + len(axes)])
    result = [Stretch(n, n, 1.0, *parts[d]) for d, n in enumerate(shape)]
    for d, new, scale in _extents(attrs, axes, shape, scales, sizes):
        result[d] = Stretch(shape[d], new, scale, *parts[d])
    return tuple(result)


def _extents(
    attrs: Mapping[str, Any],
    axes: Sequence[int],
    shape: Sequence[int],
    scales: Sequence[float] | None,
    sizes: Sequence[int] | None,
) -> list[tuple[int, int, float]]:
    if not sizes:
        scaled_axes = [(d, float(s)) for d, s in zip(axes, scales or (), strict=True)]
        if not all(0 < s < np.inf for _, s in scaled_axes):
            raise ValueError(f"a scale that is not positive and finite, of {list(scales or ())}")
        # a product in float32, as onnx's shape inference and onnxruntime make it: 10 by 0.7 is 7
        return [(d, int(np.float32(shape[d]) * np.float32(s)), s) for d, s in scaled_axes]
    if any(n < 0 for n in sizes) or any(shape[d] == 0 < n for d, n in zip(axes, sizes)):
        raise ValueError(f"no {list(sizes)} places can be read in {list(shape)}")
    ratios = [n / shape[d] if shape[d] else 1.0 for d, n in zip(axes, sizes, strict=True)]
    policy = attrs.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return list(zip(axes, sizes, ratios, strict=True))
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [(d, int(scale * shape[d] + 0.5), scale) for d in axes]


def positions(coordinate_mode: str, s: Stretch) -> Array:
    """Return the position of each new element in the source, as real numbers."""
    at, width = np.arange(s.new, dtype=np.float64), s.scale * s.old
    if not s.new or not width:
        return at * 0  # nothing is read
    match coordinate_mode:
        case "asymmetric":
            return np.asarray(at / s.scale)
        case "align_corners":
            return np.asarray(at * 0 if s.new == 1 else at * (s.old - 1) / (s.new - 1))
        case "tf_crop_and_resize":
            part, last = s.end - s.begin, s.old - 1
            inner = at * 0 + part * last / 2 if s.new == 1 else at * part * last / (s.new - 1)
            return np.asarray(inner + s.begin * last)
        case "pytorch_half_pixel" if s.new <= 1:  # by the standard, unlike its evaluator
            return at * 0
        case "half_pixel_symmetric":
            return np.asarray(s.old / 2 * (1 - s.new / width) + (at + 0.5) / s.scale - 0.5)
        case _:
            return np.asarray((at + 0.5) / s.scale - 0.5)


def reach(how: Sampling, s: Stretch) -> int:
    """Return how many old elements a new one reads."""
    if how.mode == "nearest" or s.is_identity or not s.new:
        return 1
    half = 1 if how.mode == "linear" else 2
    shrink = min(s.scale, 1.0) if how.antialias else 1.0
    return 2 - 2 * int(np.floor(-half / shrink) + 1)


def table(how: Sampling, s: Stretch) -> tuple[Array, Array]:
    """Return old positions [new, reach] and their weights; a position of -1 is outside."""
    count = reach(how, s)
    check_room(24 * s.new * count, f"a table of {count} places for each of {s.new} new ones")
    if s.is_identity:
        return np.arange(s.new)[:, None], np.ones((s.new, 1))
    at = positions(how.coordinate_mode, s)
    if how.mode == "nearest":
        places, weights = nearest(how.nearest, at)[:, None], np.ones((s.new, 1))
    else:
        places, weights = _window(how, s, at, count)
    clipped = np.clip(places, 0, max(0, s.old - 1))
    if how.coordinate_mode == "tf_crop_and_resize":
        clipped[(at < 0) | (at > s.old - 1)] = -1
    return clipped.astype(np.int64), weights


def nearest(mode: str, at: Array) -> Array:
    """Round positions to elements."""
    match mode:
        case "floor":
            return np.asarray(np.floor(at))
        case "ceil":
            return np.asarray(np.ceil(at))
        case "round_prefer_ceil":
            return np.asarray(np.floor(at + 0.5))
        case _:
            return np.asarray(np.ceil(at - 0.5))


def _window(how: Sampling, s: Stretch, at: Array, count: int) -> tuple[Array, Array]:
    """Return the elements around each position, and their kernel weights."""
    low = np.floor(at)
    is_integral = at == low
    ratio = np.where(is_integral, 1.0, at - low)
    first = 1 - count // 2
    places = (low + first - is_integral)[:, None] + np.arange(count)
    shrink = min(s.scale, 1.0) if how.antialias else 1.0
    away = np.abs((np.arange(count) + first - ratio[:, None]) * shrink)
    weights = np.clip(1 - away, 0, 1) if how.mode == "linear" else _cubic(away, how.slope)
    if how.exclude_outside:
        weights = np.where((places < 0) | (places >= s.old), 0.0, weights)
    if how.antialias or how.exclude_outside:
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1.0, total)
    return places, weights


def _cubic(x: Array, a: float) -> Array:
    """Evaluate Keys' kernel (1981) at distance x."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * a * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


# Resampling at positions and with weights that are tables.
# t[i, j] = sum over k: x[at0[i, k], j] * weight0[i, k]
# y[i, j] = sum over k: t[i, at1[j, k]] * ...


def crops(site: Site) -> bool:
    """Return True for a crop, where positions outside of the source have a value of their own."""
    return site.text("coordinate_transformation_mode", "") == "tf_crop_and_resize"


def weights_dtype(dtype: DType) -> DType:
    """Return the dtype of weights for elements of a dtype."""
    return "float64" if dtype == "float64" else "float32"


def dim_by_dim(low: Lowering, tables: Mapping[int, tuple[Var, ...]]) -> None:
    """Resample one dim after the other.

    `tables` holds for each dim its positions and, unless elements are only copied, their weights.
    """
    site, nest, dtype = low.site, low.nest("resize"), low.site.dtype()
    shape, source = list(site.shape()), nest.tensor(site.arg(0), "x")
    cropped = crops(site)
    for n, (d, (places, *weights)) in enumerate(tables.items()):
        shape[d] = low.shape[d]
        axes = letters(tuple(shape))
        tap = Axis("tap", _rows(places)[1])
        at = (var(axes[d].name), var(tap.name))
        index: list[Affine | Expr] = [entry(a, a.extent) for a in axes]
        index[d] = Read(nest.tensor(places, f"at{d}"), at)
        part: Expr = Read(source, tuple(index))
        if weights:
            part = call("mul", part, Read(nest.tensor(weights[0], f"weight{d}"), at))
        last = n == len(tables) - 1 and not cropped
        out = "y" if last else f"t{d}"
        source = nest.compute(out, tuple(shape), dtype, axes, part, [tap], "sum")
    if cropped:
        axes = letters(low.shape)
        inside: Expr = Read(source, tuple(entry(a, a.extent) for a in axes))
        outside = Const(site.number("extrapolation_value", 0.0), dtype)
        for d, (places, *_) in tables.items():
            first = Read(nest.tensor(places, f"at{d}"), (var(axes[d].name), Affine()))
            inside = call("where", call("lt", first, 0, dtype="int64"), outside, inside)
        nest.compute("y", low.shape, dtype, axes, inside)
    nest.into(low.result)


def _rows(table: Var) -> Shape:
    return table.tensor.dims


def resampled(
    attrs: Mapping[str, Any], x: Array, tables: Mapping[int, tuple[Array, ...]], dtype: Any
) -> Array:
    """Evaluate `dim_by_dim` in NumPy."""
    outside = np.zeros((1,) * x.ndim, bool)
    for d, (places, *weights) in tables.items():
        along = [-1 if i == d else 1 for i in range(x.ndim)]
        outside = outside | (places[:, :1] < 0).reshape(along)
        read = np.take(x, np.maximum(places, 0), axis=d)
        if weights:
            shape = (*(1,) * d, *weights[0].shape, *(1,) * (x.ndim - d - 1))
            read = read * weights[0].reshape(shape).astype(x.dtype)
        x = read.sum(axis=d + 1, dtype=x.dtype)
    return np.where(outside, np.asarray(attrs.get("extrapolation_value", 0.0), dtype), x)


def _resample_tables(site: Site) -> dict[int, tuple[int, ...]]:
    """Return for each resampled dim the positions of its tables among the arguments."""
    each = 1 if sampling(site.attrs).mode == "nearest" else 2
    dims = site.integers("dims") or ()
    return {d: tuple(range(1 + n * each, 1 + (n + 1) * each)) for n, d in enumerate(dims)}


def _resample_types(site: Site) -> tuple[Tensor, ...]:
    return (Tensor(site.dims("extents"), site.dtype()),)


def _lower_resample(low: Lowering) -> None:
    tables = _resample_tables(low.site)
    if not tables:
        low.view(low.result, low.site.arg(0))
        return
    dim_by_dim(low, {d: tuple(low.site.arg(i) for i in at) for d, at in tables.items()})


def _resample(attrs: Mapping[str, Any], args: Any) -> Any:
    each = 1 if sampling(attrs).mode == "nearest" else 2
    rows = {d: tuple(args[1 + n * each :][:each]) for n, d in enumerate(attrs["dims"])}
    return resampled(attrs, args[0], rows, args[0].dtype)


RESAMPLE = OperatorRecord("Resample", "layout", _resample_types, _resample, _lower_resample)
