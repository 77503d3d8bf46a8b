"""Symbolic extents: integers, or sympy expressions over named symbols bounded in a `ShapeEnv`.

sympy is imported lazily: it takes a quarter of a second, and programs of numbers do not need it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, prod
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, Union

from explorer.cached_property import cached_property
from explorer.errors import BoundError

if TYPE_CHECKING:
    import sympy as sympy
else:

    class _LazySympy:
        """The sympy package, imported on the first use; names used once become attributes."""

        def __getattr__(self, name: str) -> Any:
            """Import sympy and return its attribute."""
            import sympy as package

            value = getattr(package, name)
            setattr(self, name, value)
            return value

    sympy = _LazySympy()


Dim: TypeAlias = Union[int, "sympy.Expr"]
Shape: TypeAlias = tuple[Dim, ...]
Sizes: TypeAlias = Mapping[str, int]  # a value for each symbol: one binding
CACHED_EVALUATORS = 65536  # a bound on memory, chosen
CACHED_DIMS = 4096  # sympy takes milliseconds for some; a bound on memory, chosen


def is_symbolic(value: object) -> TypeGuard[sympy.Basic]:
    """Return True if a value is one of sympy's; none is before sympy is imported."""
    return "sympy" in sys.modules and isinstance(value, sympy.Basic)


def is_symbol(value: object) -> TypeGuard[sympy.Symbol]:
    """Return True if a dim is a single symbol."""
    return is_symbolic(value) and isinstance(value, sympy.Symbol)


def symbol(name: str) -> sympy.Symbol:
    """Return the symbol of a dim that a model names: an integer, never negative."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


def simplify(dim: Dim) -> Dim:
    """Return the normal form of a dim: an int where it is one, otherwise an expanded polynomial."""
    return dim if isinstance(dim, int) else _expanded(dim)


@lru_cache(maxsize=CACHED_DIMS)
def _expanded(dim: sympy.Expr) -> Dim:
    expanded = sympy.expand(dim)
    return int(expanded) if expanded.is_Integer else expanded


def concrete_dim(dim: Dim | object) -> int:
    """Return a dim that is a number; TypeError if it depends on symbols."""
    if isinstance(dim, int):
        return dim
    raise TypeError(f"{dim} is not a number")


def product(dims: Iterable[Dim]) -> Dim:
    """Return the product in normal form."""
    values = list(dims)
    if all(isinstance(d, int) for d in values):
        return prod(values)
    return simplify(sympy.Mul(*values))


def total_of(dims: Iterable[Dim]) -> Dim:
    """Return the sum in normal form, in one addition, as sympy sorts all terms in each."""
    values = list(dims)
    if all(isinstance(d, int) for d in values):
        return sum(d for d in values if isinstance(d, int))
    return simplify(sympy.Add(*values))


def floor_div(a: Dim, b: Dim) -> Dim:
    """Return `a // b`; exact where the quotient is a polynomial."""
    return a // b if isinstance(a, int) and isinstance(b, int) else _quotient(a, b)


@lru_cache(maxsize=CACHED_DIMS)
def _quotient(a: Dim, b: Dim) -> Dim:
    quotient = _divide_by_integer(a, b) if isinstance(b, int) and not isinstance(a, int) else None
    return _divide_as_polynomials(a, b) if quotient is None else quotient


def _divide_by_integer(a: sympy.Expr, b: int) -> Dim | None:
    """Return the quotient in sympy's form, without the ten milliseconds that sympy takes.

    The terms that `b` divides are whole numbers, all others stay under one floor. Return None if a
    coefficient is not an integer.
    """
    terms = [t.as_coeff_Mul() for t in sympy.Add.make_args(a)]
    if b < 1 or not all(c.is_Integer for c, _ in terms):
        return None
    exact = sympy.Add(*(c // b * factor for c, factor in terms if c % b == 0))
    others = sympy.Add(*(c / b * factor for c, factor in terms if c % b))
    if others.is_number:
        return simplify(exact) if others == 0 else None
    return exact + sympy.floor(others, evaluate=False)


def floor_of(quotient: sympy.Expr) -> Dim:
    """Return `floor(quotient)` in sympy's normal form: integer terms stand outside of the floor."""
    integer_terms: list[sympy.Expr] = []
    other_terms: list[sympy.Expr] = []
    for term in sympy.Add.make_args(quotient):
        (
            integer_terms if term.as_coeff_Mul()[0].is_Integer and _is_whole(term) else other_terms
        ).append(term)
    left = sympy.Add(*other_terms)
    if left.is_number:
        return simplify(sympy.Add(*integer_terms) + sympy.floor(left))
    return sympy.Add(*integer_terms) + sympy.floor(left, evaluate=False)


