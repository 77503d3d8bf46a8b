"""0.0 and -0.0 are different numbers: kernels that differ by them are not taken for one another."""

from __future__ import annotations

from math import copysign
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from explorer.compiler.pipeline import compile as compile_model
from explorer.frontends.model import Model
from explorer.ir.affine import var
from explorer.ir.kernel import Const, Read
from explorer.ops.interpreter.evaluate import evaluate
from tests.tuning.models import written

X = np.linspace(-3, 3, 64, dtype=np.float32).reshape(8, 8)


def test_zeros_of_both_signs_are_different_numbers() -> None:
    assert Const(0.0) != Const(-0.0) and Const(-0.0) == Const(-0.0)
    assert Const(0) == Const(0.0) == Const(False) and Const(0) != Const(-0.0)
    found = {Const(0.0): "plus", Const(-0.0): "minus"}
    assert found[Const(0.0)] == "plus" and found[Const(-0.0)] == "minus"


def test_other_numbers_are_equal_by_value_and_dtype() -> None:
    assert Const(1) == Const(1.0) == Const(True) and hash(Const(1)) == hash(Const(1.0))
    assert Const(1.0) != Const(2.0) and Const(1.0) != Const(1.0, "float64")
    nan = float("nan")
    assert Const(nan) == Const(nan) and Const(nan) != Const(float("nan"))
    number: object = 1.0
    assert Const(1.0) != number


def test_a_number_is_matched_by_position() -> None:
    match Const(-0.0, "float64"):
        case Const(value, dtype):
            assert copysign(1.0, float(value)) == -1.0 and dtype == "float64"


def test_what_lies_outside_of_a_tensor_has_a_sign_too() -> None:
    at = (var("i"),)
    assert Read("x", at, 0.0) != Read("x", at, -0.0)
    assert Read("x", at, 0.0) == Read("x", at, 0.0) and Read("x", at) == Read("x", at)
    assert Read("x", at) != Read("x", at, 0.0) and Read("x", at) != Read("y", at)
    assert len({Read("x", at, 0.0), Read("x", at, -0.0)}) == 2


def same_to_the_last_step(model: Model) -> None:
    """The program after the last step gives the infinities of the imported one."""
    compiled = compile_model(model)
    with np.errstate(divide="ignore"):
        wanted, found = (evaluate(p, {"x": X}) for p in (model.program, compiled.program))
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values)
        assert np.isinf(values).any()


@pytest.mark.parametrize("first", [0.0, -0.0])
def test_products_with_both_zeros_keep_their_signs(first: float, tmp_path: Path) -> None:
    nodes = []
    for name, factor in (("a", first), ("b", -first)):
        nodes += [
            helper.make_node("Constant", [], [f"{name}_factor"], value_float=factor),
            helper.make_node("Mul", ["x", f"{name}_factor"], [f"{name}_zero"]),
            helper.make_node("Reciprocal", [f"{name}_zero"], [name]),
        ]
    same_to_the_last_step(written(tmp_path, nodes, {"x": [8, 8]}, ["a", "b"]))


def test_slopes_of_both_zeros_in_one_process_give_different_kernels(tmp_path: Path) -> None:
    for slope in (0.0, -0.0):
        nodes = [
            helper.make_node("LeakyRelu", ["x"], ["h"], alpha=slope),
            helper.make_node("Reciprocal", ["h"], ["y"]),
        ]
        same_to_the_last_step(written(tmp_path, nodes, {"x": [8, 8]}, ["y"]))


def test_borders_of_both_zeros_keep_their_signs(tmp_path: Path) -> None:
    nodes = []
    for name, border in (("a", 0.0), ("b", -0.0)):
        nodes += [
            helper.make_node("Constant", [], [f"{name}_border"], value_float=border),
            helper.make_node("Pad", ["x", "pads", f"{name}_border"], [f"{name}_wide"]),
            helper.make_node("Reciprocal", [f"{name}_wide"], [name]),
        ]
    pads = {"pads": np.array([0, 1, 0, 1])}
    same_to_the_last_step(written(tmp_path, nodes, {"x": [8, 8]}, ["a", "b"], pads))
