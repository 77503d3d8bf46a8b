"""Affine values of loop variables: how kernels and tile programs say where an element lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.ir.shapes.algebra import is_symbolic, sympy
from explorer.ir.shapes.dims import Dim, Sizes, evaluate_dim, simplify


@dataclass(frozen=True, slots=True)
class Affine:
    """`sum(coefficient * variable) + const`; sorted and never zero, so equal values are equal
    objects.

    Coefficients and constant are dims: integers, or expressions over the symbols of the shapes.
    """

    terms: tuple[tuple[str, Dim], ...] = ()
    const: Dim = 0

    def __add__(self, other: Affine | Dim) -> Affine:
        if not isinstance(other, Affine):
            return self._moved(other)
        if not other.terms:
            return self._moved(other.const)
        if not self.terms:
            return other._moved(self.const)
        total = dict(self.terms)
        for name, factor in other.terms:
            total[name] = total[name] + factor if name in total else factor
        return affine(total, self.const + other.const)

    def _moved(self, by: Dim) -> Affine:
        return self if by == 0 else Affine(self.terms, simplify(self.const + by))

    def __mul__(self, factor: Dim) -> Affine:
        if is_one(factor):
            return self
        return affine({name: times(c, factor) for name, c in self.terms}, self.const * factor)

    def __sub__(self, other: Affine | Dim) -> Affine:
        if not isinstance(other, Affine):
            return self._moved(-other)
        if not other.terms:
            return self._moved(-other.const)
        total = dict(self.terms)
        for name, factor in other.terms:
            total[name] = total[name] - factor if name in total else -factor
        return affine(total, self.const - other.const)

    def factor(self, name: str) -> Dim:
        """The coefficient of a variable, 0 where it does not occur."""
        return next((c for n, c in self.terms if n == name), 0)

    @property
    def variables(self) -> frozenset[str]:
        """The variables that occur."""
        return frozenset(n for n, _ in self.terms)

    @property
    def bare(self) -> str | None:
        """The variable's name, if this is one variable and nothing else."""
        if len(self.terms) != 1:
            return None
        name, factor = self.terms[0]
        return name if is_one(factor) and is_zero(self.const) else None

    def without(self, names: set[str] | frozenset[str]) -> Affine:
        """The same with some variables at zero."""
        return Affine(tuple(t for t in self.terms if t[0] not in names), self.const)

    def substitute(self, values: Mapping[str, Affine]) -> Affine:
        """The same with variables replaced by affine values."""
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
        """The same with the symbols of the coefficients replaced by numbers."""
        return affine(
            {n: evaluate_dim(c, sizes) for n, c in self.terms}, evaluate_dim(self.const, sizes)
        )


def affine(terms: Mapping[str, Dim], const: Dim = 0) -> Affine:
    """An affine value in normal form."""
    known = [(n, simplify(terms[n])) for n in sorted(terms)]
    return Affine(tuple([t for t in known if not is_zero(t[1])]), simplify(const))


def is_zero(dim: Dim) -> bool:
    """Whether a dim in normal form is 0: asked of sympy, that takes long."""
    return dim == 0 if isinstance(dim, int) or not is_symbolic(dim) else dim is sympy.S.Zero


def is_one(dim: Dim) -> bool:
    """Whether a dim in normal form is 1."""
    return dim == 1 if isinstance(dim, int) or not is_symbolic(dim) else dim is sympy.S.One


def times(a: Dim, b: Dim) -> Dim:
    """The product of two dims in normal form; a factor of 1 is not given to sympy."""
    if is_one(a):
        return b
    return a if is_one(b) else a * b


def var(name: str) -> Affine:
    """One variable."""
    return Affine(((name, 1),))
