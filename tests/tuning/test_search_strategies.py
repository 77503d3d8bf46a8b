"""Search over a simulated machine: its budget is kept, and the best that it tried is found."""

from __future__ import annotations

import pytest

from explorer.cost.estimate import kernel_terms
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.shapes.dims import ShapeEnv
from explorer.measure.this_machine.sample_kernels import product, reduction
from explorer.roller.tiling_space import TilingSpace, space_of
from explorer.tuning.search_strategies import STRATEGIES, evolutionary_search, random_search
from tests.roller.test_policy import DEVICE

SPACE = space_of(product(127, 383, 509), DEVICE, ShapeEnv(), {})
SMALL = space_of(reduction(512, 1024, 0), DEVICE, ShapeEnv(), {})


class Machine:
    """As fast as the model says; every trial takes a quarter of a second."""

    def __init__(self, space: TilingSpace) -> None:
        self.space, self.tried = space, list[Tiling]()

    def __call__(self, tiling: Tiling, best_us: float) -> tuple[float, float]:
        assert self.space.is_legal(tiling)
        self.tried.append(tiling)
        return sum(us for _, us in kernel_terms(self.space.kernel, tiling, DEVICE, {})), 0.25


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_search_tries_as_many_different_legal_tilings_as_it_may(name: str) -> None:
    machine = Machine(SPACE)
    found = STRATEGIES[name](SPACE, 30, machine, 1)
    assert found.trials == 30 == len(set(machine.tried))
    assert found.seconds >= 30 * 0.25
    assert found.best_us == min(us for us, _ in found.best)
    assert found.leaders(1)[0] in machine.tried


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_small_space_ends_before_the_budget(name: str) -> None:
    found = STRATEGIES[name](SMALL, 10**6, Machine(SMALL), 1)
    assert 0 < found.trials <= SMALL.count


def test_a_seed_searches_alike() -> None:
    first, second = Machine(SPACE), Machine(SPACE)
    evolutionary_search(SPACE, 40, first, 5)
    evolutionary_search(SPACE, 40, second, 5)
    assert first.tried == second.tried


def test_evolution_finds_more_than_chance_with_the_same_trials() -> None:
    lucky = random_search(SPACE, 150, Machine(SPACE), 2)
    bred = evolutionary_search(SPACE, 150, Machine(SPACE), 2)
    assert bred.best_us < lucky.best_us
