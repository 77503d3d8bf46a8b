"""Values that an operator's lowering adds never take the name of a value of the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer

OPSETS = [helper.make_opsetid("", 17)]


def _model(nodes: list[onnx.NodeProto], shapes: dict[str, list[int]]) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    graph = helper.make_graph(nodes, "g", infos[:-1], infos[-1:])
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=8)


LSTM = {"X": [3, 2, 4], "W": [1, 20, 4], "R": [1, 20, 5], "y": [3, 1, 2, 5]}
MODELS = {
    "a sum of many": _model(
        [helper.make_node("Sum", ["x"] * 70, ["y"])], {"x": [2, 3], "y": [2, 3]}
    ),
    "a recurrent layer": _model(
        [helper.make_node("LSTM", ["X", "W", "R"], ["y"], hidden_size=5)], LSTM
    ),
    "an unrolled one of two directions": _model(
        [helper.make_node("GRU", ["X", "W", "R"], ["y"], hidden_size=5, direction="bidirectional")],
        {"X": [3, 2, 4], "W": [2, 15, 4], "R": [2, 15, 5], "y": [3, 2, 2, 5]},
    ),
    "a top k": _model(
        [
            helper.make_node("Constant", [], ["k"], value_ints=[2]),
            helper.make_node("TopK", ["x", "k"], ["y", "places"]),
        ],
        {"x": [4, 7], "y": [4, 2]},
    ),
    "a grid sample": _model(
        [helper.make_node("GridSample", ["x", "grid"], ["y"], mode="bicubic")],
        {"x": [1, 2, 5, 5], "grid": [1, 3, 3, 2], "y": [1, 2, 3, 3]},
    ),
    "a DFT": _model(
        [helper.make_node("DFT", ["x"], ["y"], axis=1)], {"x": [1, 6, 2], "y": [1, 6, 2]}
    ),
}


def _names(model: explorer.Model) -> set[str]:
    """The names of the main function's values when all operators are lowered."""
    program = explorer.compile(model, until="legalized").program
    return {v.name for b in program.main.body for v in b.vars} | program.constants.keys()


@pytest.mark.parametrize("what", MODELS)
def test_a_value_named_as_an_added_one_keeps_its_value(what: str, tmp_path: Path) -> None:
    onnx.save(MODELS[what], tmp_path / "m.onnx")
    model = explorer.load(tmp_path / "m.onnx")
    c = explorer.compile(model)
    inputs = c.random_inputs()
    expected = c.run(inputs)["y"] - 3
    graph = MODELS[what].graph
    own = {n for node in graph.node for n in node.output}
    added = sorted(n for n in _names(model) - own if n.startswith("y."))[:6]
    for name in added:
        changed = onnx.ModelProto()
        changed.CopyFrom(MODELS[what])
        g = changed.graph
        g.input.append(helper.make_tensor_value_info("three", TensorProto.FLOAT, [1]))
        g.node.insert(0, helper.make_node("Neg", ["three"], [name]))
        g.node.append(helper.make_node("Add", ["y", name], ["out"]))
        g.output[0].name = "out"
        onnx.save(changed, tmp_path / "changed.onnx")
        got = explorer.compile(tmp_path / "changed.onnx").run(
            {**inputs, "three": np.full(1, 3, np.float32)}
        )["out"]
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5, err_msg=name)
