"""NumPy's functions whose result has an extent known only at run time: a fresh symbol."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy
import onnx

from explorer.frontends.python.arrays.shaping import refuse
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.emit import cast_to_symbols, traced
from explorer.frontends.python.tracing.frames import current_frame
from explorer.frontends.python.tracing.operation import operation
from explorer.ir.calls import AttrValue, OpCall, Var
from explorer.ir.dims import product
from explorer.ir.types import Tensor
from explorer.ops import RECORDS


def _bind_open_results(
    op: str, x: TracedArray, types: list[Tensor], **attrs: AttrValue
) -> list[Var]:
    """Bind the results of an operator whose dims are known only at run time."""
    frame = current_frame()
    if op not in RECORDS:
        attrs["opset"] = onnx.defs.onnx_opset_version()
    call = OpCall(op, (frame.own(x.value, x.home),), tuple(attrs.items()))
    return frame.bind([f"{op.lower()}.found"] * len(types), types, call)


@operation(numpy.nonzero)
def nonzero(x: Any) -> Any:
    """Apply NumPy's `nonzero`: for each dim the indices of the nonzero elements."""
    array, frame = traced(x), current_frame()
    (raw,) = _bind_open_results("NonZero", array, [Tensor(None, "int64", 2)])
    count = frame.recorder.symbol("nonzero")
    table = TracedArray(cast_to_symbols(frame, raw, (array.ndim, count), "nonzero"), frame)
    return tuple(table[axis] for axis in range(array.ndim))


@operation(numpy.flatnonzero)
def flatnonzero(x: Any) -> Any:
    """Apply NumPy's `flatnonzero`: the indices of the nonzero elements of the flattened array."""
    return nonzero(traced(x).reshape(-1))[0]


@operation(numpy.argwhere)
def argwhere(x: Any) -> Any:
    """Apply NumPy's `argwhere`: a row of indices for each nonzero element."""
    return TracedArray.functions.stack(list(nonzero(x)), -1)


class UniqueAll(NamedTuple):
    """Results of `unique_all`."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """Results of `unique_counts`."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """Results of `unique_inverse`."""

    values: Any
    inverse_indices: Any


@operation(numpy.unique_all)
def unique_all(x: Any) -> Any:
    """Apply NumPy's `unique_all`."""
    return UniqueAll(*unique(x, True, True, True))


@operation(numpy.unique_counts)
def unique_counts(x: Any) -> Any:
    """Apply NumPy's `unique_counts`."""
    return UniqueCounts(*unique(x, return_counts=True))


@operation(numpy.unique_inverse)
def unique_inverse(x: Any) -> Any:
    """Apply NumPy's `unique_inverse`."""
    return UniqueInverse(*unique(x, return_inverse=True))


@operation(numpy.unique_values)
def unique_values(x: Any) -> Any:
    """Apply NumPy's `unique_values`."""
    return unique(x)


@operation(numpy.searchsorted)
def searchsorted(x: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Apply NumPy's `searchsorted`: the insertion index of each value in an ascending x.

    It counts the elements that are less, or with side "right" less or equal.
    """
    functions = TracedArray.functions
    if side not in ("left", "right"):
        refuse(f"searchsorted has no side {side!r}; use 'left' or 'right'")
    ordered = traced(x) if sorter is None else functions.take(x, sorter)
    if ordered.ndim != 1:
        refuse(f"searchsorted takes an array of one dim, not {ordered.type}")
    places = functions.expand_dims(traced(v), -1)
    before = functions.less if side == "left" else functions.less_equal
    return functions.sum(before(ordered, places), -1, "int64")


@operation(numpy.unique)
def unique(
    x: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """Apply NumPy's `unique`: the distinct values in ascending order.

    The optional results are the index of each value's first occurrence, the index of each element's
    value, and the number of occurrences.
    """
    array, frame = traced(x), current_frame()
    is_requested = (True, return_index, return_inverse, return_counts)
    used = 1 + max(i for i, w in enumerate(is_requested) if w)
    dtypes = (array.type.element, "int64", "int64", "int64")[:used]
    raw = _bind_open_results("Unique", array, [Tensor(None, t, 1) for t in dtypes], sorted=1)
    count = frame.recorder.symbol("unique")
    extents = (count, count, product(array.type.dims), count)
    results = [
        TracedArray(cast_to_symbols(frame, var, (n,), "unique"), frame)
        for var, n in zip(raw, extents, strict=False)
    ]
    if return_inverse:  # as in NumPy 2
        results[2] = results[2].reshape(array.shape)
    requested = [r for r, w in zip(results, is_requested, strict=False) if w]
    return requested[0] if len(requested) == 1 else tuple(requested)
