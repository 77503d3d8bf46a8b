"""A Squeeze of symbolic dims goes behind element-wise operators, which then are kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import explorer
from explorer.ir.calls import LibraryCall
from tests.frontends.models import model, saved, value

node = helper.make_node
HELD = {"two": np.float32(2), "row": np.full(1, 3, np.float32), "x1": np.ones(4, np.float32)}


def library_calls(made: onnx.ModelProto, folder: Path) -> list[str]:
    """The operators that a library does, in a model that gives what onnxruntime gives."""
    path = saved(made, folder)
    c = explorer.compile(path, check=True)
    assert all(step.checked is not False for step in c.steps)
    session = onnxruntime.InferenceSession(str(path))
    for n in (1, 3, 5):
        x = np.random.default_rng(n).standard_normal((n, 1, 4)).astype(np.float32)
        for name, wanted in zip(c.run({"x": x}).items(), session.run(None, {"x": x}), strict=True):
            right: Any = wanted
            assert name[1].shape == right.shape and name[1].dtype == right.dtype
            np.testing.assert_allclose(name[1], right, rtol=1e-6)
    calls = [b.expr for b in c.program.main.body]
    return [call.function for call in calls if isinstance(call, LibraryCall)]


def test_a_head_of_arithmetic_by_scalars_is_one_kernel_and_one_squeeze(tmp_path: Path) -> None:
    nodes = [
        node("Squeeze", ["x"], ["a"]),
        node("Sigmoid", ["a"], ["b"]),
        node("Mul", ["two", "b"], ["c"]),
        node("Greater", ["c", "two"], ["d"]),
        node("Cast", ["d"], ["y"], to=onnx.TensorProto.INT32),
    ]
    made = model(nodes, [value("x", ["n", 1, 4])], ["y"], {"two": HELD["two"]})
    assert library_calls(made, tmp_path) == ["Squeeze"]


@pytest.mark.parametrize("other", ["row", "x1"])
def test_a_vector_keeps_it_where_it_is(other: str, tmp_path: Path) -> None:
    nodes = [node("Squeeze", ["x"], ["a"]), node("Mul", ["a", other], ["y"])]
    made = model(nodes, [value("x", ["n", 1, 4])], ["y"], {other: HELD[other]})
    assert library_calls(made, tmp_path) == ["Squeeze", "Mul"]


def test_what_is_read_twice_stays(tmp_path: Path) -> None:
    nodes = [
        node("Squeeze", ["x"], ["a"]),
        node("Exp", ["a"], ["b"]),
        node("Neg", ["a"], ["c"]),
    ]
    made = model(nodes, [value("x", ["n", 1, 4])], ["b", "c"], {})
    assert sorted(library_calls(made, tmp_path)) == ["Exp", "Neg", "Squeeze"]
