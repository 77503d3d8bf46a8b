"""Whole models by several settings: what is apart is told."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.compiler.options import Options
from explorer.welder import Options as WelderOptions
from tests.fuzz import models
from tests.fuzz.settings import PLAIN, Setting


def test_settings_of_a_model_are_held_against_the_plain_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Setting("apart", PLAIN.device, Options(welder=WelderOptions(enabled=False)))
    monkeypatch.setattr(models, "everywhere", lambda: [PLAIN, other])
    assert models.main(["zoo:small_nerf"]) == 0
    assert "2 compilations, 0 apart" in capsys.readouterr().out
    monkeypatch.setattr(models, "_apart", lambda a, b: 0.5)
    assert models.main(["zoo:small_nerf"]) == 1
    assert "2 compilations, 2 apart" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        ([1.0, 2.0], [1.0, 4.0], 0.5),
        ([1.0, np.nan], [1.0, np.nan], 0.0),
        ([1.0, np.inf], [1.0, 4.0], np.inf),
        ([1.0, np.nan], [1.0, np.inf], np.inf),
        ([1.0, -np.inf], [1.0, np.inf], np.inf),
        ([1, 2], [1, 2], 0.0),
        ([1, 2], [1, 3], np.inf),
        ([1, 2], [1.0, 2.0], np.inf),
        ([1.0], [1.0, 2.0], np.inf),
    ],
)
def test_how_far_two_answers_are_apart(a: list[float], b: list[float], apart: float) -> None:
    assert models._apart(np.array(a), np.array(b)) == apart
