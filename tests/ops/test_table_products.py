"""MatMulBnb4 against onnxruntime, the interpreter and plain NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer

import explorer
from explorer.errors import ShapeError
from explorer.ops.interpreter.evaluate import evaluate
from tests.ops.test_low_bit_products import loaded

KINDS = {"fp4": MatMulBnb4Quantizer.FP4, "nf4": MatMulBnb4Quantizer.NF4}
SIZES = {"K": 96, "N": 40, "block_size": 32}
FLOATS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}


def product(
    kind: str, sizes: dict[str, int], rows: Any, as_inputs: bool = False, dtype: str = "float32"
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one product with weights that onnxruntime quantized, and its inputs."""
    rng = np.random.default_rng(sizes["K"])
    weights = rng.standard_normal((sizes["K"], sizes["N"])).astype(np.float32)
    quantizer = MatMulBnb4Quantizer(onnx.ModelProto(), KINDS[kind], max(sizes["block_size"], 16))
    packed, scales = quantizer.bnb4_block_quant(weights)
    arrays = {"B": packed, "absmax": scales.astype(dtype)}
    node = helper.make_node(
        "MatMulBnb4", ["x", *arrays], ["y"], domain="com.microsoft", quant_type=KINDS[kind], **sizes
    )
    given = [helper.make_tensor_value_info("x", FLOATS[dtype], [rows, sizes["K"]])]
    if as_inputs:
        given += [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in arrays.items()
        ]
    constants = [] if as_inputs else [numpy_helper.from_array(a, n) for n, a in arrays.items()]
    out = [helper.make_tensor_value_info("y", FLOATS[dtype], [rows, sizes["N"]])]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", given, out, constants)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    count = rows if isinstance(rows, int) else 3
    x = rng.standard_normal((count, sizes["K"])).astype(dtype)
    return model, {"x": x, **(arrays if as_inputs else {})}


def answer_of_onnxruntime(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return np.asarray(session.run(None, feeds)[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("depth", "columns", "block", "rows"),
    [(96, 40, 32, 1), (96, 40, 16, 20), (128, 33, 128, 5), (50, 7, 16, 3), (33, 5, 64, 2)],
)
def test_products_are_those_of_onnxruntime(
    kind: str, depth: int, columns: int, block: int, rows: int, tmp_path: Path
) -> None:
    """Also where runs of a scale cross the rows of the weights."""
    model, feeds = product(kind, {"K": depth, "N": columns, "block_size": block}, rows)
    expected = answer_of_onnxruntime(model, feeds)
    ours = loaded(model, tmp_path)
    most = 1e-6 * abs(expected).max()
    assert abs(evaluate(ours.program, feeds)["y"] - expected).max() <= most
    assert abs(explorer.compile(ours).run(feeds)["y"] - expected).max() <= most


@pytest.mark.parametrize("kind", KINDS)
def test_all_codes_are_the_numbers_of_onnxruntime(kind: str, tmp_path: Path) -> None:
    sizes = {"K": 16, "N": 16, "block_size": 16}
    model, _ = product(kind, sizes, 16)
    codes = np.add.outer(np.arange(16), np.arange(16)) % 16
    packed = (codes[:, ::2] << 4 | codes[:, 1::2]).astype(np.uint8).reshape(-1)
    scales = np.linspace(0.5, 2, 16, dtype=np.float32)
    for tensor, array in zip(model.graph.initializer, (packed, scales), strict=True):
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    feeds = {"x": np.eye(16, dtype=np.float32)}
    answer = explorer.compile(loaded(model, tmp_path)).run(feeds)["y"]
    np.testing.assert_array_equal(answer, answer_of_onnxruntime(model, feeds))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_are_inputs_symbolic_rows_and_half_floats(kind: str, tmp_path: Path) -> None:
    for sizes in (SIZES, {"K": 50, "N": 7, "block_size": 16}):
        constant, _ = product(kind, sizes, 3)
        model, feeds = product(kind, sizes, "rows", as_inputs=True)
        expected = answer_of_onnxruntime(constant, {"x": feeds["x"]})
        answer = explorer.compile(loaded(model, tmp_path)).run(feeds)["y"]
        assert abs(answer - expected).max() <= 1e-6 * abs(expected).max()
        model, half = product(kind, sizes, 3, dtype="float16")
        answer = explorer.compile(loaded(model, tmp_path)).run({"x": half["x"]})["y"]
        assert abs(answer - expected).max() <= 4e-3 * abs(expected).max()


def test_constant_weights_stay_packed(tmp_path: Path) -> None:
    model, _ = product("nf4", {"K": 512, "N": 300, "block_size": 64}, 1)
    c = explorer.compile(loaded(model, tmp_path))
    assert max(v.nbytes for v in c.program.constants.values()) <= 512 * 300


@pytest.mark.parametrize(
    ("attrs", "problem"),
    [
        ({"quant_type": 2}, r"quant_type is 2, and 0 \(fp4\) or 1 \(nf4\) is needed"),
        ({"block_size": 24}, "block_size is 24, and a power of two from 16 on is needed"),
        ({"N": 7}, r"the weights have shape \[1920\], and \[336\] is needed"),
        ({"K": 0}, "K is 0 and N is 40; both are at least 1"),
        ({"transB": 0}, "transB is 0, and weights that are not transposed are not read"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_in_a_sentence(
    attrs: dict[str, int], problem: str, tmp_path: Path
) -> None:
    model, _ = product("nf4", SIZES, 1)
    node = model.graph.node[0]
    stated = {a.name: a.i for a in node.attribute} | attrs
    del node.attribute[:]
    node.attribute.extend(helper.make_attribute(n, v) for n, v in stated.items())
    with pytest.raises(ShapeError, match=problem) as refused:
        explorer.compile(loaded(model, tmp_path))
    assert "\n" not in refused.value.sentence
