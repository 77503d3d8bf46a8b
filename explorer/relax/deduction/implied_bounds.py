"""Bounds of a symbol implied by a check of an extent that every run executes.

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
    """Raise ImpliedBound if a check of the main function tightens a symbol of the inputs."""
    for binding in program.main.body:
        if isinstance(binding.expr, MatchCast) and is_check(binding):
            constant = program.constants.get(binding.expr.arg.name)
            if constant is not None:
                for dim, number in zip(dims_of(binding.var.type) or (), constant.array.tolist()):
                    _imply(dim, number, program.env)


def _imply(dim: Dim, number: int, env: ShapeEnv) -> None:
    names = symbols_of(dim)
    if len(names) != 1 or not _is_monotone(dim):
        return
    (name,) = names
    bounds = env.of(name)
    end = LARGEST if bounds.high is None else bounds.high
    low = _first(lambda n: evaluate_dim(dim, {name: n}) >= number, bounds.low, end)
    high = _first(lambda n: evaluate_dim(dim, {name: n}) > number, bounds.low, end + 1) - 1
    if low <= high and (low, high) != (bounds.low, bounds.high):
        raise ImpliedBound(name, high, low)


def _is_monotone(dim: object) -> bool:
    """Return True if a dim never shrinks as its symbols grow."""
    if not is_symbolic(dim):
        return isinstance(dim, int)
    if isinstance(dim, sympy.Mul):
        factor, operand = dim.as_coeff_Mul()
        return bool(factor > 0) and not isinstance(operand, sympy.Mul) and _is_monotone(operand)
    if isinstance(dim, sympy.Add | sympy.floor | sympy.Max | sympy.Min):
        return all(map(_is_monotone, dim.args))
    return bool(dim.is_Number or dim.is_Symbol)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the least number for which a monotone predicate holds, or `high`."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
