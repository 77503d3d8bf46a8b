"""Calls of functions, the model's own and ONNX's, become the nodes of their bodies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from explorer.errors import BadModelFile, UnsupportedOperator
from explorer.frontends.load import load
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.relax import deduce, legalize
from tests.frontends.models import model, saved, value

OPSET = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
X = np.array([[1, -2, 3], [0.5, 4, -1]], np.float32)


def function(
    name: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    nodes: Sequence[onnx.NodeProto],
    attributes: Sequence[str] = (),
    defaults: Sequence[onnx.AttributeProto] = (),
    overload: str = "",
) -> onnx.FunctionProto:
    return helper.make_function(
        "own", name, inputs, outputs, nodes, OPSET, attributes, defaults, overload=overload
    )


def referring(node: onnx.NodeProto, attribute: str, to: str, kind: int) -> onnx.NodeProto:
    reference = node.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = attribute, to, kind
    return node


def scaled_leaky() -> onnx.FunctionProto:
    """LeakyRelu(x) * x, with a slope that the call gives."""
    leaky = referring(
        helper.make_node("LeakyRelu", ["x"], ["l"]), "alpha", "slope", onnx.AttributeProto.FLOAT
    )
    product = helper.make_node("Mul", ["l", "x"], ["y"])
    return function(
        "Scaled", ["x"], ["y"], [leaky, product], (), [helper.make_attribute("slope", 0.5)]
    )


def calling(functions: Sequence[onnx.FunctionProto], *nodes: onnx.NodeProto) -> onnx.ModelProto:
    made = model(list(nodes), [value("x", [2, 3])], ["y"], domains={"own": 1})
    made.functions.extend(functions)
    return made


def call(op: str, inputs: Sequence[str], outputs: Sequence[str], **more: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, name=f"call_{outputs[0]}", domain="own", **more)


def leaky(x: np.ndarray, slope: float) -> np.ndarray:
    return np.where(x < 0, x * np.float32(slope), x)


def test_a_call_puts_its_attributes_into_the_body(tmp_path: Path) -> None:
    first, second = call("Scaled", ["x"], ["h"]), call("Scaled", ["h"], ["y"], slope=0.25)
    program = load(saved(calling([scaled_leaky()], first, second), tmp_path)).program
    verify(program)
    h = leaky(X, 0.5) * X
    np.testing.assert_allclose(evaluate(program, {"x": X})["y"], leaky(h, 0.25) * h, rtol=1e-6)
    assert {"call_h/LeakyRelu_1", "call_y/Mul_5"} <= {s.name for s in program.sources}
    assert ("call_h", "replaced by its function's nodes") in program.dropped


def test_functions_call_functions_and_capture_in_subgraphs(tmp_path: Path) -> None:
    def branch(node: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph([node], node.op_type, [], [onnx.ValueInfoProto(name="r")])

    choose = helper.make_node(
        "If",
        ["c"],
        ["y"],
        then_branch=branch(helper.make_node("Mul", ["x", "s"], ["r"])),
        else_branch=branch(call("Scaled", ["x"], ["r"], slope=0.125)),
    )
    whole = helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0)
    zero = helper.make_node("Constant", [], ["z"], value_float=0.0)
    compare = helper.make_node("Greater", ["s", "z"], ["c"])
    outer = function("Choose", ["x"], ["y"], [whole, zero, compare, choose])
    made = calling([scaled_leaky(), outer], call("Choose", ["x"], ["y"]))
    program = legalize(deduce(load(saved(made, tmp_path)).program))
    verify(program)
    for x, right in ((X, X * X.sum()), (-X, leaky(-X, 0.125) * -X)):
        np.testing.assert_allclose(evaluate(program, {"x": x})["y"], right, rtol=1e-5)


def test_overloads_are_told_apart(tmp_path: Path) -> None:
    functions = [
        function("F", ["a"], ["b"], [helper.make_node(op, ["a"], ["b"])], overload=name)
        for name, op in (("one", "Abs"), ("two", "Neg"))
    ]
    node = call("F", ["x"], ["y"])
    node.overload = "two"
    program = load(saved(calling(functions, node), tmp_path)).program
    np.testing.assert_array_equal(evaluate(program, {"x": X})["y"], -X)


def test_an_input_left_out_is_left_out_in_the_body(tmp_path: Path) -> None:
    clip = function("C", ["a", "b", "c"], ["d"], [helper.make_node("Clip", ["a", "b", "c"], ["d"])])
    top = helper.make_node("Constant", [], ["top"], value_float=1.0)
    made = calling([clip], top, call("C", ["x", "", "top"], ["y"]))
    program = load(saved(made, tmp_path)).program
    np.testing.assert_array_equal(evaluate(program, {"x": X})["y"], np.minimum(X, 1))


def test_a_function_that_calls_itself_is_refused(tmp_path: Path) -> None:
    nodes = [call("G", ["a"], ["b"])]
    functions = [
        function("F", ["a"], ["b"], nodes),
        function("G", ["a"], ["b"], [call("F", ["a"], ["b"])]),
    ]
    with pytest.raises(BadModelFile, match="calls the function 'F' from itself"):
        load(saved(calling(functions, call("F", ["x"], ["y"])), tmp_path))


@pytest.mark.exhaustive
def test_calls_that_multiply_without_end_are_refused(tmp_path: Path) -> None:
    functions = [
        function(
            f"F{i}",
            ["a"],
            ["b"],
            [call(f"F{i + 1}", ["a"], [f"b{k}"]) for k in range(16)]
            + [helper.make_node("Identity", ["b0"], ["b"])],
        )
        for i in range(8)
    ]
    functions.append(function("F8", ["a"], ["b"], [helper.make_node("Abs", ["a"], ["b"])]))
    with pytest.raises(BadModelFile, match="calls functions of more than"):
        load(saved(calling(functions, call("F0", ["x"], ["y"])), tmp_path))


def test_a_domain_that_is_not_known_is_refused_by_name(tmp_path: Path) -> None:
    made = calling([], call("Nothing", ["x"], ["y"]))
    with pytest.raises(UnsupportedOperator, match="operator domain 'own'"):
        load(saved(made, tmp_path))


def test_an_operator_that_onnx_defines_by_others_needs_no_library_call(tmp_path: Path) -> None:
    node = helper.make_node("SoftmaxCrossEntropyLoss", ["x", "t"], ["y"], name="loss")
    target = value("t", ["n"], onnx.TensorProto.INT64)
    made = model([node], [value("x", ["n", 5]), target], ["y"])
    program = legalize(deduce(load(saved(made, tmp_path)).program))
    verify(program)
    assert not program.library_calls
    assert {o for b in program.main.body for o in b.origin} == {"loss"}
    x, t = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32), np.arange(7) % 5
    log = x - np.log(np.exp(x).sum(1, keepdims=True))
    right = -log[np.arange(7), t].mean()
    np.testing.assert_allclose(evaluate(program, {"x": x, "t": t})["y"], right, rtol=1e-5)
