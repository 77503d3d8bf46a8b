"""Transposed convolutions as a few contractions, against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.ir.calls import KernelCall
from explorer.ir.tile_program import For, Panels, Reduce, Statement

CASES: tuple[tuple[int, int, int, int, dict[str, Any]], ...] = (
    (9, 16, 5, 3, {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    (9, 16, 5, 3, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    (8, 17, 7, 4, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    (5, 33, 4, 5, {"strides": [3, 2], "pads": [0, 2, 1, 1]}),
    (8, 16, 6, 3, {"strides": [2, 2], "dilations": [2, 1]}),
    (16, 32, 5, 3, {"strides": [2, 2], "group": 2}),
    (6, 12, 1, 2, {"strides": [2, 2]}),
)


def model(channels: int, outputs: int, size: int, taps: int, attrs: dict[str, Any]) -> Any:
    rng = np.random.default_rng(0)
    shape = (channels, outputs // attrs.get("group", 1), taps, taps)
    weight = rng.standard_normal(shape).astype(np.float32)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, channels, size, size])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attrs)
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def within(s: Statement) -> list[Statement]:
    match s:
        case For(_, body):
            return [x for inner in body for x in within(inner)]
    return [s]


@pytest.mark.few(2)
@pytest.mark.parametrize("case", CASES, ids=lambda c: " ".join(map(str, c)))
def test_every_phase_is_a_contraction_and_equals_onnxruntime(
    case: tuple[int, int, int, int, dict[str, Any]], tmp_path: Path
) -> None:
    proto = model(*case)
    onnx.save(proto, tmp_path / "m.onnx")
    x = np.random.default_rng(1).standard_normal((2, case[0], case[2], case[2]))
    values = {"x": x.astype(np.float32)}
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    (want,) = session.run(None, values)
    compiled = explorer.compile(tmp_path / "m.onnx")
    np.testing.assert_allclose(compiled.run(values)["y"], want, rtol=1e-4, atol=1e-4)
    program = compiled.snapshots[-1].after
    summed = [
        s
        for b in program.kernel_calls
        if isinstance(b.expr, KernelCall)
        for outer in compiled.codes[b.var.name].tile_program.body
        for s in within(outer)
        if isinstance(s, (Panels, Reduce))
    ]
    assert summed and all(isinstance(s, Panels) for s in summed)
