"""Cost of one compute's loops per point, from its operations and the form of its statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.devices.model import Device
from explorer.ir.by_identity import by_identity_at
from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.kernel import Apply, Compute, Expr, Kernel, Read, variables
from explorer.ir.kernels.scatter import Scatter, scatter
from explorer.ir.scalar_functions import cycles_of
from explorer.ir.tile_program import (
    At,
    Fetch,
    For,
    LoopForm,
    Map,
    Reduce,
    Scan,
    Span,
    Statement,
    fetches,
)
from explorer.tile.rewriting.collapse import joined_axes
from explorer.tile.rewriting.vectorise import FEW_POINTS, with_loop_forms
from explorer.tile.rewriting.windows import window_of

TURNED_INSTRUCTIONS = 6.0  # per vector: loads, lane exchanges, L1; chosen, unmeasured
PREFIX_INSTRUCTIONS = 48.0  # per vector, most wait for the previous one; chosen, unmeasured
ROW_INSTRUCTIONS = 3.0  # per vector of a running reduction; chosen, unmeasured
# Per product of a window's vector, whose elements are loaded once for several results. Measured:
# 0.9 to 1.2 cycles in depthwise convolutions (Zen 3).
WINDOW_INSTRUCTIONS = 1.0
REST_INSTRUCTIONS = 2.0  # counted: partial sums in memory are loaded and stored
UNROLLED = LoopForm("unrolled")  # few reduced points, unrolled by LLVM
ONE_BY_ONE = LoopForm("one by one")


@dataclass(frozen=True, slots=True)
class Loops:
    """One compute as loops.

    `order` is that of its `LoopForm`, or "unrolled" (few reduced points for each vector of
    results), "scatter", or "one by one". `axes` are contiguous in memory, and vectors lie along
    them. Per point of these: operations (loads and stores included), strided loads and stores,
    cycles of elementary functions. In blocks the source is dense along the `turned` axes, the
    results `stride_bytes` apart.
    """

    order: str
    axes: tuple[str, ...]
    operations: float
    strided: int = 0
    functions: float = 0.0
    turned: tuple[str, ...] = ()
    stride_bytes: int = 0
    to: Scatter | None = None  # the scatter, if data selects the results
    lookup_operations: float = 0.0  # operations that look up the position of an element


def loops_of(kernel: Kernel, c: Compute, statement: Statement, device: Device) -> Loops:
    """Return the loops of a compute that no tile cuts, as `statement` computes it."""
    forms, to = with_loop_forms(statement, device), scatter(kernel, c)
    if isinstance(statement, Scan):
        prefix = any(isinstance(s, Scan) and s.form is not None for s in forms)
        last = tuple(a.name for a in c.axes[-1:])
        return Loops("scan", last, PREFIX_INSTRUCTIONS if prefix else ROW_INSTRUCTIONS)
    inner = innermost(forms)
    if not isinstance(inner, Map | Reduce):
        raise TypeError(f"{type(inner).__name__} is no loop over the points of {c.out}")
    if to is not None:
        return _scatter_loops(c, inner, to)
    form = inner.form or _default_form(inner)
    spatial, reduced = ([a.name for a in axes] for axes in (c.axes, c.reduce))
    along = _vector_spans(inner, form.order)
    axes = _covered_axes(along, (spatial, reduced))
    if form.order == "blocks":
        turned = _covered_axes(inner.spans[-2:-1], (spatial,))
        return Loops("blocks", axes, 0.0, 0, 0.0, turned, _stride_bytes(inner))
    vector = axes[-1] if axes else ""
    work, functions = operations(c.expr, vector) + 1.0, function_cycles(c.expr, vector)
    if isinstance(inner, Reduce) and window_of((inner,), device) is not None:
        return Loops("window", axes, WINDOW_INSTRUCTIONS)
    strided = sum(_is_strided(f, along) for f in dict.fromkeys(fetches(inner.expr)))
    if form.order == "turned":
        return Loops("turned", axes, work + TURNED_INSTRUCTIONS * strided, 0, functions)
    if isinstance(inner, Map):
        strided += _is_strided(inner.target, along)
    partial_sums = REST_INSTRUCTIONS if form.order in ("rows", "sums in memory") else 0.0
    return Loops(form.order, axes, work + partial_sums, strided, functions)


def _scatter_loops(c: Compute, inner: Map | Reduce, to: Scatter) -> Loops:
    """Return the loops of a scatter: the combined row, and the lookups of positions before it."""
    row, point = (axes[-1].name if axes else "" for axes in (to.rows, to.points))
    along = _vector_spans(inner, "along")
    strided = sum(_is_strided(f, along) for f in dict.fromkeys(fetches(inner.expr)))
    looking = sum(
        operations(place, point) + 2.0 for _, place in to.places
    )  # with two bounds checks
    work = operations(to.update, row) + 3.0  # the result so far is loaded, combined and stored
    axes = tuple(a.name for a in to.rows[-1:])
    functions = function_cycles(to.update, row)
    return Loops("scatter", axes, work, strided, functions, to=to, lookup_operations=looking)


def innermost(body: Sequence[Statement]) -> Statement:
    """Return the statement within the loops of a body; addresses are looked up before it."""
    last = body[-1]
    return innermost(last.body) if isinstance(last, For | At) else last


def _default_form(s: Map | Reduce) -> LoopForm:
    """Return the form of a statement without one, for which LLVM makes loops."""
    if isinstance(s, Map):
        return ONE_BY_ONE
    count = 1
    for span in s.over:
        if not isinstance(span.size, int):
            return ONE_BY_ONE
        count *= span.size
    return UNROLLED if count <= FEW_POINTS else ONE_BY_ONE


def _vector_spans(s: Map | Reduce, order: str) -> tuple[Span, ...]:
    """Return the span along which vectors lie; none for a single point."""
    reduces = isinstance(s, Reduce) and order in ("along", "stacked", "one by one")
    return s.over[-1:] if isinstance(s, Reduce) and reduces else s.spans[-1:]


def _covered_axes(along: tuple[Span, ...], axes: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the compute's axes that a span covers."""
    covered = [joined_axes(s.axis, names) for s in along for names in axes]
    return next((f for f in covered if f), ())


