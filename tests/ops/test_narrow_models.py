"""Whole models of narrow element types, validated after every pass and run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.ir.dtypes import numpy_dtype
from explorer.ops.interpreter.evaluate import evaluate

random = np.random.default_rng(11)


def block(dtype: str) -> onnx.ModelProto:
    """Normalisation, attention without heads, an activation, and eight-bit storage."""
    kind = numpy_dtype(dtype)
    code = helper.np_dtype_to_tensor_dtype(kind)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array((random.standard_normal(shape) / 4).astype(kind), name)

    constants = [weight("scale", 16), weight("w", 16, 48), weight("b", 48), weight("v", 16, 24)]
    constants += [
        numpy_helper.from_array(np.array([16, 16, 16]), "sizes"),
        numpy_helper.from_array(np.float32(0.02), "step"),
        numpy_helper.from_array(np.uint8(128), "zero"),
    ]
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale"], ["normal"]),
        helper.make_node("MatMul", ["normal", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["moved"]),
        helper.make_node("Split", ["moved", "sizes"], ["q", "k", "values"], axis=-1),
        helper.make_node("Transpose", ["k"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "turned"], ["weights"]),
        helper.make_node("Softmax", ["weights"], ["shares"]),
        helper.make_node("MatMul", ["shares", "values"], ["mixed"]),
        helper.make_node("Add", ["x", "mixed"], ["kept"]),
        helper.make_node("MatMul", ["kept", "v"], ["up"]),
        helper.make_node("Gelu", ["up"], ["y"]),
        helper.make_node("Cast", ["y"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("QuantizeLinear", ["real", "step", "zero"], ["codes"]),
        helper.make_node("DequantizeLinear", ["codes", "step", "zero"], ["back"]),
    ]
    given = helper.make_tensor_value_info("x", code, ["batch", "seq", 16])
    results = [onnx.ValueInfoProto(name=n) for n in ("y", "back")]
    graph = helper.make_graph(nodes, "block", [given], results, constants)
    opset = helper.make_opsetid("", 22)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("dtype", "gap"), [("float16", 4e-3), ("bfloat16", 3e-2)])
def test_a_block_on_narrow_floats_is_what_float32_makes_of_it(
    dtype: str, gap: float, tmp_path: Path
) -> None:
    onnx.save(block(dtype), tmp_path / "block.onnx")
    model = explorer.load(tmp_path / "block.onnx", bounds={"seq": (0, 64)})
    compiled = explorer.compile(model, check=True)
    assert not compiled.program.library_calls
    assert not [s.name for s in compiled.snapshots if isinstance(s.checked, str)]
    for batch, seq in ((1, 1), (2, 7), (3, 0)):
        x = random.standard_normal((batch, seq, 16)).astype(numpy_dtype(dtype))
        found = compiled.run({"x": x})
        right = evaluate(compiled.model.program, {"x": x})
        for name in ("y", "back"):
            assert found[name].dtype == right[name].dtype and found[name].shape == right[name].shape
            a, b = found[name].astype(np.float64), right[name].astype(np.float64)
            np.testing.assert_allclose(a, b, gap, gap)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8", "float8_e4m3fn", "float4_e2m1fn"])
@pytest.mark.parametrize("block_size", [0, 4, 5])
def test_weights_of_few_bits_are_unpacked_in_the_model(
    block_size: int, dtype: str, tmp_path: Path
) -> None:
    kind = numpy_dtype(dtype)
    codes = random.integers(0, 7, (16, 24)).astype(np.float32).astype(kind)
    rows = -(-16 // block_size) if block_size else 0
    shape = (rows, 24) if block_size else (24,)
    scale = random.uniform(0.1, 1, shape).astype(np.float32)
    attrs = {"axis": 0, "block_size": block_size} if block_size else {"axis": 1}
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "scale"], ["w"], **attrs),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    constants = [numpy_helper.from_array(codes, "codes"), numpy_helper.from_array(scale, "scale")]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 16])
    graph = helper.make_graph(nodes, "g", [given], [onnx.ValueInfoProto(name="y")], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)
    onnx.save(model, tmp_path / "m.onnx")
    compiled = explorer.compile(explorer.load(tmp_path / "m.onnx"), check=True)
    assert not [s.name for s in compiled.snapshots if isinstance(s.checked, str)]
    x = random.standard_normal((3, 16)).astype(np.float32)
    spread = scale.repeat(block_size, 0)[:16] if block_size else scale
    right = x @ (codes.astype(np.float32) * spread)
    np.testing.assert_allclose(compiled.run({"x": x})["y"], right, 1e-4, 1e-4)
