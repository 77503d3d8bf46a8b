"""Beam search over the decoder: the four best beginnings of each sentence, until all have ended.

A step scores all words after each beginning and keeps the best four of what comes of that; which
beginning each came from, and its word, are kept in order to read the best sentence backwards at the
end. A sentence that has ended goes on with nothing but its end, at no cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.frontends import arrays as xp
from explorer.frontends.tracing.control.scans import scan
from explorer.frontends.zoo.control_flow.decoder import BEGIN, END, Decoder, scored
from explorer.frontends.zoo.control_flow.flow import Arrays
from explorer.frontends.zoo.weights import Weight
from explorer.ir.types import Tensor

NEVER = np.float32(-np.inf)


@dataclass(frozen=True, slots=True)
class BeamSearch:
    decoder: Decoder = Decoder()
    beams: int = 4

    @property
    def weights(self) -> tuple[Weight, ...]:
        return self.decoder.weights

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        return self.decoder.inputs

    def function(self, w: Arrays) -> Callable[..., Any]:
        words, most, beams = self.decoder.words, self.decoder.most, self.beams
        only_end = np.where(np.arange(words) == END, np.float32(0), NEVER)
        only_first = np.where(np.arange(beams) == 0, np.float32(0), NEVER)

        def beam_search(h: Any, c: Any, ending: Any) -> dict[str, Any]:
            count = h.shape[0]
            first = xp.reshape(xp.arange(count), (count, 1)) * beams
            h, c = xp.repeat(h, beams, axis=0), xp.repeat(c, beams, axis=0)
            word = xp.full((count, beams), BEGIN, "int64")
            total = xp.zeros((count, 1), "float32") + only_first
            said = xp.full((most, count, beams), END, "int64")
            since = xp.zeros((most, count, beams), "int64") + np.arange(beams)
            at = 0
            while at < most and (word != END).any():
                h, c, scores = scored(w, xp.reshape(word, (-1,)), h, c, ending[at])
                gained = xp.reshape(xp.log_softmax(scores), (count, beams, words))
                gained = xp.where((word == END)[:, :, None], only_end, gained)
                sums = xp.reshape(total[:, :, None] + gained, (count, beams * words))
                total, place = best(sums, beams)
                source, word = place // words, place % words
                rows = xp.reshape(first + source, (-1,))
                h, c = xp.take(h, rows, axis=0), xp.take(c, rows, axis=0)
                said[at] = word
                since[at] = source
                at = at + 1
            _, sentences = scan(backwards, xp.zeros((count, 1), "int64"), (said[::-1], since[::-1]))
            return {"words": sentences[::-1], "score": total[:, 0], "steps": at}

        return beam_search


def best(sums: Any, beams: int) -> tuple[Any, Any]:
    """The largest of each row and their places, the best one first; of equal ones the first."""
    found = []
    for _ in range(beams):
        place = xp.argmax(sums, axis=1)[:, None]
        found.append((xp.take_along_axis(sums, place, axis=1), place))
        sums = xp.where(np.arange(sums.shape[1]) == place, NEVER, sums)
    totals, places = zip(*found, strict=True)
    return xp.concatenate(totals, axis=1), xp.concatenate(places, axis=1)


def backwards(beam: Any, row: Any) -> tuple[Any, Any]:
    """The beam that a step's beam came from, and the word there."""
    said, since = row
    word = xp.take_along_axis(said, beam, axis=1)
    return xp.take_along_axis(since, beam, axis=1), word[:, 0]


FULL = BeamSearch()
SMALL = BeamSearch(Decoder(words=37, width=16, most=6))
