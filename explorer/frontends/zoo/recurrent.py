"""LSTM layers in two forms: unrolled to cells, as exporters emit them, or an operator a layer.

A value of a step is [batch, width]. Each cell is Hochreiter and Schmidhuber 1997 with the forget
gate of Gers et al. 2000:

    i, f, g, o = x·W + h·U + b
    c' = sigmoid(f)·c + sigmoid(i)·tanh(g),  h' = sigmoid(o)·tanh(c')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Generic

import numpy as np

from explorer.frontends.zoo.layers import BIAS, Layers, V

GATES = 4  # input, forget, cell, output: the order of PyTorch
GAIN = 8.0  # of inputs, so that the first layer's input influences the last one's output


@dataclass(frozen=True, slots=True)
class Cell(Generic[V]):
    """The weights of a layer: [width, 4·width] for its input and for its state, and a bias."""

    inputs: V
    state: V
    bias: V


@dataclass(frozen=True, slots=True)
class State(Generic[V]):
    """The recurrent state of a layer, each [batch, width]."""

    h: V
    c: V


def stack(net: Layers[V], layers: int, width: int) -> list[Cell[V]]:
    """Return the weights of stacked layers."""
    cells = []
    for n in range(layers):
        with net.inside(f"layers.{n}"):
            cells.append(_weights(net, width))
    return cells


def _weights(
    net: Layers[V], width: int, arranged: Callable[[np.ndarray], np.ndarray] | None = None
) -> Cell[V]:
    wide = GATES * width
    return Cell(
        net.weight("input", (width, wide), sqrt(GAIN / width), arranged=arranged),
        net.weight("state", (width, wide), 1 / sqrt(width), arranged=arranged),
        net.weight("bias", (wide,), BIAS, arranged=arranged),
    )


def zero_states(net: Layers[V], cells: Sequence[Cell[V]], batch: int, width: int) -> list[State[V]]:
    """Return zeros as the initial states."""
    zeros = net.constant(np.zeros((batch, width), np.float32))
    return [State(zeros, zeros)] * len(cells)


def step(
    net: Layers[V], cells: Sequence[Cell[V]], x: V, states: Sequence[State[V]]
) -> list[State[V]]:
    """Run one step of all layers; each reads the output of the one below."""
    new_states: list[State[V]] = []
    for n, (cell, state) in enumerate(zip(cells, states, strict=True)):
        with net.inside(f"layers.{n}"):
            new_states.append(_cell(net, cell, x, state))
        x = new_states[-1].h
    return new_states


def _cell(net: Layers[V], cell: Cell[V], x: V, state: State[V]) -> State[V]:
    both = net.add(net.matmul(x, cell.inputs), net.matmul(state.h, cell.state))
    i, f, g, o = net.split(net.add(both, cell.bias), GATES, axis=1)
    remembered = net.multiply(net.sigmoid(f), state.c)
    c = net.add(remembered, net.multiply(net.sigmoid(i), net.tanh(g)))
    return State(net.multiply(net.sigmoid(o), net.tanh(c)), c)


def by_layer(net: Layers[V], layers: int, steps: V, width: int) -> list[State[V]]:
    """Run the same layers, one operator each, on [steps, batch, width]; return last states."""
    last_states = []
    for n in range(layers):
        with net.inside(f"layers.{n}"):
            cell = _weights(net, width, _for_operator)
            y, h, c = net.apply(
                "LSTM", steps, cell.inputs, cell.state, cell.bias, results=3, hidden_size=width
            )
            steps = net.reshape(y, 0, -1, width)
            last_states.append(State(*(net.reshape(v, -1, width) for v in (h, c))))
    return last_states


def _for_operator(weight: np.ndarray) -> np.ndarray:
    """Rearrange a weight for the operator.

    It is transposed, with gates in ONNX's order, one direction, and a second bias of zeros.
    """
    i, f, g, o = np.split(weight, GATES, axis=-1)
    gates = np.concatenate([i, o, f, g], axis=-1)
    if gates.ndim == 1:
        gates = np.concatenate([gates, np.zeros_like(gates)])
    return np.ascontiguousarray(gates.T[None])
