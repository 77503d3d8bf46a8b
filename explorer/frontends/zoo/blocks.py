"""Blocks of layers shared by several models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

from explorer.frontends.zoo.layers import Layers, V


def conv_norm(
    net: Layers[V],
    name: str,
    x: V,
    channels: int,
    width: int,
    kernel: int | tuple[int, ...] = 1,
    stride: int | tuple[int, ...] = 1,
    groups: int = 1,
    activation: Callable[[V], V] | None = None,
) -> V:
    """Apply a convolution without a bias, batch norm, and an optional activation."""
    gain = 2 if activation else 1
    with net.inside(name):
        y = net.conv("conv", x, channels, width, kernel, stride, None, groups, gain, bias=False)
        y = net.batch_norm("norm", y, width)
        return activation(y) if activation else y


def attention(
    net: Layers[V],
    projected: Sequence[V],
    tokens: int,
    width: int,
    heads: int,
    biased: Callable[[V], V] | None = None,
) -> V:
    """Return `softmax(Q·Kᵀ / √d)·V` for `projected` = Q, K, V, each [n, tokens, width].

    Vaswani et al. 2017. `biased` transforms the scores before the softmax.
    """
    query, key, value = projected
    q, v = (heads_first(net, x, tokens, width, heads) for x in (query, value))
    k = net.transpose(net.reshape(key, 0, tokens, heads, width // heads), 0, 2, 3, 1)
    scores = net.scale(net.matmul(q, k), 1 / sqrt(width // heads))
    weights = net.softmax(biased(scores) if biased else scores)
    return heads_last(net, net.matmul(weights, v), tokens, width)


def heads_first(net: Layers[V], x: V, tokens: int, width: int, heads: int) -> V:
    """Transpose [n, tokens, width] → [n, heads, tokens, width / heads]."""
    return net.transpose(net.reshape(x, 0, tokens, heads, width // heads), 0, 2, 1, 3)


def heads_last(net: Layers[V], x: V, tokens: int, width: int) -> V:
    """Transpose [n, heads, tokens, width / heads] → [n, tokens, width]."""
    return net.reshape(net.transpose(x, 0, 2, 1, 3), 0, tokens, width)


def perceptron(net: Layers[V], x: V, width: int, inner: int) -> V:
    """Apply two linear layers with Gelu between them."""
    return net.linear("outer", net.gelu(net.linear("inner", x, width, inner)), inner, width)
