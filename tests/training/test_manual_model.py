"""The small language model: its text, its training, and what it predicts of text held out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.training.manual_model import CHARACTERS, manual_model, manual_text


def test_no_paragraph_is_in_both_texts() -> None:
    train, held_out = manual_text()
    seen = set(train.split("\n\n"))
    assert not seen & set(held_out.split("\n\n"))
    assert 12 < len(train) / len(held_out) < 24
    known = sum(character in CHARACTERS for character in train)
    assert known / len(train) > 0.999


def test_it_is_trained_once_and_predicts_text_that_is_held_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRONWORKS_CACHE", str(tmp_path / "cache"))
    losses: list[float] = []
    model = manual_model(steps=60, progress=lambda fitted: losses.append(fitted.loss))
    assert len(losses) == 60 and losses[-1] < losses[0] - 1
    again = manual_model(steps=60, progress=lambda fitted: losses.append(fitted.loss))
    assert len(losses) == 60
    for name, constant in model.program.constants.items():
        np.testing.assert_array_equal(again.program.constants[name].array, constant.array)
    _, held_out = manual_text()
    c = explorer.compile(model, donate=model.caches)
    trained = explorer.perplexity(c, held_out, rows=4, length=32)
    shares = np.unique([*held_out], return_counts=True)[1] / len(held_out)
    by_frequency = float(np.exp(-(shares * np.log(shares)).sum()))  # of single characters
    assert 1 < trained < by_frequency < len(CHARACTERS)
    assert len(explorer.generate(c, "The ", 5).text) == 5
