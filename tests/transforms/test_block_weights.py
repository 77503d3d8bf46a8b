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
    "int2": (ml_dtypes.int2, -2, 1),
    "uint2": (ml_dtypes.uint2, 0, 3),
}


FORMS = ("MatMul", "Transpose", "Gemm", "Gemm transB")


def model(
    rng: np.random.Generator,
    kind: str,
    depth: int,
    block: int,
    zeros: bool,
    axis: int = 0,
    form: str = "MatMul",
    **attrs: float,
) -> tuple[onnx.ModelProto, np.ndarray]:
    """A product, and its weights as numbers; Gemm adds a bias of ones."""
    dtype, low, high = KINDS[kind]
    columns, blocks = int(rng.integers(1, 40)), -(-depth // block)
    q = rng.integers(low, high, (depth, columns), endpoint=True)
    scale = rng.uniform(0.01, 0.1, (blocks, columns)).astype(np.float32)
    zero = rng.integers(low, high, (blocks, columns), endpoint=True) if zeros else 0 * scale
    spread = [np.repeat(a, block, 0)[:depth] for a in (scale, zero)]
    weights = (q - spread[1]) * spread[0]
    arrays = {"q": q.astype(dtype), "scale": scale}
    if zeros:
        arrays["zero"] = zero.astype(dtype)
    by_rows = form in ("Transpose", "Gemm transB")
    arrays = {n: a.T if by_rows else a for n, a in arrays.items()}
    nodes = [
        helper.make_node(
            "DequantizeLinear",
            list(arrays),
            ["w"],
            "dequantize",
            axis=axis + 1 if by_rows else axis,
            block_size=block,
        )
    ]
    if form == "Transpose":
        nodes.append(helper.make_node("Transpose", ["w"], ["turned"], "transpose", perm=[1, 0]))
    if form.startswith("Gemm"):
        arrays["bias"] = np.ones(columns, np.float32)
        attrs = {"transB": 1, **attrs} if by_rows else attrs
        nodes.append(helper.make_node("Gemm", ["x", "w", "bias"], ["y"], "product", **attrs))
    else:
        right = "turned" if by_rows else "w"
        nodes.append(helper.make_node("MatMul", ["x", right], ["y"], "product"))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", depth])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", columns])
    initializers = [numpy_helper.from_array(a, n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], initializers)
    opset = 25 if kind.endswith("int2") else 21
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return made, weights


def compiled(proto: onnx.ModelProto, folder: Path) -> explorer.Compilation:
    onnx.save(proto, folder / "model.onnx")
    return explorer.compile(explorer.load(folder / "model.onnx"))


def operators(c: explorer.Compilation) -> list[str]:
    """Those after the step."""
    program: Any = c.snapshot("keep weights in blocks").after
    return [b.expr.op for _, b in program.bindings()]


