"""Resize: dim by dim at positions and with weights from tables.

    t[i, j] = sum over k: x[at0[i, k], j] * weight0[i, k]
    y[i, j] = sum over k: t[i, at1[j, k]] * weight1[j, k]

The tables are constants, or computed by the host if sizes or scales are values of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product as every
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.dims import Dim
from explorer.ir.kernel import Axis, Expr, Read
from explorer.ir.types import Tensor
from explorer.ops.elementwise import call
from explorer.ops.images.resampling import (
    COORDINATE_MODES,
    MODES,
    RESAMPLE,
    Sampling,
    Stretch,
    crops,
    dim_by_dim,
    reach,
    resampled,
    sampling,
    stretches,
    table,
    weights_dtype,
)
from explorer.ops.lowering import Lowering, Nest, at, entry, letters
from explorer.ops.record import Array, HostNumber, OperatorRecord, RunTime, Site
from explorer.ops.run_time import Host, symbolic

Attrs = Mapping[str, Any]
Plan = tuple[Stretch | None, ...]  # for each dim, None if it does not change
EXACT = 1 << 24  # extents are products in float32, which is exact up to here


def _axes(site: Site) -> tuple[int, ...]:
    rank = len(site.shape())
    axes = site.axes(rank)
    return tuple(range(rank)) if axes is None else axes


def _changed(site: Site, scales: Any, sizes: Any) -> tuple[int, ...]:
    """Return the dims that may change; `scales` and `sizes` as far as they are known."""
    axes, shape = _axes(site), site.shape()
    if crops(site) or site.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        return axes
    if sizes is not None and len(sizes) == len(axes):
        return tuple(d for d, n in zip(axes, sizes, strict=True) if n != shape[d])
    if scales is not None and len(scales) == len(axes):
        return tuple(d for d, s in zip(axes, scales, strict=True) if float(s) != 1.0)
    return axes


def _check(site: Site) -> None:
    how = sampling(site.attrs)
    is_integral = not site.dtype().startswith(("float", "bfloat"))
    if (
        how.mode not in MODES
        or how.coordinate_mode not in COORDINATE_MODES
        or (is_integral and how.mode != "nearest")
    ):
        site.unsupported(
            f"{how.mode!r} with {how.coordinate_mode!r} of {site.dtype()} has no kernel rule"
        )


# Extents and scales that are known.


def _plan(site: Site) -> Plan:
    _check(site)
    shape, axes = site.shape(), _axes(site)
    scales, sizes = site.dims("scales") or None, site.dims("sizes") or None
    if not all(isinstance(s, int | float) for s in scales or ()):
        site.unsupported(f"scales {scales}, which only a run knows")
    changed = _changed(site, scales, sizes)
    extents = [_static_extent(site, n) if d in changed else 1 for d, n in enumerate(shape)]
    new_sizes = sizes and [
        _static_extent(site, n) if d in changed else 1 for d, n in zip(axes, sizes)
    ]
    roi: Any = site.dims("roi")
    try:
        result = stretches(site.attrs, extents, roi, None if new_sizes else scales, new_sizes)
    except ValueError as error:
        site.fail(str(error))
    return tuple(s if d in changed else None for d, s in enumerate(result))


def _static_extent(site: Site, n: Dim) -> int:
    return n if isinstance(n, int) else site.unsupported(f"an extent of {n} is resized")


def _repeats(site: Site) -> dict[int, int] | None:
    """Return how often each changed dim is repeated, if repetition is all that happens.

    So it is for the nearest element under integral scales.
    """
    how, scales, shape, axes = sampling(site.attrs), site.dims("scales"), site.shape(), _axes(site)
    if how.mode != "nearest" or crops(site) or site.dims("sizes") or not scales:
        return None
    if len(scales) != len(axes) or site.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    changed = {d: s for d, s in zip(axes, scales, strict=True) if s != 1}
    if not all(isinstance(s, int | float) and s >= 1 and s == int(s) for s in changed.values()):
        return None
    integral = {d: int(s) for d, s in changed.items()}
    few = all(not isinstance(shape[d], int) or shape[d] * n < EXACT for d, n in integral.items())
    return integral if few and all(_is_repeated(how, n) for n in integral.values()) else None


def _is_repeated(how: Sampling, times: int) -> bool:
    """Return True if each element is read `times` times in a row.

    It is enough to check one element that is not at the border.
    """
    places, _ = table(how, Stretch(3, 3 * times, times))
    return bool((places[:, 0] == np.arange(3 * times) // times).all())


def _types(site: Site) -> tuple[Tensor, ...]:
    _check(site)
    repeats = _repeats(site)
    if repeats is not None:
        shape = (n * repeats.get(d, 1) for d, n in enumerate(site.shape()))
        return (Tensor(tuple(shape), site.dtype()),)
    pairs = zip(site.shape(), _plan(site), strict=True)
    return (Tensor(tuple(n if s is None else s.new for n, s in pairs), site.dtype()),)


def _lower(low: Lowering) -> None:
    site, how = low.site, sampling(low.site.attrs)
    repeats = _repeats(site)
    if repeats:
        _repeated(low, repeats)
        return
    plan = {d: s for d, s in enumerate(_plan(site)) if s is not None}
    if not plan:
        low.view(low.result, site.arg(0))
    elif crops(site) or any(reach(how, s) > 2 for s in plan.values()):
        tables: dict[int, tuple[Var, ...]] = {}
        for d, s in plan.items():
            places, weights = table(how, s)
            table_vars = [low.constant(places, f"at{d}")]
            if how.mode != "nearest":
                table_vars.append(
                    low.constant(weights.astype(weights_dtype(site.dtype())), f"weight{d}")
                )
            tables[d] = tuple(table_vars)
        dim_by_dim(low, tables)
    else:
        _corners(low, plan)


def _repeated(low: Lowering, repeats: Mapping[int, int]) -> None:
    """Repeat elements: y[2 * i + k] = x[i]."""
    nest, x = low.nest("resize"), low.site.arg(0)
    axes, result = letters(x.tensor.dims), low.result
    within = {d: Axis(f"{axes[d].name}_times", n) for d, n in repeats.items()}
    store = [var(a.name) for a in axes]
    for d, n in repeats.items():
        store[d] = store[d] * n + var(within[d].name)
    every = [b for d, a in enumerate(axes) for b in (a, within.get(d)) if b is not None]
    value = at(nest.tensor(x, "x"), axes)
    nest.compute("y", result.tensor.dims, result.tensor.element, every, value, store=store)
    nest.into(result)


# Up to two places a dim: all corners at once.


def _corners(low: Lowering, plan: Mapping[int, Stretch]) -> None:
    nest, how = low.nest("resize"), sampling(low.site.attrs)
    tables = [(d, *table(how, s)) for d, s in plan.items()]

    def body(axes: tuple[Axis, ...]) -> Expr:
        total: Expr | None = None
        for corner in every(*(range(t[1].shape[1]) for t in tables)):
            part = _corner(low, nest, axes, tables, corner)
            total = part if total is None else call("add", total, part)
        assert total is not None
        return total

    nest.map("y", low.result, body)


def _corner(
    low: Lowering,
    nest: Nest,
    axes: Sequence[Axis],
    tables: Sequence[tuple[int, Array, Array]],
    corner: tuple[int, ...],
) -> Expr:
    """Return one of the source elements around a result, times its weight."""
    index: list[Affine | Expr] = [entry(a, a.extent) for a in axes]
    weights: list[Expr] = []
    for (d, places, share), neighbour in zip(tables, corner, strict=True):
        name, at = f"at{d}{'ab'[neighbour]}", (var(axes[d].name),)
        index[d] = Read(nest.tensor(low.constant(places[:, neighbour], name), name), at)
        if places.shape[1] > 1:
            value = share[:, neighbour].astype(low.site.dtype())
            name = f"weight{d}{'ab'[neighbour]}"
            weights.append(Read(nest.tensor(low.constant(value, name), name), at))
    part: Expr = Read(nest.tensor(low.site.arg(0), "x"), tuple(index))
    for weight in weights:
        part = call("mul", part, weight)
    return part


def _reference(attrs: Attrs, args: Any) -> Any:
    x = args[0]
    site = Site("Resize", "Resize", (Var("x", Tensor(x.shape, str(x.dtype.name))),), attrs)
    how, tables = sampling(attrs), dict[int, tuple[Array, ...]]()
    for d, s in enumerate(_plan(site)):
        if s is not None:
            places, weights = table(how, s)
            tables[d] = (places,) if how.mode == "nearest" else (places, weights)
    return resampled(attrs, x, tables, x.dtype)


# Sizes or scales that only a run knows: the host computes extents, then tables.


def _known_elements(site: Site, i: int) -> Any:
    """Return the known elements of an argument, or None."""
    elements = site.values[i] if site.has(i) and i < len(site.values) else None
    return elements if elements is not None and elements.size else None


def _run_time_dims(site: Site) -> tuple[int, ...]:
    return _changed(site, _known_elements(site, 2), _known_elements(site, 3))


def _known_extents(site: Site) -> dict[int, Dim]:
    """Return the extents that are known although a run computes the tables."""
    sizes = _known_elements(site, 3)
    stretch = site.text("keep_aspect_ratio_policy", "stretch") == "stretch"
    return dict(zip(_axes(site), sizes, strict=False)) if sizes is not None and stretch else {}


def _names(site: Site) -> tuple[HostNumber, ...]:
    _check(site)
    known_extents = _known_extents(site)
    extents = (HostNumber(f"extent{d}") for d in _run_time_dims(site) if d not in known_extents)
    return (*extents, *(HostNumber(f"reach{d}") for d in _run_time_dims(site)))


def _stretches(attrs: Attrs, args: Sequence[Any]) -> tuple[Stretch, ...]:
    host = Host("Resize", attrs, args)
    roi, scales, sizes = (
        None if argument is None else np.reshape(argument, -1).tolist()
        for i, name in ((1, "roi"), (2, "scales"), (3, "sizes"))
        for argument in [attrs.get(name) if i >= len(args) or args[i] is None else args[i]]
    )
    try:
        return stretches(attrs, host.required(0), roi, scales, sizes)
    except ValueError as error:
        host.fail(str(error))


def _values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    resized, how = _stretches(attrs, args), sampling(attrs)
    extents = {f"extent{d}": s.new for d, s in enumerate(resized)}
    return extents | {f"reach{d}": reach(how, s) for d, s in enumerate(resized)}


def _tables(site: Site, symbols: Mapping[str, Dim]) -> Mapping[str, Tensor]:
    types: dict[str, Tensor] = {}
    for d, n in _new_extents(site, symbols).items():
        shape = (n, symbols[f"reach{d}"])
        types[f"at{d}"] = Tensor(shape, "int64")
        if sampling(site.attrs).mode != "nearest":
            types[f"weight{d}"] = Tensor(shape, weights_dtype(site.dtype()))
    return types


def _table(name: str, attrs: Attrs, args: Sequence[Any]) -> Array:
    kind, d = name.rstrip("0123456789"), int(name.lstrip("atweigh"))
    return table(sampling(attrs), _stretches(attrs, args)[d])[kind == "weight"]


def _new_extents(site: Site, symbols: Mapping[str, Dim]) -> dict[int, Dim]:
    known_extents = _known_extents(site)
    return {
        d: known_extents[d] if d in known_extents else symbols[f"extent{d}"]
        for d in _run_time_dims(site)
    }


def _rewritten(site: Site, symbols: Mapping[str, Dim]) -> Site:
    """Return a Resample, with tables for the changed dims."""
    new = _new_extents(site, symbols)
    extents = tuple(new.get(d, n) for d, n in enumerate(site.shape()))
    return symbolic(site, site.arg(0), op="Resample", dims=tuple(new), extents=extents)


RECORDS = (
    OperatorRecord(
        "Resize",
        "layout",
        _types,
        _reference,
        _lower,
        None,
        {1: "roi", 2: "scales", 3: "sizes"},
        run_time=RunTime(
            frozenset({1, 2, 3}), _names, _values, _rewritten, tables=_tables, table=_table
        ),
        ranks=dict.fromkeys((1, 2, 3), (1, 1)),
    ),
    RESAMPLE,
)
