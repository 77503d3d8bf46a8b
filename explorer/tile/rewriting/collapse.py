"""Loop collapsing: axes that are contiguous in memory become one longer axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from explorer.ir.affine import Affine, var
from explorer.ir.dims import product, simplify
from explorer.ir.kernel import IndexValue
from explorer.ir.tile_program import Fetch, Span, TileExpr, fetches, subexpressions
from explorer.ir.tile_traversal import with_loads


def collapse(
    spans: tuple[Span, ...], expr: TileExpr, *others: Fetch
) -> tuple[tuple[Span, ...], TileExpr, tuple[Fetch, ...]]:
    """Return the same points with as few axes as the addresses allow.

    It is Roller's axis fusion, on addresses.
    `for h in 8: for w in 4: y[h*4 + w] = x[h*4 + w]` becomes `for h_w in 32: y[h_w] = x[h_w]`.
    """
    n = len(spans) - 1
    fixed = _used_as_numbers(expr)
    while n > 0:
        outer, inner = spans[n - 1], spans[n]
        all_fetches = (*fetches(expr), *others)
        if _is_contiguous(outer, inner, all_fetches) and not {outer.axis, inner.axis} & fixed:
            joined = _join(outer, inner)
            names = {outer.axis, inner.axis}
            spans = (*spans[: n - 1], joined, *spans[n + 1 :])
            rename_axes = partial(_rename, names, inner.axis, joined.axis)
            expr, others = with_loads(expr, rename_axes), tuple(map(rename_axes, others))
        n -= 1
    return spans, expr, others


def _is_contiguous(outer: Span, inner: Span, every: tuple[Fetch, ...]) -> bool:
    """Return True if two axes are one in memory for all loads and stores."""
    if inner.clip_low or inner.clip_high or inner.base != Affine() or inner.size != inner.extent:
        return False
    if any(f.dynamic for f in every):
        return False
    return all(
        simplify(f.offset.factor(outer.axis) - f.offset.factor(inner.axis) * inner.size) == 0
        for f in every
    )


def joined_axes(joined: str, axes: Sequence[str]) -> tuple[str, ...]:
    """Return the neighbours of `axes` that `collapse` made one axis of that name."""
    pairs = ((i, j) for i in range(len(axes)) for j in range(i + 1, len(axes) + 1))
    return next((tuple(axes[i:j]) for i, j in pairs if "_".join(axes[i:j]) == joined), ())


def _join(outer: Span, inner: Span) -> Span:
    """Return the single axis that replaces two."""
    n = inner.size
    return Span(
        f"{outer.axis}_{inner.axis}",
        outer.base * n,
        product((outer.size, n)),
        product((outer.extent, n)),
        outer.clip_low,
        outer.clip_high,
    )


def _rename(names: set[str], inner: str, joined: str, f: Fetch) -> Fetch:
    step = f.offset.factor(inner)
    return replace(f, offset=f.offset.without(names) + var(joined) * step)


def _used_as_numbers(expr: TileExpr) -> set[str]:
    """Return the axes whose values an expression uses, other than in affine addresses."""
    numbers = (e.index for e in subexpressions(expr) if isinstance(e, IndexValue))
    return {name for index in numbers for name, _ in index.terms}
