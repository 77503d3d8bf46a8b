"""Reshape, Squeeze, Unsqueeze, Tile, ConstantOfShape and Split where the run says the dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from explorer.ir.shapes.dims import Dim
from explorer.ops.record import Number, RunTime
from explorer.ops.run_time.site import Host, highest, length, symbolic
from explorer.ops.site import Site

Attrs = Mapping[str, Any]


def dim_names(count: int, high: int | None = None) -> tuple[Number, ...]:
    """A number for each dim of a result."""
    return tuple(Number(f"dim{d}", 0, high) for d in range(count))


def dim_values(dims: Sequence[int]) -> dict[str, int]:
    """The values of `dim_names`."""
    return {f"dim{d}": n for d, n in enumerate(dims)}


def dim_symbols(symbols: Mapping[str, Dim]) -> tuple[Dim, ...]:
    """The dims in the order of `dim_names`."""
    return tuple(d for n, d in symbols.items() if n.startswith("dim"))


def _reshaped(site: Site, symbols: Mapping[str, Dim]) -> Site:
    """A Reshape to dims of which the host says that they hold all elements."""
    return symbolic(site, site.arg(0), op="Reshape", dims=dim_symbols(symbols))


def _wanted_dims(site: Site, symbols: Mapping[str, Dim]) -> Site:
    """The same, with the dims that the wanted shape says itself."""
    wanted, shape, found = site.values[1], site.shape(), list(dim_symbols(symbols))
    for d, n in enumerate(() if wanted is None else wanted.tolist()):
        if isinstance(n, int) and (n > 0 or (n == 0 and site.integer("allowzero"))):
            found[d] = n
        elif isinstance(n, int) and n == 0 and d < len(shape):
            found[d] = shape[d]
    return symbolic(site, site.arg(0), dims=tuple(found))


def _reshape_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Reshape", attrs, args)
    shape, wanted = host.given(0), host.given(1)
    dims = list(wanted)
    if not attrs.get("allowzero"):
        for d, n in enumerate(wanted):
            if n == 0 and d >= len(shape):
                host.fail(f"dim {d} is to be kept, of {len(shape)}")
            dims[d] = shape[d] if n == 0 else n
    if any(n < -1 for n in dims) or dims.count(-1) > 1:
        host.fail(f"a shape has one dim of -1 and no other below 0, and is {wanted}")
    rest = prod(n for n in dims if n != -1)
    if -1 in dims:
        if 0 in wanted and attrs.get("allowzero"):
            host.fail(f"beside a dim of 0 that of -1 could be anything, in {wanted}")
        dims[dims.index(-1)] = prod(shape) // rest if rest else 0
    if prod(dims) != prod(shape):
        host.fail(f"{shape} has {prod(shape)} elements and does not fit into {wanted}")
    return dim_values(dims)


def _squeeze_names(site: Site) -> tuple[Number, ...]:
    shape = site.shape()
    return dim_names(max(0, len(shape) - length(site, 1)), highest(site, shape))


def _squeeze_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Squeeze", attrs, args)
    shape = host.given(0)
    gone = host.axes(host.given(1), len(shape))
    for d in gone:
        if shape[d] != 1:
            host.fail(f"dim {d} of {shape} is not 1")
    return dim_values([n for d, n in enumerate(shape) if d not in gone])


def _unsqueeze_names(site: Site) -> tuple[Number, ...]:
    shape = site.shape()
    return dim_names(len(shape) + length(site, 1), highest(site, (1, *shape)))


def _unsqueeze_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Unsqueeze", attrs, args)
    shape, axes = host.given(0), host.given(1)
    rank = len(shape) + len(axes)
    new, rest = set(host.axes(axes, rank)), iter(shape)
    return dim_values([1 if d in new else next(rest) for d in range(rank)])


def _tile_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Tile", attrs, args)
    shape, repeats = host.given(0), host.given(1)
    if len(repeats) != len(shape) or any(r < 0 for r in repeats):
        host.fail(f"repeats {repeats} for {len(shape)} dims")
    return dim_values(repeats)


def _fill_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("ConstantOfShape", attrs, args)
    if any(n < 0 for n in host.given(0)):
        host.fail(f"a shape has no dim below 0, and is {host.given(0)}")
    return dim_values(host.given(0))


def _split_names(site: Site) -> tuple[Number, ...]:
    shape = site.shape()
    high = site.env.at_most(shape[site.axis(len(shape), 0)])
    return dim_names(site.results, high)


def even_parts(extent: int, parts: int) -> list[int]:
    """Parts of one size, rounded up; the last ones are what is left."""
    each = -(-extent // parts)
    return [min(each, max(0, extent - i * each)) for i in range(parts)]


def _split_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Split", attrs, args)
    shape, sizes = host.given(0), host.integers(1)
    extent = shape[host.axis(attrs.get("axis", 0), len(shape))]
    if sizes is None:
        sizes = even_parts(extent, attrs.get("num_outputs", len(attrs["names"])))
    if sum(sizes) != extent or any(n < 0 for n in sizes):
        host.fail(f"parts {sizes} do not add up to {extent}")
    return dim_values(sizes)


ONLY_SECOND = frozenset({1})
RESHAPE = RunTime(
    ONLY_SECOND, lambda site: dim_names(length(site, 1)), _reshape_values, _wanted_dims, "dims"
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
