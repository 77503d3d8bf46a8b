"""Choices are the same again for a seed, and the simplest ones after Hypothesis has shrunk them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import onnx
import pytest
from hypothesis import HealthCheck, find, given, settings

from tests.strategies import layer_programs, operator_programs
from tests.strategies.arrays.statements import statements
from tests.strategies.choices import Choices, Refused, generator
from tests.strategies.onnx.graphs import Case, graphs


@pytest.mark.parametrize("programs", [layer_programs.programs, operator_programs.programs])
def test_a_value_is_a_function_of_its_seed(programs: Any) -> None:
    one, again, other = (repr(programs.of(seed)) for seed in (3, 3, 4))
    assert one == again != other


@generator
def choices(c: Choices) -> tuple[list[int], bool, int, list[int]]:
    """Some of each sort; never without a number."""
    numbers = c.some(range(10), 0, 3)
    if not numbers:
        raise Refused
    return numbers, c.chance(0.25), c.weighted((1, 2, 1)), c.permutation(3)


def test_choices_are_as_often_as_they_are_said_to_be() -> None:
    drawn = [choices.of(seed) for seed in range(400)]
    assert all(numbers for numbers, *_ in drawn)
    assert 60 < sum(chance for _, chance, _, _ in drawn) < 140
    counts = Counter(index for _, _, index, _ in drawn)
    assert set(counts) == {0, 1, 2} and 150 < counts[1] < 250
    assert {tuple(order) for *_, order in drawn} >= {(0, 1, 2), (2, 1, 0)}


@pytest.mark.exhaustive
def test_hypothesis_shrinks_to_the_simplest_choices() -> None:
    quick = settings(database=None, deadline=None)
    assert find(choices(), lambda drawn: True, settings=quick) == ([0], False, 0, [0, 1, 2])
    assert find(statements(2), lambda lines: True, settings=quick) == [("backwards", None)]


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs())
def test_graphs_that_hypothesis_draws_are_sound(case: Case) -> None:
    onnx.checker.check_model(case.model)
