"""Perplexity against transformers' loss, and texts that are too short or have no vocabulary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.errors import BadOption
from explorer.frontends.decoders.language_model import LanguageModel
from explorer.frontends.decoders.vocabulary import CharacterVocabulary
from tests.frontends.decoders.test_families import FAMILIES, saved
from tests.frontends.decoders.tiny_models import write_folder

CHARACTERS = "".join(map(chr, range(63, 63 + 61)))


def test_it_is_e_to_the_loss_of_transformers(tmp_path: Path) -> None:
    reference = saved(tmp_path, *FAMILIES["llama"])
    torch = pytest.importorskip("torch")
    model = explorer.load(tmp_path)
    ids = np.random.default_rng(0).integers(3, 60, 3 * 21)
    got = explorer.perplexity(explorer.compile(model), ids, rows=3, length=20)
    rows = torch.tensor(ids.reshape(3, 21))
    with torch.no_grad():
        loss = reference(rows, labels=rows).loss
    assert got == pytest.approx(float(loss.exp()), rel=1e-4)


def test_a_text_is_encoded_by_the_model_s_vocabulary(tmp_path: Path) -> None:
    model = explorer.load(write_folder(tmp_path / "tiny"))
    assert isinstance(model, LanguageModel)
    named = replace(model, vocabulary=CharacterVocabulary(CHARACTERS))
    c = explorer.compile(named, donate=model.caches)
    text = "Ironworks~" * 7
    ids = [CHARACTERS.index(c) for c in text.replace("~", "?")]  # as every unknown character
    by_text = explorer.perplexity(c, text, rows=2, length=8)
    assert by_text == explorer.perplexity(c, ids, rows=2, length=8)
    assert named.vocabulary is not None and named.vocabulary.open().decode(ids[:9]) == text[:9]


def test_a_short_text_and_other_models_are_refused(tmp_path: Path) -> None:
    c = explorer.compile(explorer.load(write_folder(tmp_path / "tiny")))
    with pytest.raises(BadOption, match="has 5 tokens, and 2 rows of 8 need 18"):
        explorer.perplexity(c, [1, 2, 3, 4, 5], rows=2, length=8)
    with pytest.raises(BadOption, match=r"tiny_skip is no language model"):
        explorer.perplexity(explorer.compile("zoo:tiny_skip"), [1, 2])
    bare = explorer.compile(replace(c.model, vocabulary=None))
    with pytest.raises(BadOption, match="tiny has no vocabulary"):
        explorer.perplexity(bare, "text")
