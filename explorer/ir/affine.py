"""Affine values of loop variables: the index expressions of kernels and tile programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.ir.dims import Dim, Sizes, evaluate_dim, is_symbolic, simplify, sympy


@dataclass(frozen=True, slots=True)
class Affine:
    """An affine value `sum(coefficient * variable) + const`.

    The terms are sorted and have no zero coefficient, so equal values are equal objects.
    Coefficients and constant are dims: integers, or expressions over the symbols of the shapes.
    """

    terms: tuple[tuple[str, Dim], ...] = ()
    const: Dim = 0

    def __add__(self, other: Affine | Dim) -> Affine:
        """Return the sum with another affine value or a dim."""
        if not isinstance(other, Affine):
            return self._plus_constant(other)
        if not other.terms:
            return self._plus_constant(other.const)
        if not self.terms:
            return other._plus_constant(self.const)
        total = dict(self.terms)
        for name, factor in other.terms:
            total[name] = total[name] + factor if name in total else factor
        return affine(total, self.const + other.const)

    def _plus_constant(self, by: Dim) -> Affine:
        """Return the value plus a constant."""
        return self if by == 0 else Affine(self.terms, simplify(self.const + by))

    def __mul__(self, factor: Dim) -> Affine:
        """Return the product with a dim."""
        if is_one(factor):
            return self
        return affine({name: times(c, factor) for name, c in self.terms}, self.const * factor)

    def __sub__(self, other: Affine | Dim) -> Affine:
        """Return the difference from another affine value or a dim."""
        if not isinstance(other, Affine):
            return self._plus_constant(-other)
        if not other.terms:
            return self._plus_constant(-other.const)
        total = dict(self.terms)
        for name, factor in other.terms:
            total[name] = total[name] - factor if name in total else -factor
        return affine(total, self.const - other.const)

    def factor(self, name: str) -> Dim:
        """Return the coefficient of a variable, 0 where it does not occur."""
        return next((c for n, c in self.terms if n == name), 0)

    @property
    def variables(self) -> frozenset[str]:
        """The variables that occur."""
        return frozenset(n for n, _ in self.terms)

    @property
    def bare(self) -> str | None:
        """The variable's name, if the value is one variable and nothing else."""
        if len(self.terms) != 1:
            return None
        name, factor = self.terms[0]
        return name if is_one(factor) and is_zero(self.const) else None

    def without(self, names: set[str] | frozenset[str]) -> Affine:
        """Return the value with some variables at zero."""
        return Affine(tuple(t for t in self.terms if t[0] not in names), self.const)

    def substitute(self, values: Mapping[str, Affine]) -> Affine:
        """Return the value with variables replaced by affine values."""
        if not any(n in values for n, _ in self.terms):
            return self
        name = self.bare
        if name is not None:
            return values[name]
        total: dict[str, Dim] = {}
        const = self.const
        for name, factor in self.terms:
            value = values.get(name)
            for n, c in ((name, 1),) if value is None else value.terms:
                step = times(c, factor)
                total[n] = total[n] + step if n in total else step
            if value is not None and not is_zero(value.const):
                const = const + times(value.const, factor)
        return affine(total, const)

    def bind(self, sizes: Sizes) -> Affine:
        """Return the value with the symbols of its coefficients replaced by numbers."""
        return affine(
            {n: evaluate_dim(c, sizes) for n, c in self.terms}, evaluate_dim(self.const, sizes)
        )


def affine(terms: Mapping[str, Dim], const: Dim = 0) -> Affine:
    """Return an affine value in normal form."""
    simplified = [(n, simplify(terms[n])) for n in sorted(terms)]
    return Affine(tuple([t for t in simplified if not is_zero(t[1])]), simplify(const))


def is_zero(dim: Dim) -> bool:
    """Return True if a dim in normal form is 0, without sympy's slow comparison."""
    return dim == 0 if isinstance(dim, int) or not is_symbolic(dim) else dim is sympy.S.Zero


def is_one(dim: Dim) -> bool:
    """Return True if a dim in normal form is 1."""
    return dim == 1 if isinstance(dim, int) or not is_symbolic(dim) else dim is sympy.S.One


def times(a: Dim, b: Dim) -> Dim:
    """Multiply two dims in normal form; a factor of 1 does not reach sympy."""
    if is_one(a):
        return b
    return a if is_one(b) else a * b


def var(name: str) -> Affine:
    """Return the affine value of one variable."""
    return Affine(((name, 1),))
