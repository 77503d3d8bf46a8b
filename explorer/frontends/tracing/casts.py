"""match_cast: a type asserted by the user and checked at run time."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.errors import DtypeError, ShapeError
from explorer.frontends.tracing.annotations import dim_of
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.dims import python_dim
from explorer.frontends.tracing.emit import emit_match_cast
from explorer.frontends.tracing.frames import FunctionFrame, attributed_to_call, current_frame
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.promote import is_traced, traced
from explorer.ir.lattice import Match, defined_by, match, replace_symbols, symbols_in
from explorer.ir.shapes.algebra import is_symbol
from explorer.ir.shapes.dims import Dim, Shape, evaluate_dim, symbols_of
from explorer.ir.types import ShapeType, Tensor


def shape(*dims: int | str) -> ShapeType:
    """Return the annotation of integers that are dims: `shape("rows", 4)`."""
    return ShapeType(tuple(dim_of(d) for d in dims))


def match_cast(x: Any, annotation: Tensor | ShapeType) -> Any:
    """Return the same value, checked at run time; new names in the annotation become dims.

    For a `tensor` the result is the array; for a `shape` a tuple of dims, one for each integer of
    x.
    """
    if not is_traced(x):
        return _eager(x, annotation)
    with attributed_to_call("match_cast"):
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
            f"{calling_line()}: the match_cast to {annotation} never holds for {x.type}: {why}",
            where=calling_line(),
            expected=annotation,
            actual=x.type,
        )
    if level == Match.PROVED:
        return x
    return TracedArray(emit_match_cast(frame, frame.own(x.value, x.home), target, "match"), frame)


def _dims(frame: FunctionFrame, x: TracedArray, target: ShapeType) -> tuple[Any, ...]:
    dims = target.dims or ()
    if x.dtype.kind not in "iu" or x.type.elements != len(dims):
        raise ShapeError(
            f"{calling_line()}: {len(dims)} dims need as many integers, not {x.type}",
            where=calling_line(),
        )
    emit_match_cast(frame, frame.own(x.value, x.home), target, "match")
    return tuple(python_dim(d) for d in dims)


def _named(frame: FunctionFrame, annotation: Tensor | ShapeType) -> Tensor | ShapeType:
    """Return the annotation in the program's symbols; a bare new name becomes a symbol."""
    symbols: dict[str, Dim] = {}
    bare = defined_by(annotation)
    for name in (*bare, *sorted(symbols_in(annotation) - set(bare))):
        dim = frame.find_symbol(name)
        if dim is None and name not in bare:
            raise ShapeError(
                f"{calling_line()}: {name!r} in {annotation} is not defined; a name "
                "defines a dim only where it stands alone",
                where=calling_line(),
            )
        if dim is None:
            dim = frame.symbols[name] = frame.recorder.symbol(name)
        symbols[name] = dim
    return _replaced(annotation, symbols)


def _replaced(annotation: Tensor | ShapeType, symbols: dict[str, Dim]) -> Tensor | ShapeType:
    def dims(shape: Shape | None) -> Shape | None:
        return None if shape is None else tuple(replace_symbols(d, symbols) for d in shape)

    if isinstance(annotation, Tensor):
        return Tensor(dims(annotation.shape), annotation.dtype, annotation.ndim)
    return ShapeType(dims(annotation.dims), annotation.rank)


# On arrays.


def _eager(x: Any, annotation: Tensor | ShapeType) -> Any:
    array = np.asarray(x)
    if isinstance(annotation, ShapeType):
        values = tuple(int(v) for v in array.reshape(-1))
        _check(annotation.dims or (), values, annotation)
        return values
    if annotation.dtype not in (None, array.dtype.name):
        raise DtypeError(
            f"{calling_line()}: expected {annotation}, found an array of {array.dtype}"
        )
    if annotation.rank not in (None, array.ndim):
        raise ShapeError(f"{calling_line()}: expected {annotation}, found the shape {array.shape}")
    if annotation.shape is not None:
        _check(annotation.shape, array.shape, annotation)
    return x


def _check(dims: Shape, extents: tuple[int, ...], annotation: Any) -> None:
    sizes: dict[str, int] = {}
    for dim, extent in zip(dims, extents, strict=False):
        if is_symbol(dim):
            sizes.setdefault(dim.name, extent)
    is_defined = [symbols_of(d) <= sizes.keys() for d in dims]
    expected = [evaluate_dim(d, sizes) if k else n for d, k, n in zip(dims, is_defined, extents)]
    if len(dims) != len(extents) or list(extents) != expected:
        raise ShapeError(
            f"{calling_line()}: expected {annotation}, found the shape {extents}",
            where=calling_line(),
            expected=annotation,
            actual=extents,
        )
