"""Decoding in steps: attention over a cache, a decoder, beam search, LLaMA (see `flow`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from explorer.frontends.python import arrays as xp
from explorer.frontends.python.tracing.annotations import tensor
from explorer.frontends.python.tracing.control_flow import scan, while_loop
from explorer.frontends.zoo.flow import Arrays, lstm_cell, lstm_weights, matrix, vector
from explorer.frontends.zoo.layers import Weight
from explorer.ir.types import Tensor

NEVER = np.float32(-np.inf)  # score of what is masked


@dataclass(frozen=True, slots=True)
class Attention:
    """Decoding with attention: each step reads all cached rows and appends one.

    12 heads of 64, from 32 cached rows to 64 in 32 steps (Zhang et al. 2023, section 6). Each head
    has its own matrices for queries, keys and values; a step's output is the next one's input. The
    caches have their final length: rows that are not yet written are masked. The fields are its
    sizes.
    """

    heads: int = 12
    width: int = 64  # of a head
    first: int = 32  # cached rows before the first step
    steps: int = 32

    @property
    def rows(self) -> int:
        """The capacity of a cache, in rows."""
        return self.first + self.steps

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        shape = (self.heads, self.width, self.width)
        return tuple(Weight(n, shape, 1 / sqrt(self.width)) for n in ("query", "key", "value"))

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The annotation of each input."""
        cache = tensor("float32", "batch", self.heads, self.first, self.width)
        return {
            "x": tensor("float32", "batch", self.heads, 1, self.width),
            "keys": cache,
            "values": cache,
        }

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the model as a function over arrays, with weights `w`."""
        places = np.arange(self.rows)

        def step(state: Any, at: Any) -> Any:
            x, keys, values = state
            query, key, value = (x @ w[name] for name in ("query", "key", "value"))
            keys[:, :, at] = key[:, :, 0]
            values[:, :, at] = value[:, :, 0]
            scores = query @ xp.swapaxes(keys, 2, 3) * np.float32(1 / sqrt(self.width))
            scores = xp.where(places <= at, scores, NEVER)
            answer = xp.softmax(scores) @ values
            return (answer, keys, values), answer

        def attention_decoding(x: Any, keys: Any, values: Any) -> dict[str, Any]:
            room = xp.zeros((x.shape[0], self.heads, self.steps, self.width), "float32")
            caches = [xp.concatenate([rows, room], axis=2) for rows in (keys, values)]
            (_, *caches), answers = scan(step, (x, *caches), np.arange(self.first, self.rows))
            return {"answers": answers, "keys": caches[0], "values": caches[1]}

        return attention_decoding


ATTENTION_DECODING = Attention()
SMALL_ATTENTION_DECODING = Attention(heads=2, width=16, first=3, steps=4)


END, BEGIN = 0, 1  # words


@dataclass(frozen=True, slots=True)
class Decoder:
    """The decoder of a sequence to sequence model: it emits words until every sentence has ended.

    A step embeds the last word, runs an LSTM of 256, scores 3,797 words and takes the best (Zhang
    et al. 2023, section 6); there are at most 50 steps. `ending` is a bonus for the end symbol in
    each step, like a length penalty: with random weights, it decides when a sentence ends. The
    fields are its sizes.
    """

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


SEQ2SEQ_DECODER = Decoder()
SMALL_SEQ2SEQ_DECODER = Decoder(words=37, width=16, most=6)


@dataclass(frozen=True, slots=True)
class BeamSearch:
    """Beam search over the decoder: the four best prefixes of each sentence, until all have ended.

    A step scores all words after each prefix and keeps the best four results. The source beam and
    the word of each are stored, so that the best sentence can be read backwards at the end. A
    sentence that has ended is extended by its end symbol alone, at no cost. The fields are its
    sizes.
    """

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


BEAM_SEARCH = BeamSearch()
SMALL_BEAM_SEARCH = BeamSearch(Decoder(words=37, width=16, most=6))


SMALLEST = 1e-5  # epsilon of the norms, as in all sizes of LLaMA
TURN = 10000.0  # base of the rotary frequencies
NEAR = np.float32(1e-7)  # precision of the bisection of probabilities


@dataclass(frozen=True, slots=True)
class Llama:
    """A language model that continues a text: a prefill over the prompt, then a step for each word.

    A step reads the cached keys and values of all words before it and appends its own in place. The
    model is LLaMA's (Touvron et al. 2023: rotary positions, RMSNorm, SwiGLU) at the size of
    llama2.c's stories15M; several heads may share keys and values (Ainslie et al. 2023). The best
    word is taken. With `temperature` more than 0, it is drawn from the likeliest words whose
    probabilities sum to `top_p` (Holtzman et al. 2020), by a random number of `noise` for each. The
    fields are its sizes.
    """

    words: int = 32000
    width: int = 288
    layers: int = 6
    heads: int = 6
    shared: int = 1  # heads that share keys and values
    inner: int = 768
    most: int = 256  # words of the prompt and of the answer

    @property
    def each(self) -> int:
        """The width of a head."""
        return self.width // self.heads

    @property
    def groups(self) -> int:
        """The number of heads of keys and values."""
        return self.heads // self.shared

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        group_width = self.groups * self.each
        weights = [Weight("embedding", (self.words, self.width), 1.0)]
        for n in range(self.layers):
            weights += [
                Weight(f"{n}.attention.norm", (self.width,), 0.1, 1.0),
                matrix(f"{n}.query", self.width, self.width),
                matrix(f"{n}.key", self.width, group_width),
                matrix(f"{n}.value", self.width, group_width),
                matrix(f"{n}.answer", self.width, self.width, gain=0.2),
                Weight(f"{n}.inner.norm", (self.width,), 0.1, 1.0),
                matrix(f"{n}.gate", self.width, self.inner),
                matrix(f"{n}.up", self.width, self.inner),
                matrix(f"{n}.down", self.inner, self.width, gain=0.2),
            ]
        return (
            *weights,
            Weight("norm", (self.width,), 0.1, 1.0),
            matrix("scores", self.width, self.words, gain=4.0),
        )

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The annotation of each input."""
        return {
            "prompt": tensor("int64", "batch", "n"),
            "steps": tensor("int64"),
            "temperature": tensor("float32"),
            "top_p": tensor("float32"),
            "noise": tensor("float32", self.most, "batch"),
        }

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the model as a function over arrays, with weights `w`."""
        waves = TURN ** -(np.arange(0, self.each, 2) / self.each)
        angles = np.arange(self.most)[:, None] * waves
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        places = np.arange(self.most)

        def project_qkv(n: int, x: Any, c: Any, s: Any) -> tuple[Any, Any, Any]:
            """Return queries, keys and values of a layer, [batch, heads, n, each]."""
            h = xp.rms_norm(x, w[f"{n}.attention.norm"], epsilon=SMALLEST)
            q, k, v = (split(h @ w[f"{n}.{name}"], self.each) for name in ("query", "key", "value"))
            return rotate_pairs(q, c, s), rotate_pairs(k, c, s), v

        def attention(q: Any, keys: Any, values: Any, seen: Any) -> Any:
            """Return attention over the positions that `seen` allows."""
            batch, _, count, each = q.shape
            q = xp.reshape(q, (batch, self.groups, self.shared * count, each))
            scores = q @ xp.swapaxes(keys, 2, 3) * np.float32(1 / sqrt(each))
            by_head = xp.reshape(scores, (batch, self.heads, count, keys.shape[2]))
            mixed = xp.softmax(xp.where(seen, by_head, NEVER))
            mixed = xp.reshape(mixed, scores.shape) @ values
            mixed = xp.swapaxes(xp.reshape(mixed, (batch, self.heads, count, each)), 1, 2)
            return xp.reshape(mixed, (batch, count, self.width))

        def after(n: int, x: Any, read: Any) -> Any:
            """Return a layer's output, given its attention output `read`."""
            x = x + read @ w[f"{n}.answer"]
            h = xp.rms_norm(x, w[f"{n}.inner.norm"], epsilon=SMALLEST)
            return x + (xp.silu(h @ w[f"{n}.gate"]) * (h @ w[f"{n}.up"])) @ w[f"{n}.down"]

        def scored(x: Any) -> Any:
            """Return the score of each next word, [batch, words], from the last position."""
            return xp.rms_norm(x[:, -1], w["norm"], epsilon=SMALLEST) @ w["scores"]

        def llama(
            prompt: Any, steps: Any, temperature: Any, top_p: Any, noise: Any
        ) -> dict[str, Any]:
            batch, n = prompt.shape
            room = xp.zeros((batch, self.groups, self.most - n, self.each), "float32")
            seen = xp.arange(n)[:, None] >= xp.arange(n)
            keys, values = [], []
            x = xp.take(w["embedding"], prompt, axis=0)
            for m in range(self.layers):
                q, k, v = project_qkv(m, x, xp.asarray(cos)[:n], xp.asarray(sin)[:n])
                keys += [xp.concatenate([k, room], axis=2)]
                values += [xp.concatenate([v, room], axis=2)]
                x = after(m, x, attention(q, k, v, seen))
            scores = scored(x)

            decoded = xp.zeros((batch, self.most), "int64")
            count = xp.minimum(steps, self.most - n)
            for i in range(count):
                at = i + n
                if temperature > 0:
                    word = draw_word(scores / temperature, top_p, noise[i])
                else:
                    word = xp.argmax(scores, axis=1)
                decoded[:, i] = word
                x = xp.take(w["embedding"], word, axis=0)[:, None]
                for m in range(self.layers):
                    q, k, v = project_qkv(m, x, xp.take(cos, at, axis=0), xp.take(sin, at, axis=0))
                    keys[m][:, :, at] = k[:, :, 0]
                    values[m][:, :, at] = v[:, :, 0]
                    x = after(m, x, attention(q, keys[m], values[m], places <= at))
                scores = scored(x)
            return {"words": decoded, "count": count}

        return llama


