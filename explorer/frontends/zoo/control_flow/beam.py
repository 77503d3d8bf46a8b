"""Beam search over the decoder: the four best prefixes of each sentence, until all have ended.

A step scores all words after each prefix and keeps the best four results. The source beam and the
word of each are stored, so that the best sentence can be read backwards at the end. A sentence that
has ended is extended by its end symbol alone, at no cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.frontends import arrays as xp
from explorer.frontends.tracing.control.scans import scan
from explorer.frontends.zoo.control_flow.decoder import BEGIN, END, Decoder, score_words
from explorer.frontends.zoo.control_flow.flow import Arrays
from explorer.frontends.zoo.weights import Weight
from explorer.ir.types import Tensor

NEVER = np.float32(-np.inf)


@dataclass(frozen=True, slots=True)
class BeamSearch:
    """Sizes of the model."""

    decoder: Decoder = Decoder()
    beams: int = 4

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        return self.decoder.weights

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The annotation of each input."""
        return self.decoder.inputs

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the model as a function over arrays, with weights `w`."""
        words, most, beams = self.decoder.words, self.decoder.most, self.beams
        only_end = np.where(np.arange(words) == END, np.float32(0), NEVER)
        only_first = np.where(np.arange(beams) == 0, np.float32(0), NEVER)

        def beam_search(h: Any, c: Any, ending: Any) -> dict[str, Any]:
            count = h.shape[0]
            first = xp.reshape(xp.arange(count), (count, 1)) * beams
            h, c = xp.repeat(h, beams, axis=0), xp.repeat(c, beams, axis=0)
            word = xp.full((count, beams), BEGIN, "int64")
            total = xp.zeros((count, 1), "float32") + only_first
            sentence_words = xp.full((most, count, beams), END, "int64")
            since = xp.zeros((most, count, beams), "int64") + np.arange(beams)
            at = 0
            while at < most and (word != END).any():
                h, c, scores = score_words(w, xp.reshape(word, (-1,)), h, c, ending[at])
                gained = xp.reshape(xp.log_softmax(scores), (count, beams, words))
                gained = xp.where((word == END)[:, :, None], only_end, gained)
                sums = xp.reshape(total[:, :, None] + gained, (count, beams * words))
                total, place = top_beams(sums, beams)
                source, word = place // words, place % words
                rows = xp.reshape(first + source, (-1,))
                h, c = xp.take(h, rows, axis=0), xp.take(c, rows, axis=0)
                sentence_words[at] = word
                since[at] = source
                at = at + 1
            _, sentences = scan(
                step_back, xp.zeros((count, 1), "int64"), (sentence_words[::-1], since[::-1])
            )
            return {"words": sentences[::-1], "score": total[:, 0], "steps": at}

        return beam_search


def top_beams(sums: Any, beams: int) -> tuple[Any, Any]:
    """Return the largest elements of each row, best first, and their indices; ties: the first."""
    pairs = []
    for _ in range(beams):
        place = xp.argmax(sums, axis=1)[:, None]
        pairs.append((xp.take_along_axis(sums, place, axis=1), place))
        sums = xp.where(np.arange(sums.shape[1]) == place, NEVER, sums)
    totals, places = zip(*pairs, strict=True)
    return xp.concatenate(totals, axis=1), xp.concatenate(places, axis=1)


def step_back(beam: Any, row: Any) -> tuple[Any, Any]:
    """Return the source beam of a step's beam, and its word."""
    step_words, since = row
    word = xp.take_along_axis(step_words, beam, axis=1)
    return xp.take_along_axis(since, beam, axis=1), word[:, 0]


FULL = BeamSearch()
SMALL = BeamSearch(Decoder(words=37, width=16, most=6))
