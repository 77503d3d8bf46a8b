"""Attributes and constants that mean nothing end in one sentence that names the node, not in an
error of Python's own, nor in an answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import explorer
from explorer.errors import BadModelFile, ShapeError, TooLarge
from explorer.frontends.load import load
from explorer.relax import deduce, legalize
from explorer.transforms.simplify.fold_constants import fold_constants
from tests.frontends.models import model, saved, value

X, WEIGHT = [1, 2, 8, 8], np.ones((2, 2, 3, 3), np.float32)
BIG = 1 << 62


def refused(path: Path, words: str) -> None:
    with pytest.raises(ShapeError, match=words) as caught:
        legalize(fold_constants(deduce(load(path).program)))
    assert "node" in caught.value.sentence or "does not take" in caught.value.sentence


POOLS: list[dict[str, Any]] = [
    {"kernel_shape": [3]},
    {"kernel_shape": [0, 0]},
    {"kernel_shape": [-1, 3]},
    {"kernel_shape": [3, 3, 3]},
    {"kernel_shape": [BIG, 3]},
    {"kernel_shape": [3, 3], "pads": [1]},
    {"kernel_shape": [3, 3], "pads": [-1] * 4},
    {"kernel_shape": [3, 3], "pads": [1 << 60] * 4},
    {"kernel_shape": [3, 3], "strides": [1]},
    {"kernel_shape": [3, 3], "strides": [0, 0]},
    {"kernel_shape": [3, 3], "dilations": [0, 1]},
    {"kernel_shape": [3, 3], "dilations": [BIG, 1]},
    {"kernel_shape": [3, 3], "auto_pad": "\x1b[31m"},
]


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool", "LpPool"])
@pytest.mark.parametrize("attrs", POOLS)
def test_a_pool_of_odd_attributes(op: str, attrs: dict[str, Any], tmp_path: Path) -> None:
    node = helper.make_node(op, ["x"], ["y"], name="node", **attrs)
    refused(saved(model([node], [value("x", X)], ["y"], opset=19), tmp_path), "Pool at 'node'")


CONVOLUTIONS: list[dict[str, Any]] = [
    {"pads": [1]},
    {"pads": [-9] * 4},
    {"strides": [1]},
    {"strides": [0, 0]},
    {"strides": [-1, 1]},
    {"dilations": [1]},
    {"dilations": [0, 1]},
    {"dilations": [BIG, 1]},
    {"group": BIG},
    {"auto_pad": "NO"},
]
TRANSPOSED: list[dict[str, Any]] = [
    {"output_padding": [1]},
    {"output_padding": [-1, 0]},
    {"output_shape": [1]},
    {"output_shape": [-3, 5]},
    {"strides": [BIG, 1]},
]


@pytest.mark.parametrize(
    ("op", "attrs"),
    [(op, a) for op in ("Conv", "ConvTranspose") for a in CONVOLUTIONS]
    + [("ConvTranspose", a) for a in TRANSPOSED],
)
def test_a_convolution_of_odd_attributes(op: str, attrs: dict[str, Any], tmp_path: Path) -> None:
    node = helper.make_node(op, ["x", "w"], ["y"], name="node", **attrs)
    made = model([node], [value("x", X)], ["y"], {"w": WEIGHT})
    refused(saved(made, tmp_path), f"{op} at 'node'")


def row(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


CONSTANTS: list[tuple[str, dict[str, np.ndarray], list[int]]] = [
    ("Trilu", {"k": row(1, 2)}, [4, 4]),
    ("Trilu", {"k": np.array(1)}, [4]),
    ("Gather", {"i": row(7)}, [4, 4]),
    ("Gather", {"i": np.array(-5)}, [4, 4]),
    ("Gather", {"i": row(0, 1, BIG)}, [4, 4]),
    ("GatherElements", {"i": row(9)}, [4]),
    ("Unsqueeze", {"a": row(*range(70))}, [4]),
    ("Reshape", {"s": row(4, *[1] * 39)}, [4]),
    ("Expand", {"s": row(*[1] * 69, 4)}, [4]),
    ("Reshape", {"s": row(-7)}, [4]),
]


@pytest.mark.parametrize(("op", "constants", "shape"), CONSTANTS)
def test_constants_that_do_not_fit(
    op: str, constants: dict[str, np.ndarray], shape: list[int], tmp_path: Path
) -> None:
    node = helper.make_node(op, ["x", *constants], ["y"], name="node")
    path = saved(model([node], [value("x", shape)], ["y"], constants), tmp_path)
    refused(path, f"{op} at 'node'")


@pytest.mark.parametrize("op", ["Gather", "GatherND"])
def test_constants_that_do_not_fit_each_other(op: str, tmp_path: Path) -> None:
    weights = {"w": np.ones((4, 4), np.float32), "i": row(99, 99)}
    nodes = [helper.make_node(op, ["w", "i"], ["g"], name="node")]
    nodes.append(helper.make_node("Add", ["x", "g"], ["y"]))
    refused(saved(model(nodes, [value("x", [1])], ["y"], weights), tmp_path), "index 99")


def test_a_place_that_only_a_run_can_judge_reads_no_foreign_memory(tmp_path: Path) -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    made = model([node], [value("x", ["n", 2])], ["y"], {"i": np.array(1 << 40)})
    compiled = explorer.compile(load(saved(made, tmp_path)))
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert compiled.run(x)["y"].tolist() in x.tolist()


# What would never end.


def test_as_many_symbols_as_nobody_can_keep_apart_are_refused(tmp_path: Path) -> None:
    given = [value(f"x{n}", [f"s{n}"]) for n in range(2000)]
    node = helper.make_node("Concat", [v.name for v in given], ["y"], axis=0)
    with pytest.raises(BadModelFile, match="has 2000 symbolic dims; at most 128"):
        load(saved(model([node], given, ["y"]), tmp_path))


def test_a_sum_of_many_symbols_is_added_at_once(tmp_path: Path) -> None:
    given = [value(f"x{n}", [f"s{n}"]) for n in range(100)]
    node = helper.make_node("Concat", [v.name for v in given], ["y"], axis=0)
    program = deduce(load(saved(model([node], given, ["y"]), tmp_path)).program)
    (extent,) = program.main.outputs[0].type.dims  # type: ignore[union-attr]
    assert len(extent.free_symbols) == 100  # type: ignore[union-attr]


def test_loops_in_loops_whose_shapes_change_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("explorer.relax.deduction.deduction.MOST_ANNOTATED_FUNCTIONS", 40)

    def body(depth: int) -> Any:
        given = [
            value(f"i{depth}", [], TensorProto.INT64),
            value(f"c{depth}", [], TensorProto.BOOL),
        ]
        nodes = [helper.make_node("Identity", [f"c{depth}"], [f"go{depth}"])]
        args = [f"s{depth}", f"s{depth}"]
        if depth:
            nodes.append(
                helper.make_node("Loop", ["two", "", args[0]], [f"r{depth}"], body=body(depth - 1))
            )
        else:
            nodes.append(helper.make_node("Concat", args, ["r0"], axis=0))
        results = [value(f"go{depth}", [], TensorProto.BOOL), value(f"r{depth}", ["m"])]
        return helper.make_graph(nodes, "b", [*given, value(f"s{depth}", ["n"])], results)

    node = helper.make_node("Loop", ["two", "", "x"], ["y"], body=body(28))
    path = saved(model([node], [value("x", [4])], ["y"], {"two": np.array(1)}), tmp_path)
    with pytest.raises(TooLarge, match="nested loops change too often"):
        deduce(load(path).program)


def test_a_kernel_that_would_run_for_hours_is_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Expand", ["x", "s"], ["e"]),
        helper.make_node("ReduceSum", ["e"], ["y"], keepdims=0),
    ]
    constants = {"s": row(1 << 25, 1 << 25)}
    made = model(nodes, [value("x", [1, 1])], ["y"], constants)
    compiled = explorer.compile(load(saved(made, tmp_path)))
    with pytest.raises(TooLarge, match="hours"):
        compiled.run(np.ones((1, 1), np.float32))


def test_names_that_look_like_patterns_are_names(tmp_path: Path) -> None:
    name = "(" + "a*" * 40 + ")*b["
    node = helper.make_node("Relu", [name], ["y\x1b[31m"], name="(" * 200)
    path = saved(model([node], [value(name, ["(a+)+$", 4])], ["y\x1b[31m"]), tmp_path)
    compiled = explorer.compile(load(path))
    assert list(compiled.run(np.ones((3, 4), np.float32))) == ["y\x1b[31m"]
