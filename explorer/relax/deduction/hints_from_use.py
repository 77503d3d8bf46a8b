"""Hints that a model can be run at: every window of it fits, and extents that must be equal are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from explorer.ir.calls import MatchCast
from explorer.ir.lattice import dims_of
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
    return _agreeing(env, list(dict.fromkeys(_equal_extents(program))))


def _agreeing(env: ShapeEnv, pairs: Sequence[tuple[Dim, Dim]]) -> ShapeEnv:
    """The environment in which as many of the extents that must be equal are so as a symbol's hint
    can make so, when it is halved or doubled; extents without elements are no answer.

    y = match x: [floor(n, 128)] to [1]  ->  hint 4096 of n becomes 128
    """

    def apart(env: ShapeEnv) -> int:
        try:
            return sum(not 0 < env.hint(a) == env.hint(b) for a, b in pairs)
        except ZeroDivisionError:  # a part of an extent that has no parts
            return len(pairs) + 1

    names = frozenset[str]().union(*(symbols_of(d) for pair in pairs for d in pair))
    for name in sorted(names, key=lambda n: (-env.of(n).hint, n)):  # great ones are made less
        tried = [env, *_scaled(env, name)] if apart(env) else [env]
        env = min(tried, key=apart)
    return env


def _scaled(env: ShapeEnv, name: str) -> Iterator[ShapeEnv]:
    """The environment with other hints of a symbol, the nearest first."""
    known = env.of(name)
    for k in range(1, LARGEST_HINT.bit_length()):
        for hint in (known.hint >> k, min(known.hint << k, LARGEST_HINT)):
            if max(known.low, 1) <= hint and (known.high is None or hint <= known.high):
                yield env.at({name: hint})


def _equal_extents(program: Program) -> Iterator[tuple[Dim, Dim]]:
    """What match_casts compare that is known before a run."""
    for _, binding in program.bindings():
        if isinstance(binding.expr, MatchCast):
            arg, kind = binding.expr.arg, binding.var.type
            constant = program.constants.get(arg.name)
            given = dims_of(arg.type) if constant is None else constant.array.reshape(-1).tolist()
            if given is not None and len(given) == len(dims_of(kind) or ()):
                yield from zip(given, dims_of(kind) or (), strict=True)


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
