"""Termination of deduction: implied bounds, ranks that a file says, and extents that must agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from explorer.errors import IronworksError, ShapeError
from explorer.frontends.load import load
from explorer.ir.program import Program
from explorer.ops.interpreter.evaluate import evaluate
from explorer.relax import deduce, legalize

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def kernels_of(
    nodes: Sequence[Any], inputs: Sequence[Any], path: Path, **constants: Sequence[int]
) -> Program:
    """Return a graph of nodes as kernels."""
    values = [helper.make_tensor_value_info(*i) for i in inputs]
    known = [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in constants.items()]
    graph = helper.make_graph(nodes, "g", values, [onnx.ValueInfoProto(name="y")], known)
    opset = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return legalize(deduce(load(path).program))


@pytest.mark.timeout(60)
def test_a_bound_is_implied_of_a_count_that_only_a_run_knows(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["m"], ["places"]),
        helper.make_node("Squeeze", ["places", "zero"], ["i"]),
        helper.make_node("Gather", ["x", "i"], ["g"]),
        helper.make_node("Shape", ["i"], ["n"]),
        helper.make_node("Slice", ["s", "zero", "n"], ["t"]),
        helper.make_node("Add", ["g", "t"], ["y"]),
    ]
    inputs = [("x", FLOAT, [4]), ("m", BOOL, [4]), ("s", FLOAT, [3])]
    program = kernels_of(nodes, inputs, tmp_path / "m.onnx", zero=[0])
    given = {"x": np.arange(4, dtype=np.float32), "s": np.array([10, 20, 30], np.float32)}
    two = evaluate(program, {**given, "m": np.array([True, False, True, False])})
    assert two["y"].tolist() == [10, 22]
    with pytest.raises(IronworksError, match="3"):
        evaluate(program, {**given, "m": np.ones(4, bool)})


@pytest.mark.timeout(60)
@pytest.mark.parametrize("op", ["Reshape", "Expand", "Unsqueeze"])
def test_a_rank_that_no_tensor_has_is_refused_at_once(op: str, tmp_path: Path) -> None:
    node = helper.make_node(op, ["x", "s"], ["y"])
    with pytest.raises(ShapeError, match="4294967296 extents"):
        kernels_of([node], [("x", FLOAT, [2]), ("s", INT64, [1 << 32])], tmp_path / "m.onnx")


@pytest.mark.timeout(60)
def test_extents_of_a_loss_over_five_symbols_are_held_against_each_other(tmp_path: Path) -> None:
    node = helper.make_node("SoftmaxCrossEntropyLoss", ["x", "labels"], ["y"])
    inputs = [("x", FLOAT, ["n", "m", "k", "m"]), ("labels", INT64, ["k", "m", "seq"])]
    program = kernels_of([node], inputs, tmp_path / "m.onnx")
    x, labels = np.zeros((2, 2, 2, 2), np.float32), np.zeros((2, 2, 2), np.int64)
    found = evaluate(program, {"x": x, "labels": labels})["y"]
    np.testing.assert_allclose(found, np.log(2), rtol=1e-6)
