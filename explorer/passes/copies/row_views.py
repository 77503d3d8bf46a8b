"""Views that only split or merge the leading dims of a value: `[b * s, n]` and `[b, s, n]`."""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.calls import Var, View
from explorer.ir.program import Binding
from explorer.ir.shapes.dims import Dim, Shape
from explorer.ir.types import Tensor
from explorer.passes.copies.copy_maps import ViewMap, copy_map
from explorer.passes.copies.index_maps import reshape_groups
from explorer.passes.rewrite_trace import record_match


def split_row_view(binding: Binding) -> tuple[Binding, ...]:
    """Split a view that reshapes rows and columns at once into two views.

    `[b, s, h, d]` as `[b, s, h * d]` as `[b * s, h * d]`, and vice versa.
    """
    mapped = copy_map(binding)
    if mapped is None or not isinstance(mapped[1], ViewMap) or mapped[1].offset != 0:
        return (binding,)
    source, copy = mapped
    groups = reshape_groups(copy.source, copy.result)
    if len(groups) < 2 or not isinstance(binding.var.type, Tensor):
        return (binding,)
    (first, into), *_ = groups
    merges = len(into) == 1 < len(without_units(copy.source[: first.stop]))
    splits = len(first) == 1 < len(without_units(copy.result[: into.stop]))
    trailing = (copy.source[first.stop :], copy.result[into.stop :])
    if not (merges or splits) or without_units(trailing[0]) == without_units(trailing[1]):
        return (binding,)
    rows = copy.source[: first.stop] if merges else copy.result[: into.stop]
    columns = trailing[1] if merges else trailing[0]
    between = Var(f"{binding.var.name}.rows", replace(binding.var.type, shape=(*rows, *columns)))
    both = (
        Binding((between,), View(source), binding.origin),
        replace(binding, expr=View(between)),
    )
    record_match(split_row_view, (binding,), both)
    return both


def renames_rows(apart: Shape, merged: Shape) -> bool:
    """Return True if the leading dims of one shape are one dim of the other and the last stays."""
    groups = reshape_groups(apart, merged)
    if not groups or apart[-1:] != merged[-1:] or len(apart) <= len(merged):
        return False
    first, into = groups[0]
    return sum(apart[d] != 1 for d in first) > 1 and len(into) == 1


def without_units(shape: Shape) -> list[Dim]:
    """Return the extents that are not 1."""
    return [n for n in shape if n != 1]
