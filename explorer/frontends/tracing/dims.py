"""Symbolic dims as Python values.

Arithmetic on them is symbolic. Comparisons are decided by bounds where possible, else at run time.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import numpy as np

from explorer.errors import TraceError
from explorer.frontends.tracing.frames import current_frame, is_tracing
from explorer.frontends.tracing.lines import calling_line
from explorer.ir.shapes.algebra import is_symbolic, sympy
from explorer.ir.shapes.dims import Dim, ShapeEnv, floor_div, simplify


def python_dim(dim: Dim) -> Any:
    """Return an integer, or a `SymbolicDim` if the dim is symbolic."""
    return dim if isinstance(dim, int) else SymbolicDim(dim)


def plain_dim(value: Any) -> Dim | None:
    """Return the dim that a Python value stands for; None if it is not a dim."""
    if isinstance(value, SymbolicDim):
        return value.expr
    if is_symbolic(value) and isinstance(value, sympy.Expr):
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    return None


class SymbolicDim:
    """An integer expression over the symbols of a model."""

    functions: ClassVar[Any] = None  # explorer.np, for operations that do not return dims
    __array_ufunc__ = None  # so that `array * n` calls our operator

    def __init__(self, expr: sympy.Expr) -> None:
        """Wrap a SymPy expression."""
        self.expr = expr

    def __repr__(self) -> str:
        """Return the expression's text."""
        return str(self.expr)

    def __hash__(self) -> int:
        """Return the expression's hash."""
        return hash(self.expr)

    def _arithmetic(self, other: Any, name: str, flip: bool = False) -> Any:
        dim = plain_dim(other)
        a, b = (dim, self.expr) if flip else (self.expr, dim)
        result = None if a is None or b is None else _dim_arithmetic(name, a, b)
        if result is None:
            return getattr(self.functions, name)(*((other, self) if flip else (self, other)))
        return python_dim(result)

    def __add__(self, other: Any) -> Any:
        """Return self + other."""
        return self._arithmetic(other, "add")

    def __radd__(self, other: Any) -> Any:
        """Return other + self."""
        return self._arithmetic(other, "add", flip=True)

    def __sub__(self, other: Any) -> Any:
        """Return self - other."""
        return self._arithmetic(other, "subtract")

    def __rsub__(self, other: Any) -> Any:
        """Return other - self."""
        return self._arithmetic(other, "subtract", flip=True)

    def __mul__(self, other: Any) -> Any:
        """Return self * other."""
        return self._arithmetic(other, "multiply")

    def __rmul__(self, other: Any) -> Any:
        """Return other * self."""
        return self._arithmetic(other, "multiply", flip=True)

    def __floordiv__(self, other: Any) -> Any:
        """Return self // other."""
        return self._arithmetic(other, "floor_divide")

    def __rfloordiv__(self, other: Any) -> Any:
        """Return other // self."""
        return self._arithmetic(other, "floor_divide", flip=True)

    def __mod__(self, other: Any) -> Any:
        """Return self % other."""
        return self._arithmetic(other, "remainder")

    def __rmod__(self, other: Any) -> Any:
        """Return other % self."""
        return self._arithmetic(other, "remainder", flip=True)

    def __truediv__(self, other: Any) -> Any:
        """Return self / other."""
        return self._arithmetic(other, "divide")

    def __rtruediv__(self, other: Any) -> Any:
        """Return other / self."""
        return self._arithmetic(other, "divide", flip=True)

    def __pow__(self, other: Any) -> Any:
        """Return self ** other."""
        return self._arithmetic(other, "power")

    def __rpow__(self, other: Any) -> Any:
        """Return other ** self."""
        return self._arithmetic(other, "power", flip=True)

    def __neg__(self) -> Any:
        """Return -self."""
        return python_dim(simplify(-self.expr))

    def __pos__(self) -> Any:
        """Return self."""
        return self

    def __abs__(self) -> Any:
        """Return |self|."""
        return self.functions.abs(self)

    # Comparisons: True or False if the bounds decide, else a traced value.

    def _compare(self, other: Any, name: str) -> Any:
        dim = plain_dim(other)
        decided = None if dim is None else _decide(name, self.expr, dim)
        if decided is not None:
            return decided
        if dim is None and isinstance(other, str | type(None)):
            return name == "not_equal"
        return getattr(self.functions, name)(self, other)

    def __eq__(self, other: object) -> Any:
        """Return self == other."""
        return self._compare(other, "equal")

    def __ne__(self, other: object) -> Any:
        """Return self != other."""
        return self._compare(other, "not_equal")

    def __lt__(self, other: Any) -> Any:
        """Return self < other."""
        return self._compare(other, "less")

    def __le__(self, other: Any) -> Any:
        """Return self <= other."""
        return self._compare(other, "less_equal")

    def __gt__(self, other: Any) -> Any:
        """Return self > other."""
        return self._compare(other, "greater")

    def __ge__(self, other: Any) -> Any:
        """Return self >= other."""
        return self._compare(other, "greater_equal")

    # Conversions that need the value.

    def _refuse_conversion(self, what: str, instead: str) -> NoReturn:
        line = calling_line()
        raise TraceError(
            f"{line}: {what} needs the value of the dim {self.expr}, known only at run time; "
            f"use {instead} ({line.text})",
            where=line,
            try_=instead,
        )

    def __bool__(self) -> bool:
        """Return True if the bounds prove it nonzero; raise TraceError if they do not decide it."""
        nonzero = _decide("not_equal", self.expr, 0)
        if nonzero is None:
            self._refuse_conversion("an if or a while", "explorer.cond")
        return nonzero

    def __index__(self) -> int:
        """Raise TraceError: the value is known only at run time."""
        self._refuse_conversion(
            "a range, or an index of NumPy's,",
            "explorer.scan, explorer.np.arange or explorer.np.asarray(table)[:n]",
        )

    def __int__(self) -> int:
        """Raise TraceError: the value is known only at run time."""
        self._refuse_conversion("int()", "the dim as it is")

    def __float__(self) -> float:
        """Raise TraceError: the value is known only at run time."""
        self._refuse_conversion("float()", "the dim as it is")


def _dim_arithmetic(name: str, a: Dim, b: Dim) -> Dim | None:
    """Apply an arithmetic operator; None if the result is not a dim."""
    match name:
        case "add":
            return simplify(a + b)
        case "subtract":
            return simplify(a - b)
        case "multiply":
            return simplify(a * b)
        case "floor_divide" if b != 0:
            return floor_div(a, b)
        case "remainder" if b != 0:
            return simplify(a - floor_div(a, b) * b)
        case "power" if isinstance(b, int) and b >= 0:
            return simplify(a**b)
    return None


def _decide(name: str, a: Dim, b: Dim) -> bool | None:
    env = current_frame().recorder.env if is_tracing() else ShapeEnv()
    low, high = env.bounds(simplify(a - b))
    match name:
        case "equal" | "not_equal":
            same = env.equal(a, b)
            return same if same is None or name == "equal" else not same
        case "less" | "greater_equal":
            below = True if high is not None and high < 0 else False if low >= 0 else None
            return below if below is None or name == "less" else not below
        case _:  # less_equal, greater
            up_to = True if high is not None and high <= 0 else False if low > 0 else None
            return up_to if up_to is None or name == "less_equal" else not up_to
