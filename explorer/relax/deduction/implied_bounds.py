"""Bounds of a symbol that a check of an extent implies, where every run comes to it.

y.taken: shape[floor(n, 128)] = match 1  ->  n is 128 .. 255
"""

from __future__ import annotations

from collections.abc import Callable

from explorer.ir.calls import MatchCast
from explorer.ir.lattice import dims_of
from explorer.ir.program import Program
from explorer.ir.shapes.algebra import is_symbolic, sympy
from explorer.ir.shapes.dims import LARGEST, Dim, ShapeEnv, evaluate_dim, symbols_of
from explorer.ir.symbols import is_check
from explorer.ops.arithmetic.broadcast import ImpliedBound


def imply_bounds(program: Program) -> None:
    """Raise ImpliedBound where a check of the main function bounds a symbol of the inputs tighter
    than it is.
    """
    for binding in program.main.body:
        if isinstance(binding.expr, MatchCast) and is_check(binding):
            held = program.constants.get(binding.expr.arg.name)
            if held is not None:
                for dim, number in zip(dims_of(binding.var.type) or (), held.array.tolist()):
                    _imply(dim, number, program.env)


def _imply(dim: Dim, number: int, env: ShapeEnv) -> None:
    names = symbols_of(dim)
    if len(names) != 1 or not _grows(dim):
        return
    (name,) = names
    known = env.of(name)
    end = LARGEST if known.high is None else known.high
    low = _first(lambda n: evaluate_dim(dim, {name: n}) >= number, known.low, end)
    high = _first(lambda n: evaluate_dim(dim, {name: n}) > number, known.low, end + 1) - 1
    if low <= high and (low, high) != (known.low, known.high):
        raise ImpliedBound(name, high, low)


def _grows(dim: object) -> bool:
    """Return True if a dim is never less where its symbols are greater."""
    if not is_symbolic(dim):
        return isinstance(dim, int)
    if isinstance(dim, sympy.Mul):
        factor, rest = dim.as_coeff_Mul()
        return bool(factor > 0) and not isinstance(rest, sympy.Mul) and _grows(rest)
    if isinstance(dim, sympy.Add | sympy.floor | sympy.Max | sympy.Min):
        return all(map(_grows, dim.args))
    return bool(dim.is_Number or dim.is_Symbol)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least number from which on something holds; `high` where it holds of none below."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
