"""The perplexity of a language model: how well it predicts a text, token by token."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.errors import BadOption
from explorer.frontends.decoders.language_model import LanguageModel
from explorer.generation.generate import DECODE, as_language_model, plan_for

ROWS, LENGTH = 16, 128


def perplexity(c: Compilation, text: Any, rows: int = ROWS, length: int = LENGTH) -> float:
    """Return the perplexity of a compiled language model on a text: e to the mean surprise.

    The text's first tokens are laid out in `rows` of `length` + 1, and each row is decoded: a step
    gets the row's own next token, and its scores say how probable the one after it was. 1 is a
    model that knows the text; the vocabulary's size is one that knows nothing.

    Args:
        c: The compilation of a model that `explorer.load` returned; compile it with
            `donate=model.caches` to keep the caches in place.
        text: A text, or its token ids.
        rows: Rows that are decoded together, 1 to 16.
        length: Tokens of a row that are predicted.

    Raises:
        BadOption: the model is no language model, or the text is too short.
    """
    language = as_language_model(c.model)
    ids = _token_ids(language, text)
    needed = rows * (length + 1)
    if len(ids) < needed:
        raise BadOption(
            f"the text has {len(ids)} tokens, and {rows} rows of {length} need {needed}",
            where="text",
            try_="fewer rows, or shorter ones",
        )
    table = ids[:needed].reshape(rows, length + 1)
    config = language.config
    assert config is not None, "every language model has a description"
    shape = (rows, config.groups, length, config.each)
    caches = {name: np.zeros(shape, np.float32) for name in language.caches}
    plan = plan_for(c, DECODE, rows, 1, length)
    surprise = 0.0
    for n in range(length):
        at = np.full(rows, n)
        outputs = plan.run({"ids": table[:, n : n + 1], "at": at, **caches})
        caches = {name: outputs[name] for name in language.caches}
        surprise += float(_surprise(outputs["scores"], table[:, n + 1]).sum())
    return float(np.exp(surprise / (rows * length)))


def _surprise(scores: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return minus the log of each token's probability."""
    wide = scores.astype(np.float64)
    highest = wide.max(axis=1)
    total = np.log(np.exp(wide - highest[:, None]).sum(axis=1)) + highest
    return np.asarray(total - wide[np.arange(len(ids)), ids])


def _token_ids(language: LanguageModel, text: Any) -> np.ndarray:
    if not isinstance(text, str):
        return np.asarray(text, np.int64)
    if language.vocabulary is None:
        raise BadOption(f"{language.name} has no vocabulary", try_="a list of token ids")
    return np.array(language.vocabulary.open().encode(text), np.int64)
