"""Declared results that are more specific than what is deduced of the body."""

from __future__ import annotations

from explorer.errors import DtypeError, ShapeError
from explorer.ir.annotations import Match, defined_by, match, symbols_in
from explorer.ir.calls import MatchCast, Var
from explorer.ir.program import Function
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.text.text_tokens import print_type
from explorer.ir.types import Tensor


def declared_results(declared: Function, deduced: Function, env: ShapeEnv) -> tuple[Var, ...]:
    """Return the results as declared if the run must check that, otherwise as deduced.

    Raises ShapeError or DtypeError if a result can never be as declared.
    """
    scope = {n for p in deduced.params for n in defined_by(p.type)}
    scope |= {
        n for b in deduced.body if isinstance(b.expr, MatchCast) for n in defined_by(b.var.type)
    }
    both = zip(declared.outputs, deduced.outputs, strict=True)
    return tuple(_declared_result(expected, var, scope, env) for expected, var in both)


def _declared_result(expected: Var, deduced: Var, scope: set[str], env: ShapeEnv) -> Var:
    if (
        expected.type == deduced.type
        or expected.type == Tensor()
        or not symbols_in(expected.type) <= scope
    ):
        return deduced
    level, why = match(expected.type, deduced.type, env)
    if level == Match.DISJOINT:
        a, b = expected.type, deduced.type
        of_dtype = isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype != b.dtype
        raise (DtypeError if of_dtype else ShapeError)(
            f"the result {expected.name!r} must be {print_type(a)} and is {print_type(b)}: {why}",
            where=expected.name,
            expected=print_type(a),
            actual=print_type(b),
        )
    return deduced if level == Match.PROVED else Var(deduced.name, expected.type)