def split(x: Any, each: int) -> Any:
    """Reshape [batch, n, heads * each] to [batch, heads, n, each]."""
    return xp.swapaxes(xp.reshape(x, (*x.shape[:2], x.shape[2] // each, each)), 1, 2)


def rotate_pairs(x: Any, cos: Any, sin: Any) -> Any:
    """Rotate pairs of elements by the angles of their positions (Su et al. 2021)."""
    a, b = xp.split(x, 2, axis=3)
    return xp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=3)


def draw_word(scores: Any, top_p: Any, noise: Any) -> Any:
    """Draw a word of each row from the likeliest whose probabilities sum to `top_p`.

    The least probability that is admitted is determined by bisection.
    """
    p = xp.softmax(scores)

    def halved(low: Any, high: Any) -> tuple[Any, Any]:
        middle = (low + high) * np.float32(0.5)
        enough = xp.where(p >= middle, p, 0).sum(axis=1, keepdims=True) >= top_p
        return xp.where(enough, middle, low), xp.where(enough, high, middle)

    low, high = xp.zeros((p.shape[0], 1), "float32"), p.max(axis=1, keepdims=True)
    low, _ = while_loop(lambda low, high: (high - low).max() > NEAR, halved, low, high)
    nucleus = xp.where(p >= low, p, 0)
    so_far = xp.cumsum(nucleus, axis=1)
    return xp.argmax(so_far > noise[:, None] * so_far[:, -1:], axis=1)


LLAMA = Llama()
SMALL_LLAMA = Llama(words=61, width=32, layers=2, heads=4, shared=2, inner=48, most=24)
