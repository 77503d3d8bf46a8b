"""BERT: an encoder with layer norm after each residual connection (Devlin et al. 2019).

The base model at 128 tokens, from ids to the last hidden state.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.frontends.zoo.blocks import attention, perceptron
from explorer.frontends.zoo.layers import Layers, V

EPSILON = 1e-12


@dataclass(frozen=True, slots=True)
class Bert:
    """Sizes of the model; the defaults are BERT base."""

    tokens: int = 128
    vocabulary: int = 30_522
    width: int = 768
    heads: int = 12
    layers: int = 12

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        ids = net.input("ids", ("batch", self.tokens), below=self.vocabulary)
        with net.inside("embeddings"):
            words = net.embedding("word", ids, self.vocabulary, self.width)
            x = net.add(words, net.weight("position", (1, self.tokens, self.width), 1.0))
            x = net.layer_norm("norm", x, self.width, EPSILON)
        for n in range(self.layers):
            with net.inside(f"layer.{n}"):
                x = self._layer(net, x)
        net.output("hidden", x, ("batch", self.tokens, self.width))

    def _layer(self, net: Layers[V], x: V) -> V:
        with net.inside("attention"):
            parts = [net.linear(n, x, self.width, self.width) for n in ("query", "key", "value")]
            mixed = attention(net, parts, self.tokens, self.width, self.heads)
            mixed = net.linear("output", mixed, self.width, self.width)
            x = net.layer_norm("norm", net.add(mixed, x), self.width, EPSILON)
        with net.inside("feed_forward"):
            outer = perceptron(net, x, self.width, 4 * self.width)
            return net.layer_norm("norm", net.add(outer, x), self.width, EPSILON)


SMALL = Bert(tokens=16, vocabulary=500, width=32, heads=2, layers=2)
