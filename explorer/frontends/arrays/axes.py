"""Validation of the axes and shapes that NumPy's functions take."""

from __future__ import annotations

from operator import index
from typing import Any, NoReturn

import numpy

from explorer.errors import ShapeError
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.dims import plain_dim
from explorer.frontends.tracing.lines import calling_line
from explorer.ir.shapes.dims import Dim


def refuse(problem: str) -> NoReturn:
    """Raise a ShapeError that names the calling line."""
    raise ShapeError(f"{calling_line()}: {problem}", where=calling_line())


def axis_of(axis: Any, rank: int) -> int:
    """Return an axis as a non-negative integer; negative ones count from the end."""
    try:
        at = index(axis)
    except TypeError:
        refuse(f"an axis must be an integer, not {axis!r}")
    if not -rank <= at < rank:
        refuse(f"axis {at} is out of range for an array of {rank} dims")
    return at % rank


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Return several axes as non-negative integers, in order; all axes for None."""
    if axis is None:
        return tuple(range(rank))
    requested = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(axis_of(a, rank) for a in requested)
    if len(set(axes)) < len(axes):
        refuse(f"the axes {tuple(requested)} name one dim twice")
    return axes


def shape_of(shape: Any) -> tuple[Any, ...]:
    """Return a shape argument, one dim or several, as a tuple of dims; -1 is left as it is."""
    dims = shape if isinstance(shape, (tuple, list)) else (shape,)
    if isinstance(shape, numpy.ndarray):
        dims = tuple(shape.reshape(-1).tolist())
    return tuple(_dim(d) for d in dims)


def _dim(dim: Any) -> Dim:
    plain = plain_dim(dim)
    if plain is None:
        what = repr(dim) if isinstance(dim, TracedArray) else type(dim).__name__
        refuse(
            f"a dim must be a number or arithmetic on x.shape, not {what}; use explorer.match_cast "
            "to name a dim that is known only at run time"
        )
    return plain
