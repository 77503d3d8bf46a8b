"""Models of files whose weights are parameters of a traced function."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from onnx.numpy_helper import from_array

import explorer
from explorer.errors import UnsupportedOperator
from explorer.training import SGD, Pretrained, trainable

W = np.arange(12, dtype=np.float32).reshape(3, 4)


def pretrained(folder: Path, *nodes: onnx.NodeProto) -> Pretrained:
    """The nodes, of an input `c` and a weight `w`, as a file's model that gives `y`."""
    inputs = [make_tensor_value_info("c", TensorProto.FLOAT, [3])]
    outputs = [make_tensor_value_info("y", TensorProto.FLOAT, None)]
    constants = [from_array(W, "w"), from_array(np.int64(0), "zero"), from_array(np.int64(2), "n")]
    constants.append(from_array(np.array([0]), "first"))
    graph = make_graph(nodes, "g", inputs, outputs, constants)
    model = make_model(graph, opset_imports=[make_opsetid("", 20)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    return trainable(folder / "model.onnx", ["w"])


def test_rows_that_a_run_finds_hand_on_their_gradients(tmp_path: Path) -> None:
    model = pretrained(
        tmp_path,
        make_node("NonZero", ["c"], ["places"]),
        make_node("Squeeze", ["places", "first"], ["rows"]),
        make_node("Gather", ["w", "rows"], ["y"]),
    )
    c = np.array([1, 0, 2], np.float32)
    found = explorer.fit(lambda p, c: (model(p, c) ** 2).sum(), {"w": W}, [(c,)], SGD(0.5))
    np.testing.assert_array_equal(found.params["w"], W * (c == 0)[:, None])
    assert found.loss == (W[[0, 2]] ** 2).sum()


def test_a_result_of_which_no_dtype_is_known_is_refused(tmp_path: Path) -> None:
    model = pretrained(
        tmp_path,
        make_node("SplitToSequence", ["w", "n"], ["parts"], axis=1),
        make_node("SequenceAt", ["parts", "zero"], ["part"]),
        make_node("Mul", ["part", "part"], ["y"]),
    )
    with pytest.raises(UnsupportedOperator, match="after SplitToSequence"):
        explorer.fit(lambda p, c: model(p, c).sum(), {"w": W}, [np.zeros(3, np.float32)], SGD())
