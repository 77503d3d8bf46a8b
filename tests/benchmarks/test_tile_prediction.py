"""Predicted against measured order: what the numbers say, without a clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from explorer.cost.estimate import kernel_terms
from tests.benchmarks import tile_prediction
from tests.benchmarks.tile_prediction import (
    Prediction,
    operators,
    predict,
    rank_correlation,
    summary,
)
from tests.roller.test_policy import DEVICE


def test_equal_orders_correlate_fully_and_opposite_ones_inversely() -> None:
    assert rank_correlation([1, 2, 30, 400], [0.1, 5, 6, 7]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [9, 8, 1]) == pytest.approx(-1)


def test_equal_values_share_their_rank() -> None:
    ours = rank_correlation([1, 2, 2, 3, 5], [2, 1, 4, 4, 9])
    ranks = np.corrcoef([0, 1.5, 1.5, 3, 4], [1, 0, 2.5, 2.5, 4])[0, 1]
    assert ours == pytest.approx(float(ranks))
    assert rank_correlation([3, 3, 3], [1, 2, 3]) == 0


def test_there_are_operators_of_every_class() -> None:
    kinds = {name.split()[0].rstrip(",") for name in operators()}
    assert len(operators()) >= 12
    assert kinds >= {"matmul", "conv", "depthwise", "softmax", "layer", "add", "transpose", "max"}


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled: what would be run is the tiling itself."""
    monkeypatch.setattr(tile_prediction, "prepare", lambda kernel, tiling, *rest: tiling)


def test_a_machine_that_is_as_the_model_says_is_predicted_fully(stub: None) -> None:
    kernel = operators()["matmul 127x383x509"]

    def as_told(ready: Sequence[Any], rounds: int) -> list[float]:
        return [sum(us for _, us in kernel_terms(kernel, t, DEVICE, {})) for t in ready]

    found = predict("matmul", kernel, DEVICE, 2, as_told)
    assert found.rank == pytest.approx(1) and len(found.drawn) == 40 and len(found.top) == 10
    assert found.top1_over_best < 1.1  # finer tilings may come first among those as good


def test_a_machine_that_takes_turns_at_random_is_not_predicted(stub: None) -> None:
    random = np.random.default_rng(4)

    def by_chance(ready: Sequence[Any], rounds: int) -> list[float]:
        return list(random.random(len(ready)) + 0.1)

    found = predict("add", operators()["add 28x28x1024"], DEVICE, 2, by_chance)
    assert abs(found.rank) < 0.5


def test_the_summary_is_the_median_and_the_share_that_is_near_enough() -> None:
    rows = [
        Prediction("a", 9, rank, over, (), ())
        for rank, over in ((0.9, 1.0), (0.5, 1.1), (0.8, 1.2), (0.7, 1.15))
    ]
    told = summary(rows)
    assert told["median_rank"] == 0.75 and told["share_within"] == 0.75
