"""The description of a decoder-only language model: sizes, norms, positions, and its weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import pi

import numpy as np

from explorer.errors import BadModelFile

MAX_LAYERS = 1024
MAX_SIZE = 1 << 24  # of a vocabulary or a width; more than any model has


@dataclass(frozen=True, slots=True)
class Rotary:
    """Rotary positions (Su et al. 2021) of the first `width` elements of a head.

    Frequency `i` is `base ** (-2 i / width)`, divided by `divisors[i]` if there are any. A pair is
    element `i` and the one `width / 2` further, or two neighbours if `interleaved`.
    """

    base: float
    width: int
    divisors: tuple[float, ...] = ()
    interleaved: bool = False

    @property
    def frequencies(self) -> np.ndarray:
        """Radians per position of each pair, float32[width / 2]."""
        powers = np.arange(0, self.width, 2, dtype=np.float32) / np.float32(self.width)
        waves = 1 / np.power(np.float32(self.base), powers)
        return np.asarray(waves / np.array(self.divisors or 1, np.float32), np.float32)

    def stretched(
        self, factor: float, low: float, high: float, trained: float
    ) -> tuple[float, ...]:
        """Return the divisors of Llama 3.1: `factor` where a wave is longer than `trained / low`.

        Waves shorter than `trained / high` positions keep their frequency; between, both blend.
        """
        waves = 2 * pi / self.frequencies.astype(np.float64)
        blend = np.clip((trained / waves - low) / (high - low), 0, 1)
        return tuple((1 / ((1 - blend) / factor + blend)).tolist())


@dataclass(frozen=True, slots=True)
class LayerPositions:
    """How a layer sees positions: the rotation of queries and keys, and how far back it attends."""

    rotary: Rotary | None = None
    window: int = 0  # positions, its own included; 0: all


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """Sizes and kinds of a decoder. Its weights follow from it by name and shape.

    `biases` names the projections with a bias. With `head_norms`, each head's query and key is
    normalised; with `post_norms`, attention and MLP outputs are.
    """

    vocabulary: int
    width: int
    heads: int
    groups: int  # heads of keys and values
    each: int  # width of a head
    inner: int  # width inside the MLP
    layers: tuple[LayerPositions, ...]
    norm: str = "rms"  # or "layer", with mean and bias
    epsilon: float = 1e-5
    activation: str = "silu"  # or gelu, gelu_tanh, relu
    gated: bool = True
    biases: frozenset[str] = frozenset()
    head_norms: bool = False
    post_norms: bool = False
    tied: bool = False  # scores read the embedding's rows
    positions: int = 0  # rows of learned positions; 0: none
    embedding_scale: float = 1.0
    attention_scale: float = 0.0  # of scores; 0: 1 / sqrt(each)
    attention_cap: float = 0.0  # scores are cap * tanh(scores / cap); 0: uncapped
    scores_cap: float = 0.0

    def checked(self, where: str) -> DecoderConfig:
        """Return this if its sizes go together; raise BadModelFile for `where` otherwise."""
        sizes = (self.vocabulary, self.width, self.heads, self.groups, self.each, self.inner)
        if not (all(1 <= s <= MAX_SIZE for s in sizes) and 1 <= len(self.layers) <= MAX_LAYERS):
            raise BadModelFile(f"{where} describes a model of impossible sizes", where=where)
        if self.heads % self.groups:
            raise BadModelFile(
                f"{where}: {self.heads} heads cannot share {self.groups} heads of keys and values",
                where=where,
            )
        return self

    @property
    def projections(self) -> dict[str, tuple[int, int]]:
        """The matrices of a layer, [outputs, inputs] each."""
        queries, keys = self.heads * self.each, self.groups * self.each
        matrices = {
            "query": (queries, self.width),
            "key": (keys, self.width),
            "value": (keys, self.width),
            "answer": (self.width, queries),
            "gate": (self.inner, self.width),
            "up": (self.inner, self.width),
            "down": (self.width, self.inner),
        }
        return {n: s for n, s in matrices.items() if self.gated or n != "gate"}

    @property
    def weights(self) -> dict[str, tuple[int, ...]]:
        """The shape of each weight by name; matrices are [outputs, inputs]."""
        shapes: dict[str, tuple[int, ...]] = {"embedding": (self.vocabulary, self.width)}
        if self.positions:
            shapes["positions"] = (self.positions, self.width)
        for n in range(len(self.layers)):
            shapes |= {f"{n}.{name}": shape for name, shape in self._layer()}
        shapes |= dict(self._norm("norm", self.width))
        if not self.tied:
            shapes["scores"] = (self.vocabulary, self.width)
        if "scores" in self.biases:
            shapes["scores.bias"] = (self.vocabulary,)
        return shapes

    def _layer(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the weights of a layer."""
        norms = ["attention.norm", "inner.norm"]
        norms += ["answer.norm", "down.norm"] if self.post_norms else []
        for name in norms:
            yield from self._norm(name, self.width)
        if self.head_norms:
            yield from (("query.norm", (self.each,)), ("key.norm", (self.each,)))
        for name, shape in self.projections.items():
            yield name, shape
            if name in self.biases:
                yield f"{name}.bias", shape[:1]

    def _norm(self, name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield name, (width,)
        if self.norm == "layer":
            yield f"{name}.bias", (width,)
