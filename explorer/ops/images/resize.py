"""Resize: one dim after the other reads its source at places with weights, which are tables.

t[i, j] = sum over k: x[at0[i, k], j] * weight0[i, k];  y[i, j] = sum over k: t[i, at1[j, k]] * ...

The tables are constants, or what the host computes where sizes or scales are values of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product as every
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.kernel import Axis, Expr, Read
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import Tensor
from explorer.ops.arithmetic.elementwise import call
from explorer.ops.images.resample import RESAMPLE, crops, dim_by_dim, resampled, weights_dtype
from explorer.ops.images.resampling import (
    MODES,
    WAYS,
    Sampling,
    Stretch,
    reach,
    sampling,
    stretches,
    table,
)
from explorer.ops.lowering import Lowering, Nest, at, entry, letters
from explorer.ops.record import Number, OperatorRecord, RunTime
from explorer.ops.run_time.site import Host, symbolic
from explorer.ops.site import Array, Site

Attrs = Mapping[str, Any]
Plan = tuple[Stretch | None, ...]  # for each dim, None where it stays as it is
EXACT = 1 << 24  # extents are products in float32, which holds whole numbers up to here


def _axes(site: Site) -> tuple[int, ...]:
    rank = len(site.shape())
    axes = site.axes(rank)
    return tuple(range(rank)) if axes is None else axes


def _changed(site: Site, scales: Any, sizes: Any) -> tuple[int, ...]:
    """The dims that may not stay as they are; `scales` and `sizes` as far as they are known."""
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
    whole = not site.dtype().startswith(("float", "bfloat"))
    if how.mode not in MODES or how.way not in WAYS or (whole and how.mode != "nearest"):
        site.unsupported(f"{how.mode!r} with {how.way!r} of {site.dtype()} has no kernel rule")


# Extents and scales that are known.


def _plan(site: Site) -> Plan:
    _check(site)
    shape, axes = site.shape(), _axes(site)
    scales, sizes = site.dims("scales") or None, site.dims("sizes") or None
    if not all(isinstance(s, int | float) for s in scales or ()):
        site.unsupported(f"scales {scales}, which only a run knows")
    changed = _changed(site, scales, sizes)
    known = [_known(site, n) if d in changed else 1 for d, n in enumerate(shape)]
    wanted = sizes and [_known(site, n) if d in changed else 1 for d, n in zip(axes, sizes)]
    roi: Any = site.dims("roi")
    try:
        found = stretches(site.attrs, known, roi, None if wanted else scales, wanted)
    except ValueError as error:
        site.fail(str(error))
    return tuple(s if d in changed else None for d, s in enumerate(found))


def _known(site: Site, n: Dim) -> int:
    return n if isinstance(n, int) else site.unsupported(f"an extent of {n} is resized")


def _repeats(site: Site) -> dict[int, int] | None:
    """How often each dim that changes is repeated, where all that happens is that each place is
    read so many times in a row, as of the nearest one under whole scales.
    """
    how, scales, shape, axes = sampling(site.attrs), site.dims("scales"), site.shape(), _axes(site)
    if how.mode != "nearest" or crops(site) or site.dims("sizes") or not scales:
        return None
    if len(scales) != len(axes) or site.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    found = {d: s for d, s in zip(axes, scales, strict=True) if s != 1}
    if not all(isinstance(s, int | float) and s >= 1 and s == int(s) for s in found.values()):
        return None
    whole = {d: int(s) for d, s in found.items()}
    few = all(not isinstance(shape[d], int) or shape[d] * n < EXACT for d, n in whole.items())
    return whole if few and all(_is_repeated(how, n) for n in whole.values()) else None


def _is_repeated(how: Sampling, times: int) -> bool:
    """Whether places `times` apart read neighbours, and those between the first of them: what holds
    of one place that is at no border holds of all.
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
            made = [low.constant(places, f"at{d}")]
            if how.mode != "nearest":
                made.append(low.constant(weights.astype(weights_dtype(site.dtype())), f"weight{d}"))
            tables[d] = tuple(made)
        dim_by_dim(low, tables)
    else:
        _corners(low, plan)


