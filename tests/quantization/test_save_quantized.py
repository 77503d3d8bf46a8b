"""Files of `ironworks quantize`, as onnxruntime reads them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer import cli
from tests.quantization.models import write_products


@pytest.mark.parametrize(
    "flags", [[], ["--bits", "8"], ["--zero-points"], ["--block", "column"], ["--nf4"]]
)
def test_the_file_has_the_answers_of_the_quantized_model(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "m.onnx", tmp_path / "low.onnx"
    write_products(source)
    x = np.random.default_rng(2).standard_normal((5, 40)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    command = ["quantize", str(source), "-o", str(target), "--inputs", str(tmp_path / "x.npz")]
    assert cli.main([*command, *flags, "--keep", "last", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [r["weight"] for r in data["layers"]] == ["first", "turned", "layer.weight", "last"]
    assert all(r["output_error"] > 0 for r in data["layers"][:3])
    proto = onnx.load(target)
    ops = [n.op_type for n in proto.graph.node]
    op, bias = ("MatMulBnb4", ["Add"]) if "--nf4" in flags else ("MatMulNBits", [])
    assert ops == [op, "Relu", op, "Tanh", op, *bias, "Gemm"]
    names = {t.name for t in proto.graph.initializer}
    assert "turned" not in names and "last" in names
    assert target.stat().st_size < source.stat().st_size / 2
    low = explorer.quantize(
        source,
        "nf4" if "--nf4" in flags else "int8" if "8" in flags else "int4",
        None if "column" in flags else 32,
        "last",
        symmetric="--zero-points" not in flags,
    )
    right = explorer.compile(low).run({"x": x})["y"]
    read = explorer.compile(target).run({"x": x})["y"]
    np.testing.assert_array_equal(read, right)
    (theirs,) = onnxruntime.InferenceSession(target).run(None, {"x": x})
    np.testing.assert_allclose(theirs, right, rtol=0, atol=1e-5 * np.abs(right).max())


def test_weights_of_constant_nodes_leave_the_file(tmp_path: Path) -> None:
    w = np.random.default_rng(3).standard_normal((48, 32)).astype(np.float32)
    nodes = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(w, "")),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 48])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 32])
    opsets = [helper.make_opsetid("", 21)]
    graph = helper.make_graph(nodes, "g", [x], [y])
    source, target = tmp_path / "m.onnx", tmp_path / "low.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), source)
    assert cli.main(["quantize", str(source), "-o", str(target), "--bits", "8"]) == 0
    assert [n.op_type for n in onnx.load(target).graph.node] == ["MatMulNBits"]
    a = np.random.default_rng(4).standard_normal((3, 48)).astype(np.float32)
    (theirs,) = onnxruntime.InferenceSession(target).run(None, {"x": a})
    np.testing.assert_allclose(theirs, a @ w, rtol=0, atol=0.02 * np.abs(a @ w).max())


def test_products_inside_of_a_branch_are_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    w = np.eye(32, dtype=np.float32)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    arms = [
        helper.make_graph([helper.make_node(op, inputs, ["y"])], op, [], [y])
        for op, inputs in (("MatMul", ["x", "w"]), ("Relu", ["x"]))
    ]
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=arms[0], else_branch=arms[1])]
    inputs = [
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 32]),
    ]
    graph = helper.make_graph(nodes, "g", inputs, [y], [numpy_helper.from_array(w, "w")])
    opsets = [helper.make_opsetid("", 21)]
    source, target = tmp_path / "m.onnx", tmp_path / "low.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), source)
    low = explorer.quantize(source)
    assert low.quantization is not None and low.quantization.layers[0].kind == "int4"
    assert cli.main(["quantize", str(source), "-o", str(target)]) == 2
    assert not target.exists()
    assert "1 of 1 products are inside of loops, branches or functions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["zoo:tiny_bert", "-o", "low.onnx"], "zoo:tiny_bert is no ONNX file"),
        (["m.onnx", "-o", "low.onnx", "--block", "few"], "--block takes a number or column"),
        (["m.onnx", "-o", "low.onnx", "--bits", "3"], "weights are quantized to int2, int4, int8"),
        (["m.onnx", "-o", "nowhere/low.onnx"], "nowhere/low.onnx cannot be written"),
        (["m.onnx", "-o", "low.onnx", "--keep", "frist"], "did you mean 'first'?"),
    ],
)
def test_mistakes_are_sentences(
    words: list[str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_products(tmp_path / "m.onnx")
    assert cli.main(["quantize", *words]) == 2
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "low.onnx").exists()
