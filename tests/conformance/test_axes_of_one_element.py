"""Axes of one element, with borders and running sums along them, against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import explorer
from explorer.transforms.winograd import Options as ConvolutionOptions
from tests.test_wrong_graphs import answers, assert_same

node = helper.make_node


def agrees(
    path: Path,
    nodes: list[onnx.NodeProto],
    x: np.ndarray,
    constants: dict[str, np.ndarray],
    batch: int | str | None = None,
    options: explorer.Options = explorer.Options(),
) -> None:
    """Every step keeps the values, and they are onnxruntime's."""
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    shape = (x.shape[0] if batch is None else batch, *x.shape[1:])
    graph = helper.make_graph(
        nodes,
        "thin",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    compiled = explorer.compile(path, check=True, options=options)
    steps = {s.name: s.checked for s in compiled.snapshots[:-1]}
    assert {n: told for n, told in steps.items() if told is not True} == {}
    assert_same(compiled.run({"x": x})["y"], answers(path, {"x": x})["y"])


def values(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype(dtype)


@pytest.mark.few(1)
@pytest.mark.parametrize("algorithm", ["auto", "direct", "f2", "f4", "row3", "row4"])
@pytest.mark.parametrize("batch", [None, "n"])
def test_a_convolution_along_one_row_is_right_by_every_algorithm(
    tmp_path: Path, algorithm: str, batch: str | None
) -> None:
    nodes = [node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    taps = 5 if algorithm.startswith("row") else 3
    weights = {"w": values(16, 16, 3, taps) / 10}
    options = explorer.Options(convolution=ConvolutionOptions(algorithm))
    agrees(tmp_path / "m.onnx", nodes, values(1, 16, 1, 20), weights, batch, options)


@pytest.mark.parametrize(
    ("image", "weight", "attributes"),
    [
        ((1, 8, 1, 7), (8, 1, 3, 3), {"pads": [1] * 4, "group": 8}),
        ((1, 8, 1, 6, 6), (8, 8, 3, 3, 3), {"pads": [1] * 6}),
    ],
)
def test_a_convolution_along_a_thin_axis_is_right(
    tmp_path: Path, image: tuple[int, ...], weight: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    nodes = [node("Conv", ["x", "w"], ["y"], **attributes)]
    agrees(tmp_path / "m.onnx", nodes, values(*image), {"w": values(*weight) / 10})


def test_a_transposed_convolution_of_one_row_and_three_images_is_right(tmp_path: Path) -> None:
    nodes = [node("ConvTranspose", ["x", "w"], ["y"], strides=[3, 1], pads=[1, 0, 0, 0])]
    agrees(tmp_path / "m.onnx", nodes, values(3, 5, 1, 17), {"w": values(5, 3, 2, 4)})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_a_running_sum_of_copies_is_right(
    tmp_path: Path, dtype: str, axis: int, exclusive: int
) -> None:
    along = {"reverse": 1, "exclusive": exclusive}
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        node("Tile", ["t", "by"], ["a"]),
        node("CumSum", ["a", "axis"], ["y"], **along),
    ]
    constants = {"by": np.array([1, 1, 2, 1], np.int64), "axis": np.array(axis, np.int64)}
    agrees(tmp_path / "m.onnx", nodes, values(1, 1, 1, 9, dtype=dtype), constants)
