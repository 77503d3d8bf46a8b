"""Scatters compiled: the updates that land on a result, combined in order, by tasks that each keep
what is theirs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer
from explorer.compiler.compilation import Compilation
from explorer.errors import BoundError, IronworksError
from tests.ops.one_operator import Case, oracle, proto

BY_NAME = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
HOWS = ("none", *BY_NAME)


def compiled(case: Case, folder: Path, threads: int = 2, **options: Any) -> Compilation:
    onnx.save(proto(case), folder / "case.onnx")
    knobs = explorer.Options(rammer=explorer.rammer.Options(threads=threads))
    return explorer.compile(folder / "case.onnx", options=knobs, **options)


def answer(case: Case, folder: Path, threads: int = 2, check: bool = True) -> np.ndarray:
    """What the compiled operator gives, nothing of it by a library call."""
    found = compiled(case, folder, threads, check=check)
    assert not found.program.library_calls
    given = {f"x{n}": v for n, v in enumerate(case.inputs) if n not in case.known}
    return np.asarray(found.run(given)["y0"])


def one_by_one(y: np.ndarray, place: Any, update: Any, how: str) -> None:
    y[place] = update if how == "none" else BY_NAME[how](y[place], update)


def nd(x: np.ndarray, index: np.ndarray, updates: np.ndarray, how: str) -> np.ndarray:
    """ScatterND one row after the other."""
    y = x.copy()
    with np.errstate(all="ignore"):
        for at in np.ndindex(*index.shape[:-1]):
            one_by_one(y, tuple(index[at]), updates[at], how)
    return y


def elements(
    x: np.ndarray, index: np.ndarray, updates: np.ndarray, axis: int, how: str
) -> np.ndarray:
    """ScatterElements one element after the other."""
    y = x.copy()
    with np.errstate(all="ignore"):
        for at in np.ndindex(*index.shape):
            place = (*at[:axis], index[at], *at[axis + 1 :])
            one_by_one(y, place, updates[at], how)
    return y


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Numbers of a dtype; floats have some NaN, infinities and zeros of both signs."""
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    found = rng.standard_normal(shape)
    chance = rng.random(shape)
    for n, special in enumerate((np.nan, np.inf, -np.inf, 0.0, -0.0)):
        found[(chance >= n / 50) & (chance < (n + 1) / 50)] = special
    return found.astype(dtype)


def reduction(how: str) -> dict[str, Any]:
    return {} if how == "none" else {"reduction": how}


DTYPES = (np.float32, np.float64, np.float16, np.int32, np.int64, np.int8, np.uint8)
TOLERANCE = {np.float16: 4e-3, np.float32: 1e-5, np.float64: 1e-12}


def agree(found: np.ndarray, wanted: np.ndarray, dtype: Any) -> None:
    if dtype in TOLERANCE:
        bound = TOLERANCE[dtype]
        np.testing.assert_allclose(
            found.astype(float), wanted.astype(float), rtol=bound, atol=bound
        )
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.few(11)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("seed", range(7))
def test_rows_land_where_their_indices_say(seed: int, how: str, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, HOWS.index(how)])
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 7, 17], rng.integers(1, 4)))
    depth, dtype = int(rng.integers(1, len(shape) + 1)), DTYPES[seed]
    rows = tuple(int(n) for n in rng.choice([1, 5, 23], rng.integers(0, 3)))
    index = np.stack([rng.integers(-n, n, rows) for n in shape[:depth]], -1)
    x, updates = values(rng, shape, dtype), values(rng, (*rows, *shape[depth:]), dtype)
    case = Case("ScatterND", [x, index, updates], reduction(how))
    agree(answer(case, tmp_path), nd(x, index, updates, how), dtype)


@pytest.mark.few(9)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("seed", range(7))
def test_elements_land_where_their_indices_say(seed: int, how: str, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, HOWS.index(how), 1])
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 7, 17], rng.integers(1, 4)))
    axis, dtype = int(rng.integers(0, len(shape))), DTYPES[seed]
    rows = [n if rng.random() < 0.6 else int(rng.integers(1, n + 1)) for n in shape]
    rows[axis] = int(rng.integers(1, 2 * shape[axis] + 1))
    if how == "none":
        rows[axis] = min(rows[axis], shape[axis])
    index = rng.integers(-shape[axis], shape[axis], rows).astype(rng.choice([np.int32, np.int64]))
    x, updates = values(rng, shape, dtype), values(rng, tuple(rows), dtype)
    case = Case("ScatterElements", [x, index, updates], {"axis": axis, **reduction(how)})
    agree(answer(case, tmp_path), elements(x, index, updates, axis, how), dtype)


