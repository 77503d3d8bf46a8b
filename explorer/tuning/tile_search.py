"""Search over the tilings of a kernel, with the best as parents, and the time of one tiling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from time import perf_counter
from typing import TypeAlias

from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.kernel import Kernel
from explorer.measure.compare import Measurement
from explorer.measure.one_kernel import Operands, prepare
from explorer.measure.this_cpu import this_cpu
from explorer.roller.tiling_space import TilingSpace
from explorer.roller.weigh_tiles import refusal

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


def evolve(space: TilingSpace, trials: int, trial: Trial, seed: int) -> Iterator[SearchResult]:
    """Yield the growing result of an evolutionary search after each trial.

    A generation has the best so far as parents. A child mixes the choices of two parents, or
    changes one choice of one; some of each generation are random.
    """
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


def time_tiling(
    kernel: Kernel,
    tiling: Tiling,
    device: Device,
    sizes: Sizes | None = None,
    threads: int = 1,
    seconds: float = 0.05,
    env: ShapeEnv = ShapeEnv(),
    operands: Operands | None = None,
) -> Measurement:
    """Return the time of a kernel in normal form under a tiling, on warm caches, in microseconds.

    Raises:
        BadOption: the tiling is illegal on the device; the message names the broken rule.
    """
    bound_sizes = sizes or {}
    why = refusal(kernel, tiling, device, env, bound_sizes)
    if why:
        raise BadOption(f"this tiling of {kernel.name} is not legal: {why}", where=kernel.name)
    used = operands or Operands(kernel, bound_sizes)
    return prepare(kernel, tiling, used, this_cpu(), threads, env).measure(seconds)
