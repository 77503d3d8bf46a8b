"""LSTM layers in two forms: cell by cell, as graphs hold them that were unrolled when they were
exported, and layer by layer, an ONNX operator for each.

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
GAIN = 8.0  # of inputs: what the first layer saw is still in what the last one answers


@dataclass(frozen=True, slots=True)
class Cell(Generic[V]):
    """The weights of a layer: [width, 4·width] for what it reads and for its state, and a bias."""

    inputs: V
    state: V
    bias: V


@dataclass(frozen=True, slots=True)
class State(Generic[V]):
    """What a layer hands to its next step, each [batch, width]."""

    h: V
    c: V


def stack(net: Layers[V], layers: int, width: int) -> list[Cell[V]]:
    """The weights of layers over each other."""
    found = []
    for n in range(layers):
        with net.inside(f"layers.{n}"):
            found.append(_weights(net, width))
    return found


def _weights(
    net: Layers[V], width: int, arranged: Callable[[np.ndarray], np.ndarray] | None = None
) -> Cell[V]:
    wide = GATES * width
    return Cell(
        net.weight("input", (width, wide), sqrt(GAIN / width), arranged=arranged),
        net.weight("state", (width, wide), 1 / sqrt(width), arranged=arranged),
        net.weight("bias", (wide,), BIAS, arranged=arranged),
    )


def resting(net: Layers[V], cells: Sequence[Cell[V]], batch: int, width: int) -> list[State[V]]:
    """The states before the first step: zeros."""
    zeros = net.constant(np.zeros((batch, width), np.float32))
    return [State(zeros, zeros)] * len(cells)


def step(
    net: Layers[V], cells: Sequence[Cell[V]], x: V, states: Sequence[State[V]]
) -> list[State[V]]:
    """One step of all layers, each reading the answer of the one below."""
    found: list[State[V]] = []
    for n, (cell, state) in enumerate(zip(cells, states, strict=True)):
        with net.inside(f"layers.{n}"):
            found.append(_cell(net, cell, x, state))
        x = found[-1].h
    return found


def _cell(net: Layers[V], cell: Cell[V], x: V, state: State[V]) -> State[V]:
    both = net.add(net.matmul(x, cell.inputs), net.matmul(state.h, cell.state))
    i, f, g, o = net.split(net.add(both, cell.bias), GATES, axis=1)
    kept = net.multiply(net.sigmoid(f), state.c)
    c = net.add(kept, net.multiply(net.sigmoid(i), net.tanh(g)))
    return State(net.multiply(net.sigmoid(o), net.tanh(c)), c)


def by_layer(net: Layers[V], layers: int, steps: V, width: int) -> list[State[V]]:
    """The last states of the same layers, one operator each, over [steps, batch, width]."""
    found = []
    for n in range(layers):
        with net.inside(f"layers.{n}"):
            cell = _weights(net, width, _for_operator)
            y, h, c = net.apply(
                "LSTM", steps, cell.inputs, cell.state, cell.bias, results=3, hidden_size=width
            )
            steps = net.reshape(y, 0, -1, width)
            found.append(State(*(net.reshape(v, -1, width) for v in (h, c))))
    return found


def _for_operator(weight: np.ndarray) -> np.ndarray:
    """What the operator reads: a row for each gate's number, gates in its order, one direction; it
    adds a second bias.
    """
    i, f, g, o = np.split(weight, GATES, axis=-1)
    gates = np.concatenate([i, o, f, g], axis=-1)
    if gates.ndim == 1:
        gates = np.concatenate([gates, np.zeros_like(gates)])
    return np.ascontiguousarray(gates.T[None])
