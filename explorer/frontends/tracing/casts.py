"""match_cast: what the user says of a value, checked when it is run."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.errors import DtypeError, ShapeError
from explorer.frontends.tracing.annotations import dim_of
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.dims import python_dim
from explorer.frontends.tracing.emit import matched
from explorer.frontends.tracing.frames import Frame, current_frame, source_of
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.promote import is_traced, traced
from explorer.ir.lattice import Match, defined_by, match, replace_symbols, symbols_in
from explorer.ir.shapes.algebra import is_symbol
from explorer.ir.shapes.dims import Dim, Shape, evaluate_dim, symbols_of
from explorer.ir.types import ShapeType, Tensor


def shape(*dims: int | str) -> ShapeType:
    """The annotation of numbers that are dims: `shape("rows", 4)`."""
    return ShapeType(tuple(dim_of(d) for d in dims))


def match_cast(x: Any, annotation: Tensor | ShapeType) -> Any:
    """The same value, checked when it is run to be as the annotation says; new names in it are dims
    from here on.

    Of a `tensor` the array; of a `shape` a tuple of dims, one for each of the integers of x.
    """
    if not is_traced(x):
        return _eager(x, annotation)
    with source_of("match_cast"):
        return _cast(traced(x), annotation)


def _cast(x: TracedArray, annotation: Tensor | ShapeType) -> Any:
    frame = current_frame()
    target = _named(frame, annotation)
    if isinstance(target, ShapeType):
        return _dims(frame, x, target)
    assert isinstance(target, Tensor)
    if target.shape is None or target.dtype is None:
        target = Tensor(target.shape or x.type.dims, target.dtype or x.type.element)
    level, why = match(target, x.type, frame.recorder.env)
    if level == Match.DISJOINT:
        wrong = DtypeError if target.dtype != x.type.dtype else ShapeError
        raise wrong(
            f"{calling_line()}: the match_cast to {annotation} never holds of {x.type}: {why}",
            where=calling_line(),
            expected=annotation,
            found=x.type,
        )
    if level == Match.PROVED:
        return x
    return TracedArray(matched(frame, frame.own(x.value, x.home), target, "match"), frame)


def _dims(frame: Frame, x: TracedArray, target: ShapeType) -> tuple[Any, ...]:
    dims = target.dims or ()
    if x.dtype.kind not in "iu" or x.type.elements != len(dims):
        raise ShapeError(
            f"{calling_line()}: {len(dims)} dims are as many integers, and {x.type} is given",
            where=calling_line(),
        )
    matched(frame, frame.own(x.value, x.home), target, "match")
    return tuple(python_dim(d) for d in dims)


def _named(frame: Frame, annotation: Tensor | ShapeType) -> Tensor | ShapeType:
    """The annotation in the symbols of the program; a bare name that is new becomes one."""
    known: dict[str, Dim] = {}
    bare = defined_by(annotation)
    for name in (*bare, *sorted(symbols_in(annotation) - set(bare))):
        found = frame.find_symbol(name)
        if found is None and name not in bare:
            raise ShapeError(
                f"{calling_line()}: {name!r} in {annotation} is no dim that anything defines; a "
                "name defines one where it stands alone",
                where=calling_line(),
            )
        if found is None:
            found = frame.symbols[name] = frame.recorder.symbol(name)
        known[name] = found
    return _replaced(annotation, known)


def _replaced(annotation: Tensor | ShapeType, known: dict[str, Dim]) -> Tensor | ShapeType:
    def dims(shape: Shape | None) -> Shape | None:
        return None if shape is None else tuple(replace_symbols(d, known) for d in shape)

    if isinstance(annotation, Tensor):
        return Tensor(dims(annotation.shape), annotation.dtype, annotation.ndim)
    return ShapeType(dims(annotation.dims), annotation.rank)


# On arrays.


def _eager(x: Any, annotation: Tensor | ShapeType) -> Any:
    given = np.asarray(x)
    if isinstance(annotation, ShapeType):
        values = tuple(int(v) for v in given.reshape(-1))
        _check(annotation.dims or (), values, annotation)
        return values
    if annotation.dtype not in (None, given.dtype.name):
        raise DtypeError(f"{calling_line()}: {annotation} is wanted of an array of {given.dtype}")
    if annotation.rank not in (None, given.ndim):
        raise ShapeError(f"{calling_line()}: {annotation} is wanted of the shape {given.shape}")
    if annotation.shape is not None:
        _check(annotation.shape, given.shape, annotation)
    return x


def _check(dims: Shape, found: tuple[int, ...], annotation: Any) -> None:
    sizes: dict[str, int] = {}
    for dim, extent in zip(dims, found, strict=False):
        if is_symbol(dim):
            sizes.setdefault(dim.name, extent)
    known = [symbols_of(d) <= sizes.keys() for d in dims]
    wanted = [evaluate_dim(d, sizes) if k else n for d, k, n in zip(dims, known, found)]
    if len(dims) != len(found) or list(found) != wanted:
        raise ShapeError(
            f"{calling_line()}: {annotation} is wanted of the shape {found}",
            where=calling_line(),
            expected=annotation,
            found=found,
        )
