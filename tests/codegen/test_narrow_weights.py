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
