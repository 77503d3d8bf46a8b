"""What a program promises of its results, where that is more than its body is known to give."""

from __future__ import annotations

from explorer.errors import DtypeError, ShapeError
from explorer.ir.annotations import Match, defined_by, match, symbols_in
from explorer.ir.calls import MatchCast, Var
from explorer.ir.program import Function
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.text.text_tokens import print_type
from explorer.ir.types import Tensor


def promised(declared: Function, found: Function, env: ShapeEnv) -> tuple[Var, ...]:
    """The results as they are declared where the run has that to check, else as they are found.

    Raises ShapeError or DtypeError where a result can never be what it is declared to be.
    """
    scope = {n for p in found.params for n in defined_by(p.type)}
    scope |= {
        n for b in found.body if isinstance(b.expr, MatchCast) for n in defined_by(b.var.type)
    }
    both = zip(declared.outputs, found.outputs, strict=True)
    return tuple(_promised(wanted, var, scope, env) for wanted, var in both)


def _promised(wanted: Var, found: Var, scope: set[str], env: ShapeEnv) -> Var:
    if wanted.type == found.type or wanted.type == Tensor() or not symbols_in(wanted.type) <= scope:
        return found
    level, why = match(wanted.type, found.type, env)
    if level == Match.DISJOINT:
        a, b = wanted.type, found.type
        of_dtype = isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype != b.dtype
        raise (DtypeError if of_dtype else ShapeError)(
            f"the result {wanted.name!r} must be {print_type(a)} and is {print_type(b)}: {why}",
            where=wanted.name,
            expected=print_type(a),
            found=print_type(b),
        )
    return found if level == Match.PROVED else Var(found.name, wanted.type)
