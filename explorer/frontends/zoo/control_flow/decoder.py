"""The decoder of a sequence to sequence model: it emits words until every sentence has ended.

A step embeds the last word, runs an LSTM of 256, scores 3,797 words and takes the best (Zhang et
al. 2023, section 6); there are at most 50 steps. `ending` is a bonus for the end symbol in each
step, like a length penalty: with random weights, it decides when a sentence ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.frontends import arrays as xp
from explorer.frontends.tracing.annotations import tensor
from explorer.frontends.zoo.control_flow.flow import Arrays, lstm_cell, lstm_weights, matrix, vector
from explorer.frontends.zoo.weights import Weight
from explorer.ir.types import Tensor

END, BEGIN = 0, 1  # words


@dataclass(frozen=True, slots=True)
class Decoder:
    """Sizes of the model."""

    words: int = 3797
    width: int = 256
    most: int = 50  # steps

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        return (
            Weight("embedding", (self.words, self.width), 1.0),
            *lstm_weights("cell", self.width, self.width, gain=4.0),
            matrix("scores.weight", self.width, self.words, gain=16.0),
            vector("scores.bias", self.words),
        )

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The annotation of each input."""
        state = tensor("float32", "batch", self.width)
        return {"h": state, "c": state, "ending": tensor("float32", self.most)}

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the model as a function over arrays, with weights `w`."""

        def seq2seq_decoder(h: Any, c: Any, ending: Any) -> dict[str, Any]:
            word = xp.full(h.shape[:1], BEGIN, "int64")
            going = xp.ones(h.shape[:1], "bool")
            decoded = xp.full((self.most, *h.shape[:1]), END, "int64")
            at = 0
            while at < self.most and going.any():
                h, c, scores = score_words(w, word, h, c, ending[at])
                word = xp.where(going, xp.argmax(scores, axis=1), END)
                going = word != END
                decoded[at] = word
                at = at + 1
            return {"words": decoded, "steps": at, "state": h}

        return seq2seq_decoder


def score_words(w: Arrays, word: Any, h: Any, c: Any, ending: Any) -> tuple[Any, Any, Any]:
    """Return the next state, and the score of each next word, [batch, words]."""
    h, c = lstm_cell(w, "cell", xp.take(w["embedding"], word, axis=0), h, c)
    scores = h @ w["scores.weight"] + w["scores.bias"]
    end = np.arange(w["scores.bias"].size) == END
    return h, c, scores + xp.where(end, ending, np.float32(0))


FULL = Decoder()
SMALL = Decoder(words=37, width=16, most=6)
