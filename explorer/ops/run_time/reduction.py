"""Reductions and the prefix sum along run-time axes.

Each dim d of x is two axes, `kept` and `over`: (n, 1) if it is kept, (1, n) if it is reduced.

    y[i0, i1] = sum over r0, r1 of x[i0 + r0, i1 + r1]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explorer.ir.shapes.dims import Dim
from explorer.ops.record import HostNumber, RunTime
from explorer.ops.run_time.shapes import dim_names, dim_symbols, dim_values
from explorer.ops.run_time.site import Host, highest, length, symbolic
from explorer.ops.site import Site

Attrs = Mapping[str, Any]


def _names(site: Site) -> tuple[HostNumber, ...]:
    shape, numbers = site.shape(), list[HostNumber]()
    for d, n in enumerate(shape):
        if n != 1:
            numbers.append(HostNumber(f"kept{d}", 0, highest(site, (n, 1))))
            numbers.append(HostNumber(f"over{d}", 0, highest(site, (n, 1))))
    if site.integer("keepdims", 1):
        return tuple(numbers)
    return (*numbers, *dim_names(_rank(site), highest(site, (1, *shape))))


def _rank(site: Site) -> int:
    """Return the rank of the result without the reduced dims."""
    rank, count = len(site.shape()), length(site, 1)
    if count == 0:
        return rank if site.integer("noop_with_empty_axes") else 0
    return max(0, rank - count)


def _values(op: str) -> Any:
    def values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
        host = Host(op, attrs, args)
        shape, axes = host.required(0), host.required(1)
        reduced = host.axes(axes, len(shape))
        if not axes and not attrs.get("noop_with_empty_axes"):
            reduced = list(range(len(shape)))
        extents: dict[str, int] = {}
        for d, n in enumerate(shape):
            extents |= {f"kept{d}": 1 if d in reduced else n, f"over{d}": n if d in reduced else 1}
        return extents | dim_values([n for d, n in enumerate(shape) if d not in reduced])

    return values


def _rewritten(site: Site, symbols: Mapping[str, Dim]) -> Site:
    shape = site.shape()
    outer = tuple(symbols[f"kept{d}"] if n != 1 else 1 for d, n in enumerate(shape))
    over = tuple(symbols[f"over{d}"] if n != 1 else 1 for d, n in enumerate(shape))
    if site.integer("keepdims", 1):
        return symbolic(site, site.arg(0), kept=outer, over=over)
    return symbolic(site, site.arg(0), kept=outer, over=over, dims=dim_symbols(symbols))


def reduction_rule(op: str) -> RunTime:
    """Return the rule of a reduction."""
    return RunTime(frozenset({1}), _names, _values(op), _rewritten)


# CumSum: a step of 0 or 1 along each dim, and the extent of the summed dim.


def _cumsum_names(site: Site) -> tuple[HostNumber, ...]:
    shape = site.shape()
    steps = (HostNumber(f"step{d}", 0, 1) for d in range(len(shape)))
    return (*steps, HostNumber("extent", 0, highest(site, shape)))


def _cumsum_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("CumSum", attrs, args)
    shape = host.required(0)
    axis = host.axis(host.single(1), len(shape))
    return {"extent": shape[axis], **{f"step{d}": int(d == axis) for d in range(len(shape))}}


def _cumsum(site: Site, symbols: Mapping[str, Dim]) -> Site:
    steps = tuple(symbols[f"step{d}"] for d in range(len(site.shape())))
    return symbolic(site, site.arg(0), steps=steps, extent=symbols["extent"])


CUMSUM = RunTime(frozenset({1}), _cumsum_names, _cumsum_values, _cumsum, "steps")
