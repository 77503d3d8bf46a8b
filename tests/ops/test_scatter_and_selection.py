"""Scatters, choices of elements, and inverse functions, by every stage."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer
from explorer.errors import BoundError
from tests.ops.one_operator import Case, check

random = np.random.default_rng(7)
F = np.float32


def x(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(F)


ROWS = np.array([[2, 0, -1], [1, 1, 0]])
PLACES = np.array([[0, 1], [2, -1], [0, 1]])
SCATTER = [
    Case("ScatterElements", [x(4, 3), ROWS, x(2, 3)], {"axis": 0}, note="rows"),
    Case("ScatterElements", [x(4, 3), ROWS, x(2, 3)], {"axis": 0}, (1,), (), note="known"),
    Case("ScatterElements", [x(3, 4), ROWS.T, x(3, 2)], {"axis": -1}, free=(4,), note="columns"),
    Case("ScatterElements", [x(4, 5), ROWS, x(2, 3)], {"axis": 0}, note="part"),
    Case("Scatter", [x(4, 3), ROWS, x(2, 3)], {"axis": 0}, opset=10),
    *(
        Case("ScatterElements", [x(4, 3), ROWS, x(2, 3)], {"reduction": how}, note=how)
        for how in ("add", "mul", "max", "min")
    ),
    Case("ScatterND", [x(3, 2, 5), np.array([[2], [0]]), x(2, 2, 5)], free=(5,), note="slices"),
    Case("ScatterND", [x(3, 2), np.array([[[0, 1]], [[2, -1]]]), x(2, 1)], note="elements"),
    Case("ScatterND", [x(4), np.array([2]), x()], note="one"),
    *(
        Case("ScatterND", [x(3, 2, 5), PLACES, x(3, 5)], {"reduction": how}, note=how)
        for how in ("add", "mul", "max", "min")
    ),
    Case("ScatterND", [np.arange(6), np.array([[1], [1]]), np.array([9, 5])], {"reduction": "max"}),
]
CHOICE = [
    Case("TopK", [x(3, 6), np.array([2])], {"axis": 1}, (1,), (3,), outputs=2),
    Case("TopK", [x(5, 2), np.array([3])], {"axis": 0, "largest": 0}, (1,), outputs=2),
    Case("TopK", [np.array([3, 1, 3, 2, 1]), np.array([5])], {}, (1,), outputs=2, note="ties"),
    Case("TopK", [x(4), np.array([0])], {}, (1,), outputs=2, note="none"),
    Case("Hardmax", [x(3, 6)], free=(6,)),
    Case("Hardmax", [np.array([[1, 3, 3], [2, 2, 0]], F)], {"axis": 0}, note="ties"),
    Case("Hardmax", [x(2, 3, 2)], {"axis": 1}, opset=12),
    Case("EyeLike", [x(3, 4)], {"k": 1}),
    Case("EyeLike", [np.zeros((4, 2), np.int32)], {"k": -2, "dtype": 11}, note="float64"),
    Case("ReverseSequence", [x(4, 3, 2), np.array([4, 1, 2])], {"time_axis": 0, "batch_axis": 1}),
    Case(
        "ReverseSequence",
        [x(3, 4), np.array([4, 1, 2])],
        {"time_axis": 1, "batch_axis": 0},
        free=(4,),
        note="columns",
    ),
    Case("CumSum", [x(3, 4), np.array(1)], {"exclusive": 1, "reverse": 1}, (1,), (4,)),
]
IN_ONE = np.array([-1, -0.5, -0.0, 0.3, 1, np.nan, 1.5], F)
INVERSE = [
    ("Acos", IN_ONE),
    ("Asin", IN_ONE),
    ("Atan", np.array([-np.inf, -2, 0, 0.5, np.inf, np.nan], F)),
    ("Acosh", np.array([1, 1.5, 30, np.inf, 0.5, np.nan], F)),
    ("Asinh", np.array([-3, -0.0, 0.5, 20, np.nan], F)),
    ("Atanh", IN_ONE),
    ("Cosh", np.array([-3, 0, 0.5, 5, np.inf, np.nan], F)),
    ("Sinh", np.array([-3, -0.0, 0.5, 5, -np.inf, np.nan], F)),
]


def ids(cases: list[Case]) -> list[str]:
    return [f"{n}-{c.name}" for n, c in enumerate(cases)]


@pytest.mark.parametrize("case", SCATTER, ids=ids(SCATTER))
def test_updates_reach_the_places_that_indices_name(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", CHOICE, ids=ids(CHOICE))
def test_elements_are_chosen_as_onnxruntime_chooses(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize(("op", "values"), INVERSE, ids=[op for op, _ in INVERSE])
def test_inverse_functions_keep_their_limits(op: str, values: np.ndarray, tmp_path: Path) -> None:
    check(Case(op, [values]), tmp_path)


def test_a_scatter_of_many_rows_is_a_kernel(tmp_path: Path) -> None:
    many = 1 << 13
    index = random.permutation(many)[:, None]
    check(Case("ScatterND", [x(many), index, x(many)]), tmp_path)


@pytest.mark.parametrize("extent", [5, "n"])
@pytest.mark.parametrize(("index", "fits"), [(4, True), (-5, True), (5, False), (-6, False)])
def test_an_index_that_names_no_element_is_refused_whatever_the_extent_is(
    extent: int | str, index: int, fits: bool, tmp_path: Path
) -> None:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Gather", ["x", "i"], ["y"])],
        "gather",
        [info("x", TensorProto.FLOAT, [extent, 3]), info("i", TensorProto.INT64, [2])],
        [info("y", TensorProto.FLOAT, [2, 3])],
    )
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "m.onnx")
    compiled = explorer.compile(tmp_path / "m.onnx")
    given = {"x": np.arange(15, dtype=np.float32).reshape(5, 3), "i": np.array([0, index])}
    if fits:
        np.testing.assert_array_equal(compiled.run(given)["y"], given["x"][[0, index]])
        return
    with pytest.raises(BoundError, match=r"'i' holds .* selects from 5 elements"):
        compiled.run(given)
