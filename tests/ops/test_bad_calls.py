"""Whatever is wrong with a call of an operator is said in an error of ours that names it: no rule
is asked what it was not written for, so what a rule raises besides is a fault of ours.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.errors import DtypeError, InternalFault, ShapeError
from explorer.frontends.python.arrays.nn import gelu
from explorer.ir.types import Tensor
from explorer.ops import RECORDS
from explorer.ops.interpreter.libraries import call_library
from explorer.ops.user_operators import forget, register
from explorer.relax import deduce, legalize
from tests.ops.bad_calls import Call, attempt, bad_calls

X = Tensor((2, 3), "float32")
IMAGE = Tensor((1, 4, 6, 6), "float32")
MANY = 1 << 31


def row(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.few(40)
@pytest.mark.parametrize("op", sorted(RECORDS))
def test_a_call_that_is_wrong_somewhere_ends_in_an_error_of_ours(op: str) -> None:
    for call in islice(bad_calls(op, random.Random(op)), 60):
        attempt(call)


CALLS = [
    (Call("Less", (X,)), "Less at 'node': needs its argument 'B' at position 1", "B"),
    (Call("Relu", (X, X)), "Relu at 'node': takes 1 arguments, and gets 2", "X"),
    (Call("Relu", (X,), results=2), "has 1 results, and 2 are requested", "1"),
    (Call("Range", ()), "needs its argument 'start'", "start"),
    (Call("DepthToSpace", (IMAGE,)), "attribute 'blocksize' is missing", "an integer"),
    (Call("DepthToSpace", (X,), (("blocksize", 2),)), "must be of rank 4, and is of", "rank 4"),
    (Call("DepthToSpace", (IMAGE,), (("blocksize", 0),)), "must be positive", "positive"),
    (Call("DepthToSpace", (IMAGE,), (("blocksize", 3),)), "does not divide by 9", "a multiple"),
    (Call("Concat", (X, X), (("axis", "one"),)), "'axis' must be an integer", "an integer"),
    (Call("Concat", (X, X), (("axis", 1 << 63),)), "'axis' must be an integer of 64 bits", "an"),
    (Call("LeakyRelu", (X,), (("alpha", (1.0,)),)), "'alpha' must be a number", "a number"),
    (Call("GRU", (X, X, X), (("activations", (1, 2)),)), "must be a row of strings", "a row"),
    (Call("Reshape", (X, row(3, 2)), (("shape", (6,)),)), "gets 'shape' twice", ""),
    (Call("Slice", (X, row(0), np.array([[1]]))), "argument 2 must be of rank 1", "rank 1"),
    (Call("GlobalLpPool", (IMAGE,), (("p", 0),)), "p must be positive", "a positive p"),
    (Call("ReverseSequence", (X, row(1, 2))), "the tensor of lengths has shape", ""),
    (Call("ReverseSequence", (X, row(1)), (("time_axis", 7),)), "time_axis 7", "one of them 0"),
    (Call("Clip", (X, Tensor((5, 2, 3), "float32"))), "a limit of shape", "one number"),
    (Call("Cast", (X,), (("to", "word"),)), "'to' must be an element type", "an element type"),
    (Call("Split", (X, row())), "0 parts, and 1 of them", ""),
    (Call("Slice", (Tensor((), "float32"), row(0), row(1))), "axis 0 is not in a tensor", ""),
    (Call("OneHot", (row(1), np.array(1.5), row(0, 1))), "one whole number", "one whole number"),
]


@pytest.mark.parametrize(("call", "words", "expected"), CALLS)
def test_what_is_wrong_names_the_operator_and_what_was_expected(
    call: Call, words: str, expected: str
) -> None:
    with pytest.raises(ShapeError) as caught:
        legalize(deduce(call.program()))
    assert words in caught.value.sentence and f"{call.op} at 'node'" in caught.value.sentence
    assert expected in caught.value.expected


def test_the_states_of_an_optimizer_are_of_its_parameters_shape_and_dtype() -> None:
    rate, count = np.array(0.1, np.float32), np.array(1)
    attrs = (("norm_coefficient", 0.0),)
    short = Call("Adagrad", (rate, count, X, X, Tensor((3,), "float32")), attrs, 2)
    with pytest.raises(ShapeError, match=r"argument 4 has shape \[3\]"):
        deduce(short.program())
    wide = Call("Adagrad", (rate, count, X, X, Tensor((2, 3), "float64")), attrs, 2)
    with pytest.raises(DtypeError, match="float64"):
        deduce(wide.program())


def test_results_that_an_operator_had_once_are_for_its_rule_to_judge() -> None:
    """A BatchNormalization of version 7 has five."""
    row = Tensor((4,), "float32")
    said = attempt(Call("BatchNormalization", (IMAGE, row, row, row, row), results=5))
    assert "the moments of old versions" in said


def test_an_operator_of_ones_own_has_the_form_that_its_rule_says() -> None:
    """ONNX has a NonZero of one argument, and no record here."""
    record = replace(RECORDS["Add"], name="NonZero", run_time=None)
    try:
        register(record)
        assert not attempt(Call("NonZero", (X, X)))
    finally:
        forget("NonZero")


def test_no_elements_of_many_extents_take_no_memory() -> None:
    """A shape of [0, 2147483648] was listed place by place until the memory was full."""
    assert not attempt(Call("ConstantOfShape", (row(0, MANY),), (("dtype", "int32"),)))


@pytest.mark.parametrize("op", ["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"])
def test_images_of_four_spatial_dims_are_pooled(op: str) -> None:
    assert not attempt(Call(op, (Tensor((1, 2, 3, 4, 5, 2), "float32"),)))


def test_a_sum_along_an_axis_that_only_a_run_knows_is_of_half_floats_too() -> None:
    """The steps along its dims were taken for those of broadcasting."""
    axis = Tensor((), "int32")
    assert not attempt(Call("CumSum", (Tensor((3, 4), "float16"), axis)))


def test_a_traced_call_says_what_was_expected_and_what_to_try() -> None:
    def model(x: explorer.tensor("float32", 2, 3)) -> Any:  # type: ignore[valid-type]
        return gelu(x, approximate=3)

    with pytest.raises(ShapeError, match="'approximate' must be a string, and is 3") as caught:
        explorer.load(explorer.trace(model))
    assert caught.value.expected == "a string"
    assert caught.value.try_ == "approximate as a string"


NAN = np.array(np.nan, np.float32)
RUNS = [
    ("Split", ("dim0", "dim1", "dim2"), (row(2, 6), row(2, 4)), "computes 2 numbers, and 3"),
    ("OneHot", ("depth",), (row(3), NAN, row(2)), "must be whole numbers"),
    ("Range", ("extent",), (row(), row(5), row(1)), "argument 0 must be one number"),
    ("Range", ("extent",), (row(0), row(5)), "argument 2 must be one number"),
    ("Col2Im", ("channels",), (row(1, 5, 5), row(1, 5), None), "needs an argument at position 2"),
]


@pytest.mark.parametrize(("op", "names", "args", "words"), RUNS)
def test_values_of_a_run_that_do_not_fit_are_refused_by_what_is_wrong(
    op: str, names: tuple[str, ...], args: tuple[np.ndarray, ...], words: str
) -> None:
    attrs = (("axis", 1), ("where", "node"), ("names", names))
    with pytest.raises(ShapeError, match=f"{op} at 'node': .*{words}"):
        call_library("shape", op, attrs, args, 1)


def test_what_a_rule_for_values_of_a_run_raises_besides_is_a_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(attrs: Any, args: Any) -> Any:
        raise KeyError("a name of ours")

    rule = RECORDS["Split"].run_time
    assert rule is not None
    changed = replace(RECORDS["Split"], run_time=replace(rule, values=broken))
    monkeypatch.setitem(RECORDS._loaded, "Split", changed)  # type: ignore[attr-defined]
    attrs = (("where", "node"), ("names", ("dim0",)))
    with pytest.raises(InternalFault, match="the run-time numbers of Split at 'node'"):
        call_library("shape", "Split", attrs, (row(2), row(2)), 1)
