"""What one point of a loop costs: loads and arithmetic, elementary functions, each done once."""

from __future__ import annotations

from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity_at
from explorer.ir.kernel import Apply, Const, Expr, IndexValue, Read
from explorer.ir.scalar_functions import cycles_of

REMEMBERED_EXPRESSIONS = 512  # with an axis: a bound on memory, chosen


def operations(expr: Expr, axis: str) -> float:
    """Operations of one vector: loads, arithmetic."""
    every = _parts(expr, axis)
    return float(sum(not (isinstance(e, Apply) and cycles_of(e.op)) for e in every))


def function_cycles(expr: Expr, axis: str) -> float:
    """Cycles of elementary functions of one vector."""
    return sum(cycles_of(e.op) for e in _parts(expr, axis) if isinstance(e, Apply))


@by_identity_at(REMEMBERED_EXPRESSIONS)
def _parts(expr: Expr, axis: str) -> tuple[Expr, ...]:
    """Loads and functions that are done for every point of an axis, each once: what the axis does
    not change is done before its loop.

    Equal ones have one number, so that none is compared by all that it is made of.
    """
    numbers: dict[object, int] = {}
    known: dict[
        int, tuple[int, bool]
    ] = {}  # by identity: the number, and whether the axis moves it
    found: dict[int, Expr] = {}

    def visit(one: Expr) -> tuple[int, bool]:
        if id(one) not in known:
            key: object = one
            if isinstance(one, Apply):
                below = [visit(a) for a in one.args]
                key, depends = (one.op, *[n for n, _ in below]), any(d for _, d in below)
            else:
                depends = _depends(one, axis)
            number = numbers.setdefault(key, len(numbers))
            if depends and isinstance(one, (Apply, Read)):
                found.setdefault(number, one)
            known[id(one)] = number, depends
        return known[id(one)]

    visit(expr)
    return tuple(found.values())


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
