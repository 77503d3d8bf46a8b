"""Derivatives of a scalar expression by what it reads, from the records of its functions.

y = x[i] * exp(w[i]), adjoint g   ->   {x[i]: g * exp(w[i]), w[i]: g * x[i] * exp(w[i])}
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from explorer.ir.dtypes import DType, is_float
from explorer.ir.kernel import Apply, Const, Expr, Kernel, Read, reads, result_dtype
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS, dtype_of_result


@dataclass(frozen=True, slots=True)
class Term:
    """An expression in plain arithmetic, as derivative rules write it; numbers take its dtype."""

    expr: Expr
    dtype: DType

    def __add__(self, other: Term | float) -> Term:
        return self.apply("add", self, other)

    def __radd__(self, other: float) -> Term:
        return self.apply("add", other, self)

    def __sub__(self, other: Term | float) -> Term:
        return self.apply("sub", self, other)

    def __rsub__(self, other: float) -> Term:
        return self.apply("sub", other, self)

    def __mul__(self, other: Term | float) -> Term:
        return times(self, other)

    def __rmul__(self, other: float) -> Term:
        return times(self, other)

    def __truediv__(self, other: Term | float) -> Term:
        return self.apply("div", self, other)

    def __rtruediv__(self, other: float) -> Term:
        return self.apply("div", other, self)

    def __neg__(self) -> Term:
        return self.apply("neg", self)

    def apply(self, op: str, *args: Term | float) -> Term:
        """A scalar function; numbers are constants of this dtype."""
        made = tuple(a.expr if isinstance(a, Term) else Const(a, self.dtype) for a in args)
        dtypes = [a.dtype if isinstance(a, Term) else self.dtype for a in args]
        return Term(Apply(op, made), dtype_of_result(op, lambda n: dtypes[n]))


def times(value: Term, factor: Term | float) -> Term:
    """A product, without what multiplies by one. Where either is chosen against 0, the product is:
    a side that is not taken is 0, and not 0 times what may be infinite.
    """
    for chosen, other in ((value, factor), (factor, value)):
        match chosen:
            case Term(Apply("where", (condition, *sides))) if Const(0.0, value.dtype) in sides:
                made = (_side(side, other, value.dtype) for side in sides)
                return Term(Apply("where", (condition, *made)), value.dtype)
    if value.expr == Const(1.0, value.dtype):
        return factor if isinstance(factor, Term) else Term(Const(factor, value.dtype), value.dtype)
    if not isinstance(factor, Term):
        if factor == 1.0:
            return value
        return -value if factor == -1.0 else value.apply("mul", value, factor)
    return value.apply("mul", value, factor)


def _side(side: Expr, other: Term | float, dtype: DType) -> Expr:
    if side == Const(0.0, dtype):
        return side
    if isinstance(other, Term):
        one = side == Const(1.0, dtype)
        return other.expr if one else times(other, Term(side, dtype)).expr
    return times(Term(side, dtype), other).expr


def partials(
    expr: Expr, adjoint: Expr, kernel: Kernel, active: Collection[str], result: Read | None = None
) -> dict[Read, Expr]:
    """By each load of an active tensor the derivative of the expression, times its adjoint. Where
    its value is stored, `result` reads it.

    Loads of one element are one: what they contribute is added up.
    """
    walk = _Walk(kernel, active)
    walk.down(expr, Term(adjoint, result_dtype(expr, kernel)), result)
    return {read: term.expr for read, term in walk.found.items()}


class _Walk:
    """One expression, from its result to its loads."""

    def __init__(self, kernel: Kernel, active: Collection[str]) -> None:
        self.kernel, self.active = kernel, active
        self.found: dict[Read, Term] = {}

    def dtype(self, expr: Expr) -> DType:
        return result_dtype(expr, self.kernel)

    def down(self, expr: Expr, adjoint: Term, result: Read | None = None) -> None:
        found = self.found
        if isinstance(expr, Read):
            if expr.tensor in self.active:
                found[expr] = found[expr] + adjoint if expr in found else adjoint
            return
        if not isinstance(expr, Apply) or not any(r.tensor in self.active for r in reads(expr)):
            return
        if expr.op.startswith("cast_"):
            self.through_cast(expr.args[0], adjoint)
            return
        match expr:
            case Apply("mul", (Apply("sqrt", (x,)) as root, Apply("sqrt", (again,)))) if (
                again == root
            ):  # x ** 0.75: its roots have infinite slopes at 0, of which a product is no number
                quarter = Term(expr.args[1], self.dtype(expr))
                self.down(x, times(adjoint, 0.75 / quarter))
                return
        for arg, factor in zip(expr.args, self.factors(expr, result)):
            if factor is not None and is_float(self.dtype(arg)):
                self.down(arg, times(adjoint, factor))

    def through_cast(self, arg: Expr, adjoint: Term) -> None:
        inner = self.dtype(arg)
        if is_float(inner) and is_float(adjoint.dtype):
            same = inner == adjoint.dtype
            back = adjoint if same else Term(Apply(f"cast_{inner}", (adjoint.expr,)), inner)
            self.down(arg, back)

    def factors(self, expr: Apply, result: Read | None) -> tuple[Any, ...]:
        """The partial derivatives by each argument; none of a function that is flat."""
        record = SCALAR_FUNCTIONS.get(expr.op)
        if record is None or record.derivative is None:
            return ()
        dtype = self.dtype(expr)
        given = (Term(a, self.dtype(a)) for a in expr.args)
        return record.derivative(functions(dtype), Term(result or expr, dtype), *given)


def functions(dtype: DType) -> Callable[..., Term]:
    """Scalar functions by name, as derivative rules call them; numbers alone are of this dtype."""

    def apply(op: str, *args: Term | float) -> Term:
        first = next((a for a in args if isinstance(a, Term) and a.dtype != "bool"), None)
        return Term(Const(0.0, dtype), first.dtype if first else dtype).apply(op, *args)

    return apply


__all__ = ["Term", "functions", "partials", "times"]
