"""The least integers, divided by -1, negated and shifted: the same when folded and when run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import explorer
from explorer.frontends.load import load
from explorer.ops.interpreter.evaluate import evaluate
from explorer.relax import deduce, legalize

A = (-1, 7, -7, 5, 0, 1)  # and the least number three times
B = (2, 2, -3, -5, 1, 1)
SIGNED = ("int8", "int32", "int64")
UNSIGNED = ("uint8", "uint64")


def wrapped(numbers: list[int], dtype: str) -> np.ndarray:
    """Whole numbers as elements of a dtype."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.array([(n - low) % (high - low + 1) + low for n in numbers], dtype)


def quotient(a: int, b: int) -> int:
    """Towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def operands(dtype: str) -> tuple[list[int], list[int]]:
    least = int(np.iinfo(dtype).min)
    return [*A, least, least, least], [*B, -1, 1, least]


def graph(
    nodes: dict[str, onnx.NodeProto], values: dict[str, np.ndarray], constant: bool
) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in values.items()
    ]
    stored = [numpy_helper.from_array(v, n) for n, v in values.items()]
    made = helper.make_graph(
        list(nodes.values()),
        "integers",
        [] if constant else inputs,
        [helper.make_empty_tensor_value_info(n) for n in nodes],
        stored if constant else [],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def answers(
    tmp_path: Path, nodes: dict[str, onnx.NodeProto], values: dict[str, np.ndarray]
) -> list[dict[str, np.ndarray]]:
    """Folded while compiling, interpreted operator by operator and kernel by kernel, and run."""
    found = []
    for constant in (True, False):
        path = tmp_path / f"{constant}.onnx"
        onnx.save(graph(nodes, values, constant), path)
        given = {} if constant else values
        typed = deduce(load(str(path)).program)
        found += [evaluate(typed, given), evaluate(legalize(typed), given)]
    return [*found, explorer.compile(path).run(given)]


@pytest.mark.parametrize("dtype", SIGNED)
def test_the_least_number_wraps(tmp_path: Path, dtype: str) -> None:
    a, b = operands(dtype)
    pairs = list(zip(a, b, strict=True))
    right = {
        "div": [quotient(x, y) for x, y in pairs],
        "mod": [x % y for x, y in pairs],
        "fmod": [x - y * quotient(x, y) for x, y in pairs],
        "mul": [x * y for x, y in pairs],
        "sub": [x - y for x, y in pairs],
        "add": [x + y for x, y in pairs],
        "abs": [abs(x) for x in a],
        "neg": [-x for x in a],
        "sign": [(x > 0) - (x < 0) for x in a],
    }
    spelled = {"fmod": "Mod"}
    nodes = {
        n: helper.make_node(
            spelled.get(n, n.capitalize()),
            ["a"] if n in ("abs", "neg", "sign") else ["a", "b"],
            [n],
            **({"fmod": 1} if n == "fmod" else {}),
        )
        for n in right
    }
    values = {"a": np.array(a, dtype), "b": np.array(b, dtype)}
    for found in answers(tmp_path, nodes, values):
        for name, numbers in right.items():
            np.testing.assert_array_equal(found[name], wrapped(numbers, dtype), err_msg=name)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_shifts_beyond_the_width_leave_nothing(tmp_path: Path, dtype: str) -> None:
    bits = np.iinfo(dtype).bits
    a, by = [1, 255, 7, 7, 7, 7], [7, 3, bits - 1, bits, bits + 1, 200]
    pairs = list(zip(a, by, strict=True))
    right = {"left": [x << y for x, y in pairs], "right": [x >> y for x, y in pairs]}
    nodes = {n: helper.make_node("BitShift", ["a", "b"], [n], direction=n.upper()) for n in right}
    values = {"a": np.array(a, dtype), "b": np.array(by, dtype)}
    for found in answers(tmp_path, nodes, values):
        for name, numbers in right.items():
            np.testing.assert_array_equal(found[name], wrapped(numbers, dtype), err_msg=name)
