"""Functions whose results have an extent that only a run knows: it gets a symbol of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy
import onnx

from explorer.frontends.arrays.axes import refuse
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.emit import cast
from explorer.frontends.tracing.frames import current_frame
from explorer.frontends.tracing.operation import operation
from explorer.frontends.tracing.promote import traced
from explorer.ir.calls import AttrValue, OpCall, Var
from explorer.ir.shapes.dims import product
from explorer.ir.types import Tensor
from explorer.ops import RECORDS


def _found(op: str, x: TracedArray, types: list[Tensor], **attrs: AttrValue) -> list[Var]:
    """What an operator gives, of which the run finds the dims."""
    frame = current_frame()
    if op not in RECORDS:
        attrs["opset"] = onnx.defs.onnx_opset_version()
    call = OpCall(op, (frame.own(x.value, x.home),), tuple(attrs.items()))
    return frame.bind([f"{op.lower()}.found"] * len(types), types, call)


@operation(numpy.nonzero)
def nonzero(x: Any) -> Any:
    """NumPy's `nonzero`: for each dim the places of what is not 0."""
    given, frame = traced(x), current_frame()
    (raw,) = _found("NonZero", given, [Tensor(None, "int64", 2)])
    count = frame.recorder.symbol("nonzero")
    table = TracedArray(cast(frame, raw, (given.ndim, count), "nonzero"), frame)
    return tuple(table[axis] for axis in range(given.ndim))


@operation(numpy.flatnonzero)
def flatnonzero(x: Any) -> Any:
    """NumPy's `flatnonzero`: the places of what is not 0, in one dim."""
    return nonzero(traced(x).reshape(-1))[0]


@operation(numpy.argwhere)
def argwhere(x: Any) -> Any:
    """NumPy's `argwhere`: a row for each element that is not 0."""
    return TracedArray.functions.stack(list(nonzero(x)), -1)


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Any
    inverse_indices: Any


@operation(numpy.unique_all)
def unique_all(x: Any) -> Any:
    """NumPy's `unique_all`."""
    return UniqueAll(*unique(x, True, True, True))


@operation(numpy.unique_counts)
def unique_counts(x: Any) -> Any:
    """NumPy's `unique_counts`."""
    return UniqueCounts(*unique(x, return_counts=True))


@operation(numpy.unique_inverse)
def unique_inverse(x: Any) -> Any:
    """NumPy's `unique_inverse`."""
    return UniqueInverse(*unique(x, return_inverse=True))


@operation(numpy.unique_values)
def unique_values(x: Any) -> Any:
    """NumPy's `unique_values`."""
    return unique(x)


@operation(numpy.searchsorted)
def searchsorted(x: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """NumPy's `searchsorted`: how many elements of an ordered x are less, or on the right side not
    greater.
    """
    functions = TracedArray.functions
    if side not in ("left", "right"):
        refuse(f"searchsorted has no side {side!r}; it has left and right")
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
    """NumPy's `unique`: each value once, in order; where each stands first, which one each element
    is, and how often it is there.
    """
    given, frame = traced(x), current_frame()
    wanted = (True, return_index, return_inverse, return_counts)
    used = 1 + max(i for i, w in enumerate(wanted) if w)
    dtypes = (given.type.element, "int64", "int64", "int64")[:used]
    raw = _found("Unique", given, [Tensor(None, t, 1) for t in dtypes], sorted=1)
    count = frame.recorder.symbol("unique")
    extents = (count, count, product(given.type.dims), count)
    results = [
        TracedArray(cast(frame, var, (n,), "unique"), frame)
        for var, n in zip(raw, extents, strict=False)
    ]
    if return_inverse:  # as NumPy 2 has it
        results[2] = results[2].reshape(given.shape)
    kept = [r for r, w in zip(results, wanted, strict=False) if w]
    return kept[0] if len(kept) == 1 else tuple(kept)
