"""Scan becomes a loop whose body takes slices; onnxruntime says what is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import explorer
from explorer.errors import BadModelFile, UnsupportedOperator
from explorer.frontends.load import load
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from tests.frontends.models import model, saved, value
from tests.ops.one_operator import oracle


def scan(**attributes: Any) -> onnx.ModelProto:
    """state' = state + a * w, y = state' - b over slices a and b; w is captured."""
    nodes = [
        helper.make_node("Mul", ["a", "w"], ["p"]),
        helper.make_node("Add", ["state", "p"], ["next"]),
        helper.make_node("Sub", ["next", "b"], ["row"]),
    ]
    inputs = [value("state", [3]), value("a", [3]), value("b", [3])]
    body = helper.make_graph(nodes, "body", inputs, [value("next", [3]), value("row", [3])])
    node = helper.make_node(
        "Scan", ["s", "x", "z"], ["last", "rows"], name="scan", body=body, **attributes
    )
    return model(
        [node],
        [value("s", [3]), value("x", None), value("z", None)],
        ["last", "rows"],
        {"w": np.array([0.5, -1, 2], np.float32)},
    )


CASES: list[tuple[dict[str, Any], tuple[int, int], tuple[int, int]]] = [
    ({}, (4, 3), (4, 3)),
    ({"scan_input_directions": [1, 0]}, (4, 3), (4, 3)),
    ({"scan_input_axes": [1, -1], "scan_input_directions": [0, 1]}, (3, 5), (3, 5)),
    ({"scan_output_axes": [1], "scan_output_directions": [1]}, (4, 3), (4, 3)),
    ({"scan_output_axes": [-1]}, (4, 3), (4, 3)),
    ({"scan_output_directions": [1]}, (1, 3), (1, 3)),
]


@pytest.mark.parametrize(("attributes", "x", "z"), CASES, ids=[str(c[0]) for c in CASES])
def test_a_scan_slices_and_stacks_as_onnxruntime_does(
    attributes: dict[str, Any], x: tuple[int, int], z: tuple[int, int], tmp_path: Path
) -> None:
    made = scan(num_scan_inputs=2, **attributes)
    for at, shape in ((1, x), (2, z)):
        made.graph.input[at].CopyFrom(value(made.graph.input[at].name, list(shape)))
    random = np.random.default_rng(3)
    feeds = {n: random.standard_normal(s).astype(np.float32) for n, s in zip("sxz", ((3,), x, z))}
    right = oracle(made, feeds)
    imported = load(saved(made, tmp_path))
    verify(imported.program)
    found = evaluate(imported.program, feeds), explorer.compile(imported).run(feeds)
    for answers in found:
        for ours, wanted in zip(answers.values(), right, strict=True):
            np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)


def test_a_scan_whose_body_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadModelFile, match="holds Scan at 'scan' whose body does not fit"):
        load(saved(scan(num_scan_inputs=4), tmp_path))


def test_a_scan_that_stacks_nothing_may_say_so_with_an_empty_list(tmp_path: Path) -> None:
    """As PyTorch's exporter does: an attribute of no numbers is no number."""
    body = helper.make_graph(
        [helper.make_node("Add", ["state", "a"], ["next"])],
        "body",
        [value("state", [3]), value("a", [3])],
        [value("next", [3])],
    )
    node = helper.make_node("Scan", ["s", "x"], ["last"], name="scan", body=body, num_scan_inputs=1)
    for name in ("scan_output_axes", "scan_output_directions"):
        kind = onnx.AttributeProto.INTS
        node.attribute.append(helper.make_attribute(name, [], attr_type=kind))
    made = model([node], [value("s", [3]), value("x", [4, 3])], ["last"])
    random = np.random.default_rng(3)
    feeds = {n: random.standard_normal(s).astype(np.float32) for n, s in (("s", 3), ("x", (4, 3)))}
    found = evaluate(load(saved(made, tmp_path)).program, feeds)
    np.testing.assert_allclose(found["last"], oracle(made, feeds)[0], rtol=1e-5, atol=1e-6)


def of_a_batch(lengths: str = "", **attributes: Any) -> onnx.ModelProto:
    """Version 8: each example has a state of its own, and its slices lie in the second dim."""
    made = scan(num_scan_inputs=2, **attributes)
    made.opset_import[0].version = 8
    made.ir_version = 3
    made.graph.node[0].input.insert(0, lengths)
    for at in range(len(made.graph.initializer)):  # of version 3 every weight is an input too
        made.graph.input.append(value(made.graph.initializer[at].name, [3]))
    return made


@pytest.mark.parametrize("directions", [None, [0, 1]], ids=str)
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_a_scan_of_a_batch_is_one_of_each_example(
    batch: int, directions: Any, tmp_path: Path
) -> None:
    made = of_a_batch(**({"directions": directions} if directions else {}))
    random = np.random.default_rng(batch)
    shapes = {"s": (batch, 3), "x": (batch, 4, 3), "z": (batch, 4, 3)}
    for at, (name, shape) in enumerate(shapes.items()):
        made.graph.input[at].CopyFrom(value(name, list(shape)))
    feeds = {n: random.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    w = {"w": np.array([0.5, -1, 2], np.float32)}
    imported = load(saved(made, tmp_path))
    verify(imported.program)
    wanted = dict(zip(("last", "rows"), by_example(**feeds, **w, directions=directions)))
    for found in (evaluate(imported.program, feeds), explorer.compile(imported).run(feeds)):
        for name, right in wanted.items():
            np.testing.assert_allclose(found[name], right, rtol=1e-5, atol=1e-6)


def by_example(s: Any, x: Any, z: Any, w: Any, directions: Any) -> tuple[np.ndarray, np.ndarray]:
    """What it is, example by example."""
    last, rows = [], []
    for state, a, b in zip(s, x, z[:, ::-1] if directions else z, strict=True):
        states = state + np.cumsum(a * w, axis=0)
        last.append(states[-1])
        rows.append(states - b)
    return np.array(last), np.array(rows)


def test_examples_of_lengths_of_their_own_are_refused_by_name(tmp_path: Path) -> None:
    made = of_a_batch("lengths")
    made.graph.input.append(helper.make_tensor_value_info("lengths", onnx.TensorProto.INT64, [2]))
    with pytest.raises(UnsupportedOperator, match="gives each example of its batch a length"):
        load(saved(made, tmp_path))
