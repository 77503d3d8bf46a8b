"""What a loop without an iteration stacks: no rows, of the shape that is known or declared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.frontends.load import load
from explorer.ir.text.program_text import parse_program, print_program
from explorer.ops.interpreter.evaluate import evaluate
from explorer.relax import deduce

F, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
info, node = helper.make_tensor_value_info, helper.make_node
ROWS = {
    "state": [node("Identity", ["s"], ["row"])],  # which grows from trip to trip
    "reshaped": [node("Reshape", ["x", "shape"], ["row"])],
}


def loop(path: Path, row: str, declared: list[int | str] | None, kind: int = F) -> None:
    """rows[t] = row of a state that doubles in each of n trips."""
    body = helper.make_graph(
        [node("Identity", ["c"], ["c2"]), node("Concat", ["s", "s"], ["s2"], axis=0), *ROWS[row]],
        "body",
        [info("i", INT, []), info("c", BOOL, []), info("s", kind, None)],
        [info("c2", BOOL, []), info("s2", kind, None), info("row", kind, declared)],
    )
    graph = helper.make_graph(
        [node("Loop", ["n", "", "x"], ["y", "rows"], body=body)],
        "loop",
        [info("n", INT, []), info("x", kind, ["k", 8])],
        [helper.make_empty_tensor_value_info(n) for n in ("y", "rows")],
        [numpy_helper.from_array(np.array([1, 8], np.int64), "shape")],
    )
    opset = helper.make_opsetid("", 18)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), path)


@pytest.mark.parametrize("trips", [0, 1])
@pytest.mark.parametrize(
    ("row", "declared", "shape"),
    [
        ("state", [1, 8], (1, 8)),
        ("state", ["p", 8], (0, 8)),
        ("state", None, (0, 8)),
        ("reshaped", None, (1, 8)),
    ],
)
def test_rows_that_there_are_not_have_the_shape_that_is_known(
    tmp_path: Path,
    row: str,
    declared: list[int | str] | None,
    shape: tuple[int, ...],
    trips: int,
) -> None:
    path = tmp_path / "loop.onnx"
    loop(path, row, declared)
    feeds = {"n": np.array(trips, np.int64), "x": np.ones((1, 8), np.float32)}
    program = deduce(load(str(path)).program)
    assert parse_program(print_program(program), program.constants) == program
    found = evaluate(program, feeds)["rows"]
    assert found.shape == ((1, 1, 8) if trips else (0, *shape))
    if declared:
        session = onnxruntime.InferenceSession(str(path))
        assert session.run(["rows"], feeds)[0].shape == found.shape


@pytest.mark.parametrize("declared", [[1, 8], ["k", 8]])
def test_rows_that_there_are_not_are_of_the_declared_type_before_it_is_deduced(
    tmp_path: Path, declared: list[int | str]
) -> None:
    path = tmp_path / "loop.onnx"
    loop(path, "state", declared, TensorProto.DOUBLE)
    feeds = {"n": np.array(0, np.int64), "x": np.ones((1, 8))}
    found = evaluate(load(str(path)).program, feeds)["rows"]
    assert (found.shape, found.dtype) == ((0, 1, 8), np.float64)


def test_what_runs_stacks_the_same(tmp_path: Path) -> None:
    path = tmp_path / "loop.onnx"
    loop(path, "state", [1, 8])
    feeds = {"n": np.array(0, np.int64), "x": np.ones((1, 8), np.float32)}
    compiled = explorer.compile(path, check=True)
    assert [s.name for s in compiled.snapshots if isinstance(s.checked, str)] == []
    assert compiled.run(feeds)["rows"].shape == (0, 1, 8)
