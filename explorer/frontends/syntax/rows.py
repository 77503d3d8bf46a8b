"""Iterables of a traced `for`: rows of arrays, and ranges of symbolic or traced length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.errors import ShapeError, TraceError
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.dims import plain_dim, python_dim
from explorer.frontends.tracing.frames import current_frame
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.promote import is_traced


@dataclass(frozen=True)
class Rows:
    """The iterable of a traced `for`: length, item at an index, and the arrays of its rows."""

    count: Any  # an int, a SymbolicDim's expression, or a traced scalar
    at: Callable[[Any], Any]
    of: tuple[TracedArray, ...] = ()


def rows(function: Any, *args: Any) -> Any:
    """Apply `range`, `enumerate`, `zip` or `reversed`, also to traced values."""
    inner = [traced_rows_of(a) for a in args]
    if function is range and is_traced(args):
        return _range(*args)
    if function is enumerate and inner[0] is not None:
        first, start = inner[0], args[1] if len(args) > 1 else 0
        return Rows(first.count, lambda at: (_number(at) + start, first.at(at)), first.of)
    if function is reversed and inner[0] is not None:
        back = inner[0]
        last = python_dim(back.count) if plain_dim(back.count) is not None else back.count
        return Rows(back.count, lambda at: back.at(last - 1 - at), back.of)
    if function is zip and any(r is not None for r in inner):
        return _zipped(inner)
    return function(*args)


def traced_rows_of(value: Any) -> Rows | None:
    """Return the rows of an array of symbolic length; None if Python can iterate over it."""
    if isinstance(value, TracedArray) and value.ndim and not isinstance(value.shape[0], int):
        return Rows(value.type.dims[0], lambda at: value[at], (value,))
    return value if isinstance(value, Rows) else None


def _zipped(every: Sequence[Rows | None]) -> Rows:
    traced_rows = [r for r in every if r is not None]
    env = current_frame().recorder.env
    counts = [r.count for r in traced_rows]
    dims = all(plain_dim(c) is not None for c in counts)
    if (
        len(traced_rows) < len(every)
        or not dims
        or not all(env.equal(counts[0], c) for c in counts)
    ):
        line = calling_line()
        raise ShapeError(
            f"{line}: zip in a traced for takes arrays of equal length, and these have "
            f"{', '.join(str(c) for c in counts)} rows",
            where=line,
            try_="explorer.np.asarray for lists, or slices of equal length",
        )
    arrays = tuple(array for r in traced_rows for array in r.of)
    return Rows(counts[0], lambda at: tuple(r.at(at) for r in traced_rows), arrays)


def _range(*args: Any) -> Rows:
    start, stop = (0, args[0]) if len(args) == 1 else args[:2]
    step = args[2] if len(args) > 2 else 1
    if not isinstance(step, int) or step == 0:
        line = calling_line()
        raise TraceError(
            f"{line}: the step of a traced range must be a nonzero Python integer", where=line
        )
    start, stop = _as_int64(start), _as_int64(stop)
    span = stop - start if isinstance(start, TracedArray) or start != 0 else stop
    if step != 1:
        span = (span + step - 1) // step if step > 0 else (-span - step - 1) // -step
    dim = plain_dim(span)
    if dim is None:
        functions = TracedArray.functions
        count = functions.maximum(span, 0).astype("int64")
    else:
        low, _ = current_frame().recorder.env.bounds(dim)
        count = dim if low >= 0 else TracedArray.functions.maximum(python_dim(dim), 0)

    def number(at: TracedArray) -> TracedArray:
        place = at if step == 1 else at * step
        from_zero = not isinstance(start, TracedArray) and start == 0
        return _number(place if from_zero else place + start)

    return Rows(count, number)


def _as_int64(bound: Any) -> Any:
    """Return a bound of a range as int64."""
    if not isinstance(bound, TracedArray):
        return bound
    if bound.ndim or bound.dtype.kind not in "iu":
        line = calling_line()
        raise TraceError(
            f"{line}: the bounds of a traced range must be integers, not {bound.type}",
            where=line,
            try_='.astype("int64")',
        )
    return bound.astype("int64")


def _number(at: TracedArray) -> TracedArray:
    """Return a weakly typed count, like a Python number."""
    return TracedArray(at.value, at.home, weak=True)
