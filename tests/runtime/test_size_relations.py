"""Extents that must be equal, which the sizes of the inputs decide: judged when a program is bound
to them, so that nothing of it is left to the host.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import explorer
from explorer.errors import BoundError, ShapeError
from tests.frontends.models import model, saved, value

node = helper.make_node
W = np.arange(12, dtype=np.float32).reshape(3, 4)


def side(nodes: list[Any], output: str) -> onnx.GraphProto:
    return helper.make_graph(nodes, output, [], [onnx.ValueInfoProto(name=output)])


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).random(shape, np.float32)


def chosen(other: str, then: onnx.NodeProto) -> onnx.ModelProto:
    """`then` where the last dim of x is `other`; a product follows, which takes two dims."""
    nodes = [
        node("Shape", ["x"], ["sizes"]),
        node("Gather", ["sizes", "last"], ["extent"]),
        node("Shape", ["z"], ["others"]),
        node("Equal", ["extent", other], ["is_it"]),
        node(
            "If",
            ["is_it"],
            ["s"],
            then_branch=side([then], "then"),
            else_branch=side([node("Identity", ["x"], ["orelse"])], "orelse"),
        ),
        node("Gemm", ["s", "w"], ["y"]),
    ]
    constants = {"last": np.array([-1]), "one": np.array([1]), "w": W}
    inputs = [value("x", ["rows", 3, "steps"]), value("z", ["others"])]
    return model(nodes, inputs if other == "others" else inputs[:1], ["y"], constants)


def squeezed() -> onnx.ModelProto:
    made = chosen("one", node("Squeeze", ["x", "last"], ["then"]))
    del made.graph.node[2]
    return made


def test_a_side_with_which_nothing_that_follows_has_a_meaning_is_not_taken(tmp_path: Path) -> None:
    total = node("ReduceSum", ["x", "last"], ["then"], keepdims=0)
    c = explorer.compile(saved(chosen("others", total), tmp_path))
    assert len(c.program.functions) == 1 and not c.program.library_calls
    assert c.executable.frames is None
    for rows, steps in ((1, 1), (2, 1), (5, 4)):
        given = {"x": random(rows, 3, steps), "z": random(steps)}
        np.testing.assert_allclose(c.run(given)["y"], given["x"].sum(2) @ W, rtol=1e-5)
    given = {"x": random(2, 3, 2), "z": random(4)}
    for program in (c.model.program, c.snapshot("relax").after, c.program):
        with pytest.raises(ShapeError):
            explorer.evaluate(program, given)
    with pytest.raises(ShapeError, match=r"'s\.taken' must be -others \+ steps = -2 and is 0"):
        c.run(given)


def test_a_check_of_one_symbol_bounds_it(tmp_path: Path) -> None:
    c = explorer.compile(saved(squeezed(), tmp_path))
    assert (c.program.env.of("steps").low, c.program.env.of("steps").high) == (1, 1)
    x = random(2, 3, 1)
    np.testing.assert_allclose(c.run({"x": x})["y"], x[..., 0] @ W, rtol=1e-6)
    with pytest.raises(BoundError, match=r"steps is 2 and was bounded to 1 \.\. 1"):
        c.run({"x": random(2, 3, 2)})


@pytest.mark.parametrize("taken", [True, False])
def test_a_side_that_has_no_meaning_itself_is_not_taken(tmp_path: Path, taken: bool) -> None:
    """Its condition is checked by its value."""
    right = side([node("MatMul", ["x", "w"], ["p"])], "p")
    wrong = side([node("MatMul", ["x", "x3"], ["q"])], "q")
    sides = {"then_branch": right, "else_branch": wrong}
    if not taken:
        sides = {"then_branch": wrong, "else_branch": right}
    inputs = [value("c", [], TensorProto.BOOL), value("x", ["n", 3])]
    made = model([node("If", ["c"], ["y"], **sides)], inputs, ["y"], {"w": W, "x3": W.T})
    c, x = explorer.compile(saved(made, tmp_path)), random(5, 3)
    found = c.run({"c": np.array(taken), "x": x})["y"]
    np.testing.assert_allclose(found, x @ W, rtol=1e-6)
    with pytest.raises(ShapeError, match=r"'y\.taken' must be"):
        c.run({"c": np.array(not taken), "x": x})


def test_sides_of_two_ranks_that_both_have_a_meaning_both_run(tmp_path: Path) -> None:
    made = squeezed()
    del made.graph.node[-1]
    made.graph.node.append(node("Relu", ["s"], ["y"]))
    path = saved(made, tmp_path)
    c, session = explorer.compile(path), onnxruntime.InferenceSession(str(path))
    for steps in (1, 2):
        given = {"x": random(2, 3, steps)}
        np.testing.assert_array_equal(c.run(given)["y"], session.run(None, given)[0])


def test_extents_with_two_names_that_must_be_equal_leave_nothing_to_the_host(
    tmp_path: Path,
) -> None:
    nodes = [node("MatMul", ["a", "b"], ["p"]), node("Relu", ["p"], ["y"])]
    made = model(nodes, [value("a", ["n", "k"]), value("b", ["m", 4])], ["y"])
    c = explorer.compile(saved(made, tmp_path))
    assert c.executable.frames is None
    for n, k in ((2, 3), (1, 1), (5, 7), (3, 0)):
        a, b = random(n, k), random(k, 4)
        np.testing.assert_allclose(c.run({"a": a, "b": b})["y"], a @ b, rtol=1e-5)
    with pytest.raises(ShapeError, match="must be"):
        c.run({"a": random(2, 3), "b": random(2, 4)})
    a, b, y = random(2, 3), random(3, 4), np.empty((2, 4), np.float32)
    c.executable.prepared({"a": a, "b": b}, {"y": y})()
    np.testing.assert_allclose(y, a @ b, rtol=1e-5)


def test_a_relation_of_a_side_that_is_not_taken_need_not_hold(tmp_path: Path) -> None:
    sides = {
        "then_branch": side([node("MatMul", ["a", "b"], ["p"])], "p"),
        "else_branch": side([node("MatMul", ["a", "w"], ["q"])], "q"),
    }
    inputs = [value("c", [], TensorProto.BOOL), value("a", ["n", 3]), value("b", ["m", 4])]
    made = model([node("If", ["c"], ["y"], **sides)], inputs, ["y"], {"w": W})
    c, a = explorer.compile(saved(made, tmp_path)), random(2, 3)
    assert c.executable.frames is None
    for b in (random(3, 4), random(5, 4)):
        found = c.run({"c": np.array(False), "a": a, "b": b})["y"]
        np.testing.assert_allclose(found, a @ W, rtol=1e-6)
    found = c.run({"c": np.array(True), "a": a, "b": W})["y"]
    np.testing.assert_allclose(found, a @ W, rtol=1e-6)
    with pytest.raises(ShapeError, match="must be"):
        c.run({"c": np.array(True), "a": a, "b": b})


def framed() -> onnx.ModelProto:
    """The same of frames of 256 samples, 64 apart, and of four of them together."""
    made = squeezed()
    weights = {i.name: onnx.numpy_helper.to_array(i) for i in made.graph.initializer}
    taps = {"k": np.ones((3, 1, 256), np.float32), "four": np.ones((3, 3, 4), np.float32)}
    nodes = [
        node("Conv", ["samples", "k"], ["frames"], strides=[64]),
        node("Conv", ["frames", "four"], ["x"], strides=[4]),
        *made.graph.node,
    ]
    return model(nodes, [value("samples", ["rows", 1, "n"])], ["y"], weights | taps)


def test_a_check_of_windows_bounds_what_they_go_over(tmp_path: Path) -> None:
    path = saved(framed(), tmp_path)
    found = explorer.compile(path, until="TYPED").program.env.of("n")
    assert (found.low, found.high) == (256 + 3 * 64, 256 + 7 * 64 - 1)
    c, session = explorer.compile(path), onnxruntime.InferenceSession(str(path))
    for n in (found.low, 600, found.high):
        given = {"samples": random(2, 1, n)}
        wanted = session.run(None, given)[0]
        np.testing.assert_allclose(c.run(given)["y"], wanted, rtol=1e-4)


def test_hints_make_equal_what_must_be(tmp_path: Path) -> None:
    """Where a branch decides that it must be, no bound follows."""
    made = framed()
    produced = [*made.graph.node]
    arms = {
        "then_branch": side(produced, "y"),
        "else_branch": side([node("ReduceMean", ["samples"], ["m"], keepdims=0)], "m"),
    }
    weights = {i.name: onnx.numpy_helper.to_array(i) for i in made.graph.initializer}
    inputs = [value("c", [], TensorProto.BOOL), *made.graph.input]
    whole = model([node("If", ["c"], ["r"], **arms)], inputs, ["r"], weights)
    found = explorer.compile(saved(whole, tmp_path), until="TYPED").program.env.of("n")
    assert (found.low, found.high) == (1, None)
    assert 256 + 3 * 64 <= found.hint < 256 + 7 * 64
