"""Choices of a random generator: drawn by Hypothesis, which shrinks them, or taken from a seed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st

T = TypeVar("T")
P = ParamSpec("P")
Seed = int | tuple[int, ...]


class Refused(Exception):
    """The choices do not fit together: others are tried."""


class Choices(ABC):
    """Random decisions; `rng` is for elements of arrays, which are not shrunk."""

    rng: np.random.Generator

    @abstractmethod
    def number(self, low: int, high: int) -> int:
        """Return a whole number, `high` included."""

    @abstractmethod
    def chance(self, share: float = 0.5) -> bool:
        """Return True as often as `share` says."""

    @abstractmethod
    def weighted(self, weights: Sequence[float]) -> int:
        """Return an index, each as often as its weight says."""

    def one(self, options: Sequence[T]) -> T:
        """Return one of several."""
        return options[self.number(0, len(options) - 1)]

    def some(self, options: Sequence[T], low: int, high: int) -> list[T]:
        """Return `low` to `high` of them, which may repeat."""
        return [self.one(options) for _ in range(self.number(low, high))]

    def permutation(self, count: int) -> list[int]:
        """Return the numbers below `count` in any order."""
        rest = list(range(count))
        return [rest.pop(self.number(0, len(rest) - 1)) for _ in range(count)]


class Drawn(Choices):
    """Choices by Hypothesis. The simplest ones are the first option, the low end and False."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    @cached_property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.number(0, 2**32 - 1))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def one(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(options))

    def chance(self, share: float = 0.5) -> bool:
        return self.number(0, 99) >= 100 * (1 - share)

    def weighted(self, weights: Sequence[float]) -> int:
        return _index(weights, self.number(0, 9999) / 10_000)


class Seeded(Choices):
    """Choices by a NumPy generator. Saved seeds rely on its calls: they are never changed."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def chance(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def weighted(self, weights: Sequence[float]) -> int:
        return _index(weights, self.rng.random())

    def permutation(self, count: int) -> list[int]:
        return [int(n) for n in self.rng.permutation(count)]


def _index(weights: Sequence[float], place: float) -> int:
    ends = np.cumsum(weights)
    return int(np.searchsorted(ends / ends[-1], place, side="right"))


class generator(Generic[P, T]):
    """A function of choices as a generator: called, it is a strategy; `of` gives values."""

    def __init__(self, make: Callable[Concatenate[Choices, P], T]) -> None:
        self.make = make

        @st.composite
        def strategy(draw: st.DrawFn, *args: Any, **options: Any) -> T:
            try:
                return make(Drawn(draw), *args, **options)
            except Refused:
                reject()

        self.strategy = strategy

    def __call__(self, *args: P.args, **options: P.kwargs) -> st.SearchStrategy[T]:
        return self.strategy(*args, **options)

    def of(self, seed: Seed, *args: P.args, **options: P.kwargs) -> T:
        """Return the value of a seed."""
        choices = Seeded(np.random.default_rng(seed))
        while True:
            try:
                return self.make(choices, *args, **options)
            except Refused:
                continue
