"""Resampling dim by dim, at positions and with weights that are tables.

t[i, j] = sum over k: x[at0[i, k], j] * weight0[i, k];  y[i, j] = sum over k: t[i, at1[j, k]] * ...
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.kernel import Axis, Const, Expr, Read
from explorer.ir.shapes.dims import Shape
from explorer.ir.types import DType, Tensor
from explorer.ops.arithmetic.elementwise import call
from explorer.ops.images.resampling import sampling
from explorer.ops.lowering import Lowering, entry, letters
from explorer.ops.record import OperatorRecord
from explorer.ops.site import Array, Site

Attrs = Mapping[str, Any]


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


def resampled(attrs: Attrs, x: Array, tables: Mapping[int, tuple[Array, ...]], dtype: Any) -> Array:
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


def _resample(attrs: Attrs, args: Any) -> Any:
    each = 1 if sampling(attrs).mode == "nearest" else 2
    rows = {d: tuple(args[1 + n * each :][:each]) for n, d in enumerate(attrs["dims"])}
    return resampled(attrs, args[0], rows, args[0].dtype)


RESAMPLE = OperatorRecord("Resample", "layout", _resample_types, _resample, _lower_resample)
