"""Reshape, Squeeze, Unsqueeze, Tile, ConstantOfShape and Split with run-time dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from explorer.ir.shapes.dims import Dim
from explorer.ops.record import HostNumber, RunTime
from explorer.ops.run_time.site import Host, highest, length, symbolic
from explorer.ops.site import Site

Attrs = Mapping[str, Any]


def dim_names(count: int, high: int | None = None) -> tuple[HostNumber, ...]:
    """Return a number for each dim of a result."""
    return tuple(HostNumber(f"dim{d}", 0, high) for d in range(count))


def dim_values(dims: Sequence[int]) -> dict[str, int]:
    """Return the values of `dim_names`."""
    return {f"dim{d}": n for d, n in enumerate(dims)}


def dim_symbols(symbols: Mapping[str, Dim]) -> tuple[Dim, ...]:
    """Return the dims in the order of `dim_names`."""
    return tuple(d for n, d in symbols.items() if n.startswith("dim"))


def _reshaped(site: Site, symbols: Mapping[str, Dim]) -> Site:
    """Return a Reshape to dims that the host has checked to hold all elements."""
    return symbolic(site, site.arg(0), op="Reshape", dims=dim_symbols(symbols))


def _target_dims(site: Site, symbols: Mapping[str, Dim]) -> Site:
    """Return a Reshape that also uses the known dims of the target shape."""
    target, shape, dims = site.values[1], site.shape(), list(dim_symbols(symbols))
    for d, n in enumerate(() if target is None else target.tolist()):
        if isinstance(n, int) and (n > 0 or (n == 0 and site.integer("allowzero"))):
            dims[d] = n
        elif isinstance(n, int) and n == 0 and d < len(shape):
            dims[d] = shape[d]
    return symbolic(site, site.arg(0), dims=tuple(dims))


def _reshape_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Reshape", attrs, args)
    shape, wanted = host.required(0), host.required(1)
    dims = list(wanted)
    if not attrs.get("allowzero"):
        for d, n in enumerate(wanted):
            if n == 0 and d >= len(shape):
                host.fail(f"a 0 copies dim {d}, but the input has {len(shape)} dims")
            dims[d] = shape[d] if n == 0 else n
    if any(n < -1 for n in dims) or dims.count(-1) > 1:
        host.fail(f"a shape has one dim of -1 and no other below 0, and is {wanted}")
    other_elements = prod(n for n in dims if n != -1)
    if -1 in dims:
        if 0 in wanted and attrs.get("allowzero"):
            host.fail(f"a dim of -1 is ambiguous beside a dim of 0, in {wanted}")
        dims[dims.index(-1)] = prod(shape) // other_elements if other_elements else 0
    if prod(dims) != prod(shape):
        host.fail(f"{shape} has {prod(shape)} elements and does not fit into {wanted}")
    return dim_values(dims)


def _squeeze_names(site: Site) -> tuple[HostNumber, ...]:
    shape = site.shape()
    return dim_names(max(0, len(shape) - length(site, 1)), highest(site, shape))


def _squeeze_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Squeeze", attrs, args)
    shape = host.required(0)
    dropped = host.axes(host.required(1), len(shape))
    for d in dropped:
        if shape[d] != 1:
            host.fail(f"dim {d} of {shape} is not 1")
    return dim_values([n for d, n in enumerate(shape) if d not in dropped])


def _unsqueeze_names(site: Site) -> tuple[HostNumber, ...]:
    shape = site.shape()
    return dim_names(len(shape) + length(site, 1), highest(site, (1, *shape)))


def _unsqueeze_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Unsqueeze", attrs, args)
    shape, axes = host.required(0), host.required(1)
    rank = len(shape) + len(axes)
    new, old_dims = set(host.axes(axes, rank)), iter(shape)
    return dim_values([1 if d in new else next(old_dims) for d in range(rank)])


def _tile_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Tile", attrs, args)
    shape, repeats = host.required(0), host.required(1)
    if len(repeats) != len(shape) or any(r < 0 for r in repeats):
        host.fail(f"repeats {repeats} for {len(shape)} dims")
    return dim_values(repeats)


def _fill_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("ConstantOfShape", attrs, args)
    if any(n < 0 for n in host.required(0)):
        host.fail(f"a shape has no dim below 0, and is {host.required(0)}")
    return dim_values(host.required(0))


def _split_names(site: Site) -> tuple[HostNumber, ...]:
    shape = site.shape()
    high = site.env.at_most(shape[site.axis(len(shape), 0)])
    return dim_names(site.results, high)


def even_parts(extent: int, parts: int) -> list[int]:
    """Split an extent into equal parts, rounded up; the last ones get the remainder."""
    each = -(-extent // parts)
    return [min(each, max(0, extent - i * each)) for i in range(parts)]


def _split_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Split", attrs, args)
    shape, sizes = host.required(0), host.integers(1)
    extent = shape[host.axis(attrs.get("axis", 0), len(shape))]
    if sizes is None:
        sizes = even_parts(extent, attrs.get("num_outputs", len(attrs["names"])))
    if sum(sizes) != extent or any(n < 0 for n in sizes):
        host.fail(f"parts {sizes} do not add up to {extent}")
    return dim_values(sizes)


ONLY_SECOND = frozenset({1})
RESHAPE = RunTime(
    ONLY_SECOND, lambda site: dim_names(length(site, 1)), _reshape_values, _target_dims, "dims"
)
SQUEEZE = RunTime(ONLY_SECOND, _squeeze_names, _squeeze_values, _reshaped)
UNSQUEEZE = RunTime(ONLY_SECOND, _unsqueeze_names, _unsqueeze_values, _reshaped)
TILE = RunTime(
    ONLY_SECOND,
    lambda site: dim_names(len(site.shape())),
    _tile_values,
    lambda site, symbols: symbolic(site, site.arg(0), repeats=dim_symbols(symbols)),
)
FILL = RunTime(
    frozenset({0}),
    lambda site: dim_names(length(site, 0)),
    _fill_values,
    lambda site, symbols: symbolic(site, shape=dim_symbols(symbols)),
)
SPLIT = RunTime(
    ONLY_SECOND,
    _split_names,
    _split_values,
    lambda site, symbols: symbolic(site, site.arg(0), sizes=dim_symbols(symbols)),
)
