"""Hints and bounds of symbols that follow from their use.

At the hints a model can run: every window fits, and equal extents are equal. A check of an extent
that every run executes implies bounds:

    y.taken: shape[floor(n, 128)] = match 1  ->  n is 128 .. 255
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from explorer.ir.annotations import dims_of
from explorer.ir.calls import MatchCast
from explorer.ir.dims import (
    LARGEST,
    Dim,
    ShapeEnv,
    SymbolBound,
    evaluate_dim,
    is_symbolic,
    symbols_of,
    sympy,
)
from explorer.ir.program import Program
from explorer.ir.symbols import is_check
from explorer.ir.types import Tensor
from explorer.ops.shape_rules import ImpliedBound

FEW_WINDOWS, ENOUGH_WINDOWS = 4, 16  # at the first hint, and at a raised one; assumed
LARGEST_HINT = 1 << 24  # of a symbol without a bound: it ends the search


def hints_from_use(program: Program) -> ShapeEnv:
    """Raise the hints until every extent has an element and strided windows a few positions.

    The hints are doubled, as long as that helps.

        y = Conv(x) by 400 taps, 160 apart  ->  hint 128 of x becomes 4096
    """
    env = program.env
    lacking = [d for d in dict.fromkeys(_extents(program)) if env.hint(d) < _least(d)]
    while lacking:
        grown = _doubled(env, frozenset[str]().union(*map(symbols_of, lacking)))
        if grown == env:
            break
        env = grown
        lacking = [d for d in lacking if env.hint(d) < ENOUGH_WINDOWS]
    return _agreeing(env, list(dict.fromkeys(_equal_extents(program))))


def _agreeing(env: ShapeEnv, pairs: Sequence[tuple[Dim, Dim]]) -> ShapeEnv:
    """Change hints so that as many of the extents that must be equal are equal.

    Each symbol's hint is halved or doubled. Extents without elements do not count as equal.

        y = match x: [floor(n, 128)] to [1]  ->  hint 4096 of n becomes 128
    """

    def apart(env: ShapeEnv) -> int:
        try:
            return sum(not 0 < env.hint(a) == env.hint(b) for a, b in pairs)
        except ZeroDivisionError:  # a quotient by an extent of 0
            return len(pairs) + 1

    names = frozenset[str]().union(*(symbols_of(d) for pair in pairs for d in pair))
    for name in sorted(names, key=lambda n: (-env.of(n).hint, n)):  # the greatest first
        tried = [env, *_scaled(env, name)] if apart(env) else [env]
        env = min(tried, key=apart)
    return env


def _scaled(env: ShapeEnv, name: str) -> Iterator[ShapeEnv]:
    """Yield the environment with other hints of a symbol, the nearest first."""
    bounds = env.of(name)
    for k in range(1, LARGEST_HINT.bit_length()):
        for hint in (bounds.hint >> k, min(bounds.hint << k, LARGEST_HINT)):
            if max(bounds.low, 1) <= hint and (bounds.high is None or hint <= bounds.high):
                yield env.at({name: hint})


def _equal_extents(program: Program) -> Iterator[tuple[Dim, Dim]]:
    """Yield the pairs of dims that match_casts compare and that are known before a run."""
    for _, binding in program.bindings():
        if isinstance(binding.expr, MatchCast):
            arg, kind = binding.expr.arg, binding.var.type
            constant = program.constants.get(arg.name)
            dims = dims_of(arg.type) if constant is None else constant.array.reshape(-1).tolist()
            if dims is not None and len(dims) == len(dims_of(kind) or ()):
                yield from zip(dims, dims_of(kind) or (), strict=True)


def _least(dim: Dim) -> int:
    return 1 if isinstance(dim, int) or not dim.has(sympy.floor) else FEW_WINDOWS


def _extents(program: Program) -> Iterator[Dim]:
    for f in program.functions:
        for v in (*f.params, *(v for b in f.body for v in b.vars)):
            if isinstance(v.type, Tensor) and v.type.is_known:
                yield from (d for d in v.type.dims if not isinstance(d, int))


def _doubled(env: ShapeEnv, names: frozenset[str]) -> ShapeEnv:
    return ShapeEnv(tuple(_raised(s) if s.name in names else s for s in env.symbols))


def _raised(bound: SymbolBound) -> SymbolBound:
    most = LARGEST_HINT if bound.high is None else bound.high
    return replace(bound, hint=max(bound.hint, min(2 * bound.hint, most)))


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
