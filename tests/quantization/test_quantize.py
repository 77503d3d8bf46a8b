"""Quantized models against NumPy with the decoded weights, and the errors that they state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.errors import BadOption
from explorer.frontends.decoders.language_model import LanguageModel
from explorer.ir.program import Constant
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.low_bit_products import unpacked
from explorer.quantization.float8_matrix import float8_matrix
from explorer.quantization.nf4_matrix import nf4_matrix
from tests.frontends.decoders.tiny_models import LLAMA, write_folder
from tests.quantization.models import results, write_products

ALL = ("first", "turned", "layer.weight", "last")


def operators(model: explorer.Model) -> list[str]:
    return [b.expr.op for _, b in model.program.bindings()]


def decoded(model: explorer.Model, weight: str, bits: int, depth: int) -> np.ndarray:
    """A quantized weight as [inputs, outputs] in float32."""
    constants = {n: c.array for n, c in model.program.constants.items()}
    codes, scales = constants[f"{weight}.codes"], constants[f"{weight}.scales"]
    zeros = np.float32(1 << (bits - 1))
    if f"{weight}.zeros" in constants:
        points = unpacked(constants[f"{weight}.zeros"], bits)[:, : scales.shape[1], None]
        zeros = points.astype(np.float32)
    numbers = (unpacked(codes, bits).astype(np.float32) - zeros) * scales[..., None]
    return numbers.reshape(len(codes), -1)[:, :depth].T


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("block", [16, 32, None])
@pytest.mark.parametrize("kind", ["int2", "int4", "int8"])
def test_a_quantized_model_is_the_model_with_the_decoded_weights(
    kind: str, block: int | None, symmetric: bool, tmp_path: Path
) -> None:
    weights = write_products(tmp_path / "m.onnx")
    model = explorer.load(tmp_path / "m.onnx")
    x = np.random.default_rng(1).standard_normal((5, 40)).astype(np.float32)
    low = explorer.quantize(model, kind, block, symmetric=symmetric, inputs={"x": x})
    assert sorted(operators(low)) == ["MatMulNBits"] * 4 + ["Relu", "Tanh"]
    rounded = dict(weights)
    table, exact = low.quantization, results(weights, x)
    assert table is not None
    for layer in table.layers:
        w = weights[layer.weight]
        assert (layer.inputs, layer.outputs) == w.shape and layer.kind == kind
        rounded[layer.weight] = decoded(low, layer.weight, int(kind[3:]), w.shape[0])
        gap = w - rounded[layer.weight]
        error = np.linalg.norm(gap) / np.linalg.norm(w)
        assert layer.weight_error == pytest.approx(error, rel=1e-4)
        left = exact[layer.weight]
        error = np.linalg.norm(left @ gap) / np.linalg.norm(left @ w)
        assert layer.output_error == pytest.approx(error, rel=1e-3)
    right = results(rounded, x)["y"]
    for found in (evaluate(low.program, {"x": x})["y"], explorer.compile(low).run({"x": x})["y"]):
        np.testing.assert_allclose(found, right, rtol=0, atol=1e-5 * np.abs(right).max())
    assert np.abs(right - exact["y"]).max() > 1e-4, "the rounding is seen"


@pytest.mark.parametrize(("kind", "block"), [("nf4", 16), ("nf4", 64), ("fp8", None)])
def test_a_model_in_small_floats_is_the_model_with_the_decoded_weights(
    kind: str, block: int | None, tmp_path: Path
) -> None:
    """With biases, and with rows of weights that are no whole number of blocks."""
    weights = write_products(tmp_path / "m.onnx")
    x = np.random.default_rng(1).standard_normal((5, 40)).astype(np.float32)
    low = explorer.quantize(tmp_path / "m.onnx", kind, block, inputs={"x": x})
    op = "MatMulBnb4" if kind == "nf4" else "DequantizeLinear"
    assert operators(low).count(op) == 4 and "Gemm" not in operators(low)
    rounded, table = dict(weights), low.quantization
    assert table is not None
    for layer in table.layers:
        w = weights[layer.weight]
        matrix = float8_matrix(w.T) if block is None else nf4_matrix(w.T, block)
        rounded[layer.weight] = np.concatenate([rows for _, rows in matrix.values()]).T
        error = np.linalg.norm(w - rounded[layer.weight]) / np.linalg.norm(w)
        assert layer.weight_error == pytest.approx(error, rel=1e-4) and layer.kind == kind
    right = results(rounded, x)["y"]
    for found in (evaluate(low.program, {"x": x})["y"], explorer.compile(low).run({"x": x})["y"]):
        np.testing.assert_allclose(found, right, rtol=0, atol=1e-5 * np.abs(right).max())


def test_bytes_are_those_of_the_constants(tmp_path: Path) -> None:
    write_products(tmp_path / "m.onnx")
    model = explorer.load(tmp_path / "m.onnx")
    low = explorer.quantize(model, "int4", 16, "last")
    assert low.quantization is not None
    before, after = (
        {n: c.array.nbytes for n, c in m.program.constants.items()} for m in (model, low)
    )
    assert low.quantization.bytes_before == sum(before.values())
    assert low.quantization.bytes_after == sum(after.values())
    assert {"first", "turned", "layer.weight"} & after.keys() == set() and "last" in after
    for row in low.quantization.rows():
        name = row["weight"]
        own = [n for n in after if n == name or n.startswith(f"{name}.")]
        assert row["bytes_after"] == sum(after[n] for n in own)
        assert row["bytes_before"] == before[str(name)]
    text = str(low.quantization)
    first = "3 products in int4, 1 product in float32: "
    assert text.startswith(first) and "last" in text
    assert first in str(low) and low.digest != model.digest
    assert "x: float32[rows, 40]" in str(low)


@pytest.mark.parametrize(
    ("keep", "low"),
    [
        ("first", {"turned", "layer.weight", "last"}),
        (("layer",), {"first", "turned", "last"}),  # up to a dot
        (("two", "y"), {"first", "layer.weight"}),  # an operator, a result
        (("l*",), {"first", "turned"}),
        (ALL, set()),
    ],
)
def test_names_that_are_kept_stay_in_float32(
    keep: str | tuple[str, ...], low: set[str], tmp_path: Path
) -> None:
    weights = write_products(tmp_path / "m.onnx")
    x = np.ones((2, 40), np.float32)
    model = explorer.quantize(tmp_path / "m.onnx", "int8", keep=keep, inputs=[{"x": x}, {"x": -x}])
    assert model.quantization is not None
    assert {r.weight for r in model.quantization.layers if r.kind == "int8"} == low
    exact = [r for r in model.quantization.layers if r.weight not in low]
    assert {(r.kind, r.block, r.symmetric, r.weight_error, r.output_error) for r in exact} <= {
        ("float32", None, None, 0.0, 0.0)
    }
    if not low:
        np.testing.assert_allclose(
            explorer.compile(model).run({"x": x})["y"],
            results(weights, x)["y"],
            rtol=1e-4,
            atol=1e-4,
        )


def test_layers_get_different_bits_one_after_the_other(tmp_path: Path) -> None:
    write_products(tmp_path / "m.onnx")
    x = {"x": np.random.default_rng(1).standard_normal((5, 40)).astype(np.float32)}
    half = explorer.quantize(tmp_path / "m.onnx", "int4", 16, ("turned", "last"), inputs=x)
    low = explorer.quantize(half, "int8", None, "last", symmetric=False, inputs=x)
    assert half.quantization is not None and low.quantization is not None
    rows = low.quantization.layers
    assert [(r.weight, r.kind, r.block, r.symmetric) for r in rows] == [
        ("first", "int4", 16, True),
        ("turned", "int8", 64, False),
        ("layer.weight", "int4", 16, True),
        ("last", "float32", None, None),
    ]
    assert rows[0] == half.quantization.layers[0]
    assert low.quantization.bytes_before == half.quantization.bytes_before
    assert low.quantization.bytes_after == sum(
        c.array.nbytes for c in low.program.constants.values()
    )
    found, before = (explorer.compile(m).run(x)["y"] for m in (low, half))
    assert 0 < np.linalg.norm(found - before) < 0.01 * np.linalg.norm(before)


def test_a_name_of_no_product_is_refused_in_a_sentence(tmp_path: Path) -> None:
    write_products(tmp_path / "m.onnx")
    with pytest.raises(BadOption) as refused:
        explorer.quantize(tmp_path / "m.onnx", keep=("first", "turnd"))
    assert refused.value.sentence == (
        "keep names 'turnd', which is no product of m with a constant matrix; "
        "did you mean 'turned'?"
    )


def test_what_cannot_be_quantized_is_refused_in_a_sentence(tmp_path: Path) -> None:
    write_products(tmp_path / "m.onnx")
    model = explorer.load(tmp_path / "m.onnx")
    constants = dict(model.program.constants)
    array = constants["turned"].array.copy()
    array[3, 3] = np.inf
    constants["turned"] = Constant(array)
    from dataclasses import replace

    bad = replace(model, program=replace(model.program, constants=constants))
    with pytest.raises(BadOption, match="the weight turned is not finite"):
        explorer.quantize(bad)
    assert explorer.quantize(bad, keep="turned").quantization is not None
    low = explorer.quantize(model)
    with pytest.raises(BadOption, match="m has no product with a constant float32 matrix"):
        explorer.quantize(low)


@pytest.mark.parametrize("attrs", [{"alpha": 0.5}, {"beta": 2.0}])
def test_a_scaled_gemm_stays_as_it_is(attrs: dict[str, float], tmp_path: Path) -> None:
    write_products(tmp_path / "m.onnx", **attrs)
    low = explorer.quantize(tmp_path / "m.onnx")
    assert operators(low).count("Gemm") == 1 and operators(low).count("MatMulNBits") == 3
    assert low.quantization is not None and len(low.quantization.layers) == 3


def test_products_of_python_in_a_loop_are_quantized_too() -> None:
    rng = np.random.default_rng(5)
    w = rng.normal(0, 0.15, (32, 32)).astype(np.float32)

    @explorer.trace
    def steps(x: explorer.tensor("float32", 3, 32)):  # type: ignore[valid-type]
        for _ in range(4):
            x = explorer.np.tanh(x @ w)
        n = 0
        while n < 3:
            x = x @ w.T
            n = n + 1
        return x

    x = rng.standard_normal((3, 32)).astype(np.float32)
    low = explorer.quantize(steps, "int8", inputs={"x": x})
    assert low.quantization is not None and "MatMul" not in operators(low)
    right = x.astype(np.float64)
    for n in range(7):
        right = np.tanh(right @ w) if n < 4 else right @ w.T
    (found,) = explorer.compile(low).run({"x": x}).values()
    assert np.linalg.norm(found - right) <= 0.03 * np.linalg.norm(right)


def scores(model: explorer.Model, ids: np.ndarray) -> np.ndarray:
    assert isinstance(model, LanguageModel) and model.config is not None
    batch, n = ids.shape
    cache = np.zeros((batch, model.config.groups, n, model.config.each), np.float32)
    feeds = {"ids": ids, "at": np.zeros(batch, np.int64), **dict.fromkeys(model.caches, cache)}
    return evaluate(model.program, feeds)["scores"]


@pytest.mark.parametrize("tied", [False, True])
def test_a_language_model_stays_one_and_keeps_its_head(tied: bool, tmp_path: Path) -> None:
    model = explorer.load(write_folder(tmp_path / "m", {**LLAMA, "tie_word_embeddings": tied}))
    head = "model.embed_tokens" if tied else "lm_head"
    ids = np.array([[5, 9, 22, 7], [3, 1, 4, 1]])
    low = explorer.quantize(model, "int8", block=32, keep=(head,), inputs={"ids": ids})
    assert isinstance(low, LanguageModel) and low.quantization is not None
    *layers, last = low.quantization.layers
    assert (last.weight, last.kind) == (f"{head}.weight", "float32")
    assert len(layers) == 14 and {r.kind for r in layers} == {"int8"}
    assert layers[0].weight == "model.layers.0.self_attn.q_proj.weight"
    assert all(0 < (r.output_error or 0) < 0.01 for r in layers)
    constants = dict(model.program.constants)
    for r in layers:
        rounded = decoded(low, r.weight, 8, r.inputs).T
        constants[r.weight] = Constant(np.ascontiguousarray(rounded))
    from dataclasses import replace

    reference = replace(model, program=replace(model.program, constants=constants))
    right = scores(reference, ids)
    np.testing.assert_allclose(scores(low, ids), right, rtol=0, atol=1e-5 * np.abs(right).max())
    c = explorer.compile(low, donate=low.caches)
    answer = explorer.generate(c, [5, 9, 22, 7], tokens=1).ids
    assert answer == (int(right[0].argmax()),)


def test_a_tied_embedding_is_still_looked_up_in_float32(tmp_path: Path) -> None:
    model = explorer.load(write_folder(tmp_path / "m", {**LLAMA, "tie_word_embeddings": True}))
    low = explorer.quantize(model, "int4")
    assert "model.embed_tokens.weight" in low.program.constants
    assert "model.embed_tokens.weight.codes" in low.program.constants
    assert low.quantization is not None
    held = sum(c.array.nbytes for c in low.program.constants.values())
    assert low.quantization.bytes_after == held
