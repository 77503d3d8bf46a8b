"""Recurrent cells in loops, and a recursive one over trees (see `flow`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from explorer.frontends.python import arrays as xp
from explorer.frontends.python.functions import function
from explorer.frontends.python.tracing.annotations import tensor
from explorer.frontends.python.tracing.control_flow import scan
from explorer.frontends.zoo.flow import Arrays, lstm_cell, lstm_weights, matrix, vector
from explorer.frontends.zoo.layers import Weight
from explorer.frontends.zoo.recurrent import GAIN
from explorer.ir.types import Tensor


@dataclass(frozen=True, slots=True)
class LoopedLstm:
    """Ten stacked LSTM layers over 64 steps: all layers of a step run before the next step.

    The sizes are Cocktailer's (Zhang et al. 2023, section 6): 256 wide. The fields are its sizes.
    """

    layers: int = 10
    width: int = 256
    steps: int = 64

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        names = [f"layers.{n}" for n in range(self.layers)]
        return tuple(w for n in names for w in lstm_weights(n, self.width, self.width, GAIN))

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The annotation of each input."""
        return {"x": tensor("float32", self.steps, "batch", self.width)}

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the model as a function over arrays, with weights `w`."""

        def step(states: Any, x: Any) -> Any:
            after = []
            for n, (h, c) in enumerate(states):
                after.append(lstm_cell(w, f"layers.{n}", x, h, c))
                x = after[-1][0]
            return tuple(after), x

        def looped_lstm(x: Any) -> dict[str, Any]:
            zeros = xp.zeros((x.shape[1], self.width), "float32")
            last, answers = scan(step, ((zeros, zeros),) * self.layers, x)
            return {"answers": answers, "state": last[-1][0], "cell": last[-1][1]}

        return looped_lstm


LOOPED_LSTM = LoopedLstm()
SMALL_LOOPED_LSTM = LoopedLstm(layers=3, width=16, steps=5)


GATES = 8


@dataclass(frozen=True, slots=True)
class NasRnn:
    """NASRNN: a recurrent cell found by architecture search (Zoph and Le 2017), run 1000 times.

    A step computes eight gates of its input and eight of its state, each 256 wide, and combines
    them pairwise. The sizes and the cell are Cocktailer's (Zhang et al. 2023, section 6): the
    fourth gate multiplies where the others add. The fields are its sizes.
    """

    width: int = 256
    steps: int = 1000

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        wide = GATES * self.width
        return matrix("input", self.width, wide, gain=2.0), matrix("state", self.width, wide)

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The annotation of each input."""
        return {"x": tensor("float32", self.steps, "batch", self.width)}

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the model as a function over arrays, with weights `w`."""

        def step(state: tuple[Any, Any], x: Any) -> tuple[Any, None]:
            m, c = state
            return cell(xp.split(x @ w["input"], GATES, 1), xp.split(m @ w["state"], GATES, 1), c)

        def nasrnn(x: Any) -> dict[str, Any]:
            zeros = xp.zeros((x.shape[1], self.width), "float32")
            (m, c), _ = scan(step, (zeros, zeros), x)
            return {"state": m, "cell": c}

        return nasrnn


def cell(i: Any, h: Any, c: Any) -> tuple[tuple[Any, Any], None]:
    """Return the next state and cell, from the gates of the input and of the state."""
    first = xp.tanh(xp.sigmoid(i[0] + h[0]) * xp.relu(i[1] + h[1]))
    second = xp.tanh(xp.sigmoid(i[2] + h[2]) + xp.relu(i[3] * h[3]))
    third = xp.tanh(xp.tanh(i[4] + h[4]) * xp.sigmoid(i[5] + h[5]))
    fourth = xp.sigmoid(xp.tanh(i[6] + h[6]) + xp.sigmoid(i[7] + h[7]))
    c = xp.tanh(first + c) * second
    return (xp.tanh(c * xp.tanh(third + fourth)), c), None


NASRNN = NasRnn()
SMALL_NASRNN = NasRnn(width=16, steps=7)


@dataclass(frozen=True, slots=True)
class RecursiveAutoencoder:
    """A recursive autoencoder: the vector of a tree is computed from those of its two children.

    Socher et al. 2011, at the size of Zhang et al. 2023, section 6: one linear layer from 1,024 to
    512 for every inner node of a tree with at most 127 nodes. The tree is data, and the function is
    recursive to the depth of the tree. The fields are its sizes.
    """

    hidden: int = 512
    nodes: int = 127  # of the largest tree

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        return (
            matrix("encode.weight", 2 * self.hidden, self.hidden),
            vector("encode.bias", self.hidden),
        )

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The children of each node, -1 for none, and each leaf's vector; node 0 is the root."""
        links = tensor("int64", self.nodes)
        leaves = tensor("float32", self.nodes, self.hidden)
        return {"left": links, "right": links, "leaf": leaves}

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the model as a function over arrays, with weights `w`."""
        inputs = {"node": tensor("int64"), **self.inputs}

        @function(inputs=inputs, result=tensor("float32", self.hidden))
        def encode(node: Any, left: Any, right: Any, leaf: Any) -> Any:
            if left[node] < 0:
                return leaf[node]
            first = encode(left[node], left, right, leaf)
            second = encode(right[node], left, right, leaf)
            both = xp.concatenate([first, second])
            return xp.tanh(both @ w["encode.weight"] + w["encode.bias"])

        def recursive_autoencoder(left: Any, right: Any, leaf: Any) -> dict[str, Any]:
            return {"root": encode(0, left, right, leaf)}

        return recursive_autoencoder


RECURSIVE_AUTOENCODER = RecursiveAutoencoder()
SMALL_RECURSIVE_AUTOENCODER = RecursiveAutoencoder(hidden=16, nodes=15)
