"""One kernel is timed on the arrays that it is given, and answers as it should while it is."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.errors import BadOption
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernels.normal import normalise
from explorer.measure.this_machine.this_cpu import this_cpu
from explorer.tuning.kernel_timing import (
    Operands,
    PreparedKernel,
    prepare,
    time_tiling,
)
from tests.codegen.cases import ENV, linear, softmax
from tests.roller.test_policy import DEVICE

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
