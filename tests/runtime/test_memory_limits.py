"""Memory limits, checked before allocation: results, intermediates, tables, rows of a loop, random
inputs; whether the file says the sizes or a value of the run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer
from explorer.errors import BoundError, ShapeError, TooLarge
from explorer.frontends.load import load
from explorer.passes.random_inputs import random_inputs
from explorer.relax import deduce
from explorer.runtime.workers.aligned_memory import aligned_array, aligned_bytes
from explorer.transforms.simplify.fold_constants import fold_constants
from tests.frontends.models import model, saved, value

INT, BOOL = TensorProto.INT64, TensorProto.BOOL
node = helper.make_node
Inputs = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRONWORKS_MEMORY", "16MiB")


def row(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def of_x(
    op: str, rest: list[str], shape: list[int], constants: Inputs, **attrs: object
) -> tuple[onnx.ModelProto, Inputs]:
    made = model([node(op, ["x", *rest], ["y"], **attrs)], [value("x", shape)], ["y"], constants)
    return made, {"x": np.ones(shape, np.float32)}


def of_numbers(op: str, inputs: Inputs, **attrs: object) -> tuple[onnx.ModelProto, Inputs]:
    """An operator whose arguments are all values of the run."""
    kinds = {n: TensorProto.FLOAT if a.dtype == np.float32 else INT for n, a in inputs.items()}
    given = [value(n, list(a.shape), kinds[n]) for n, a in inputs.items()]
    return model([node(op, list(inputs), ["y"], **attrs)], given, ["y"]), inputs


X = np.ones(4, np.float32)
HUGE = 1 << 40
CASES: dict[str, Callable[[], tuple[onnx.ModelProto, Inputs]]] = {
    "resize": lambda: of_x(
        "Resize", ["", "s"], [1, 1, 4, 4], {"s": np.array([1, 1, 1e4, 1e4], np.float32)}
    ),
    "a table of resize": lambda: of_x(
        "Resize", ["", "", "s"], [1, 1, 1, 4], {"s": row(1, 1, 1, 1 << 21)}, mode="cubic"
    ),
    "transposed convolution": lambda: of_x(
        "ConvTranspose",
        ["w"],
        [1, 1, 40, 40],
        {"w": np.ones((1, 1, 3, 3), np.float32)},
        strides=[10**6, 10**6],
    ),
    "expand": lambda: of_x("Expand", ["s"], [1], {"s": row(1 << 20, 1 << 20)}),
    "expand by a run": lambda: of_numbers("Expand", {"x": X[:1], "s": row(HUGE, HUGE)}),
    "tile": lambda: of_x("Tile", ["s"], [4], {"s": row(HUGE)}),
    "tile by a run": lambda: of_numbers("Tile", {"x": X, "s": row(HUGE)}),
    "pad": lambda: of_x("Pad", ["s"], [4], {"s": row(HUGE, HUGE)}),
    "pad by a run": lambda: of_numbers("Pad", {"x": X, "s": row(HUGE, HUGE)}),
    "range by a run": lambda: of_numbers(
        "Range", {"a": np.array(0), "b": np.array(HUGE), "c": np.array(1)}
    ),
    "one hot": lambda: of_numbers("OneHot", {"x": row(1), "d": np.array(HUGE), "v": X[:2]}),
    "fill by a run": lambda: of_numbers("ConstantOfShape", {"s": row(HUGE, HUGE)}),
    "outer product": lambda: of_x("Einsum", ["x", "x", "x"], [200], {}, equation="a,b,c,d->abcd"),
    "identity matrix": lambda: (
        model(
            [node("Expand", ["x", "s"], ["e"]), node("EyeLike", ["e"], ["y"])],
            [value("x", [1, 1])],
            ["y"],
            {"s": row(1 << 20, 1 << 20)},
        ),
        {"x": np.ones((1, 1), np.float32)},
    ),
    "an intermediate": lambda: (
        model(
            [
                node("Mul", ["x", "z"], ["m"]),
                node("CumSum", ["m", "axis"], ["c"]),
                node("ReduceMax", ["c"], ["y"]),
            ],
            [value("x", [1, 30000]), value("z", [30000, 1])],
            ["y"],
            {"axis": np.array(0)},
        ),
        {"x": np.ones((1, 30000), np.float32), "z": np.ones((30000, 1), np.float32)},
    ),
}


@pytest.mark.few(5)
@pytest.mark.parametrize("case", CASES)
def test_a_result_of_any_size_is_refused_before_it_is_made(case: str, tmp_path: Path) -> None:
    made, inputs = CASES[case]()
    path = saved(made, tmp_path)
    with pytest.raises(TooLarge, match="one model may take 16 MiB"):
        explorer.compile(load(path)).run(inputs)


def looped(
    state: list[str | int], nodes: list[onnx.NodeProto], scan: bool, until: int = 0
) -> onnx.ModelProto:
    """As many trips as a run wants, of a body over one state; `until`: which also ends the loop."""
    going = node("Identity", ["going"], ["go_on"])
    if until:
        going = node("Less", ["i", "until"], ["go_on"])
        nodes = [node("Constant", [], ["until"], value_int=until), *nodes]
    outputs = [value("go_on", [], BOOL), onnx.ValueInfoProto(name="next")]
    rows = [onnx.ValueInfoProto(name="row")] if scan else []
    params = [value("i", [], INT), value("going", [], BOOL), value("s", state)]
    body = helper.make_graph([*nodes, going], "body", params, [*outputs, *rows])
    results = ["y", "rows"] if scan else ["y"]
    loop = node("Loop", ["trips", "", "x"], results, body=body)
    return model([loop], [value("x", [4]), value("trips", [], INT)], results)


@pytest.mark.parametrize(
    ("until", "words"),
    [(0, r"'rows', float32\[\d+, 1000, 4\]"), (HUGE, r"body, after \d+ iterations")],
)
def test_rows_that_a_loop_stacks_without_end_are_refused(
    until: int, words: str, tmp_path: Path
) -> None:
    """Before the first trip, where only its count ends the loop."""
    nodes = [node("Add", ["s", "s"], ["next"]), node("Expand", ["s", "shape"], ["row"])]
    nodes.insert(0, node("Constant", [], ["shape"], value_ints=[1000, 4]))
    made = looped([4], nodes, True, until)
    compiled = explorer.compile(load(saved(made, tmp_path)))
    with pytest.raises(TooLarge, match=words):
        compiled.run({"x": X, "trips": np.array(HUGE)})


def test_a_state_that_grows_without_end_is_refused(tmp_path: Path) -> None:
    nodes = [node("Concat", ["s", "s"], ["next"], axis=0)]
    compiled = explorer.compile(load(saved(looped(["n"], nodes, scan=False), tmp_path)))
    assert compiled.run({"x": X, "trips": np.array(3)})["y"].shape == (32,)
    with pytest.raises(TooLarge, match=r"takes (16|32).* MiB, and one model"):
        compiled.run({"x": X, "trips": np.array(60)})


def doubling(steps: int, two: bool) -> onnx.ModelProto:
    """Constants that are twice as large after each step, of one or of two equal ones."""
    nodes, a, b = [], "a", "b"
    for n in range(steps):
        nodes.append(node("Concat", [a, b if two else a], [f"a{n}"], axis=0))
        nodes.append(node("Concat", [b, a], [f"b{n}"], axis=0))
        a, b = f"a{n}", f"b{n}"
    nodes += [node("ReduceSum", [a], ["s"], keepdims=0), node("Add", ["x", "s"], ["y"])]
    weights = {n: np.ones(1024, np.float32) for n in "ab"}
    return model(nodes, [value("x", [1])], ["y"], weights)


@pytest.mark.parametrize("two", [False, True])
def test_folding_constants_has_a_limit(two: bool, tmp_path: Path) -> None:
    program = deduce(load(saved(doubling(36, two), tmp_path)).program)
    folded = fold_constants(program)
    assert 0 < sum(c.array.nbytes for c in folded.constants.values()) < 8 << 20
    assert len(folded.main.body) > 20


def test_constants_of_equal_elements_have_a_limit(tmp_path: Path) -> None:
    nodes = [node("ConstantOfShape", ["s"], [f"c{n}"]) for n in range(5)]
    nodes.append(node("Sum", ["x", *(f"c{n}" for n in range(5))], ["y"]))
    made = model(nodes, [value("x", [1])], ["y"], {"s": row(1 << 20)})
    with pytest.raises(TooLarge, match="'c4', 1048576 equal elements, with all that is filled"):
        load(saved(made, tmp_path))


def test_random_inputs_are_judged_first(tmp_path: Path) -> None:
    program = load(
        saved(model([node("Relu", ["x"], ["y"])], [value("x", ["n", 4])], ["y"]), tmp_path)
    ).program
    assert random_inputs(program, {"n": 9})["x"].shape == (9, 4)
    with pytest.raises(BoundError, match="the size of n is -5"):
        random_inputs(program, {"n": -5})
    for n in (1 << 20, 1 << 62, 1 << 80):
        with pytest.raises(TooLarge, match="random inputs up to 'x'"):
            random_inputs(program, {"n": n})


@pytest.mark.parametrize("dims", [[1 << 62], [1 << 31, 1 << 31], [1 << 62, 0]])
def test_extents_that_no_machine_has_are_refused(dims: list[int], tmp_path: Path) -> None:
    path = saved(model([node("Relu", ["x"], ["y"])], [value("x", dims)], ["y"]), tmp_path)
    with pytest.raises(ShapeError, match="impossible shape"):
        explorer.compile(load(path), until="typed")


@pytest.mark.parametrize("size", [-5, 2.5, "x", None, True])
def test_sizes_are_whole_numbers_from_0_on(size: object, tmp_path: Path) -> None:
    made = model([node("Relu", ["x"], ["y"])], [value("x", ["n", 4])], ["y"])
    compiled = explorer.compile(load(saved(made, tmp_path)))
    for ask in (compiled.planned_wall, compiled.memory, compiled.random_inputs):
        with pytest.raises(BoundError, match="the size of n is a whole number from 0 on"):
            ask({"n": size})  # type: ignore[operator]
    assert compiled.random_inputs({"n": np.int64(3)})["x"].shape == (3, 4)


END = (1 << 63) - 1
BEYOND: dict[str, Callable[[], tuple[onnx.ModelProto, Inputs]]] = {
    "tile": lambda: of_numbers("Tile", {"x": np.ones((4, 4), np.float32), "s": row(END, 0)}),
    "pad": lambda: of_numbers("Pad", {"x": X, "s": row(END, END)}),
    "fill": lambda: of_numbers("ConstantOfShape", {"s": row(END, 0)}),
    "range": lambda: of_numbers(
        "Range", {"a": np.array(-END - 1), "b": np.array(END), "c": np.array(1)}
    ),
    "range of fractions": lambda: of_numbers(
        "Range", {n: np.array(v, np.float32) for n, v in (("a", 0), ("b", 1e30), ("c", 1e-30))}
    ),
}


@pytest.mark.parametrize("case", BEYOND)
def test_extents_beyond_64_bits_are_refused(case: str, tmp_path: Path) -> None:
    made, inputs = BEYOND[case]()
    with pytest.raises((TooLarge, ShapeError)) as raised:
        explorer.compile(load(saved(made, tmp_path))).run(inputs)
    assert "takes" in str(raised.value) or "does not take these values" in str(raised.value)


LIMITED = """
import resource, sys
import explorer
from explorer.errors import TooLarge

compiled = explorer.compile(explorer.load(sys.argv[1]))
inputs = compiled.random_inputs()
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
try:
    compiled.run(inputs)
except TooLarge as error:
    print(error.sentence)
"""


@pytest.mark.exhaustive
def test_a_limit_of_the_process_below_the_budget_is_told_in_a_sentence(tmp_path: Path) -> None:
    made, _ = of_x("Pad", ["s"], [2, 2], {"s": row(65536, 0, 0, 65536)})
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(saved(made, tmp_path))],
        env={**os.environ, "IRONWORKS_MEMORY": "100GiB"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"a run needs 16 GiB in one piece, and the system .*\n", done.stdout)


def test_arenas_and_arrays_that_the_system_does_not_give_are_refused() -> None:
    with pytest.raises(TooLarge, match="in one piece"):
        aligned_bytes(1 << 60)
    with pytest.raises(TooLarge, match="in one piece"):
        aligned_array((1 << 30, 1 << 28), np.dtype(np.float32))
