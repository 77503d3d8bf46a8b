"""Axes and shapes as NumPy's functions take them."""

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
    """ShapeError that names the line."""
    raise ShapeError(f"{calling_line()}: {problem}", where=calling_line())


def axis_of(axis: Any, rank: int) -> int:
    """An axis, counted from the end if negative."""
    try:
        at = index(axis)
    except TypeError:
        refuse(f"an axis is one integer, not {axis!r}")
    if not -rank <= at < rank:
        refuse(f"axis {at} is not in an array of {rank} dims")
    return at % rank


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Several axes, in order; all of them where none is given."""
    if axis is None:
        return tuple(range(rank))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = tuple(axis_of(a, rank) for a in given)
    if len(set(found)) < len(found):
        refuse(f"the axes {tuple(given)} name one dim twice")
    return found


def shape_of(shape: Any) -> tuple[Any, ...]:
    """The dims that a function is given: one, or several; -1 is kept."""
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    if isinstance(shape, numpy.ndarray):
        given = tuple(shape.reshape(-1).tolist())
    return tuple(_dim(d) for d in given)


def _dim(dim: Any) -> Dim:
    found = plain_dim(dim)
    if found is None:
        what = repr(dim) if isinstance(dim, TracedArray) else type(dim).__name__
        refuse(
            f"a dim is a number or arithmetic on x.shape, and is {what}; explorer.match_cast names "
            "a dim that is a value of the run"
        )
    return found
