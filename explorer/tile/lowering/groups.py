"""The left operand of a contraction in groups: dense along the depth, in whole groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from explorer.ir.affine import Affine, var
from explorer.ir.dims import Dim, ceil_div, product
from explorer.ir.dtypes import is_float
from explorer.ir.kernel import Axis, Read
from explorer.ir.kernels.contraction import Contraction
from explorer.ir.kernels.forms import Form
from explorer.ir.kernels.regions import box
from explorer.ir.tile_program import Fetch, Load, Statement
from explorer.tile.lowering.places import BufferPlaces, TensorPlace, row_major


def whole_groups(extent: Dim, group: int) -> Dim:
    """Return the extent up to the end of its last group."""
    return extent if group == 1 else ceil_div(extent, group) * group


def padded_extents(depth: tuple[Axis, ...], group: int) -> tuple[Dim, ...]:
    """Return the extents of the summed axes as both operands have them in memory."""
    extents = tuple(x.extent for x in depth)
    return (*extents[:-1], whole_groups(extents[-1], group))


def can_group(contraction: Contraction, form: Form) -> bool:
    """Return True if neighbours along some summed axis can be made dense in the left operand."""
    return any(_is_alone(contraction.a, x.name) for x in whole_axes(contraction, form))


def whole_axes(contraction: Contraction, form: Form) -> tuple[Axis, ...]:
    """Return the summed axes that groups may lie along; floats need whole groups.

    The products of what follows the end of an axis are zero for integers, but not for NaN.
    """
    if not is_float(form.left):
        return contraction.depth
    return tuple(
        x for x in contraction.depth if isinstance(x.extent, int) and x.extent % form.group == 0
    )


def in_groups(
    p: BufferPlaces, n: int, contraction: Contraction, halo: Mapping[Read, TensorPlace], form: Form
) -> tuple[Fetch, Axis, list[Statement]] | None:
    """Return the left operand, the summed axis of its groups, and the copies that make them dense.

    There is no copy if they are dense already. None if no summed axis is alone in an index.

    The copy has the tile's part of the operand with that axis last, `whole_groups` of it; nothing
    is written past the axis' end, where the right operand has zeros.
    """
    a, group = p.element(contraction.a, halo), form.group
    dense = next((x for x in contraction.depth if a.offset.factor(x.name) == 1), None)
    if dense is not None and isinstance(dense.extent, int) and dense.extent % group == 0:
        return a, dense, []
    candidates = [x for x in whole_axes(contraction, form) if _is_alone(contraction.a, x.name)]
    if not candidates:
        return None
    last = dense if dense in candidates else max(candidates, key=_length)
    assert last is not None
    return _copy_groups(p, n, contraction, halo, last, group)


def _length(axis: Axis) -> int:
    return axis.extent if isinstance(axis.extent, int) else 1 << 20


def _is_alone(read: Read, name: str) -> bool:
    """Return True if one index of a load is the variable, and no other index contains it."""
    uses = [i.bare for i in read.index if isinstance(i, Affine) and name in i.variables]
    return uses == [name]


def _copy_groups(
    p: BufferPlaces,
    n: int,
    contraction: Contraction,
    halo: Mapping[Read, TensorPlace],
    last: Axis,
    group: int,
) -> tuple[Fetch, Axis, list[Statement]]:
    """Return the left operand in a copy with `last` dense, that axis, and the copy."""
    read, tensor = contraction.a, contraction.a.tensor
    source, shape = halo.get(read) or p.place(tensor), p.kernel.shape(tensor)
    region = box(read.index, p.regions.axes[n], shape)
    along = [isinstance(i, Affine) and i.bare == last.name for i in read.index].index(True)
    order = [*(d for d in range(len(region)) if d != along), along]
    sizes = (*(region[d].size for d in order[:-1]), whole_groups(last.extent, group))
    steps = dict(zip(order, row_major(sizes), strict=True))
    name, dtype = f"{tensor}_groups{len(p.buffers)}", p.kernel.dtype(tensor)
    buffer = p.buffer(name, "scratch", product(sizes), dtype, "L2")
    strides = tuple(steps[d] for d in range(len(region)))
    target = TensorPlace(buffer, tuple(r.lo for r in region), strides, shape)
    names = tuple(f"_g{d}" for d in range(len(region)))
    spans = [p.span(x, r, e) for x, r, e in zip(names, region, shape, strict=True)]
    if read in halo:  # the halo includes the fill outside of the tensor
        spans = [replace(s, clip_low=False, clip_high=False) for s in spans]
    index = tuple(var(x) for x in names)
    copy = Load(target.at(index), source.at(index), tuple(spans[d] for d in order))
    places = tuple(i for i in read.index if isinstance(i, Affine))
    return target.at(places), last, [copy]
