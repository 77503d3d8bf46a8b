"""Compilations are compared on the same inputs, and answers that count as the same."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from explorer.compiler.pipeline import compile as compile_model
from explorer.errors import AnswerMismatch
from explorer.tuning.compare import (
    LEAST_ANSWER,
    TOLERANCE_SHARE,
    agree,
    check_answers,
    compare,
    largest_error,
)
from tests.tuning.models import mlp

X = {"x": np.ones((2, 24), np.float32)}


def test_two_settings_of_one_model_are_compared_on_the_same_inputs(tmp_path: Path) -> None:
    c = compile_model(mlp(tmp_path))
    found = compare(c, c, X, seconds=0.0)
    assert found.n >= 20 and found.low <= found.ratio <= found.high
    assert found.first.machine == found.second.machine


def test_compilations_that_disagree_are_not_timed() -> None:
    def made(value: float) -> Any:
        return SimpleNamespace(run=lambda inputs: {"y": np.array([value])})

    with pytest.raises(AnswerMismatch, match="differ at the output 'y'"):
        compare(made(1.0), made(1.1), X)


Y = np.array([[0.5, -200.0], [3.0, 0.0]], np.float32)


def test_a_difference_counts_against_the_largest_answer_not_against_its_own_element() -> None:
    assert agree(Y + np.float32(0.019), Y)
    assert not agree(Y + np.float32(0.021), Y)


def test_nan_and_infinity_agree_with_themselves_alone() -> None:
    special = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    assert agree(special, special.copy())
    assert largest_error(special, special.copy()) == 0.0
    for n in range(4):
        other = special.copy()
        other[n] = 7.0
        assert not agree(special, other) and not agree(other, special)


def test_an_infinite_answer_does_not_excuse_the_finite_ones() -> None:
    assert not agree(np.array([np.inf, 1.0]), np.array([np.inf, 2.0]))


def test_integers_and_truth_values_must_be_equal() -> None:
    assert agree(np.array([1000000]), np.array([1000000]))
    assert not agree(np.array([1000000]), np.array([1000001]))
    assert not agree(np.array([True]), np.array([False]))


def test_shapes_and_kinds_must_be_the_same() -> None:
    assert not agree(np.zeros(3), np.zeros((3, 1)))
    assert not agree(np.zeros(3, np.float32), np.zeros(3, np.int64))
    assert agree(np.zeros((0, 2), np.float32), np.zeros((0, 2), np.float32))


def test_a_mismatch_names_the_runtime_the_output_and_the_worst_element() -> None:
    wrong = Y.copy()
    wrong[1, 0] = 4.0
    with pytest.raises(
        AnswerMismatch, match=r"other differ at the output 'y': 3 and 4 at \[1, 0\]"
    ):
        check_answers({"x": Y, "y": Y}, {"x": Y, "y": wrong}, "other")
    with pytest.raises(AnswerMismatch, match="returns no output 'y'"):
        check_answers({"y": Y}, {}, "other")
    with pytest.raises(AnswerMismatch, match=r"float32\[2, 2\] and float32\[4\]"):
        check_answers({"y": Y}, {"y": Y.reshape(4)}, "other")


def test_the_largest_error_over_all_outputs_is_told() -> None:
    assert check_answers({"x": Y, "y": Y}, {"x": Y, "y": Y + np.float32(0.015625)}, "other") == (
        pytest.approx(0.015625, rel=1e-3)
    )
    assert check_answers({}, {}, "other") == 0.0


VALUES = st.floats(-1e6, 1e6, width=32, allow_subnormal=False)  # share * scale is rounded


@given(st.lists(VALUES, min_size=1, max_size=20), st.floats(0, 2e-4))
@example([2.625289275259624e-35], 0.0001725159003522049)  # below the least that counts
def test_the_border_is_a_tenthousandth_of_the_largest(values: list[float], share: float) -> None:
    theirs = np.array(values)
    scale = np.abs(theirs).max()
    ours = theirs + share * scale
    allowed = TOLERANCE_SHARE * max(scale, LEAST_ANSWER)
    if abs(share * scale - allowed) > 1e-5 * allowed:
        assert agree(ours, theirs) == (share * scale < allowed)
