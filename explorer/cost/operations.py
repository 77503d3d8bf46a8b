"""Operation counts of one loop point: distinct loads, arithmetic and elementary functions."""

from __future__ import annotations

from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity_at
from explorer.ir.kernel import Apply, Const, Expr, IndexValue, Read
from explorer.ir.scalar_functions import cycles_of

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
                depends = _depends(node, axis)
            number = numbers.setdefault(key, len(numbers))
            if depends and isinstance(node, (Apply, Read)):
                distinct.setdefault(number, node)
            visited[id(node)] = number, depends
        return visited[id(node)]

    visit(expr)
    return tuple(distinct.values())


def _depends(expr: Expr, axis: str) -> bool:
    match expr:
        case Apply(_, args):
            return any(_depends(a, axis) for a in args)
        case Read(_, index, _):
            return any(
                i.factor(axis) != 0 if isinstance(i, Affine) else _depends(i, axis) for i in index
            )
        case IndexValue(index):
            return index.factor(axis) != 0
        case Const():
            return False
