"""A plan serves the sizes that it was made for; others come to plans of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import explorer
from explorer.compiler.versions import Counted, distance
from explorer.errors import BoundError
from explorer.frontends.load import load
from tests.frontends.models import model, saved, value

node = helper.make_node
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))


def softened(folder: Path) -> Path:
    """The path of a small model over an image of any size."""
    nodes = [
        node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2]),
        node("GlobalAveragePool", ["p"], ["m"]),
        node("Sub", ["p", "m"], ["y"]),
    ]
    return saved(model(nodes, [value("x", ["a", 2, "b", "c"])], ["y"]), folder)


def expected(x: np.ndarray) -> np.ndarray:
    """What the model gives: the largest of each two by two, less their mean."""
    corners = [x[..., i : x.shape[2] - 1 + i, j : x.shape[3] - 1 + j] for i, j in CORNERS]
    p = np.maximum.reduce(corners)
    return p - p.mean((2, 3), keepdims=True)


def test_no_rows_need_no_bounds(tmp_path: Path) -> None:
    nodes = [node("Gemm", ["x", "w"], ["h"]), node("Softmax", ["h"], ["y"])]
    w = {"w": np.ones((3, 4), np.float32)}
    c = explorer.compile(saved(model(nodes, [value("x", ["q", 3])], ["y"], w), tmp_path))
    assert c.run(np.zeros((0, 3), np.float32))["y"].shape == (0, 4)
    assert c.run(np.zeros((2, 3), np.float32))["y"].tolist() == [[0.25] * 4] * 2
    assert len(c.planned_sizes) == 2  # one version takes every extent of 0
    c.run(np.zeros((0, 3), np.float32))
    assert len(c.planned_sizes) == 2


def test_inputs_in_another_order_are_the_same(tmp_path: Path) -> None:
    nodes = [node("ReduceSum", ["a", "one"], ["s"], keepdims=0), node("Mul", ["s", "b"], ["y"])]
    inputs = [value("a", ["q", "r"]), value("b", [1])]
    made = model(nodes, inputs, ["y"], {"one": np.array([1])})
    c = explorer.compile(load(saved(made, tmp_path), {"r": (1, 8)}))
    a, b = np.ones((1,), np.float32), np.ones((0, 2), np.float32)
    assert c.run({"a": b, "b": a})["y"].shape == (0,)
    assert c.run({"b": a, "a": np.ones((3, 2), np.float32)})["y"].tolist() == [2.0] * 3
    keys = list(c._versions._runs)
    assert keys[-1][0][0] == "b"  # shapes stand with the names of their inputs


def test_a_bound_that_was_given_holds(tmp_path: Path) -> None:
    path = saved(model([node("Relu", ["x"], ["y"])], [value("x", ["q"])], ["y"]), tmp_path)
    c = explorer.compile(load(path, {"q": (1, 8)}))
    with pytest.raises(BoundError):
        c.run(np.zeros(0, np.float32))
    with pytest.raises(BoundError, match=r"q is 1 \.\. 8, found 9"):
        c.planned_for({"q": 9})


def test_sizes_far_from_the_plan_get_one_of_their_own(tmp_path: Path) -> None:
    c = explorer.compile(softened(tmp_path))
    assert c.planned_sizes == ({"a": 1, "b": 224, "c": 224},)
    rng = np.random.default_rng(0)
    far, near = (rng.standard_normal((1, 2, n, n)).astype(np.float32) for n in (30, 200))
    for x in (near, far):
        np.testing.assert_allclose(c.run(x)["y"], expected(x), atol=1e-5)
    waiting = next(r for r in c._versions._runs.values() if isinstance(r, Counted))
    waiting.left_seconds = 0.0  # as if it had run for long
    waiting.then()
    c._versions.wait()
    assert c.planned_sizes[1:] == ({"a": 1, "b": 30, "c": 30},) or len(c.planned_sizes) == 1
    for x in (near, far):
        np.testing.assert_allclose(c.run(x)["y"], expected(x), atol=1e-5)


def test_long_runs_far_from_the_plan_ask_for_another_once() -> None:
    asked: list[None] = []
    run = Counted(lambda inputs, *, out=None: {}, 1e-9, lambda: asked.append(None))
    for _ in range(3):
        run({})
    assert asked == [None]


def test_a_distance_is_that_of_the_farthest_size() -> None:
    assert distance({"a": 1, "b": 128}, {"a": 2, "b": 16}) == 3
    assert distance({"a": 1}, {"a": 0, "b": 99}) == 0
