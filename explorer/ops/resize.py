"""Resize: nearest and linear, from tables of source positions that are computed when compiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product as every
from typing import Any

import numpy as np

from explorer.ir.calls import Var
from explorer.ir.dims import Dim
from explorer.ir.kernel import Affine, Axis, Expr, Read, var
from explorer.ir.types import Tensor
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, Nest, entry
from explorer.ops.record import Array, OperatorRecord, Site


@dataclass(frozen=True, slots=True)
class Plan:
    """For each dim: its extent after, and the scale; 1.0 where nothing happens."""

    extents: tuple[Dim, ...]
    scales: tuple[float, ...]


def _plan(site: Site) -> Plan:
    shape = site.shape()
    axes = site.axes(len(shape)) or tuple(range(len(shape)))
    extents, factors = list(shape), [1.0] * len(shape)
    sizes, scales = site.dims("sizes"), site.dims("scales")
    if site.text("keep_aspect_ratio_policy", "stretch") != "stretch" or not (sizes or scales):
        site.unsupported("keep_aspect_ratio_policy, or a size that is not known")
    for i, axis in enumerate(axes):
        n = shape[axis]
        if sizes:
            extents[axis] = sizes[i]
            factors[axis] = 1.0 if sizes[i] == n else _ratio(site, sizes[i], n)
        elif scales and float(str(scales[i])) != 1.0:
            factors[axis] = float(str(scales[i]))
            extents[axis] = int(np.floor(_known(site, n) * factors[axis]))
    return Plan(tuple(extents), tuple(factors))


def _known(site: Site, n: Dim) -> int:
    return n if isinstance(n, int) else site.unsupported(f"an extent of {n} is resized")


def _ratio(site: Site, new: Dim, old: Dim) -> float:
    return _known(site, new) / _known(site, old)


def _types(site: Site) -> tuple[Tensor, ...]:
    return (Tensor(_plan(site).extents, site.dtype()),)


def _positions(mode: str, old: int, new: int, scale: float) -> Array:
    """Where each result lies in the source, as real numbers."""
    at = np.arange(new, dtype=np.float64)
    match mode:
        case "asymmetric":
            return np.asarray(at / scale)
        case "align_corners":
            return np.asarray(at * (old - 1) / (new - 1) if new > 1 else at * 0)
        case "pytorch_half_pixel" if new == 1:
            return np.zeros(new)
        case _:
            return np.asarray((at + 0.5) / scale - 0.5)


def _nearest(mode: str, at: Array, old: int) -> Array:
    rounded = {
        "floor": np.floor(at),
        "ceil": np.ceil(at),
        "round_prefer_ceil": np.floor(at + 0.5),
    }.get(mode, np.ceil(at - 0.5))
    near: Array = np.clip(rounded, 0, old - 1).astype(np.int64)
    return near


def _check(site: Site) -> tuple[str, str]:
    mode = site.text("mode", "nearest")
    way = site.text("coordinate_transformation_mode", "half_pixel")
    ways = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
    if mode not in ("nearest", "linear") or way not in ways or site.integer("antialias"):
        site.unsupported(f"mode {mode!r} with {way!r} has no kernel rule")
    return mode, way


def _tables(site: Site, plan: Plan) -> list[tuple[int, list[Array], Array]]:
    """For each resized dim: the source positions on either side, and the second's weight."""
    mode, way = _check(site)
    found = []
    for d, (new, scale) in enumerate(zip(plan.extents, plan.scales, strict=True)):
        if scale != 1.0:
            old = _known(site, site.shape()[d])
            at = _positions(way, old, _known(site, new), scale)
            if mode == "nearest":
                near = _nearest(site.text("nearest_mode", "round_prefer_floor"), at, old)
                found.append((d, [near], np.zeros(len(at))))
            else:
                at = np.clip(at, 0, old - 1)
                low = np.floor(at).astype(np.int64)
                found.append((d, [low, np.minimum(low + 1, old - 1)], at - low))
    return found


def _lower(low: Lowering) -> None:
    site, nest, plan = low.site, low.nest("resize"), _plan(low.site)
    tables = _tables(site, plan)

    def body(axes: tuple[Axis, ...]) -> Expr:
        total: Expr | None = None
        for sides in every(*(range(len(t[1])) for t in tables)):
            part = _corner(low, nest, axes, tables, sides)
            total = part if total is None else call("add", total, part)
        assert total is not None
        return total

    nest.map("y", low.result, body)


def _corner(
    low: Lowering, nest: Nest, axes: Sequence[Axis], tables: list[Any], sides: tuple[int, ...]
) -> Expr:
    """One of the source elements around a result, times its weight."""
    index: list[Affine | Expr] = [entry(a, a.extent) for a in axes]
    weights: list[Expr] = []
    for (d, places, share), side in zip(tables, sides, strict=True):
        name, at = f"at{d}{'ab'[side]}", (var(axes[d].name),)
        index[d] = Read(nest.tensor(low.constant(places[side], name), name), at)
        if len(places) > 1:
            value = (share if side else 1 - share).astype(low.site.dtype())
            name = f"weight{d}{'ab'[side]}"
            weights.append(Read(nest.tensor(low.constant(value, name), name), at))
    part: Expr = Read(nest.tensor(low.site.arg(0), "x"), tuple(index))
    for weight in weights:
        part = call("mul", part, weight)
    return part


def _reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x = args[0]
    site = Site("Resize", "Resize", (Var("x", Tensor(x.shape, str(x.dtype.name))),), attrs)
    for d, places, share in _tables(site, _plan(site)):
        if len(places) == 1:
            x = np.take(x, places[0], axis=d)
        else:
            weight = share.reshape([-1 if i == d else 1 for i in range(x.ndim)]).astype(x.dtype)
            x = (
                np.take(x, places[0], axis=d) * (1 - weight)
                + np.take(x, places[1], axis=d) * weight
            )
    return x


RECORDS = (
    OperatorRecord("Resize", "layout", _types, _reference, _lower, None, {2: "scales", 3: "sizes"}),
)
