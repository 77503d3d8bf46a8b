"""What the count of PyTorch's operator samples calls right, wrong, a fault and a hang."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pytest

from tests.benchmarks import op_db


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ([np.ones(2, "float32")], ""),
        ([np.ones(2, "float32") * 1.1], "off by 0.1"),
        ([np.ones(2, "float64")], "float64 for float32"),
        ([np.ones(3, "float32")], "shape"),
        ([np.full(2, np.nan, "float32")], "off by"),
        ([], "0 results for 1"),
    ],
)
def test_results_are_compared_by_shape_dtype_and_elements(found: Any, problem: str) -> None:
    said = op_db.compare(found, [np.ones(2, "float32")])
    assert problem in said and bool(said) == bool(problem)


def _sent(name: str, modes: Any, pipe: Any) -> None:
    pipe.send(("static", 0, None))
    pipe.send(("static", 0, ("right", "")))
    pipe.send(("static", 1, None))
    if name == "sleeps":
        time.sleep(60)
    if name == "dies":
        os._exit(1)
    pipe.send(None)


@pytest.mark.parametrize(("name", "status"), [("sleeps", "hang"), ("dies", "fault"), ("ends", "")])
def test_an_operator_that_does_not_answer_is_stopped(name: str, status: str) -> None:
    rows = [row[:3] for row in op_db.counted(_sent, name, ["static"], 0.5)]
    assert rows == [("static", 0, "right"), *([("static", 1, status)] if status else [])]