@pytest.mark.few(24)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_product_reads_the_bits_and_is_right(
    kind: str, zeros: bool, form: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(len(kind) + zeros + len(form))
    for depth, block in ((64, 32), (37, 16), (16, 16), (200, 64)):
        axis = int(rng.choice([0, -2]))
        proto, weights = model(rng, kind, depth, block, zeros, axis, form)
        c = compiled(proto, tmp_path)
        assert operators(c) == ["MatMulNBits"]
        for rows in (1, 5):
            x = rng.standard_normal((rows, depth)).astype(np.float32)
            right = x.astype(np.float64) @ weights + (1 if form.startswith("Gemm") else 0)
            size = (np.abs(x).astype(np.float64) @ np.abs(weights)).max()
            for found in (c.run({"x": x})["y"], evaluate(c.model.program, {"x": x})["y"]):
                assert np.abs(found - right).max() <= 2e-6 * size


def test_each_weight_has_its_bits(tmp_path: Path) -> None:
    for kind, bits in (("int2", 2), ("uint4", 4), ("int8", 8)):
        proto, weights = model(np.random.default_rng(0), kind, 64, 32, False)
        program = compiled(proto, tmp_path).snapshot("keep weights in blocks").after
        (codes,) = (c for n, c in program.constants.items() if n.endswith(".codes"))
        assert codes.array.nbytes == weights.size * bits // 8


@pytest.mark.parametrize("attrs", [{"alpha": 2.0}, {"beta": 0.5}])
def test_a_scaled_gemm_stays_as_it_is(attrs: dict[str, float], tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    proto, weights = model(rng, "int4", 64, 32, True, form="Gemm transB", **attrs)
    c = compiled(proto, tmp_path)
    assert "MatMulNBits" not in operators(c)
    x = rng.standard_normal((3, 64)).astype(np.float32)
    right = attrs.get("alpha", 1.0) * (x @ weights) + attrs.get("beta", 1.0)
    np.testing.assert_allclose(c.run({"x": x})["y"], right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("zeros", [False, True])
def test_weights_by_column_are_transposed_as_integers(
    zeros: bool, axis: int | None, tmp_path: Path
) -> None:
    rng = np.random.default_rng(6)
    extent = () if axis is None else (1024, 1000)[axis]
    q = rng.integers(-110, 110, (1024, 1000)).astype(np.int8)  # less a zero point they fit int8
    arrays = {"q": q, "s": rng.uniform(0.01, 0.1, extent).astype(np.float32)}
    if zeros:
        arrays["z"] = np.asarray(rng.integers(-9, 9, extent)).astype(np.int8)
    column = (slice(None), None) if axis == 0 else ()
    zero = arrays.get("z", np.zeros(extent, np.int8)).astype(np.float64)
    weights = (q - zero[column]) * arrays["s"][column]
    attrs = {} if axis is None else {"axis": axis}
    nodes = [
        helper.make_node("DequantizeLinear", list(arrays), ["w"], "dequantize", **attrs),
        helper.make_node("Transpose", ["w"], ["t"], "turn", perm=[1, 0]),
        helper.make_node("MatMul", ["x", "t"], ["y"], "product"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 1000])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 1024])
    tensors = [numpy_helper.from_array(a, n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    opsets = [helper.make_opsetid("", 21)]
    c = compiled(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path)
    assert operators(c) == ["DequantizeLinear", "MatMul"]
    stored = sum(k.array.nbytes for k in c.program.constants.values())
    is_whole_row = axis == 1  # its scale does not leave the sum
    assert stored < (5 if is_whole_row else 1.1) * q.size
    a = rng.standard_normal((3, 1000)).astype(np.float32)
    size = np.abs(a).astype(np.float64) @ np.abs(weights).T
    assert (np.abs(c.run({"x": a})["y"] - a.astype(np.float64) @ weights.T) <= 2e-6 * size).all()


def test_blocks_along_the_columns_stay_as_they_are(tmp_path: Path) -> None:
    """Their scale does not leave the sum: [K, N] with blocks of N, and Gemm without transB."""
    rng = np.random.default_rng(4)
    q = rng.integers(-8, 8, (24, 64)).astype(ml_dtypes.int4)
    scale = rng.uniform(0.01, 0.1, (24, 2)).astype(np.float32)
    weights = q.astype(np.float32) * np.repeat(scale, 32, 1)
    for op in ("MatMul", "Gemm"):
        nodes = [
            helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=1, block_size=32),
            helper.make_node(op, ["x", "w"], ["y"]),
        ]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 24])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 64])
        arrays = [numpy_helper.from_array(a, n) for n, a in (("q", q), ("s", scale))]
        graph = helper.make_graph(nodes, "g", [x], [y], arrays)
        opsets = [helper.make_opsetid("", 21)]
        c = compiled(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path)
        assert "MatMulNBits" not in operators(c)
        a = rng.standard_normal((3, 24)).astype(np.float32)
        np.testing.assert_allclose(c.run({"x": a})["y"], a @ weights, rtol=1e-4, atol=1e-4)


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
