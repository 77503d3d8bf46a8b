"""Models unrolled over time, held against a recurrence that is written layer by layer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from explorer.frontends import zoo
from tests.conformance.answers import Oracle, agree

Array = np.ndarray
Layer = tuple[Array, Array, Array]


def weights_of(model: onnx.ModelProto) -> dict[str, Array]:
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def layers_of(weights: dict[str, Array], prefix: str = "") -> list[Layer]:
    count = sum(n.startswith(f"{prefix}layers.") and n.endswith(".bias") for n in weights)
    names = [f"{prefix}layers.{n}." for n in range(count)]
    return [(weights[n + "input"], weights[n + "state"], weights[n + "bias"]) for n in names]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def cell(layer: Layer, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """Gate after gate, in float64."""
    width = h.shape[-1]
    gates = [
        x @ layer[0][:, n : n + width] + h @ layer[1][:, n : n + width] + layer[2][n : n + width]
        for n in range(0, 4 * width, width)
    ]
    c = sigmoid(gates[1]) * c + sigmoid(gates[0]) * np.tanh(gates[2])
    return sigmoid(gates[3]) * np.tanh(c), c


def run_layer(layer: Layer, xs: Array) -> tuple[Array, Array, Array]:
    """All steps of a layer: what it answers, and its last state."""
    h = c = np.zeros(layer[1].shape[0])
    found = []
    for x in xs:
        h, c = cell(layer, x, h, c)
        found.append(h)
    return np.array(found), h, c


def near(found: Array, wanted: Array) -> None:
    np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max())


def rows_of(model: onnx.ModelProto, seed: int = 3) -> Array:
    dims = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


@pytest.mark.parametrize("name", ["small_lstm", "small_lstm_tc", "lstm"])
def test_lstm_layers_over_each_other(name: str) -> None:
    model = zoo.proto(name)
    weights, x = weights_of(model), rows_of(model)
    values = x.astype(np.float64)
    for layer in layers_of(weights):
        values, last, _ = run_layer(layer, values)
    if "classifier.weight" in weights:
        last = last @ weights["classifier.weight"] + weights["classifier.bias"]
    (found,) = zoo.reference(name, {"x": x}).values()
    near(found, last[None])


def test_a_decoder_goes_on_from_the_last_layers_and_feeds_itself() -> None:
    model = zoo.proto("small_seq2seq")
    weights, x = weights_of(model), rows_of(model)
    values, states = x.astype(np.float64), []
    for layer in layers_of(weights, "encoder."):
        values, h, c = run_layer(layer, values)
        states.append((h, c))
    decoder = layers_of(weights, "decoder.")
    states, wanted = states[-len(decoder) :], []
    y = states[-1][0]
    for _ in range(3):
        for n, layer in enumerate(decoder):
            states[n] = cell(layer, y, *states[n])
            y = states[n][0]
        wanted.append(y)
    near(zoo.reference("small_seq2seq", {"x": x})["answers"], np.array(wanted))


@pytest.mark.parametrize(
    ("name", "cells"), [("lstm", 8 * 8), ("lstm_tc", 10 * 100), ("seq2seq", 8 * 100 + 4 * 30)]
)
def test_cells_are_written_out_as_frozen_graphs_have_them(name: str, cells: int) -> None:
    source = zoo.entry(name).source
    assert isinstance(source, zoo.Built)
    found = Counter(n.op_type for n in source.graph(0)[0].graph.node)
    head = name == "lstm_tc"
    wanted = {"MatMul": 2, "Add": 3, "Split": 1, "Sigmoid": 3, "Tanh": 2, "Mul": 3}
    wanted = {op: count * cells for op, count in wanted.items()}
    wanted["Split"] += 1  # of the input
    wanted["MatMul"] += head
    wanted["Add"] += head
    assert found == wanted | ({"Concat": 1} if name == "seq2seq" else {})


@pytest.mark.parametrize("name", ["small_lstm", "small_lstm_tc", "small_seq2seq", "lstm"])
def test_operators_in_place_of_cells_give_the_same_answers(name: str, tmp_path: Path) -> None:
    feeds = {"x": rows_of(zoo.proto(name))}
    path = tmp_path / "layered.onnx"
    layered = zoo.proto(f"{zoo.LAYERED}{name}")
    assert {n.op_type for n in layered.graph.node} >= {"LSTM"}
    onnx.save(layered, path)
    wanted = zoo.reference(name, feeds)
    agree(zoo.reference(f"{zoo.LAYERED}{name}", feeds), wanted)
    agree(Oracle(path)(feeds), wanted)
