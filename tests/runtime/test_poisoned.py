"""Compiled with check, a run writes over NaN: what no task writes shows in the outputs."""

from __future__ import annotations

import numpy as np
import pytest

import explorer
from explorer.runtime.binding.bound import BoundProgram

MODELS = ["tests/data/tiny_skip.onnx", "tests/data/tiny_while.onnx"]


@pytest.mark.parametrize("model", MODELS)
def test_a_checked_run_gives_the_same_again_and_again(model: str) -> None:
    plain, checked = explorer.compile(model), explorer.compile(model, check=True)
    inputs = plain.random_inputs()
    want = plain.run(inputs)
    for _ in range(3):
        got = checked.run(inputs)
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array)


def test_what_no_task_writes_is_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    c = explorer.compile(MODELS[0], check=True)
    inputs = c.random_inputs()
    monkeypatch.setattr(BoundProgram, "replay", lambda self, arena, team, traced=None: None)
    assert all(np.isnan(a).all() for a in c.run(inputs).values())
    out = {name: np.zeros_like(a) for name, a in c.run(inputs).items()}
    c.run(inputs, out=out)
    assert all(np.isnan(a).all() for a in out.values())
