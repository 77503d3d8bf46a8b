"""Broadcasting that bounds do not decide: run-time extents and index steps.

Each dim has an extent, and each argument a step of 0 or 1 along it.

    y = Add(x: [5], b: [k])  ->  y[i] = x[i] + b[step * i], and the host says whether step is 0 or 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explorer.ir.calls import AttrValue
from explorer.ir.shapes.dims import Dim, Shape, ShapeEnv
from explorer.ops.record import HostNumber, RunTime
from explorer.ops.run_time.site import Host, length, symbolic
from explorer.ops.site import Site

Attrs = Mapping[str, Any]


def _certain(dims: Sequence[Dim | None], env: ShapeEnv) -> Dim | None:
    """Return the extent of a result if a dim is certainly not 1, or all dims are equal."""
    for dim in dims:
        if dim is not None and env.bounds(dim)[0] > 1:
            return dim
    kinds = set(dims) - {1}
    return next(iter(kinds), 1) if len(kinds) < 2 and None not in kinds else None


def _columns(site: Site, shapes: Sequence[Shape], rank: int) -> list[list[Dim | None]]:
    """Return for each dim of the result the dims that meet there; None is known only in a run."""
    columns: list[list[Dim | None]] = [[] for _ in range(rank)]
    for shape in shapes:
        for d, n in enumerate(shape, rank - len(shape)):
            columns[d].append(n)
    if site.op == "Expand":
        for d in range(rank - length(site, 1), rank):
            columns[d].append(None)
    return columns


def _inner(op: str) -> int:
    """Return how many dims at the end of each shape do not broadcast."""
    return 2 if op == "MatMul" else 0


def _shapes(site: Site) -> list[Shape]:
    """Return the shapes of the broadcast arguments."""
    count = 1 if site.op == "Expand" else len(site.args)
    shapes = [site.shape(i) if site.has(i) else () for i in range(count)]
    return [shape[: max(0, len(shape) - _inner(site.op))] for shape in shapes]


def _rank(site: Site, shapes: Sequence[Shape]) -> int:
    ranks = [len(s) for s in shapes]
    return max(ranks) if site.op != "Expand" else max(*ranks, length(site, 1))


def _extents(site: Site) -> list[Dim | None]:
    """Return the extents of the result; None for those that only a run knows."""
    shapes = _shapes(site)
    columns = _columns(site, shapes, _rank(site, shapes))
    return [_certain(column, site.env) for column in columns]


def _step(dim: Dim, extent: Dim | None, env: ShapeEnv) -> int | None:
    """Return the step along a dim of an argument, or None if only a run knows it."""
    if dim == extent or env.bounds(dim)[0] > 1:
        return 1
    return 0 if dim == 1 else None


def _names(site: Site) -> tuple[HostNumber, ...]:
    extents, expands = _extents(site), site.op == "Expand"  # its target is no argument of a kernel
    numbers = [
        HostNumber(f"extent{d}", value=n) for d, n in enumerate(extents) if n is None or expands
    ]
    for i, shape in enumerate(_shapes(site)):
        for d, n in enumerate(shape, len(extents) - len(shape)):
            if _step(n, extents[d], site.env) is None:
                numbers.append(HostNumber(f"step{i}_{d}", 0, 1))
    return tuple(numbers)


def _values(op: str, read: frozenset[int]) -> Any:
    def values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
        host = Host(op, attrs, args)
        full_shapes = [host.integers(i) or [] for i in range(len(args))]
        shapes = [shape[: max(0, len(shape) - _inner(op))] for shape in full_shapes]
        rank = max(map(len, shapes), default=0)
        extents = [1] * rank
        for shape in shapes:
            for d, n in enumerate(shape, rank - len(shape)):
                if (n != 1 and extents[d] not in (1, n)) or n < 0:
                    host.fail(f"{' and '.join(map(str, shapes))} do not broadcast")
                extents[d] = extents[d] if n == 1 else n
        values_ = {f"extent{d}": n for d, n in enumerate(extents)}
        for i, shape in enumerate(shapes):
            if i not in read:
                lead = rank - len(shape)
                values_ |= {f"step{i}_{d}": int(n != 1) for d, n in enumerate(shape, lead)}
        return values_

    return values


def _rewritten(site: Site, symbols: Mapping[str, Dim]) -> Site:
    extents, steps = _extents(site), list[AttrValue]()
    for i, shape in enumerate(_shapes(site)):
        row: list[Dim] = []  # dims that do not broadcast have no step here
        for d, n in enumerate(shape, len(extents) - len(shape)):
            step = _step(n, extents[d], site.env)
            row.append(symbols[f"step{i}_{d}"] if step is None else step)
        steps.append(tuple(row))
    extents_ = tuple(symbols[f"extent{d}"] if n is None else n for d, n in enumerate(extents))
    args = site.args[:1] if site.op == "Expand" else site.args
    return symbolic(site, *args, extents=extents_, steps=tuple(steps))


def broadcast_rule(op: str, read: frozenset[int] = frozenset()) -> RunTime:
    """Return the rule of a broadcasting operator; `read` are target shapes, as values."""
    return RunTime(read, _names, _values(op, read), _rewritten, "extents")
