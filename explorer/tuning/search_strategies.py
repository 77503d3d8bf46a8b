"""Search over the tilings of a kernel: random, and evolutionary with the best as parents."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from time import perf_counter
from typing import TypeAlias

from explorer.ir.decisions.tiling import Tiling
from explorer.roller.tiling_space import TilingSpace

Trial: TypeAlias = Callable[[Tiling, float], tuple[float, float]]
"""From a tiling and the best time so far to its microseconds and the seconds spent on it."""

POPULATION, FRESH = 16, 0.2  # parents; the share of random children


@dataclass(slots=True)
class SearchResult:
    """The trials of a search in order, and the seconds that it took."""

    seconds: float = 0.0
    trials: int = 0
    best: list[tuple[float, Tiling]] = field(default_factory=list)  # all trials, in order

    def add(self, us: float, tiling: Tiling, seconds: float) -> None:
        """Record a trial."""
        self.seconds += seconds
        self.trials += 1
        self.best.append((us, tiling))

    @property
    def best_us(self) -> float:
        """The microseconds of the best trial."""
        return min((us for us, _ in self.best), default=float("inf"))

    def leaders(self, count: int) -> list[Tiling]:
        """Return the best `count` tilings, best first."""
        return [t for _, t in sorted(self.best, key=lambda pair: pair[0])[:count]]


def random_search(space: TilingSpace, trials: int, trial: Trial, seed: int) -> SearchResult:
    """Try random legal tilings."""
    result, begin = SearchResult(), perf_counter()
    for tiling in space.drawn(seed):
        if result.trials == trials:
            break
        drawing = perf_counter() - begin
        us, seconds = trial(tiling, result.best_us)
        result.add(us, tiling, seconds + drawing)
        begin = perf_counter()
    return result


def evolutionary_search(space: TilingSpace, trials: int, trial: Trial, seed: int) -> SearchResult:
    """Try generations of tilings whose parents are the best so far.

    A child mixes the choices of two parents, or changes one choice of one; some of each generation
    are random.
    """
    every = deque(evolve(space, trials, trial, seed), maxlen=1)
    return every.pop() if every else SearchResult()


def evolve(space: TilingSpace, trials: int, trial: Trial, seed: int) -> Iterator[SearchResult]:
    """Yield the growing result of `evolutionary_search` after each trial."""
    result, random = SearchResult(), Random(seed)
    fresh, tried = space.drawn(seed), set[Tiling]()
    while result.trials < trials:
        begin = perf_counter()
        tiling = _child(space, result, random, tried) or next(fresh, None)
        if tiling is None:
            break
        if tiling in tried:
            continue
        tried.add(tiling)
        drawing = perf_counter() - begin
        us, seconds = trial(tiling, result.best_us)
        result.add(us, tiling, seconds + drawing)
        yield result


def _child(
    space: TilingSpace, result: SearchResult, random: Random, tried: set[Tiling]
) -> Tiling | None:
    """Return a new legal tiling from the best ones, or None if a random one is due."""
    if result.trials < POPULATION or random.random() < FRESH:
        return None
    parents = result.leaders(POPULATION)
    for _ in range(POPULATION):
        first, other = random.choice(parents), random.choice(parents)
        child = space.crossed(first, other, random)
        if child in tried or random.random() < 0.5:
            child = space.changed(child, random)
        if child not in tried and space.is_legal(child):
            return child
    return None


Strategy: TypeAlias = Callable[[TilingSpace, int, Trial, int], SearchResult]
STRATEGIES: dict[str, Strategy] = {"random": random_search, "evolutionary": evolutionary_search}
