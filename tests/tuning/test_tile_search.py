"""One kernel is timed as it answers, and a search over simulated times keeps its budget."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.cost.estimate import kernel_terms
from explorer.errors import BadOption
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernels.normal import normalise
from explorer.measure.fit import product
from explorer.measure.one_kernel import Operands, PreparedKernel, prepare
from explorer.measure.this_cpu import this_cpu
from explorer.roller.tiling_space import TilingSpace, space_of
from explorer.tuning.tile_search import time_tiling
from tests.benchmarks.tile_search import STRATEGIES, evolutionary_search, random_search
from tests.codegen.cases import ENV, linear, softmax
from tests.roller.test_policy import DEVICE
from tests.sample_kernels import reduction

LINEAR = normalise(linear(29, 40, 70, "none", {}).kernel)
SOFTMAX = normalise(softmax(2, 33, {}).kernel)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("tiling", [Tiling(), Tiling((("e0", 4),), Micro(4, 3))])
def test_a_prepared_kernel_computes_on_its_operands(threads: int, tiling: Tiling) -> None:
    operands = Operands(LINEAR, {})
    a = operands.arrays
    prepared = prepare(LINEAR, tiling, operands, this_cpu(), threads)
    prepared.output.fill(-1)
    prepared.launch(2)
    np.testing.assert_allclose(prepared.output, a["x"] @ a["w"] + a["b"], rtol=1e-5)


def test_arrays_that_are_given_are_used_and_others_are_the_same_each_time() -> None:
    x = np.linspace(-1, 1, 29 * 40, dtype=np.float32).reshape(29, 40)
    first, second = Operands(LINEAR, {}, {"x": x}), Operands(LINEAR, {})
    assert np.array_equal(first.arrays["x"], x)
    assert np.array_equal(Operands(LINEAR, {}).arrays["w"], second.arrays["w"])
    assert all(array.ctypes.data % 64 == 0 for array in first.arrays.values())
    assert all((array > 0).all() for array in second.arrays.values())


def test_tilings_share_constants_that_lie_alike() -> None:
    operands = Operands(LINEAR, {})
    prepare(LINEAR, Tiling((), Micro(4, 2)), operands, this_cpu())
    prepare(LINEAR, Tiling((), Micro(7, 2)), operands, this_cpu())
    assert len(operands._packed) == 1


class Ticking:
    """A clock on which one run of a prepared kernel takes what a list says."""

    def __init__(self, prepared: PreparedKernel, times_us: list[float]) -> None:
        self.now, self.times = 0, list(times_us)
        prepared.launch = self.run  # type: ignore[method-assign]

    def run(self, runs: int | None = None) -> None:
        self.now += int(self.times.pop(0) * 1000)

    def __call__(self) -> int:
        return self.now


def test_the_best_launch_counts_and_the_budget_ends_the_trials() -> None:
    prepared = prepare(SOFTMAX, Tiling(), Operands(SOFTMAX, {}), this_cpu())
    prepared.runs = 10
    clock = Ticking(prepared, [900.0, 700.0, 800.0, 650.0, 100.0])
    assert prepared.best_us(3000.0, clock) == 65.0
    assert clock.times == [100.0]


def test_three_launches_are_timed_however_long_they_take() -> None:
    prepared = prepare(SOFTMAX, Tiling(), Operands(SOFTMAX, {}), this_cpu())
    prepared.runs = 1
    assert prepared.best_us(1.0, Ticking(prepared, [9e6, 8e6, 7e6])) == 7e6


def test_a_tiling_that_is_not_legal_is_not_timed() -> None:
    with pytest.raises(BadOption, match="vector registers"):
        time_tiling(LINEAR, Tiling((), Micro(20, 4)), DEVICE, {}, env=ENV)
    with pytest.raises(BadOption, match="1 thread or more"):
        prepare(LINEAR, Tiling(), Operands(LINEAR, {}), this_cpu(), 0)


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
