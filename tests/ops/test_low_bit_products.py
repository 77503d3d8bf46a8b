"""MatMulNBits against onnxruntime, the interpreter and plain NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.errors import ShapeError
from explorer.ops.interpreter.evaluate import evaluate
from tests.examples import examples

FLOATS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes along the last axis as bytes, the first in the lowest bits."""
    of_byte = 8 // bits
    codes = np.pad(codes, [*[(0, 0)] * (codes.ndim - 1), (0, -codes.shape[-1] % of_byte)])
    parts = codes.reshape(*codes.shape[:-1], -1, of_byte).astype(np.uint32)
    return (parts << np.arange(0, 8, bits, dtype=np.uint32)).sum(-1).astype(np.uint8)


class Drawn:
    """A random model of one product."""

    def __init__(self, seed: int, **given: Any) -> None:
        rng = np.random.default_rng(seed)
        self.bits = given.get("bits", int(rng.choice([2, 4, 4, 8])))
        self.block = given.get("block", int(rng.choice([16, 32, 64, 128])))
        self.depth = given.get("depth", int(rng.integers(1, 200)))
        self.columns = given.get("columns", int(rng.integers(1, 40)))
        self.dtype = given.get("dtype", "float32")
        zeros = given.get("zeros", str(rng.choice(["none", "packed", "float"])))
        self.rows = int(rng.choice([1, 2, 7, 130]))
        blocks, most = -(-self.depth // self.block), 1 << self.bits
        codes = rng.integers(0, most, (self.columns, blocks, self.block))
        self.scales = rng.uniform(0.01, 0.1, (self.columns, blocks)).astype(self.dtype)
        arrays = {"B": packed(codes, self.bits), "scales": self.scales}
        zero: Any = most // 2
        if zeros == "packed":
            points = rng.integers(0, most, (self.columns, blocks))
            arrays["zeros"], zero = packed(points, self.bits), points[..., None]
        elif zeros == "float":
            points = rng.uniform(0, most - 1, (self.columns, blocks)).astype(self.dtype)
            arrays["zeros"], zero = points, points.astype(np.float64)[..., None]
        if rng.random() < 0.5:  # older files have them flat
            arrays = {n: a if n == "B" else a.reshape(-1) for n, a in arrays.items()}
        weights = (codes - zero) * self.scales.astype(np.float64)[..., None]
        self.weights = weights.reshape(self.columns, -1)[:, : self.depth].T
        self.bias = rng.random() < 0.3
        if self.bias:
            arrays["bias"] = rng.standard_normal(self.columns).astype(self.dtype)
        self.arrays = arrays
        self.x = rng.standard_normal((self.rows, self.depth)).astype(self.dtype)

    def model(self, rows: Any = None, as_inputs: bool = False, **attrs: Any) -> onnx.ModelProto:
        names = ["x", "B", "scales", "zeros" if "zeros" in self.arrays else "", "", "bias"]
        names = names if self.bias else names[:4]
        stated = {"K": self.depth, "N": self.columns, "bits": self.bits, "block_size": self.block}
        node = helper.make_node(
            "MatMulNBits", names, ["y"], "product", domain="com.microsoft", **{**stated, **attrs}
        )
        kind = FLOATS[self.dtype]
        rows = self.rows if rows is None else rows
        given = [helper.make_tensor_value_info("x", kind, [rows, self.depth])]
        weights = [numpy_helper.from_array(a, n) for n, a in self.arrays.items()]
        if as_inputs:
            given += [
                helper.make_tensor_value_info(w.name, w.data_type, list(w.dims)) for w in weights
            ]
            weights = []
        out = [helper.make_tensor_value_info("y", kind, [rows, self.columns])]
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        graph = helper.make_graph([node], "g", given, out, weights)
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def right(self, x: np.ndarray) -> np.ndarray:
        y = x.astype(np.float64) @ self.weights
        return y + self.arrays["bias"].astype(np.float64) if self.bias else y

    def rounded(self, x: np.ndarray) -> np.ndarray:
        """Rows as an int8 and a scale of each block have them."""
        blocks = -(-self.depth // self.block)
        padded = np.zeros((len(x), blocks * self.block), np.float32)
        padded[:, : self.depth] = x
        rows = padded.reshape(len(x), blocks, self.block)
        scale = np.abs(rows).max(-1, keepdims=True) * np.float32(1 / 127)
        with np.errstate(divide="ignore"):
            step = np.where(scale > 0, np.float32(1) / scale, 0).astype(np.float32)
        codes = np.clip(np.rint(rows * step), -127, 127).astype(np.float64)
        return (codes * scale).reshape(len(x), -1)[:, : self.depth]

    def near(self, found: np.ndarray, right: np.ndarray) -> None:
        share = 2e-6 if self.dtype == "float32" else 4e-3
        size = np.abs(self.x.astype(np.float64)) @ np.abs(self.weights) + 1
        assert found.shape == right.shape and found.dtype == self.dtype
        assert (np.abs(found - right) <= share * size.max(initial=1)).all()


def loaded(model: onnx.ModelProto, folder: Path) -> explorer.Model:
    path = folder / "model.onnx"
    onnx.save(model, path)
    return explorer.load(path)


@pytest.mark.parametrize("seed", range(24))
def test_random_products_are_right(seed: int, tmp_path: Path) -> None:
    for n in range(max(1, examples(200) // 24)):
        drawn = Drawn(1000 * seed + n)
        model = loaded(drawn.model(), tmp_path)
        right, feeds = drawn.right(drawn.x), {"x": drawn.x}
        drawn.near(evaluate(model.program, feeds)["y"], right)
        drawn.near(explorer.compile(model).run(feeds)["y"], right)
        if drawn.bits == 2:  # onnxruntime has no kernel for them on every machine
            continue
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(drawn.model().SerializeToString(), options)
            answer = session.run(None, feeds)[0]
        except Exception:  # forms that it refuses, without a class of their own
            continue
        drawn.near(answer, right)


@pytest.mark.parametrize("seed", range(12))
def test_rows_are_rounded_at_accuracy_level_four_alone(seed: int, tmp_path: Path) -> None:
    for n in range(max(1, examples(96) // 12)):
        drawn = Drawn(5000 + 100 * seed + n)
        drawn.x[0] = 0.0
        model = loaded(drawn.model(accuracy_level=4), tmp_path)
        right, feeds = drawn.right(drawn.rounded(drawn.x)), {"x": drawn.x}
        drawn.near(evaluate(model.program, feeds)["y"], right)
        drawn.near(explorer.compile(model).run(feeds)["y"], right)


@pytest.mark.parametrize(("columns", "depth"), [(256, 512), (130, 352)])
def test_products_of_onnxruntime_with_rounded_rows(
    columns: int, depth: int, tmp_path: Path
) -> None:
    drawn = Drawn(7, bits=4, block=32, depth=depth, columns=columns, zeros="none")
    model = drawn.model(accuracy_level=4)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    answer = session.run(None, {"x": drawn.x})[0]
    found = explorer.compile(loaded(model, tmp_path)).run({"x": drawn.x})["y"]
    largest = np.abs(drawn.right(drawn.x)).max()
    assert np.abs(found - drawn.right(drawn.rounded(drawn.x))).max() <= 2e-6 * largest
    assert np.abs(found - answer).max() <= 0.02 * largest  # rounded rows of both


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_weights_that_are_inputs_are_decoded_in_each_run(bits: int, tmp_path: Path) -> None:
    for zeros in ("none", "packed", "float"):
        drawn = Drawn(bits, bits=bits, zeros=zeros, depth=37, columns=9, block=16)
        model = loaded(drawn.model(as_inputs=True), tmp_path)
        feeds = {"x": drawn.x, **drawn.arrays}
        drawn.near(explorer.compile(model).run(feeds)["y"], drawn.right(drawn.x))


def test_symbolic_rows_half_floats_nan_and_no_rows(tmp_path: Path) -> None:
    drawn = Drawn(3, bits=4, depth=40, columns=8, block=32)
    c = explorer.compile(loaded(drawn.model(rows="q"), tmp_path))
    for rows in (0, 1, 5):
        x = np.resize(drawn.x, (rows, drawn.depth))
        drawn.x = x
        drawn.near(c.run({"x": x})["y"], drawn.right(x))
    x = drawn.x.copy()
    x[1] = np.nan, *drawn.x[1, 1:]
    x[2, 3] = np.inf
    found = c.run({"x": x})["y"]
    assert np.isnan(found[1]).all() and not np.isfinite(found[2]).any()
    assert np.isfinite(found[0]).all()
    half = Drawn(4, bits=4, dtype="float16", depth=40, columns=8, block=32)
    found = explorer.compile(loaded(half.model(), tmp_path)).run({"x": half.x})["y"]
    half.near(found, half.right(half.x))


@pytest.mark.parametrize(
    ("attrs", "problem"),
    [
        ({"bits": 3}, "bits is 3, and 2, 4 or 8 is needed"),
        ({"block_size": 24}, "block_size is 24, and a power of two from 16 on is needed"),
        ({"N": 7}, "the weights have shape"),
        ({"K": 0}, "K is 0 and N is 8; both are at least 1"),
        ({"K": 50}, "inner is 40 on the left and 50 on the right"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_in_a_sentence(
    attrs: dict[str, int], problem: str, tmp_path: Path
) -> None:
    drawn = Drawn(5, bits=4, depth=40, columns=8, block=32)
    model = drawn.model(**attrs)
    with pytest.raises(ShapeError, match=problem) as refused:
        explorer.compile(loaded(model, tmp_path))
    assert "\n" not in refused.value.sentence
