"""What the loops of one compute cost a point, read off the form that its statement gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.cost.operations import function_cycles, operations
from explorer.devices.model import Device
from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.patterns.scatter import Scatter, scatter
from explorer.ir.tile_programs.elements import Fetch, fetches
from explorer.ir.tile_programs.statements import (
    At,
    For,
    LoopForm,
    Map,
    Reduce,
    Scan,
    Span,
    Statement,
)
from explorer.tile.rewriting.collapse import joined_axes
from explorer.tile.rewriting.vectorise import FEW_POINTS, formed

TURNED_INSTRUCTIONS = 6.0  # a vector: loads, exchanges of lanes, L1; chosen, no measurement kept
PREFIX_INSTRUCTIONS = 48.0  # a vector, most wait for the last one; chosen, no measurement kept
ROW_INSTRUCTIONS = 3.0  # of a running reduction across vectors; chosen, no measurement kept
REST_INSTRUCTIONS = 2.0  # counted: the sums so far are loaded and stored where they lie in memory
UNROLLED = LoopForm("unrolled")  # a few reduced points, left to LLVM
ONE_BY_ONE = LoopForm("one by one")


@dataclass(frozen=True, slots=True)
class Loops:
    """One compute as loops. `order` is its `LoopForm`'s, or "unrolled", a few reduced points for
    each vector of results, "scatter", or "one by one".

    `axes` are one in memory, and vectors lie along them. By point of those: operations (loads and
    stores included), loads and stores that are not dense, cycles of elementary functions. In blocks
    the source is dense along the `turned` axes, the results `stride_bytes` apart.
    """

    order: str
    axes: tuple[str, ...]
    operations: float
    strided: int = 0
    functions: float = 0.0
    turned: tuple[str, ...] = ()
    stride_bytes: int = 0
    to: Scatter | None = None  # each point goes to the results that data selects
    looking: float = 0.0  # operations that find the place of an element


def loops_of(kernel: Kernel, c: Compute, whole: Statement, device: Device) -> Loops:
    """How a compute runs where no tile cuts it; `whole` is the statement that makes it."""
    made, to = formed(whole, device), scatter(kernel, c)
    if isinstance(whole, Scan):
        prefix = any(isinstance(s, Scan) and s.form is not None for s in made)
        last = tuple(a.name for a in c.axes[-1:])
        return Loops("scan", last, PREFIX_INSTRUCTIONS if prefix else ROW_INSTRUCTIONS)
    inner = innermost(made)
    if not isinstance(inner, Map | Reduce):
        raise TypeError(f"{type(inner).__name__} is no loop over the points of {c.out}")
    if to is not None:
        return _scattered(c, inner, to)
    form = inner.form or _plain(inner)
    spatial, reduced = ([a.name for a in axes] for axes in (c.axes, c.reduce))
    along = _vectors(inner, form.order)
    axes = _joined(along, (spatial, reduced))
    if form.order == "blocks":
        turned = _joined(inner.spans[-2:-1], (spatial,))
        return Loops("blocks", axes, 0.0, 0, 0.0, turned, _stride_bytes(inner))
    vector = axes[-1] if axes else ""
    work, functions = operations(c.expr, vector) + 1.0, function_cycles(c.expr, vector)
    strided = sum(_is_strided(f, along) for f in dict.fromkeys(fetches(inner.expr)))
    if form.order == "turned":
        return Loops("turned", axes, work + TURNED_INSTRUCTIONS * strided, 0, functions)
    if isinstance(inner, Map):
        strided += _is_strided(inner.target, along)
    rest = REST_INSTRUCTIONS if form.order in ("rows", "sums in memory") else 0.0
    return Loops(form.order, axes, work + rest, strided, functions)


def _scattered(c: Compute, inner: Map | Reduce, to: Scatter) -> Loops:
    """The row that is combined where an element lands, and the places that are looked at before."""
    row, point = (axes[-1].name if axes else "" for axes in (to.rows, to.points))
    along = _vectors(inner, "along")
    strided = sum(_is_strided(f, along) for f in dict.fromkeys(fetches(inner.expr)))
    looking = sum(operations(place, point) + 2.0 for _, place in to.places)  # and two bounds
    work = operations(to.update, row) + 3.0  # the result so far is loaded, combined and stored
    axes = tuple(a.name for a in to.rows[-1:])
    functions = function_cycles(to.update, row)
    return Loops("scatter", axes, work, strided, functions, to=to, looking=looking)


def innermost(body: Sequence[Statement]) -> Statement:
    """The statement that the loops of a body are around: addresses are looked up before it."""
    last = body[-1]
    return innermost(last.body) if isinstance(last, For | At) else last


def _plain(s: Map | Reduce) -> LoopForm:
    """The form of what has none: LLVM makes loops of it."""
    if isinstance(s, Map):
        return ONE_BY_ONE
    count = 1
    for span in s.over:
        if not isinstance(span.size, int):
            return ONE_BY_ONE
        count *= span.size
    return UNROLLED if count <= FEW_POINTS else ONE_BY_ONE


def _vectors(s: Map | Reduce, order: str) -> tuple[Span, ...]:
    """The span along which vectors lie; none of one point."""
    reduces = isinstance(s, Reduce) and order in ("along", "stacked", "one by one")
    return s.over[-1:] if isinstance(s, Reduce) and reduces else s.spans[-1:]


def _joined(along: tuple[Span, ...], axes: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The compute's axes that a span is."""
    found = [joined_axes(s.axis, names) for s in along for names in axes]
    return next((f for f in found if f), ())


def _is_strided(f: Fetch, along: tuple[Span, ...]) -> bool:
    return bool(f.dynamic) or any(f.offset.factor(s.axis) not in (0, 1) for s in along)


def _stride_bytes(s: Map | Reduce) -> int:
    """How far apart in memory results lie, a step of the turned axis apart; 0 if not known."""
    factor = s.target.offset.factor(s.spans[-2].axis)
    return factor * ITEM_BYTES[s.target.buffer.dtype] if isinstance(factor, int) else 0