def _repeated(low: Lowering, repeats: Mapping[int, int]) -> None:
    """y[2 * i + k] = x[i]"""
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
        for sides in every(*(range(t[1].shape[1]) for t in tables)):
            part = _corner(low, nest, axes, tables, sides)
            total = part if total is None else call("add", total, part)
        assert total is not None
        return total

    nest.map("y", low.result, body)


def _corner(
    low: Lowering,
    nest: Nest,
    axes: Sequence[Axis],
    tables: Sequence[tuple[int, Array, Array]],
    sides: tuple[int, ...],
) -> Expr:
    """One of the source elements around a result, times its weight."""
    index: list[Affine | Expr] = [entry(a, a.extent) for a in axes]
    weights: list[Expr] = []
    for (d, places, share), side in zip(tables, sides, strict=True):
        name, at = f"at{d}{'ab'[side]}", (var(axes[d].name),)
        index[d] = Read(nest.tensor(low.constant(places[:, side], name), name), at)
        if places.shape[1] > 1:
            value = share[:, side].astype(low.site.dtype())
            name = f"weight{d}{'ab'[side]}"
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


def _given(site: Site, i: int) -> Any:
    """What is known of the elements of an argument."""
    found = site.values[i] if site.has(i) and i < len(site.values) else None
    return found if found is not None and found.size else None


def _waiting(site: Site) -> tuple[int, ...]:
    return _changed(site, _given(site, 2), _given(site, 3))


def _wanted(site: Site) -> dict[int, Dim]:
    """The extents that are known although a run has to find the tables."""
    sizes = _given(site, 3)
    stretch = site.text("keep_aspect_ratio_policy", "stretch") == "stretch"
    return dict(zip(_axes(site), sizes, strict=False)) if sizes is not None and stretch else {}


def _names(site: Site) -> tuple[Number, ...]:
    _check(site)
    known = _wanted(site)
    extents = (Number(f"extent{d}") for d in _waiting(site) if d not in known)
    return (*extents, *(Number(f"reach{d}") for d in _waiting(site)))


def _stretches(attrs: Attrs, args: Sequence[Any]) -> tuple[Stretch, ...]:
    host = Host("Resize", attrs, args)
    roi, scales, sizes = (
        None if given is None else np.reshape(given, -1).tolist()
        for i, name in ((1, "roi"), (2, "scales"), (3, "sizes"))
        for given in [attrs.get(name) if i >= len(args) or args[i] is None else args[i]]
    )
    try:
        return stretches(attrs, host.given(0), roi, scales, sizes)
    except ValueError as error:
        host.fail(str(error))


def _values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    found, how = _stretches(attrs, args), sampling(attrs)
    extents = {f"extent{d}": s.new for d, s in enumerate(found)}
    return extents | {f"reach{d}": reach(how, s) for d, s in enumerate(found)}


def _tables(site: Site, symbols: Mapping[str, Dim]) -> Mapping[str, Tensor]:
    found: dict[str, Tensor] = {}
    for d, n in _new_extents(site, symbols).items():
        shape = (n, symbols[f"reach{d}"])
        found[f"at{d}"] = Tensor(shape, "int64")
        if sampling(site.attrs).mode != "nearest":
            found[f"weight{d}"] = Tensor(shape, weights_dtype(site.dtype()))
    return found


def _table(name: str, attrs: Attrs, args: Sequence[Any]) -> Array:
    kind, d = name.rstrip("0123456789"), int(name.lstrip("atweigh"))
    return table(sampling(attrs), _stretches(attrs, args)[d])[kind == "weight"]


def _new_extents(site: Site, symbols: Mapping[str, Dim]) -> dict[int, Dim]:
    known = _wanted(site)
    return {d: known[d] if d in known else symbols[f"extent{d}"] for d in _waiting(site)}


def _rewritten(site: Site, symbols: Mapping[str, Dim]) -> Site:
    """A Resample, which is given tables for the dims that are not as they were."""
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