@pytest.mark.few(10)
@pytest.mark.parametrize(
    ("shape", "rows"), [((0, 3), 0), ((5, 0), 4), ((5, 3), 0), ((1, 1), 1), ((1, 3), 4)]
)
@pytest.mark.parametrize("how", HOWS)
def test_nothing_and_one_are_numbers_of_rows_and_results(
    shape: tuple[int, int], rows: int, how: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    index = rng.integers(0, max(1, shape[0]), (rows, 1))
    x, updates = values(rng, shape, np.float32), values(rng, (rows, shape[1]), np.float32)
    case = Case("ScatterND", [x, index, updates], reduction(how))
    agree(answer(case, tmp_path), nd(x, index, updates, how), np.float32)


@pytest.mark.parametrize("how", HOWS)
def test_extents_may_be_symbols(how: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    shape, rows = (11, 6), 29
    index = rng.integers(-11, 11, (rows, 1))
    x, updates = values(rng, shape, np.float32), values(rng, (rows, 6), np.float32)
    case = Case("ScatterND", [x, index, updates], reduction(how), free=(11, 29, 6))
    found = compiled(case, tmp_path, check=True)
    for few in (rows, 1, 2):
        given = {"x0": x, "x1": index[:few], "x2": updates[:few]}
        agree(found.run(given)["y0"], nd(x, index[:few], updates[:few], how), np.float32)


def test_each_result_is_combined_in_one_order_by_any_number_of_threads(tmp_path: Path) -> None:
    """Bit for bit what NumPy gives, who takes the rows one after the other."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal((997, 33)).astype(np.float32)
    index = rng.integers(0, 97, (4000, 1))  # about forty rows on each
    updates = rng.standard_normal((4000, 33)).astype(np.float32)
    wanted = x.copy()
    np.add.at(wanted, index[:, 0], updates)
    case = Case("ScatterND", [x, index, updates], {"reduction": "add"})
    for threads in (1, 2, 3):
        for _ in range(3):
            np.testing.assert_array_equal(answer(case, tmp_path, threads, check=False), wanted)


def test_the_last_of_several_updates_takes_the_place(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    x = np.zeros((13, 5), np.float32)
    index = rng.integers(-13, 13, (200, 1))
    updates = rng.standard_normal((200, 5)).astype(np.float32)
    case = Case("ScatterND", [x, index, updates])
    np.testing.assert_array_equal(answer(case, tmp_path), nd(x, index, updates, "none"))


def test_no_scatter_is_a_library_call_for_its_size(tmp_path: Path) -> None:
    """Results times updates are 2 ** 34: what passes over all pairs would take a minute."""
    rng = np.random.default_rng(9)
    many = 1 << 17
    x, updates = np.zeros(many, np.float32), rng.standard_normal(many).astype(np.float32)
    index = rng.permutation(many)[:, None]
    case = Case("ScatterND", [x, index, updates], {"reduction": "add"})
    wanted = np.zeros_like(x)
    wanted[index[:, 0]] = updates
    np.testing.assert_array_equal(answer(case, tmp_path, check=False), wanted)


def test_narrow_floats_are_rounded_once(tmp_path: Path) -> None:
    """2048 and 2049 ones: a sum that is rounded to float16 each time would stay at 2048."""
    x = np.array([1, 0, 0], np.float16)
    updates = np.ones(2 * 2049, np.float16)
    index = np.repeat([[0], [2]], 2049, 0)
    case = Case("ScatterND", [x, index, updates], {"reduction": "add"})
    wanted = np.array([2050, 0, 2049]).astype(np.float16)
    np.testing.assert_array_equal(answer(case, tmp_path), wanted)


def test_bfloat16_is_combined_in_float32(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="max")],
        "scatter",
        [
            info("x", TensorProto.BFLOAT16, [4]),
            info("i", TensorProto.INT64, [3, 1]),
            info("u", TensorProto.BFLOAT16, [3]),
        ],
        [info("y", TensorProto.BFLOAT16, [4])],
    )
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "m.onnx")
    x = np.array([1, 2, 3, np.nan], ml_dtypes.bfloat16)
    given = {
        "x": x,
        "i": np.array([[0], [0], [2]]),
        "u": np.array([3, 5, 1], ml_dtypes.bfloat16),
    }
    found = explorer.compile(tmp_path / "m.onnx", check=True).run(given)["y"]
    np.testing.assert_array_equal(found.astype(float), [5, 2, 3, np.nan])


@pytest.mark.parametrize("how", ("none", "add", "max"))
def test_updates_are_computed_and_results_used_around_a_scatter(how: str, tmp_path: Path) -> None:
    """exp before it and a row's softmax after it, in one program."""
    rng = np.random.default_rng(10)
    info, f = helper.make_tensor_value_info, TensorProto.FLOAT
    nodes = [
        helper.make_node("Exp", ["u"], ["e"]),
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("ScatterND", ["n", "i", "e"], ["s"], **reduction(how)),
        helper.make_node("Softmax", ["s"], ["y"], axis=-1),
    ]
    inputs = [info("x", f, [37, 11]), info("i", TensorProto.INT64, [50, 1]), info("u", f, [50, 11])]
    graph = helper.make_graph(nodes, "around", inputs, [info("y", f, [37, 11])])
    opset = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    given = {
        "x": rng.standard_normal((37, 11)).astype(np.float32),
        "i": rng.integers(-37, 37, (50, 1)),
        "u": rng.standard_normal((50, 11)).astype(np.float32),
    }
    if how == "none":  # whose last update stays is onnxruntime's own affair
        given["i"] = np.concatenate([rng.permutation(37), -1 - np.arange(13)])[:, None]
        given["u"][37:] = given["u"][given["i"][:37, 0].argsort()][37 + given["i"][37:, 0]]
    found = explorer.compile(tmp_path / "m.onnx", check=True).run(given)["y"]
    np.testing.assert_allclose(found, oracle(model, given)[0], atol=1e-6)


@pytest.mark.parametrize("how", ("none", "add"))
@pytest.mark.parametrize("op", ("ScatterND", "ScatterElements"))
@pytest.mark.parametrize("free", ((), (5,)))
def test_an_index_that_names_no_element_is_refused(
    op: str, free: tuple[int, ...], how: str, tmp_path: Path
) -> None:
    x, updates = np.zeros((5, 1), np.float32), np.ones((2, 1), np.float32)
    index = np.array([[4], [-5]])
    found = compiled(Case(op, [x, index, updates], reduction(how), free=free), tmp_path)
    found.run({"x0": x, "x1": index, "x2": updates})
    for wrong in (5, -6):
        with pytest.raises(BoundError, match=r"'x1' holds .* selects from 5 elements"):
            found.run({"x0": x, "x1": np.array([[0], [wrong]]), "x2": updates})


@pytest.mark.parametrize("wrong", (5, -6))
@pytest.mark.parametrize("op", ("ScatterND", "ScatterElements"))
def test_a_known_index_that_names_no_element_is_refused_when_it_is_compiled(
    op: str, wrong: int, tmp_path: Path
) -> None:
    x, updates = np.zeros((5, 1), np.float32), np.ones((2, 1), np.float32)
    case = Case(op, [x, np.array([[0], [wrong]]), updates], known=(1,))
    with pytest.raises(IronworksError, match=f"the index {wrong} names none of 5 elements"):
        compiled(case, tmp_path)


def test_an_index_that_is_computed_writes_nowhere_else(tmp_path: Path) -> None:
    """No input tells that it names no element, so the update goes nowhere."""
    info, f = helper.make_tensor_value_info, TensorProto.FLOAT
    nodes = [
        helper.make_node("Mul", ["i", "i"], ["ii"]),
        helper.make_node("ScatterND", ["x", "ii", "u"], ["y"], reduction="add"),
    ]
    inputs = [info("x", f, [5]), info("i", TensorProto.INT64, [3, 1]), info("u", f, [3])]
    graph = helper.make_graph(nodes, "computed", inputs, [info("y", f, [5])])
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "m.onnx")
    given = {
        "x": np.zeros(5, np.float32),
        "i": np.array([[2], [1000], [1]]),
        "u": np.array([1, 2, 4], np.float32),
    }
    found = explorer.compile(tmp_path / "m.onnx", check=True).run(given)["y"]
    np.testing.assert_array_equal(found, [0, 4, 0, 0, 1])
