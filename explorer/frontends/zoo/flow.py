"""The protocol of models with control flow, and building blocks that several of them share.

The models are those of Cocktailer's paper (Zhang et al., OSDI 2023), with their loops and
branches, in `gated`, `loops` and `decoding`. Each is written once in Python over arrays: traced it
is a model, on NumPy it runs eagerly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any, Protocol

import numpy as np

from explorer.frontends.python import arrays as xp
from explorer.frontends.zoo.layers import BIAS, Weight
from explorer.ir.types import Tensor

Arrays = Mapping[str, np.ndarray]


class Flow(Protocol):
    """A model as a Python function over arrays, made from its weights by name."""

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        ...

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The annotation of each parameter of the function."""
        ...

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the function, which returns a dict of outputs."""
        ...


def matrix(name: str, inputs: int, outputs: int, gain: float = 1.0) -> Weight:
    """Return a weight that multiplies rows of `inputs`; variance grows by `gain`."""
    return Weight(name, (inputs, outputs), sqrt(gain / inputs))


def vector(name: str, width: int) -> Weight:
    """Return a bias."""
    return Weight(name, (width,), BIAS)


def lstm_weights(name: str, inputs: int, width: int, gain: float = 1.0) -> tuple[Weight, ...]:
    """Return the weights of a cell, with `gain` on its input."""
    return (
        matrix(f"{name}.input", inputs, 4 * width, gain),
        matrix(f"{name}.state", width, 4 * width),
        vector(f"{name}.bias", 4 * width),
    )


def lstm_cell(w: Arrays, name: str, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """Return the next h and c, each [batch, width]; the gates are in the order of `recurrent`."""
    both = x @ w[f"{name}.input"] + h @ w[f"{name}.state"] + w[f"{name}.bias"]
    i, f, g, o = xp.split(both, 4, axis=1)
    c = xp.sigmoid(f) * c + xp.sigmoid(i) * xp.tanh(g)
    return xp.sigmoid(o) * xp.tanh(c), c


ADDED = 0.2  # gain of a residual branch, so that values stay bounded over many blocks


def conv_weights(
    name: str, inputs: int, outputs: int, window: int, gain: float = 2.0
) -> tuple[Weight, ...]:
    """Return the weights of a convolution with a bias, into which its batch norm is folded.

    Variance grows by `gain`: it doubles, since a ReLU removes half of it.
    """
    depth = inputs * window * window
    shape = (outputs, inputs, window, window)
    return Weight(f"{name}.weight", shape, sqrt(gain / depth)), vector(f"{name}.bias", outputs)


def conv(w: Arrays, name: str, x: Any, stride: int = 1) -> Any:
    """Apply that convolution, padded so that stride 1 keeps the size."""
    weight = w[f"{name}.weight"]
    pad = weight.shape[-1] // 2
    return xp.conv(x, weight, w[f"{name}.bias"], strides=stride, padding=pad)
