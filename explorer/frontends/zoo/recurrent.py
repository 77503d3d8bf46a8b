"""Models of LSTM layers, in two forms: unrolled to cells, as exporters emit them, or by operators.

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

from explorer.frontends.zoo.layers import BIAS, Layers, V, conv_norm

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


# Models.


@dataclass(frozen=True, slots=True)
class Lstm:
    """LSTM layers unrolled over time to cells: `/steps.0/layers.0` reads the first input.

    `lstm` is the one of Rammer's tutorial, 8 layers by 8 steps. `lstm_tc` classifies a text by the
    last state of 10 layers after 100 steps (Ma et al. 2020, section 5.1, which leaves the number of
    classes open: ten here). The input holds the steps one after the other, [steps · batch, width]:
    with a batch of 1, a row for each. The fields are its sizes.
    """

    layers: int = 8
    steps: int = 8
    width: int = 256
    classes: int = 0  # 0: the output is the last state of the last layer
    batch: int = 1
    layered: bool = False  # an ONNX operator for each layer, in place of its cells

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        x = net.input("x", (self.steps * self.batch, self.width))
        last = self._states(net, x)[-1].h
        if not self.classes:
            net.output("state", last, (self.batch, self.width))
            return
        scores = net.linear("classifier", last, self.width, self.classes)
        net.output("scores", scores, (self.batch, self.classes))

    def _states(self, net: Layers[V], x: V) -> list[State[V]]:
        if self.layered:
            steps = net.reshape(x, self.steps, self.batch, self.width)
            return by_layer(net, self.layers, steps, self.width)
        cells = stack(net, self.layers, self.width)
        states = zero_states(net, cells, self.batch, self.width)
        for n, row in enumerate(net.split(x, self.steps, axis=0)):
            with net.inside(f"steps.{n}"):
                states = step(net, cells, row, states)
        return states


TUTORIAL = Lstm()
SMALL_TUTORIAL = Lstm(layers=3, steps=4, width=16)
CLASSIFIER = Lstm(layers=10, steps=100, classes=10)
SMALL_CLASSIFIER = Lstm(layers=4, steps=6, width=16, classes=5)


@dataclass(frozen=True, slots=True)
class Seq2Seq:
    """A sequence to sequence model of LSTM layers, unrolled over time (Sutskever et al. 2014).

    The sizes are Rammer's (Ma et al. 2020, section 5.1): an encoder of 8 layers over 100 steps, a
    decoder of 4 layers over 30. The decoder's layers start in the states of the encoder's last
    four. Its first input is the encoder's output, and each later one its own output of the step
    before, so that steps cannot overlap. There is no vocabulary: a step outputs its state. The
    input holds the steps one after the other, [steps · batch, width]. The fields are its sizes.
    """

    encoder_layers: int = 8
    encoder_steps: int = 100
    decoder_layers: int = 4
    decoder_steps: int = 30
    width: int = 128
    batch: int = 1
    layered: bool = False  # in the encoder, an ONNX operator for each layer in place of its cells

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        x = net.input("x", (self.encoder_steps * self.batch, self.width))
        with net.inside("encoder"):
            states = self._encoded(net, x)
        with net.inside("decoder"):
            answers = self._decoded(net, states)
        net.output("answers", answers, (self.decoder_steps * self.batch, self.width))

    def _encoded(self, net: Layers[V], x: V) -> list[State[V]]:
        if self.layered:
            steps = net.reshape(x, self.encoder_steps, self.batch, self.width)
            return by_layer(net, self.encoder_layers, steps, self.width)
        cells = stack(net, self.encoder_layers, self.width)
        states = zero_states(net, cells, self.batch, self.width)
        for n, row in enumerate(net.split(x, self.encoder_steps, axis=0)):
            with net.inside(f"steps.{n}"):
                states = step(net, cells, row, states)
        return states

    def _decoded(self, net: Layers[V], states: list[State[V]]) -> V:
        cells = stack(net, self.decoder_layers, self.width)
        states = states[-self.decoder_layers :]
        outputs: list[V] = []
        for n in range(self.decoder_steps):
            with net.inside(f"steps.{n}"):
                states = step(net, cells, states[-1].h, states)
            outputs.append(states[-1].h)
        return net.concat(outputs, 0)


SMALL_SEQ2SEQ = Seq2Seq(3, 5, 2, 3, 16)


CEILING = 20.0  # of activations; section 3.1 of the paper


@dataclass(frozen=True, slots=True)
class DeepSpeech2:
    """Deep Speech 2: convolutions over a spectrogram, then LSTM layers, one output for each frame.

    Amodei et al. 2016, at Rammer's sizes (Ma et al. 2020, section 5.1): 300 frames of 171
    frequencies, 2 convolutions, 7 LSTM layers 256 wide in one direction, 29 letters. The LSTM
    layers are ONNX operators; frames are the first dim of their inputs and outputs. The fields are
    its sizes.
    """

    frames: int = 300
    frequencies: int = 171
    channels: int = 32
    kernels: tuple[tuple[int, int], tuple[int, int]] = ((41, 11), (21, 11))
    layers: int = 7
    width: int = 256
    letters: int = 29

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        x = net.input("spectrogram", ("batch", 1, self.frames, self.frequencies))
        x, frames, features = self._frames(net, x)
        for n in range(self.layers):
            x = net.lstm(f"layers.{n}", x, features, self.width, GAIN)
            features = self.width
        scores = net.linear("letters", x, features, self.letters)
        net.output("scores", scores, (frames, "batch", self.letters))

    def _frames(self, net: Layers[V], x: V) -> tuple[V, int, int]:
        """Return [batch, 1, frames, frequencies] → [frames / 4, batch, features], and both dims."""
        frames, frequencies, inputs = self.frames, self.frequencies, 1
        for n, (kernel, stride) in enumerate(zip(self.kernels, ((2, 2), (2, 1)))):
            x = conv_norm(
                net,
                f"convolutions.{n}",
                x,
                inputs,
                self.channels,
                kernel,
                stride,
                activation=lambda y: net.clip(y, 0, CEILING),
            )
            frames, frequencies = -(-frames // stride[0]), -(-frequencies // stride[1])
            inputs = self.channels
        features = frequencies * inputs
        return net.reshape(net.transpose(x, 2, 0, 1, 3), 0, 0, features), frames, features


SMALL_DEEPSPEECH2 = DeepSpeech2(20, 11, 4, ((5, 3), (3, 3)), 2, 16, 7)
