"""Register tiles for sums that step through an image of symbolic width."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import explorer
from explorer.ir.kernel import reads
from explorer.ir.program import Program
from explorer.ir.tile_program import Panels
from explorer.ir.tile_traversal import statements
from tests.frontends.models import model, saved, value

node = helper.make_node
rng = np.random.default_rng(0)
FILTERS = rng.standard_normal((8, 3, 3, 3)).astype(np.float32)
WEIGHTS = rng.standard_normal((24, 16)).astype(np.float32)


def convolution(**attributes: Any) -> Any:
    """A model of one convolution over an image of any size."""
    nodes = [node("Conv", ["x", "w"], ["y"], **attributes)]
    return model(nodes, [value("x", ["q", 3, "r", "s"])], ["y"], {"w": FILTERS})


def turned() -> Any:
    """A model of a product whose left operand is turned."""
    nodes = [node("Transpose", ["x"], ["t"], perm=[1, 0]), node("MatMul", ["t", "w"], ["y"])]
    return model(nodes, [value("x", [24, "r"])], ["y"], {"w": WEIGHTS})


CASES = {
    "valid": (convolution(), (2, 3, 9, 40)),
    "strided": (convolution(strides=[2, 1]), (1, 3, 17, 33)),
    "dilated": (convolution(dilations=[2, 3]), (1, 3, 20, 20)),
    "smallest": (convolution(), (1, 3, 3, 3)),
    "turned": (turned(), (24, 50)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_sum_with_symbolic_steps_has_register_tiles(case: str, tmp_path: Path) -> None:
    made, shape = CASES[case]
    path = saved(made, tmp_path)
    c = explorer.compile(path)
    x = rng.standard_normal(shape).astype(np.float32)
    (wanted,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    np.testing.assert_allclose(c.run(x)["y"], wanted, rtol=1e-4, atol=1e-4)
    found = [s for code in c.codes.values() for s in statements(code.tile_program.body)]
    assert any(isinstance(s, Panels) for s in found)


def test_an_operand_with_steps_that_are_numbers_is_not_copied(tmp_path: Path) -> None:
    made = convolution(pads=[1, 1, 1, 1])
    made.graph.input[0].type.tensor_type.shape.dim[3].dim_value = 20
    made.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 20
    del made.graph.node[0].attribute[:]
    assert _fills(explorer.compile(saved(made, tmp_path), until="planned").program) == {None}


def _fills(program: Program) -> set[float | None]:
    kernels = [b.kernel_call.kernel for b in program.kernel_calls]
    return {r.fill for k in kernels for c in k.computes for r in reads(c.expr)}


@pytest.mark.parametrize("kind", [np.float16, np.float64, np.uint8])
def test_operands_of_other_types_are_copied_too(kind: Any, tmp_path: Path) -> None:
    whole = kind is np.uint8
    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    weights = {"w": (rng.integers(0, 5, FILTERS.shape) if whole else FILTERS).astype(kind)}
    nodes = [node("ConvInteger" if whole else "Conv", ["x", "w"], ["y"])]
    inputs = [value("x", ["q", 3, "r", "s"], dtype)]
    path = saved(model(nodes, inputs, ["y"], weights), tmp_path)
    x = rng.integers(0, 9, (1, 3, 12, 17)).astype(kind)
    c = explorer.compile(path)
    wanted = explorer.evaluate(c.model.program, {"x": x})["y"]
    tolerance = 1e-2 if kind is np.float16 else 1e-9
    np.testing.assert_allclose(c.run(x)["y"], wanted, rtol=tolerance, atol=tolerance)
