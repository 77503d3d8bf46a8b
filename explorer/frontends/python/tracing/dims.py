"""Symbolic dims as Python values.

Arithmetic on them is symbolic. Comparisons are decided by bounds where possible, else at run time.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from explorer.errors import TraceError
from explorer.frontends.python.tracing.frames import calling_line, current_frame, is_tracing
from explorer.ir.dims import Dim, ShapeEnv, floor_div, is_symbolic, simplify, sympy

COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


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


class SymbolicDim(NDArrayOperatorsMixin):
    """An integer expression over the symbols of a model."""

    functions: ClassVar[Any] = None  # explorer.np, for operations that do not return dims

    def __init__(self, expr: sympy.Expr) -> None:
        """Wrap a SymPy expression."""
        self.expr = expr

    def __repr__(self) -> str:
        """Return the expression's text."""
        return str(self.expr)

    def __hash__(self) -> int:
        """Return the expression's hash."""
        return hash(self.expr)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Apply an operator to dims, or record it if the result is not a dim or not decided."""
        (target,) = kwargs.pop("out", (self,))  # `n += 1` rebinds n
        if method != "__call__" or kwargs or not isinstance(target, SymbolicDim):
            return NotImplemented
        operands = [plain_dim(i) for i in inputs]
        dims = [d for d in operands if d is not None]
        result = _apply(ufunc.__name__, *dims) if len(dims) == len(operands) else None
        if result is not None:
            return python_dim(result)
        if ufunc.__name__ in COMPARISONS and any(isinstance(i, str | None) for i in inputs):
            return ufunc.__name__ == "not_equal"
        function = getattr(self.functions, ufunc.__name__, None)
        return NotImplemented if function is None else function(*inputs)

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


def _apply(name: str, a: Dim, b: Dim = 0) -> Dim | None:
    """Apply an operator; None if the result is not a dim, or a comparison is not decided."""
    match name:
        case "positive":
            return a
        case "negative":
            return simplify(-a)
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
        case _ if name in COMPARISONS:
            return _decide(name, a, b)
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
