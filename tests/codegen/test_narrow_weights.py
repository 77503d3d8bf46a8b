"""Products with weights of half precision: they stay narrow in memory, and sums are float32."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import explorer

DTYPES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [1, 15])
def test_half_weights_are_packed_as_they_are(
    dtype: np.dtype[np.generic], rows: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(dtype) for s in ((rows, 37), (37, 41)))
    x[0, 0] = np.inf
    code = helper.np_dtype_to_tensor_dtype(dtype)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", code, x.shape)],
        [helper.make_tensor_value_info("y", code, [rows, 41])],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    compiled = explorer.compile(tmp_path / "m.onnx")
    got = compiled.run({"x": x})["y"]
    want = (x.astype(np.float32) @ w.astype(np.float32)).astype(dtype)
    assert got.dtype == dtype
    close = 2e-3 if dtype == np.float16 else 1e-2
    np.testing.assert_allclose(
        got.astype(np.float32), want.astype(np.float32), rtol=close, atol=close
    )
    packed = [q for c in compiled.codes.values() for q in c.tile_program.packings]
    assert [q.dtype for q in packed] == [str(dtype)]


def _product(w: np.ndarray, rows: int | str, gemm: bool) -> onnx.ModelProto:
    """A float32 product with constant weights; Gemm has them transposed, and a bias."""
    depth, columns = w.shape
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    constants = [numpy_helper.from_array(w.T.copy() if gemm else w, "w")]
    if gemm:
        node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1, alpha=0.5)
        constants.append(numpy_helper.from_array(np.ones(columns, np.float32), "b"))
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, [rows, depth])],
        [helper.make_tensor_value_info("y", 1, [rows, columns])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _packed(compiled: explorer.Compilation) -> list[str]:
    return [q.dtype for c in compiled.codes.values() for q in c.tile_program.packings]


@pytest.mark.parametrize("gemm", [False, True], ids=["matmul", "gemm"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [0, 1, 5, 31, 32, "n"])
def test_large_weights_of_16_bits_stay_so_for_few_rows(
    dtype: np.dtype[np.generic],
    rows: int | str,
    gemm: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("explorer.ops.products.LARGE_BYTES", 4)
    rng = np.random.default_rng(1)
    w = rng.standard_normal((37, 41)).astype(dtype).astype(np.float32)
    w[3, 4], w[5, 6], w[7, 8] = np.array(1, np.uint16).view(dtype), np.inf, np.nan
    onnx.save(_product(w, rows, gemm), tmp_path / "m.onnx")
    compiled = explorer.compile(explorer.load(tmp_path / "m.onnx", bounds={"n": (0, 16)}
                                              if rows == "n" else None))  # fmt: skip
    for count in (0, 1, 7) if rows == "n" else (int(rows),):
        x = rng.standard_normal((count, 37)).astype(np.float32)
        want = 0.5 * (x @ w) + 1 if gemm else x @ w
        np.testing.assert_allclose(compiled.run({"x": x})["y"], want, rtol=1e-5, atol=1e-5)
    few = rows in (1, 5, 31, "n")
    assert rows == 0 or _packed(compiled) == [str(dtype) if few else "float32"]


def test_weights_with_a_number_that_no_16_bits_have_stay_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("explorer.ops.products.LARGE_BYTES", 4)
    w = np.ones((130, 64), np.float32)
    w[-1, -1] = 1 + 2.0**-20  # past the elements that are looked at first
    onnx.save(_product(w, 1, gemm=False), tmp_path / "m.onnx")
    compiled = explorer.compile(tmp_path / "m.onnx")
    assert _packed(compiled) == ["float32"]
    np.testing.assert_array_equal(
        compiled.run({"x": np.eye(1, 130, 129, dtype=np.float32)})["y"], w[-1:]
    )


def test_small_weights_stay_float32(tmp_path: Path) -> None:
    onnx.save(_product(np.ones((37, 41), np.float32), 1, gemm=False), tmp_path / "m.onnx")
    assert _packed(explorer.compile(tmp_path / "m.onnx")) == ["float32"]


def test_weights_beyond_float16_are_no_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr("explorer.ops.products.LARGE_BYTES", 4)
    w = np.full((37, 41), 2.0**20, np.float32)  # a bfloat16, and no float16
    model = _product(w, 1, gemm=False)
    onnx.save(model, tmp_path / "m.onnx")
    compiled = explorer.compile(tmp_path / "m.onnx")
    assert _packed(compiled) == ["bfloat16"]
    assert not [r for r in recwarn if issubclass(r.category, RuntimeWarning)]
    got = compiled.run({"x": np.ones((1, 37), np.float32)})["y"]
    np.testing.assert_array_equal(got, np.full((1, 41), 37 * 2.0**20, np.float32))


def test_a_constant_of_the_model_is_not_taken_for_the_narrow_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("explorer.ops.products.LARGE_BYTES", 4)
    model = _product(np.ones((8, 8), np.float32), 1, gemm=False)
    model.graph.node.append(helper.make_node("Add", ["y", "y.narrow"], ["z"]))
    model.graph.initializer.append(
        numpy_helper.from_array(np.full((1, 8), 5, np.float32), "y.narrow")
    )
    model.graph.output[0].name = "z"
    onnx.save(model, tmp_path / "m.onnx")
    got = explorer.compile(tmp_path / "m.onnx").run({"x": np.ones((1, 8), np.float32)})["z"]
    np.testing.assert_array_equal(got, np.full((1, 8), 13, np.float32))
