"""Products with weights that are dequantized by blocks, against plain NumPy and the interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.ops.interpreter.evaluate import evaluate
from explorer.passes.arrangement import Options as Steps

KINDS = {
    "int8": (np.int8, -128, 127),
    "uint8": (np.uint8, 0, 255),
    "int4": (ml_dtypes.int4, -8, 7),
    "uint4": (ml_dtypes.uint4, 0, 15),
}


def model(
    rng: np.random.Generator, kind: str, depth: int, block: int, zeros: bool, axis: int = 0
) -> tuple[onnx.ModelProto, np.ndarray]:
    """A product, and its weights as numbers."""
    dtype, low, high = KINDS[kind]
    columns, blocks = int(rng.integers(1, 40)), -(-depth // block)
    q = rng.integers(low, high, (depth, columns), endpoint=True)
    scale = rng.uniform(0.01, 0.1, (blocks, columns)).astype(np.float32)
    zero = rng.integers(low, high, (blocks, columns), endpoint=True) if zeros else 0 * scale
    spread = [np.repeat(a, block, 0)[:depth] for a in (scale, zero)]
    arrays = {"q": q.astype(dtype), "scale": scale}
    if zeros:
        arrays["zero"] = zero.astype(dtype)
    node = helper.make_node(
        "DequantizeLinear", list(arrays), ["w"], "dequantize", axis=axis, block_size=block
    )
    product = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", depth])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", columns])
    weights = [numpy_helper.from_array(a, n) for n, a in arrays.items()]
    graph = helper.make_graph([node, product], "g", [x], [y], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return made, (q - spread[1]) * spread[0]


def compiled(proto: onnx.ModelProto, folder: Path) -> explorer.Compilation:
    onnx.save(proto, folder / "model.onnx")
    return explorer.compile(explorer.load(folder / "model.onnx"))


def operators(c: explorer.Compilation) -> list[str]:
    """Those after the step."""
    program: Any = c.snapshot("keep weights in blocks").after
    return [b.expr.op for _, b in program.bindings()]


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_product_reads_bytes_and_is_right(kind: str, zeros: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(len(kind) + zeros)
    for depth, block in ((64, 32), (37, 16), (16, 16), (200, 64)):
        proto, weights = model(rng, kind, depth, block, zeros, axis=int(rng.choice([0, -2])))
        c = compiled(proto, tmp_path)
        assert operators(c) == ["MatMulNBits"]
        assert {str(k.dtype) for k in (x.array for x in c.program.constants.values())} >= {"int8"}
        for rows in (1, 5):
            x = rng.standard_normal((rows, depth)).astype(np.float32)
            right = x.astype(np.float64) @ weights
            size = (np.abs(x).astype(np.float64) @ np.abs(weights)).max()
            for found in (c.run({"x": x})["y"], evaluate(c.model.program, {"x": x})["y"]):
                assert np.abs(found - right).max() <= 2e-6 * size


def test_other_forms_stay_as_they_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for kind, block, axis in (("int8", 8, 0), ("int8", 24, 0)):
        proto, weights = model(rng, kind, 48, block, False, axis)
        c = compiled(proto, tmp_path)
        x = rng.standard_normal((3, 48)).astype(np.float32)
        np.testing.assert_allclose(c.run({"x": x})["y"], x @ weights, rtol=1e-4, atol=1e-4)
        assert "MatMulNBits" not in operators(c)
    proto, _ = model(rng, "int8", 48, 16, False)
    w = helper.make_tensor_value_info("w", TensorProto.FLOAT, [48, None])
    proto.graph.output.append(w)  # the weights are an output, too
    c = compiled(proto, tmp_path)
    assert sorted(operators(c)) == ["DequantizeLinear", "MatMulNBits"]
    found = c.run({"x": x})
    np.testing.assert_allclose(found["y"], x @ found["w"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["w.codes", "w.scales", "w.zeros"])
def test_a_constant_of_the_models_own_is_not_taken_for_the_weights(
    name: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    proto, weights = model(rng, "uint8", 64, 32, True)
    own = rng.standard_normal((1, weights.shape[1])).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(own, name))
    for n, output in enumerate(("z", "y")):  # two products with one weight
        proto.graph.node.append(helper.make_node("MatMul", ["x", "w"], [f"p{n}"], f"product_{n}"))
        proto.graph.node.append(helper.make_node("Add", [f"p{n}", name], [output], f"sum_{n}"))
    del proto.graph.node[1]
    proto.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    c = compiled(proto, tmp_path)
    x = rng.standard_normal((3, 64)).astype(np.float32)
    for found in c.run({"x": x}).values():
        np.testing.assert_allclose(found, x @ weights + own, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("depth", "columns"), [(0, 8), (64, 0)])
def test_weights_without_elements_stay_as_they_are(
    depth: int, columns: int, tmp_path: Path
) -> None:
    blocks = depth // 32
    arrays = {"q": np.zeros((depth, columns), np.int8), "s": np.ones((blocks, columns), "f4")}
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, depth])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, columns])
    initializers = [numpy_helper.from_array(a, n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], initializers)
    opsets = [helper.make_opsetid("", 21)]
    c = compiled(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path)
    (found,) = c.run({"x": np.ones((3, depth), np.float32)}).values()
    np.testing.assert_array_equal(found, np.zeros((3, columns)))


def test_a_constant_named_like_kept_integers_is_not_taken_for_them(tmp_path: Path) -> None:
    """The scale along columns leaves the sum in `keep weights quantized`."""
    rng = np.random.default_rng(2)
    nodes, initializers = [], [numpy_helper.from_array(np.ones(8, np.float32), "w0.integers")]
    weights = []
    for n in range(2):
        q = rng.integers(-100, 100, (64, 8)).astype(np.int8)
        scale = rng.uniform(0.1, 1, 8).astype(np.float32)
        weights.append(q * scale)
        initializers += [numpy_helper.from_array(a, f"{k}{n}") for k, a in (("q", q), ("s", scale))]
        nodes += [
            helper.make_node("DequantizeLinear", [f"q{n}", f"s{n}"], [f"w{n}"], axis=1),
            helper.make_node("MatMul", ["x", f"w{n}"], [f"p{n}"]),
            helper.make_node("Add", [f"p{n}", "w0.integers"], [f"y{n}"]),
        ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 64])
    outputs = [helper.make_tensor_value_info(f"y{n}", TensorProto.FLOAT, [3, 8]) for n in range(2)]
    graph = helper.make_graph(nodes, "g", [x], outputs, initializers)
    opsets = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "m.onnx")
    off = explorer.Options(steps=Steps(off=("fold constants",)))
    c = explorer.compile(tmp_path / "m.onnx", options=off)
    given = rng.standard_normal((3, 64)).astype(np.float32)
    for found, w in zip(c.run({"x": given}).values(), weights, strict=True):
        np.testing.assert_allclose(found, given @ w + 1, rtol=1e-4, atol=1e-3)
    assert (
        sum(
            k.array.dtype == np.int8 and k.array.shape == (64, 8)
            for k in c.program.constants.values()
        )
        == 2
    )
