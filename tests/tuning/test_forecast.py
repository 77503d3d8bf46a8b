"""Before anything is compiled: what is left to a library, and why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

import explorer
from explorer.frontends.load import load
from tests.frontends.models import model, saved, value


def test_a_library_call_says_why_it_is_one(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["i"]),
        helper.make_node("Concat", ["s", "s"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "count"], ["z"]),
        helper.make_node("Relu", ["z"], ["y"]),
    ]
    words = helper.make_tensor_value_info("s", TensorProto.STRING, [1])
    count = helper.make_tensor_value_info("count", TensorProto.INT64, ["k"])
    made = model(nodes, [value("x", ["n", 2]), words, count], ["i", "t", "y"])
    found = {
        o.op: (o.becomes, o.reason) for o in explorer.check(load(saved(made, tmp_path))).operators
    }
    assert found["NonZero"] == (
        "library call",
        "the shape of its result depends on the values of the run",
    )
    assert found["Reshape"][0] == "library call"  # not even the rank of its result is known
    assert found["Relu"] == (
        "library call",
        "the shapes of its operands are unknown before the run",
    )
    assert found["Concat"] == ("library call", "this form of it has no kernel rule")
    x = np.ones((2, 2), np.float32)
    assert explorer.compile(load(saved(made, tmp_path))).run(
        {"x": x, "s": np.array(["a"], object), "count": np.array([4])}
    )["y"].shape == (4,)
