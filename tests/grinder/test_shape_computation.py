"""What only the shapes of inputs decide is found as a run is bound: its runs follow no host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import explorer
from explorer.compiler.compilation import Compilation
from explorer.errors import ShapeError
from tests.frontends.models import model, saved, value

node = helper.make_node
SIDE = ["n", 4, "h", "w"]


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def agree(made: onnx.ModelProto, folder: Path, *runs: dict[str, np.ndarray]) -> Compilation:
    """A compilation that gives what onnxruntime gives, and its runs take no region of their own."""
    path = saved(made, folder)
    c, session = explorer.compile(path), onnxruntime.InferenceSession(str(path))
    for inputs in runs:
        wanted: Any = session.run(None, inputs)
        c.run(inputs)
        with explorer.counters.delta() as did:
            found = c.run(inputs)
        assert (did.counts.regions_run, did.counts.interpreted_kernels) == (0, 0)
        assert did.counts.replays == 1
        for ours, right in zip(found.values(), wanted, strict=True):
            assert ours.shape == right.shape and ours.dtype == right.dtype
            np.testing.assert_allclose(ours, right, rtol=1e-5, atol=1e-6)
    return c


def joined(mode: str, scale: float) -> onnx.ModelProto:
    """The sum of an image and one of half its sides, enlarged, as a network of pyramids has it."""
    sizes = np.array([1, 1, scale, scale], np.float32)
    nodes = [
        node("MaxPool", ["x"], ["half"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        node("Resize", ["half", "", "s"], ["large"], mode=mode),
        node("Add", ["x", "large"], ["y"]),
    ]
    return model(nodes, [value("x", SIDE)], ["y"], {"s": sizes})


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_tables_and_steps_of_an_image_are_found_once(mode: str, tmp_path: Path) -> None:
    sizes = ((2, 4, 6, 8), (1, 4, 1, 2), (1, 4, 2, 1), (3, 4, 8, 8))
    c = agree(joined(mode, 2), tmp_path, *({"x": draw(*s)} for s in sizes))
    with pytest.raises(ShapeError, match="do not broadcast"):
        c.run({"x": draw(1, 4, 5, 8)})
    assert c.planned_wall({"n": 1, "h": 6, "w": 8}).total_us > 0
    assert c.planned_wall().total_us > 0


def test_of_extents_that_are_never_equal_one_has_to_be_one(tmp_path: Path) -> None:
    nodes = [
        node("Pad", ["x", "two"], ["p"]),
        node("Greater", ["p", "x"], ["y"]),
        node("Add", ["none", "x"], ["z"]),
    ]
    constants = {"two": np.array([1, 0, 1, 0]), "none": np.zeros((0, 3), np.float32)}
    c = agree(
        model(nodes, [value("x", ["q", 3])], ["y", "z"], constants), tmp_path, {"x": draw(1, 3)}
    )
    with pytest.raises(ShapeError, match="do not broadcast"):
        c.run({"x": draw(2, 3)})


def test_extents_that_must_be_equal_are_checked_before_runs(tmp_path: Path) -> None:
    nodes = [node("Relu", ["a"], ["r"]), node("Concat", ["r", "b"], ["y"], axis=1)]
    made = model(nodes, [value("a", ["n", "k"]), value("b", ["m", "l"])], ["y"])
    c = agree(made, tmp_path, *({"a": draw(n, 3), "b": draw(n, 2)} for n in (1, 4, 7)))
    with pytest.raises(ShapeError):
        c.run({"a": draw(3, 3), "b": draw(2, 3)})


def test_numbers_made_of_shapes_are_computed_before_runs(tmp_path: Path) -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["n"]),
        node("Cast", ["n"], ["f"], to=onnx.TensorProto.FLOAT),
        node("Mul", ["f", "half"], ["g"]),
        node("Range", ["zero", "g", "step"], ["r"]),
        node("Add", ["r", "f"], ["y"]),
        node("Relu", ["x"], ["z"]),
    ]
    numbers = {"half": 0.5, "zero": 0.0, "step": 1.0}
    constants = {n: np.array(v, np.float32) for n, v in numbers.items()} | {"one": np.array(1)}
    made = model(nodes, [value("x", ["n", "m"])], ["y", "z"], constants)
    agree(made, tmp_path, *({"x": draw(2, m)} for m in (1, 2, 7)))


def test_shapes_may_be_results_themselves(tmp_path: Path) -> None:
    made = joined("linear", 2)
    made.graph.node.append(node("Shape", ["large"], ["s2"]))
    made.graph.output.append(onnx.ValueInfoProto(name="s2"))
    agree(made, tmp_path, {"x": draw(1, 4, 4, 4)}, {"x": draw(1, 4, 2, 6)})
