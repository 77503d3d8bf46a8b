"""Partial derivatives of a scalar expression with respect to its loads.

    y = x[i] * exp(w[i]), adjoint g   ->   {x[i]: g * exp(w[i]), w[i]: g * x[i] * exp(w[i])}

The derivative of each scalar function is in its record.
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
    """An expression with arithmetic operators, as derivative rules write it.

    Numbers take its dtype.
    """

    expr: Expr
    dtype: DType

    def __add__(self, other: Term | float) -> Term:
        """Return the sum."""
        return self.apply("add", self, other)

    def __radd__(self, other: float) -> Term:
        """Return the sum with a number."""
        return self.apply("add", other, self)

    def __sub__(self, other: Term | float) -> Term:
        """Return the difference."""
        return self.apply("sub", self, other)

    def __rsub__(self, other: float) -> Term:
        """Return a number minus the expression."""
        return self.apply("sub", other, self)

    def __mul__(self, other: Term | float) -> Term:
        """Return the simplified product."""
        return times(self, other)

    def __rmul__(self, other: float) -> Term:
        """Return the simplified product with a number."""
        return times(self, other)

    def __truediv__(self, other: Term | float) -> Term:
        """Return the quotient."""
        return self.apply("div", self, other)

    def __rtruediv__(self, other: float) -> Term:
        """Return a number divided by the expression."""
        return self.apply("div", other, self)

    def __neg__(self) -> Term:
        """Return the negated expression."""
        return self.apply("neg", self)

    def apply(self, op: str, *args: Term | float) -> Term:
        """Apply a scalar function; numbers are constants of this dtype."""
        operands = tuple(a.expr if isinstance(a, Term) else Const(a, self.dtype) for a in args)
        dtypes = [a.dtype if isinstance(a, Term) else self.dtype for a in args]
        return Term(Apply(op, operands), dtype_of_result(op, lambda n: dtypes[n]))


def times(value: Term, factor: Term | float) -> Term:
    """Multiply two terms, leaving out factors of one.

    A factor `where(c, x, 0)` makes the product `where(c, x * other, 0)`: the arm of zero stays
    zero, even if the other factor is infinite.
    """
    for chosen, other in ((value, factor), (factor, value)):
        match chosen:
            case Term(Apply("where", (condition, *arms))) if Const(0.0, value.dtype) in arms:
                products = (_arm_product(arm, other, value.dtype) for arm in arms)
                return Term(Apply("where", (condition, *products)), value.dtype)
    if value.expr == Const(1.0, value.dtype):
        return factor if isinstance(factor, Term) else Term(Const(factor, value.dtype), value.dtype)
    if not isinstance(factor, Term):
        if factor == 1.0:
            return value
        return -value if factor == -1.0 else value.apply("mul", value, factor)
    return value.apply("mul", value, factor)


def _arm_product(arm: Expr, other: Term | float, dtype: DType) -> Expr:
    if arm == Const(0.0, dtype):
        return arm
    if isinstance(other, Term):
        is_one = arm == Const(1.0, dtype)
        return other.expr if is_one else times(other, Term(arm, dtype)).expr
    return times(Term(arm, dtype), other).expr


def partials(
    expr: Expr, adjoint: Expr, kernel: Kernel, active: Collection[str], result: Read | None = None
) -> dict[Read, Expr]:
    """Return the adjoint contribution of an expression to each load of an active tensor.

    Contributions of equal loads are added up. `result` reads the expression's value where it is
    stored.
    """
    walk = _Walk(kernel, active)
    walk.down(expr, Term(adjoint, result_dtype(expr, kernel)), result)
    return {read: term.expr for read, term in walk.derivatives.items()}


class _Walk:
    """A walk down one expression, from its result to its loads."""

    def __init__(self, kernel: Kernel, active: Collection[str]) -> None:
        self.kernel, self.active = kernel, active
        self.derivatives: dict[Read, Term] = {}

    def dtype(self, expr: Expr) -> DType:
        return result_dtype(expr, self.kernel)

    def down(self, expr: Expr, adjoint: Term, result: Read | None = None) -> None:
        derivatives = self.derivatives
        if isinstance(expr, Read):
            if expr.tensor in self.active:
                derivatives[expr] = derivatives[expr] + adjoint if expr in derivatives else adjoint
            return
        if not isinstance(expr, Apply) or not any(r.tensor in self.active for r in reads(expr)):
            return
        if expr.op.startswith("cast_"):
            self.through_cast(expr.args[0], adjoint)
            return
        match expr:
            case Apply("mul", (Apply("sqrt", (x,)) as root, Apply("sqrt", (second,)))) if (
                second == root
            ):  # x ** 0.75: its roots have infinite slopes at 0, and their product is NaN
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
        """Return the partial derivative by each argument; nothing for a function without slope."""
        record = SCALAR_FUNCTIONS.get(expr.op)
        if record is None or record.derivative is None:
            return ()
        dtype = self.dtype(expr)
        operands = (Term(a, self.dtype(a)) for a in expr.args)
        return record.derivative(functions(dtype), Term(result or expr, dtype), *operands)


def functions(dtype: DType) -> Callable[..., Term]:
    """Return scalar functions by name, as derivative rules call them.

    A call with numbers only is of this dtype.
    """

    def apply(op: str, *args: Term | float) -> Term:
        first = next((a for a in args if isinstance(a, Term) and a.dtype != "bool"), None)
        return Term(Const(0.0, dtype), first.dtype if first else dtype).apply(op, *args)

    return apply


__all__ = ["Term", "functions", "partials", "times"]
