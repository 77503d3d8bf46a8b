"""Row-wise chains and merged stores weld: norms as exporters write them, grouped convolutions,
flattened rows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from explorer.ir.program import Program
from explorer.roller.transform import Price
from explorer.transforms.copies.copies import fold_copies
from explorer.transforms.layout import ChooseLayout
from explorer.transforms.simplify.fold_batch_norm import fold_batch_norm
from explorer.welder import Weld
from tests.roller.test_policy import DEVICE
from tests.transforms.programs import keeps_values, kernels, legalized, weights

node = helper.make_node
WELD = Weld(DEVICE, Price(DEVICE))


def welded(program: Program) -> Program:
    return keeps_values(WELD, ChooseLayout()(fold_copies(fold_batch_norm(program))))


def mean_of_squares(x: str, y: str) -> list[onnx.NodeProto]:
    return [
        node("Mul", [x, x], [f"{y}_sq"]),
        node("ReduceMean", [f"{y}_sq"], [f"{y}_mean"], axes=[-1], keepdims=1),
        node("Add", [f"{y}_mean", "epsilon"], [f"{y}_add"]),
        node("Sqrt", [f"{y}_add"], [f"{y}_root"]),
    ]


EPSILON = {"epsilon": np.array(1e-5, np.float32)}


@pytest.mark.parametrize("rows", [(64, 16), ("batch", "seq")])
def test_a_root_mean_square_norm_is_one_kernel(tmp_path: Path, rows: tuple[int | str, ...]) -> None:
    nodes = [
        *mean_of_squares("x", "r"),
        node("Div", ["x", "r_root"], ["n"]),
        node("Mul", ["n", "w"], ["y"]),
    ]
    before = legalized(tmp_path, nodes, {"x": (*rows, 256)}, ["y"], {"w": weights(256)} | EPSILON)
    assert len(kernels(welded(before))) == 1


def test_a_layer_norm_in_nine_operators_is_one_kernel(tmp_path: Path) -> None:
    nodes = [
        node("ReduceMean", ["x"], ["mean"], axes=[-1], keepdims=1),
        node("Sub", ["x", "mean"], ["c"]),
        *mean_of_squares("c", "r"),
        node("Div", ["c", "r_root"], ["n"]),
        node("Mul", ["n", "w"], ["m"]),
        node("Add", ["m", "b"], ["y"]),
    ]
    constants = {"w": weights(256), "b": weights(256, seed=1)} | EPSILON
    before = legalized(tmp_path, nodes, {"x": (64, 16, 256)}, ["y"], constants)
    assert len(kernels(before)) > 6
    assert len(kernels(welded(before))) == 1


def test_a_grouped_convolution_takes_its_shuffle_and_relu(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w", "b"], ["a"], group=2),
        node("Relu", ["a"], ["r"]),
        node("Reshape", ["r", "five"], ["s"]),
        node("Transpose", ["s"], ["t"], perm=[0, 2, 1, 3, 4]),
        node("Reshape", ["t", "four"], ["u"]),
        node("MaxPool", ["u"], ["y"], kernel_shape=[3, 3]),
    ]
    constants = {
        "w": weights(32, 8, 1, 1), "b": weights(32),
        "five": np.array([1, 2, 16, 14, 14], np.int64),
        "four": np.array([1, 32, 14, 14], np.int64),
    }  # fmt: skip
    before = legalized(tmp_path, nodes, {"x": (1, 16, 14, 14)}, ["y"], constants)
    assert kernels(welded(before)) == ["transpose", "relu", "transpose"]  # the last one pools


def test_flattened_rows_take_their_activation(tmp_path: Path) -> None:
    nodes = [
        node("Reshape", ["x", "rows"], ["a"]),
        node("Gemm", ["a", "w", "b"], ["g"]),
        node("Shape", ["x"], ["s"], end=2),
        node("Concat", ["s", "last"], ["back"], axis=0),
        node("Reshape", ["g", "back"], ["v"]),
        node("Sigmoid", ["v"], ["m"]),
        node("Mul", ["v", "m"], ["p"]),
        node("Add", ["p", "x"], ["y"]),
    ]
    constants = {
        "rows": np.array([-1, 64], np.int64), "last": np.array([64], np.int64),
        "w": weights(64, 64), "b": weights(64),
    }  # fmt: skip
    before = legalized(tmp_path, nodes, {"x": ("batch", "seq", 64)}, ["y"], constants)
    assert len(kernels(welded(before))) == 1


def test_two_layers_of_a_perceptron_stay_two_kernels(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["x", "w1"], ["a"]),
        node("Relu", ["a"], ["r"]),
        node("MatMul", ["r", "w2"], ["y"]),
    ]
    constants = {"w1": weights(384, 1536), "w2": weights(1536, 384)}
    before = legalized(tmp_path, nodes, {"x": (128, 384)}, ["y"], constants)
    after = welded(before)
    assert len(kernels(after)) == 2
    graph = after.decisions.tile_graph
    assert graph is not None
    assert any("between two products" in s.refused for g in graph.groups for s in g.steps)


def test_two_convolutions_stay_two_kernels(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["r"]),
        node("Conv", ["r", "w2"], ["y"], pads=[1, 1, 1, 1]),
    ]
    constants = {"w1": weights(32, 16, 3, 3), "w2": weights(32, 32, 3, 3)}
    before = legalized(tmp_path, nodes, {"x": (1, 16, 28, 28)}, ["y"], constants)
    assert kernels(welded(before)) == [
        "transpose",
        "relu",
        "transpose",
    ]  # the last one stores as before


def test_attention_reads_repeated_heads_where_they_lie(tmp_path: Path) -> None:
    heads, kept = np.array([0, 0, 8, 32], np.int64), np.array([0, 0, 2, 32], np.int64)
    nodes = [
        node("Reshape", ["q0", "heads"], ["q1"]),
        node("Transpose", ["q1"], ["q"], perm=[0, 2, 1, 3]),
    ]
    for n in "kv":
        nodes += [
            node("Reshape", [f"{n}0", "kept"], [f"{n}1"]),
            node("Transpose", [f"{n}1"], [f"{n}2"], perm=[0, 2, 1, 3]),
            node("Unsqueeze", [f"{n}2", "two"], [f"{n}3"]),
            node("Expand", [f"{n}3", "repeat"], [f"{n}4"]),
            node("Reshape", [f"{n}4", "joined"], [n]),
        ]
    nodes += [
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["s"]),
        node("Mul", ["s", "scale"], ["t"]),
        node("Softmax", ["t"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["c0"]),
        node("Transpose", ["c0"], ["c1"], perm=[0, 2, 1, 3]),
        node("Reshape", ["c1", "flat"], ["y"]),
    ]
    constants = {
        "heads": heads, "kept": kept, "two": np.array([2], np.int64),
        "repeat": np.array([1, 2, 4, 256, 32], np.int64),
        "joined": np.array([1, 8, 256, 32], np.int64),
        "flat": np.array([0, 0, 256], np.int64), "scale": np.array(0.177, np.float32),
    }  # fmt: skip
    inputs = {"q0": (1, 256, 256), "k0": (1, 256, 64), "v0": (1, 256, 64)}
    before = legalized(tmp_path, nodes, inputs, ["y"], constants)
    after = welded(before)
    assert "expand" not in kernels(after) and len(kernels(after)) <= 2
    graph = after.decisions.tile_graph
    assert graph is not None
    assert ("contraction", "elementwise", "reduction") in {g.kinds[:3] for g in graph.groups}
