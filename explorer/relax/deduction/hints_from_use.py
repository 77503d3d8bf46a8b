"""Hints that a model can be run at: raised until every window of it fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from explorer.ir.program import Program
from explorer.ir.shapes.algebra import sympy
from explorer.ir.shapes.dims import Dim, ShapeEnv, SymbolBound, symbols_of
from explorer.ir.types import Tensor

FEW_WINDOWS, ENOUGH_WINDOWS = 4, 16  # of a size under its first hint, and of a raised one: assumed
LARGEST_HINT = 1 << 24  # of a symbol without a bound: it ends the search


def hints_from_use(program: Program) -> ShapeEnv:
    """The environment of an annotated program in which each extent has 1 element or more under the
    hints, and strided windows have a few places, where greater hints lead there: they are doubled
    until there are enough of each.

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
    return env


def _least(dim: Dim) -> int:
    return 1 if isinstance(dim, int) or not dim.has(sympy.floor) else FEW_WINDOWS


def _extents(program: Program) -> Iterator[Dim]:
    for f in program.functions:
        for v in (*f.params, *(v for b in f.body for v in b.vars)):
            if isinstance(v.type, Tensor) and v.type.is_known:
                yield from (d for d in v.type.dims if not isinstance(d, int))


def _doubled(env: ShapeEnv, names: frozenset[str]) -> ShapeEnv:
    return ShapeEnv(tuple(_raised(s) if s.name in names else s for s in env.symbols))


def _raised(known: SymbolBound) -> SymbolBound:
    most = LARGEST_HINT if known.high is None else known.high
    return replace(known, hint=max(known.hint, min(2 * known.hint, most)))
