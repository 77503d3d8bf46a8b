"""The function that a decoder is trained by gives the scores of its steps, at every position."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
from explorer.frontends.decoders.families import FAMILIES
from explorer.frontends.decoders.family_config import config_of
from explorer.frontends.decoders.language_model import language_model
from explorer.frontends.decoders.step_program import text_function
from explorer.ir.program import Constant
from tests.frontends.decoders.test_families import caches
from tests.frontends.decoders.tiny_models import LLAMA, drawn

WINDOWED = {**LLAMA, "model_type": "mistral", "sliding_window": 3}


@pytest.mark.parametrize("values", [LLAMA, WINDOWED], ids=["llama", "windows"])
def test_a_text_has_the_scores_of_its_steps(values: dict[str, Any]) -> None:
    config = config_of(FAMILIES[values["model_type"]], values, "config.json")
    weights = drawn(config)
    constants = {n: Constant(a) for n, a in weights.items()}
    model = language_model(config, constants, {n: n for n in weights}, "tiny")
    c = explorer.compile(model)
    ids = np.random.default_rng(1).integers(0, config.vocabulary, (2, 9))
    text = np.asarray(text_function(config, weights)(ids))
    assert text.shape == (2, 9, config.vocabulary)
    state: dict[str, Any] = caches(model, 2, 9)
    for n in range(9):
        outputs = c.run({"ids": ids[:, n : n + 1], "at": np.full(2, n), **state})
        state = {name: outputs[name] for name in model.caches}
        np.testing.assert_allclose(text[:, n], outputs["scores"], rtol=2e-4, atol=2e-5)


def test_operators_are_named_after_their_part_of_the_model() -> None:
    config = config_of(FAMILIES["llama"], LLAMA, "config.json")
    weights = drawn(config)
    constants = {n: Constant(a) for n, a in weights.items()}
    model = language_model(config, constants, {n: n for n in weights}, "tiny")
    names = {source.name for source in model.program.sources}
    assert {"embedding/take", "layer 0/query/matmul", "layer 1/down/matmul"} <= names
    parts = {name.partition("/")[0] for name in names}
    assert parts == {"positions", "embedding", "layer 0", "layer 1", "scores"}
