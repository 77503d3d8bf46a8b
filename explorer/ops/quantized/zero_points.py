"""Alignment of zero points and scales with the elements that they belong to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.dtypes import as_computed
from explorer.ir.kernel import Axis, Expr
from explorer.ir.shapes.dims import Shape
from explorer.ops.arithmetic.broadcast import agree
from explorer.ops.lowering import Nest, shape_of
from explorer.ops.site import Array, Site


def check_along(site: Site, i: int, full: Shape, axis: int | None, name: str) -> None:
    """Raise ShapeError unless an argument is one number or has one for each position of an axis.

    The axis is one of `full`; other forms are left to `along`.
    """
    shape = site.shape(i) if site.has(i) else ()
    if len(shape) != 1 or shape[0] == 1 or axis is None or not -len(full) <= axis < len(full):
        return
    (count,), places = shape, full[axis]
    if count != places and not isinstance(count, int):
        site.unsupported(f"{name} has {count} elements, which may or may not be 1")
    if not agree(places, count, site.env):
        site.fail(f"{name} has {count} elements for {places} places")


def along(
    nest: Nest, site: Site, i: int, name: str, axes: Sequence[Axis], axis: int | None
) -> Expr:
    """Load an argument that is one number, one for each position of an axis, or of equal rank."""
    value = site.arg(i)
    shape = shape_of(value)
    if len(shape) == len(axes) and len(shape) > 1:
        return nest.along(value, name, axes)
    if all(n == 1 for n in shape):
        return nest.load(value, name, (Affine(),) * len(shape))
    if len(shape) != 1 or axis is None:
        site.unsupported(f"{name} of shape {list(shape)} has no kernel rule")
    if axes[axis].extent != shape[0]:
        site.fail(f"{name} has {shape[0]} elements for {axes[axis].extent} places")
    return nest.load(value, name, (var(axes[axis].name),))


def aligned(values: Array | None, rank: int, axis: int) -> Array:
    """Return an array that broadcasts along an axis of the operand."""
    if values is None:
        return np.zeros((), np.int32)
    values = as_computed(values)
    if values.ndim == 1 and values.size > 1:
        return values.reshape([-1 if d == axis % rank else 1 for d in range(rank)])
    return values if values.ndim == rank else values.reshape(())