def _is_whole(term: sympy.Expr) -> bool:
    return bool(sympy.fraction(term)[1] == 1)


def _divide_as_polynomials(a: Dim, b: Dim) -> Dim:
    terms = [term / b for term in sympy.Add.make_args(sympy.sympify(a))]
    if all(t.as_coeff_Mul()[0].is_Integer and _is_whole(t) for t in terms):
        return simplify(sympy.Add(*terms))
    exact = sympy.cancel(sympy.sympify(a) / b)
    expanded = sympy.expand(exact)
    factors = expanded.as_coefficients_dict().values()
    if expanded.is_polynomial() and all(c.is_Integer for c in factors):
        return simplify(expanded)
    return sympy.floor(sympy.sympify(a) / b)


def ceil_div(a: Dim, b: int) -> Dim:
    """Return `-(-a // b)`."""
    return -(-a // b) if isinstance(a, int) else _ceiling(a, b)


@lru_cache(maxsize=CACHED_DIMS)
def _ceiling(a: sympy.Expr, b: int) -> Dim:
    return simplify(floor_div(a + (b - 1), b))


def symbols_of(dim: Dim) -> frozenset[str]:
    """Return the names of the symbols that a dim depends on."""
    return frozenset() if isinstance(dim, int) else _names(dim)


@lru_cache(maxsize=CACHED_DIMS)
def _names(dim: sympy.Expr) -> frozenset[str]:
    return frozenset(s.name for s in dim.free_symbols)


@lru_cache(maxsize=CACHED_DIMS)
def text_of_dim(dim: Dim) -> str:
    """Return a dim as text, the sort key of dims; cached, as sympy prints for a millisecond."""
    return str(dim)


def parts_of(dim: Dim) -> frozenset[sympy.Expr]:
    """Return the symbols, quotients, maxima and the like that a dim is a polynomial of."""
    return frozenset() if isinstance(dim, int) else _parts(dim)


@lru_cache(maxsize=CACHED_DIMS)
def _parts(dim: sympy.Expr) -> frozenset[sympy.Expr]:
    if dim.is_Integer:
        return frozenset()
    power = dim.is_Pow and dim.exp.is_Integer and dim.exp > 0
    if dim.is_Add or power or (dim.is_Mul and sympy.fraction(dim)[1] == 1):
        return frozenset().union(*map(_parts, dim.args))
    return frozenset((dim,))


def evaluate_dim(dim: Dim, sizes: Sizes) -> int:
    """Return the value of a dim under one binding of its symbols, in Python integers."""
    return dim if isinstance(dim, int) else _evaluator(dim)(sizes)


@lru_cache(maxsize=CACHED_EVALUATORS)
def _evaluator(dim: sympy.Expr) -> Callable[[Sizes], int]:
    """Return a compiled evaluator of a dim, as each dim is evaluated many times."""
    match dim:
        case sympy.Integer():
            number = int(dim)
            return lambda sizes: number
        case sympy.Symbol():
            return itemgetter(dim.name)
        case sympy.Add():
            parts = [_evaluator(a) for a in dim.args]
            return lambda sizes: sum([part(sizes) for part in parts])
        case sympy.Mul():
            top, bottom = sympy.fraction(dim)
            if bottom != 1:
                return _floored(top, bottom)
            factors = [_evaluator(a) for a in dim.args]
            return lambda sizes: prod([factor(sizes) for factor in factors])
        case sympy.Pow() if dim.exp.is_Integer and dim.exp >= 0:
            base, power = _evaluator(dim.base), int(dim.exp)
            return lambda sizes: int(base(sizes) ** power)
        case sympy.floor():
            return _floored(*sympy.fraction(sympy.together(dim.args[0])))
        case sympy.Max():
            parts = [_evaluator(a) for a in dim.args]
            return lambda sizes: max([part(sizes) for part in parts])
        case sympy.Min():
            parts = [_evaluator(a) for a in dim.args]
            return lambda sizes: min([part(sizes) for part in parts])
        case sympy.Mod():
            dividend, by = map(_evaluator, dim.args)
            return lambda sizes: dividend(sizes) % by(sizes)
    raise ValueError(f"a dim may be built from + - * // max min mod; found {dim}")


def _floored(top: sympy.Expr, bottom: sympy.Expr) -> Callable[[Sizes], int]:
    over, under = _evaluator(top), _evaluator(bottom)
    return lambda sizes: over(sizes) // under(sizes)


def evaluate_shape(shape: Shape, sizes: Sizes) -> tuple[int, ...]:
    """Return each dim of a shape under one binding."""
    return tuple(evaluate_dim(d, sizes) for d in shape)


@dataclass(frozen=True, slots=True)
class SymbolBound:
    """The bounds of one symbol, `low <= symbol <= high`, and the hint that tiles are chosen for."""

    name: str
    low: int = 1
    high: int | None = None
    hint: int = 1


@dataclass(frozen=True)
class ShapeEnv:
    """The bounds of all symbols of a program, and the proofs that follow from them."""

    symbols: tuple[SymbolBound, ...] = ()

    @cached_property
    def _by_name(self) -> Mapping[str, SymbolBound]:
        return {s.name: s for s in reversed(self.symbols)}

    @cached_property
    def _hash(self) -> int:
        return hash(self.symbols)

    def __hash__(self) -> int:
        """Return the cached hash of the bounds."""
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the bounds alone: another process has other hashes."""
        return ShapeEnv, (self.symbols,)

    def of(self, name: str) -> SymbolBound:
        """Return the bounds of a symbol; 1 or more where none are stated."""
        return self._by_name.get(name) or SymbolBound(name)

    def only(self, names: frozenset[str]) -> ShapeEnv:
        """Return the bounds of some symbols in the order of their names, for use in keys."""
        return ShapeEnv(tuple(self._by_name[n] for n in sorted(names) if n in self._by_name))

    @cached_property
    def hints(self) -> Mapping[str, int]:
        """Return the binding that Roller tiles for and that pictures start from."""
        return {s.name: s.hint for s in self.symbols}

    def at(self, sizes: Sizes) -> ShapeEnv:
        """Return the same bounds with some hints replaced by sizes."""
        bounds_at_sizes = (replace(s, hint=sizes.get(s.name, s.hint)) for s in self.symbols)
        return ShapeEnv(tuple(bounds_at_sizes))

    def planned_for(self, sizes: Sizes) -> ShapeEnv:
        """Return the same bounds with these sizes as hints, down to 0 where a size is 0.

        Raises:
            BoundError: a size is out of bounds.
        """
        bounds_at_sizes = []
        for s in self.symbols:
            size = sizes.get(s.name, s.hint)
            low = 0 if size == 0 and s.low == 1 else s.low
            if not low <= size or (s.high is not None and size > s.high):
                high = "" if s.high is None else s.high
                raise BoundError(f"{s.name} is {low} .. {high}, found {size}", where=s.name)
            bounds_at_sizes.append(replace(s, low=low, hint=size))
        return ShapeEnv(tuple(bounds_at_sizes))

    def bounds(self, dim: Dim) -> tuple[int, int | None]:
        """Return the least and the greatest value by interval arithmetic; None is unbounded."""
        if isinstance(dim, int):
            return dim, dim
        return _bounds(dim, self)

    def at_most(self, dim: Dim) -> int | None:
        """Return the greatest value that a dim can take, None if unbounded."""
        return self.bounds(dim)[1]

    def equal(self, a: Dim, b: Dim) -> bool | None:
        """Return True or False where it can be proved for every binding, else None."""
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        return _equal(sympy.sympify(a), sympy.sympify(b), self)

    def hint(self, dim: Dim) -> int:
        """Return the value of a dim under the hint binding."""
        if isinstance(dim, int):
            return dim
        return _evaluator(dim)(self._all_hints)

    @cached_property
    def _all_hints(self) -> Mapping[str, int]:
        """Return the hints, with the default hint for symbols without bounds."""
        return defaultdict(lambda: SymbolBound("").hint, self.hints)


@lru_cache(maxsize=65536)
def _equal(a: sympy.Expr, b: sympy.Expr, env: ShapeEnv) -> bool | None:
    gap = simplify(a - b)
    if isinstance(gap, int):
        return gap == 0
    low, high = env.bounds(gap)
    if low > 0 or (high is not None and high < 0):
        return False
    return None


UNBOUNDED = 1 << 62  # the ends of an unbounded interval
LARGEST = 1 << 40  # of an extent; larger upper bounds count as none


@lru_cache(maxsize=65536)
def _bounds(dim: sympy.Expr, env: ShapeEnv) -> tuple[int, int | None]:
    low, high = _interval(dim, env)
    return low, None if high >= LARGEST else high


def _interval(dim: sympy.Expr, env: ShapeEnv) -> tuple[int, int]:
    match dim:
        case sympy.Integer():
            return int(dim), int(dim)
        case sympy.Symbol():
            bound = env.of(dim.name)
            return bound.low, UNBOUNDED if bound.high is None else bound.high
        case sympy.Add():
            parts = [_interval(a, env) for a in dim.args]
            low, high = _clip(sum(p[0] for p in parts)), _clip(sum(p[1] for p in parts))
            if not _share_symbols(dim.args):
                return low, high
            least, most = _without_floors(dim, env)
            return max(low, least), min(high, most)
        case sympy.Mul() if sympy.fraction(dim)[1] == 1:
            low, high = 1, 1
            for a in dim.args:
                x, y = _interval(a, env)
                corners = [low * x, low * y, high * x, high * y]
                low, high = _clip(min(corners)), _clip(max(corners))
            return low, high
        case sympy.Pow() if dim.exp.is_Integer and dim.exp > 0:
            low, high = _interval(dim.base, env)
            corners = [low ** int(dim.exp), high ** int(dim.exp)]
            return _clip(min(corners)), _clip(max(corners))
        case sympy.floor() | sympy.Mul():  # sympy drops the floor of integer expressions
            quotient = dim.args[0] if isinstance(dim, sympy.floor) else dim
            top, bottom = (_interval(e, env) for e in sympy.fraction(sympy.together(quotient)))
            if bottom[0] > 0:
                corners = [t // b for t in top for b in bottom]
                return _clip(min(corners)), _clip(max(corners))
        case sympy.Max():
            parts = [_interval(a, env) for a in dim.args]
            return max(p[0] for p in parts), max(p[1] for p in parts)
        case sympy.Min():
            parts = [_interval(a, env) for a in dim.args]
            return min(p[0] for p in parts), min(p[1] for p in parts)
    return -UNBOUNDED, UNBOUNDED


def _share_symbols(terms: Iterable[sympy.Expr]) -> bool:
    """Return True if a term with a floor has a symbol of another term."""
    seen: set[sympy.Symbol] = set()
    floored: set[sympy.Symbol] = set()
    for term in terms:
        own = term.free_symbols
        has_floor = isinstance(term.as_coeff_Mul()[1], sympy.floor)
        if own & (seen if has_floor else floored):
            return True
        seen |= own
        floored |= own if has_floor else set()
    return False


def _without_floors(dim: sympy.Expr, env: ShapeEnv) -> tuple[int, int]:
    """Bound a sum whose terms depend on each other: floor(f) is f less a part of 1.

    `floor(n/2) + 1 - floor((n + 1)/2)` is 1/2 less a half at most, and more by a half at most.
    """
    low = high = Fraction(0)
    plain: sympy.Expr = sympy.Integer(0)
    for term in dim.args:
        factor, inner = term.as_coeff_Mul()
        if not (isinstance(inner, sympy.floor) and factor.is_Integer):
            plain += term
            continue
        plain += factor * inner.args[0]
        bottom = sympy.fraction(sympy.together(inner.args[0]))[1]
        gone = Fraction(int(bottom) - 1, int(bottom)) if bottom.is_Integer else Fraction(1)
        low, high = low - max(0, int(factor)) * gone, high - min(0, int(factor)) * gone
    for term, factor in sympy.expand(plain).as_coefficients_dict().items():
        if not factor.is_Rational:
            return -UNBOUNDED, UNBOUNDED
        ends = [Fraction(int(factor.p), int(factor.q)) * end for end in _interval(term, env)]
        low, high = low + min(ends), high + max(ends)
    return _clip(ceil(low)), _clip(floor(high))


def _clip(value: int) -> int:
    return max(-UNBOUNDED, min(UNBOUNDED, value))
