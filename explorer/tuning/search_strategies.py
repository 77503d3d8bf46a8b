"""Search over the tilings of a kernel: random, and evolutionary with the best so far as parents."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from time import perf_counter
from typing import TypeAlias

from explorer.ir.decisions.tiling import Tiling
from explorer.roller.enumerated import Space

Trial: TypeAlias = Callable[[Tiling, float], tuple[float, float]]
"""From a tiling and the best time so far to its microseconds and the seconds spent on it."""

POPULATION, FRESH = 16, 0.2  # parents; the share of children that are drawn anew


@dataclass(slots=True)
class Found:
    """What a search tried, best last improvement last, and the seconds that it took."""

    seconds: float = 0.0
    trials: int = 0
    best: list[tuple[float, Tiling]] = field(default_factory=list)  # all, as they came

    def add(self, us: float, tiling: Tiling, seconds: float) -> None:
        """One trial more."""
        self.seconds += seconds
        self.trials += 1
        self.best.append((us, tiling))

    @property
    def first(self) -> float:
        """Microseconds of the best so far."""
        return min((us for us, _ in self.best), default=float("inf"))

    def leaders(self, count: int) -> list[Tiling]:
        """The best so far, the best first."""
        return [t for _, t in sorted(self.best, key=lambda pair: pair[0])[:count]]


def random_search(space: Space, trials: int, trial: Trial, seed: int) -> Found:
    """Legal tilings by chance."""
    found, begin = Found(), perf_counter()
    for tiling in space.drawn(seed):
        if found.trials == trials:
            break
        drawing = perf_counter() - begin
        us, seconds = trial(tiling, found.first)
        found.add(us, tiling, seconds + drawing)
        begin = perf_counter()
    return found


def evolutionary_search(space: Space, trials: int, trial: Trial, seed: int) -> Found:
    """Generations whose parents are the best so far: choices of two of them mixed, or one choice of
    one made anew; some of each generation are drawn by chance.
    """
    every = deque(evolving(space, trials, trial, seed), maxlen=1)
    return every.pop() if every else Found()


def evolving(space: Space, trials: int, trial: Trial, seed: int) -> Iterator[Found]:
    """The same, looked at after each trial: it grows."""
    found, random = Found(), Random(seed)
    fresh, tried = space.drawn(seed), set[Tiling]()
    while found.trials < trials:
        begin = perf_counter()
        tiling = _child(space, found, random, tried) or next(fresh, None)
        if tiling is None:
            break
        if tiling in tried:
            continue
        tried.add(tiling)
        drawing = perf_counter() - begin
        us, seconds = trial(tiling, found.first)
        found.add(us, tiling, seconds + drawing)
        yield found


def _child(space: Space, found: Found, random: Random, tried: set[Tiling]) -> Tiling | None:
    """A legal tiling that was not tried, from the best so far; None where a fresh one is due."""
    if found.trials < POPULATION or random.random() < FRESH:
        return None
    parents = found.leaders(POPULATION)
    for _ in range(POPULATION):
        one, other = random.choice(parents), random.choice(parents)
        made = space.crossed(one, other, random)
        if made in tried or random.random() < 0.5:
            made = space.changed(made, random)
        if made not in tried and space.legal(made):
            return made
    return None


Strategy: TypeAlias = Callable[[Space, int, Trial, int], Found]
STRATEGIES: dict[str, Strategy] = {"random": random_search, "evolutionary": evolutionary_search}
