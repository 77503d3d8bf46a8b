"""A small language model that is trained here, on Python's manual.

`pydoc_data`, which ships with Python, has the text: about 430,000 characters. The model predicts a
character from those before it. It is trained at its first use, and then comes from the compiler
cache. Training took 17.5 seconds on a machine with AVX-512, and 97 seconds of a core on an older
one with AVX2.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from explorer import cache
from explorer.errors import BadOption
from explorer.frontends.decoders.decoder_config import DecoderConfig, LayerPositions, Rotary
from explorer.frontends.decoders.language_model import LanguageModel, language_model
from explorer.frontends.decoders.step_program import text_function
from explorer.frontends.decoders.vocabulary import CharacterVocabulary
from explorer.frontends.python import arrays as xp
from explorer.ir.program import Constant
from explorer.training.fitted import Fitted
from explorer.training.losses import cross_entropy
from explorer.training.optimizers import AdamW
from explorer.training.training_loop import fit

CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
PLAIN = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014\u2026", "''\"\"--.")
HELD_OUT = 16  # every so many-th paragraph is not trained on
CONFIG = DecoderConfig(
    vocabulary=len(CHARACTERS),
    width=128,
    heads=4,
    groups=2,
    each=32,
    inner=256,
    layers=(LayerPositions(Rotary(10_000.0, 32)),) * 2,
    tied=True,
)
STEPS, ROWS, LENGTH = 1000, 16, 128
WARM_UP, LAST_RATE = 50, 0.05  # steps, and the last factor of the learning rate
OPTIMIZER = AdamW(0.003, weight_decay=0.1)
CLIP_NORM = 1.0
RESIDUAL = 0.3  # of the spread of matrices whose products are added to the layer's input


def manual_text() -> tuple[str, str]:
    """Return the text to train on, and the text that is held out.

    Raises:
        BadOption: this Python has no `pydoc_data`.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise BadOption(
            "this Python was installed without its manual, pydoc_data",
            where="pydoc_data",
            try_="install the full standard library",
        ) from None
    text = "\n\n".join(topics[name].translate(PLAIN) for name in sorted(topics))
    paragraphs = list(dict.fromkeys(p.strip("\n") for p in text.split("\n\n")))
    parts = (
        [p for n, p in enumerate(paragraphs) if (n % HELD_OUT == 0) is is_held_out]
        for is_held_out in (False, True)
    )
    train, held_out = ("\n\n".join(part) for part in parts)
    return train, held_out


def manual_model(
    steps: int = STEPS, progress: Callable[[Fitted], object] | None = None
) -> LanguageModel:
    """Return the language model, trained for so many steps or from the cache.

    Its vocabulary has the characters of ASCII. `progress(fitted)` is called after each step.

    Raises:
        BadOption: this Python has no `pydoc_data`.
    """
    train, _ = manual_text()
    recipe = json.dumps([asdict(CONFIG), steps, ROWS, LENGTH, asdict(OPTIMIZER)], default=str)
    key = cache.content_key("manual model", recipe, train, cache.code_key("training"))
    stored = cache.get(key)
    if stored is None:
        stored = save(_train(train, steps, progress))
        cache.put(key, stored)
    weights = {name: Constant(array) for name, array in load(stored).items()}
    model = language_model(CONFIG, weights, {name: name for name in weights}, "manual")
    return replace(model, vocabulary=CharacterVocabulary(CHARACTERS))


def _train(
    text: str, steps: int, progress: Callable[[Fitted], object] | None
) -> dict[str, np.ndarray]:
    """Return the trained weights by name."""
    ids = np.array(CharacterVocabulary(CHARACTERS).encode(text).ids)

    def batches(epoch: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng(epoch)
        for _ in range(steps):
            first = rng.integers(0, len(ids) - LENGTH, ROWS)
            rows = ids[first[:, None] + np.arange(LENGTH + 1)]
            yield rows[:, :-1], rows[:, 1:]

    def loss(params: Any, ids: Any, labels: Any) -> Any:
        scores = text_function(CONFIG, params)(ids)
        return cross_entropy(xp.reshape(scores, (-1, CONFIG.vocabulary)), xp.reshape(labels, (-1,)))

    def rate(step: int) -> float:
        return min(1.0, (step + 1) / WARM_UP) * max(LAST_RATE, 1 - step / steps)

    fitted = fit(
        loss,
        _first_weights(),
        batches,
        OPTIMIZER,
        schedule=rate,
        clip_norm=CLIP_NORM,
        progress=progress,
    )
    return {name: np.asarray(w) for name, w in fitted.params.items()}


def _first_weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    weights = {}
    for name, shape in CONFIG.weights.items():
        if len(shape) == 1:
            weights[name] = np.ones(shape, np.float32)
            continue
        is_added = name.endswith(("answer", "down"))
        spread = shape[1] ** -0.5 * (RESIDUAL if is_added else 1.0)
        weights[name] = rng.normal(0, spread, shape).astype(np.float32)
    return weights
