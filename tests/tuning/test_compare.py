"""Comparing one compilation with another."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from explorer.compiler import compile as compile_model
from explorer.errors import AnswerMismatch
from explorer.tuning.compare import compare
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
