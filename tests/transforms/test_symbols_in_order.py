"""No pass moves a binding above the match_cast that defines a symbol of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer
from explorer.ir.program import Program
from explorer.ir.symbols import are_defined, definitions, needed_by
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.transforms.copies.concat_in_place import write_concats_in_place
from explorer.transforms.copies.copies import fold_copies
from tests.transforms.programs import Shape, legalized

node = helper.make_node
INTEGERS: dict[str, int] = {"s": TensorProto.INT64}


def keeps_order(program: Program, after: Program, feeds: dict[str, np.ndarray]) -> None:
    verify(after)
    for function in after.functions:
        places = definitions(function.body)
        for n, binding in enumerate(function.body):
            assert are_defined(needed_by(binding), places, n), binding.vars[0].name
    for a, b in zip(
        evaluate(program, feeds).values(), evaluate(after, feeds).values(), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_view_of_dims_found_later_is_not_stored_by_the_kernel_before(tmp_path: Path) -> None:
    nodes = [
        node("Relu", ["x"], ["y"]),
        node("Transpose", ["y"], ["t"], perm=[1, 0]),
        node("Reshape", ["t", "s"], ["r"]),
        node("Reshape", ["r", "flat"], ["f"]),
    ]
    flat = {"flat": np.array([-1], np.int64)}
    inputs: dict[str, Shape] = {"x": ["n", 6], "s": [3]}
    program = legalized(tmp_path, nodes, inputs, ["r"], flat, INTEGERS)
    x = np.arange(24, dtype=np.float32).reshape(4, 6) - 9
    keeps_order(program, fold_copies(program), {"x": x, "s": np.array([2, -1, 3])})


@pytest.mark.parametrize("op", ["Transpose", "Slice"])
def test_a_copy_of_an_extent_found_later_is_not_stored_by_the_kernel_before(
    tmp_path: Path, op: str
) -> None:
    moved = {
        "Transpose": [node("Transpose", ["r"], ["z"], perm=[1, 0])],
        "Slice": [node("Slice", ["r", "zero", "s"], ["z"])],
    }[op]
    nodes = [node("Exp", ["x"], ["y"]), node("Reshape", ["y", "s"], ["r"]), *moved]
    zero = {"zero": np.array([0, 0], np.int64)}
    inputs: dict[str, Shape] = {"x": ["n", 6], "s": [2]}
    program = legalized(tmp_path, nodes, inputs, ["z"], zero, INTEGERS)
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
    keeps_order(program, fold_copies(program), {"x": x, "s": np.array([3, 8])})


def test_a_join_longer_than_is_known_when_its_parts_are_made_is_copied(tmp_path: Path) -> None:
    """The second part's extent is found after the first part is made."""
    nodes = [
        node("Exp", ["x"], ["a"]),
        node("Slice", ["x", "zero", "s"], ["c"]),
        node("Relu", ["c"], ["b"]),
        node("Concat", ["a", "b"], ["joined"], axis=0),
        node("Neg", ["joined"], ["y"]),
        node("Abs", ["a"], ["z"]),
        node("Abs", ["b"], ["w"]),
    ]
    inputs: dict[str, Shape] = {"x": [64, 128], "s": [1]}
    zero = {"zero": ints(0)}
    program = legalized(tmp_path, nodes, inputs, ["y", "z", "w"], zero, INTEGERS)
    x = np.linspace(-1, 1, 64 * 128, dtype=np.float32).reshape(64, 128)
    keeps_order(program, write_concats_in_place(program), {"x": x, "s": ints(17)})


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def chain(tmp_path: Path, nodes: Sequence[onnx.NodeProto], integers: int) -> Path:
    graph = helper.make_graph(
        list(nodes),
        "chain",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"]),
            helper.make_tensor_value_info("s", TensorProto.INT64, [integers]),
        ],
        [onnx.ValueInfoProto(name="y")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "chain.onnx")
    return tmp_path / "chain.onnx"


def test_every_step_of_the_pipeline_keeps_the_order(tmp_path: Path) -> None:
    """A sum of what is welded to it, beside a reshape to dims found between the two."""
    nodes = [
        node("Exp", ["x"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("Reshape", ["b", "s"], ["r"]),
        node("Softmax", ["r"], ["p"]),
        node("Transpose", ["p"], ["t"]),
        node("MatMul", ["r", "t"], ["y"]),
    ]
    path = chain(tmp_path, nodes, 2)
    compiled = explorer.compile(path, until="rolled")
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    feeds = {"x": x, "s": ints(2, 6)}
    first = compiled.snapshots[0].after
    for step in compiled.snapshots:
        keeps_order(first, step.after, feeds)
    right = evaluate(first, feeds)["y"]
    np.testing.assert_allclose(explorer.compile(path).run(feeds)["y"], right, rtol=1e-5)