def _is_strided(f: Fetch, along: tuple[Span, ...]) -> bool:
    return bool(f.dynamic) or any(f.offset.factor(s.axis) not in (0, 1) for s in along)


def _stride_bytes(s: Map | Reduce) -> int:
    """Return the distance of results a step of the turned axis apart; 0 if unknown."""
    factor = s.target.offset.factor(s.spans[-2].axis)
    return factor * ITEM_BYTES[s.target.buffer.dtype] if isinstance(factor, int) else 0


REMEMBERED_EXPRESSIONS = 512  # with an axis: a bound on memory, chosen


def operations(expr: Expr, axis: str) -> float:
    """Return the loads and arithmetic operations of one vector."""
    every = _distinct_parts(expr, axis)
    return float(sum(not (isinstance(e, Apply) and cycles_of(e.op)) for e in every))


def function_cycles(expr: Expr, axis: str) -> float:
    """Return the cycles of one vector's elementary functions."""
    return sum(cycles_of(e.op) for e in _distinct_parts(expr, axis) if isinstance(e, Apply))


@by_identity_at(REMEMBERED_EXPRESSIONS)
def _distinct_parts(expr: Expr, axis: str) -> tuple[Expr, ...]:
    """Return the distinct loads and functions evaluated for every point of an axis.

    Loop-invariant ones are hoisted. Equal expressions share a number, so that none is compared in
    full.
    """
    numbers: dict[object, int] = {}
    visited: dict[
        int, tuple[int, bool]
    ] = {}  # by identity: the number, and True if the axis moves it
    distinct: dict[int, Expr] = {}

    def visit(node: Expr) -> tuple[int, bool]:
        if id(node) not in visited:
            key: object = node
            if isinstance(node, Apply):
                below = [visit(a) for a in node.args]
                key, depends = (node.op, *[n for n, _ in below]), any(d for _, d in below)
            else:
                depends = axis in variables(node)
            number = numbers.setdefault(key, len(numbers))
            if depends and isinstance(node, (Apply, Read)):
                distinct.setdefault(number, node)
            visited[id(node)] = number, depends
        return visited[id(node)]

    visit(expr)
    return tuple(distinct.values())
