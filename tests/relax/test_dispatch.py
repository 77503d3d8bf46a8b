"""Operators that a library takes become calls of it; what does not match is lowered as ever."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import explorer
from explorer.errors import BadOption, DtypeError, ShapeError, UnsupportedOperator
from explorer.ir.calls import KernelCall, LibraryCall, OpCall
from explorer.ir.program import Program
from explorer.ir.text.program_text import parse_program, print_program
from explorer.ir.types import Tensor
from explorer.ops.interpreter import library_functions
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.libraries import call_library
from explorer.relax import Dispatch, deduce, dispatch, legalize
from explorer.relax import Options as RelaxOptions
from explorer.relax.dispatch import Moved, patterns
from explorer.relax.graph_patterns import Op, number, op, wild
from tests.tuning.models import written

random = np.random.default_rng(7)


def numbers(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(dispatch, "_registered", dict(dispatch._registered))
    monkeypatch.setattr(library_functions, "_functions", dict(library_functions._functions))
    yield


def node(op_type: str, inputs: list[str], output: str, **attrs: object):
    return helper.make_node(op_type, inputs, [output], **attrs)


GELU = [
    node("MatMul", ["x", "w"], "h"),
    node("Add", ["h", "b"], "s"),
    node("Div", ["s", "root2"], "d"),
    node("Erf", ["d"], "e"),
    node("Add", ["one", "e"], "p"),
    node("Mul", ["s", "p"], "q"),
    node("Mul", ["q", "half"], "g"),
    node("MatMul", ["g", "v"], "y"),
]
WEIGHTS = {
    "w": numbers(8, 16),
    "b": numbers(16),
    "v": numbers(16, 4),
    "root2": np.array(sqrt(2), np.float32),
    "one": np.array(1, np.float32),
    "half": np.array(0.5, np.float32),
}


def typed(tmp_path: Path, nodes=GELU, inputs=None, outputs=("y",), weights=WEIGHTS) -> Program:
    given = inputs or {"x": ["n", 8]}
    return deduce(written(tmp_path, nodes, given, list(outputs), weights).program)


def calls(program: Program) -> list[str]:
    """What stands in the main function, in order."""
    names = []
    for b in program.main.body:
        match b.expr:
            case OpCall(name, _, _):
                names.append(name)
            case LibraryCall(room, name, _, _):
                names.append(f"{room}.{name}")
            case KernelCall(kernel, _, _):
                names.append(f"kernel {kernel.name}")
    return names


def moved(program: Program, *names: str) -> Program:
    return Dispatch(patterns(names))(program)


def rows(program: Program) -> list[Moved]:
    return [r for r in program.decisions.dispatch if isinstance(r, Moved)]


def same(before: Program, after: Program, /, **inputs: np.ndarray) -> None:
    want, got = evaluate(before, inputs), evaluate(after, inputs)
    for key, value in want.items():
        assert got[key].dtype == value.dtype
        np.testing.assert_allclose(got[key], value, rtol=1e-4, atol=1e-5)


# BLAS.


def test_a5_15_blas_takes_products_and_the_rest_is_lowered(tmp_path: Path) -> None:
    before = typed(tmp_path)
    after = moved(before, "blas")
    assert calls(after) == [
        "blas.matmul_add", "Div", "Erf", "Add", "Mul", "Mul", "blas.matmul",
    ]  # fmt: skip
    lowered = legalize(after)
    assert [c.split()[0] for c in calls(lowered)] == ["blas.matmul_add"] + ["kernel"] * 5 + [
        "blas.matmul"
    ]
    for extent in (1, 2, 7):
        same(before, lowered, x=numbers(extent, 8))


def test_a5_15_the_listing_shows_which_calls_moved_and_reads_back(tmp_path: Path) -> None:
    after = moved(typed(tmp_path), "blas")
    text = print_program(after)
    assert "library blas matmul_add(x, @w, @b)" in text
    assert [(r.value, r.library, r.operators) for r in rows(after) if not r.refused] == [
        ("s", "blas.matmul_add", ("Add", "MatMul")),
        ("y", "blas.matmul", ("MatMul",)),
    ]
    again = parse_program(text, after.constants)
    assert [b.expr for b in again.main.body] == [b.expr for b in after.main.body]


def test_a5_15_compiled_on_and_off_give_equal_results(tmp_path: Path) -> None:
    model = written(tmp_path, GELU, {"x": ["n", 8]}, ["y"], WEIGHTS)
    off = explorer.compile(model)
    on = explorer.compile(
        model, options=explorer.Options(relax=RelaxOptions(dispatch=("blas",))), check=True
    )
    assert all(s.checked is True for s in on.snapshots if s.checked is not None)
    assert len(off.program.library_calls) == 0
    assert len(on.program.library_calls) == 2
    for extent in (1, 5, 16):
        x = numbers(extent, 8)
        for _ in range(2):
            np.testing.assert_allclose(on.run({"x": x})["y"], off.run({"x": x})["y"], atol=1e-4)


def test_a_bias_that_does_not_match_stays_a_step_of_its_own(tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "w"], "h"), node("Add", ["h", "c"], "y")]
    larger = typed(tmp_path, nodes, {"x": ["n", 8], "c": [3, "n", 16]})
    after = moved(larger, "blas")
    assert calls(after) == ["blas.matmul", "Add"]
    assert "makes the product larger" in next(r.refused for r in rows(after) if r.refused)
    same(larger, legalize(after), x=numbers(5, 8), c=numbers(3, 5, 16))
    nodes = [*nodes[:1], node("Add", ["h", "b"], "z"), node("Mul", ["h", "z"], "y")]
    twice = typed(tmp_path, nodes)
    after = moved(twice, "blas")
    assert calls(after) == ["blas.matmul", "Add", "Mul"]
    assert "h is read elsewhere too" in [r.refused for r in rows(after)]
    kept = moved(typed(tmp_path, nodes[:2], outputs=("z", "h")), "blas")
    assert calls(kept) == ["blas.matmul", "Add"]
    assert "h is an output" in [r.refused for r in rows(kept)]


def test_a_product_that_is_added_to_itself_is_read_as_well_as_replaced(tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "w"], "h"), node("Add", ["h", "h"], "y")]
    doubled = typed(tmp_path, nodes)
    after = moved(doubled, "blas")
    assert calls(after) == ["blas.matmul", "Add"]
    assert "h is read elsewhere too" in [r.refused for r in rows(after)]
    same(doubled, legalize(after), x=numbers(5, 8))


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm_and_its_attributes_go_to_blas(transposed: int, tmp_path: Path) -> None:
    nodes = [
        node("Gemm", ["x", "w", "b"], "y", alpha=0.5, beta=2.0, transA=transposed, transB=1),
    ]
    shape: list[int | str] = [8, "n"] if transposed else ["n", 8]
    before = typed(tmp_path, nodes, {"x": shape, "w": [4, 8], "b": [4]}, weights={})
    after = moved(before, "blas")
    assert calls(after) == ["blas.gemm"]
    x = numbers(8, 3) if transposed else numbers(3, 8)
    same(before, after, x=x, w=numbers(4, 8), b=numbers(4))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (["n", 4], [4]),
        ([4], [4, "n"]),
        ([4], [4]),
        ([2, 1, "n", 4], [3, 4, 5]),
        ([1, "n", 4], ["m", 4, 2]),
    ],
)
def test_products_of_every_rank_go_to_blas(a: list, b: list, tmp_path: Path) -> None:
    before = typed(tmp_path, [node("MatMul", ["a", "b"], "y")], {"a": a, "b": b}, weights={})
    after = moved(before, "blas")
    assert calls(after) == ["blas.matmul"]
    sizes = {"n": 3, "m": 2}
    x, y = (numbers(*(sizes.get(d, d) for d in s)) for s in (a, b))
    same(before, after, a=x, b=y)


def test_integers_are_no_work_for_a_blas(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=7),
        node("MatMul", ["i", "i"], "y"),
    ]
    after = moved(typed(tmp_path, nodes, {"x": [4, 4]}), "blas")
    assert calls(after) == ["Cast", "MatMul"]
    assert "float32 and float64" in rows(after)[0].refused


# The onnx package.


def test_a5_15_single_operators_go_to_the_onnx_package(tmp_path: Path) -> None:
    before = typed(tmp_path)
    after = moved(before, "onnx.Erf")
    assert [c for c in calls(after) if "." in c] == ["onnx.Erf"]
    same(before, legalize(after), x=numbers(5, 8))
    everything = moved(before, "onnx")
    assert all(c.startswith("onnx.") for c in calls(everything))
    same(before, everything, x=numbers(5, 8))


def test_the_first_name_goes_first(tmp_path: Path) -> None:
    before = typed(tmp_path)
    assert calls(moved(before, "onnx.Add", "blas"))[:2] == ["blas.matmul", "onnx.Add"]
    assert calls(moved(before, "blas", "onnx.Add"))[0] == "blas.matmul_add"


def test_attributes_that_were_arguments_are_arguments_again(tmp_path: Path) -> None:
    nodes = [node("ReduceSum", ["x", "axes"], "y", keepdims=0)]
    before = typed(tmp_path, nodes, weights={"axes": np.array([1])})
    after = moved(before, "onnx.ReduceSum")
    assert calls(after) == ["onnx.ReduceSum"]
    same(before, after, x=numbers(5, 8))


def test_numbers_that_were_arguments_keep_their_dtype(tmp_path: Path) -> None:
    ends = {n: np.float32(v) for n, v in (("first", 3), ("end", 16), ("by", 2))}
    nodes = [node("Range", list(ends), "r"), node("Add", ["x", "r"], "y")]
    before = typed(tmp_path, nodes, {"x": [7]}, weights=ends)
    after = moved(before, "onnx.Range")
    assert calls(after) == ["onnx.Range", "Add"]
    same(before, after, x=numbers(7))


def test_symbolic_extents_are_no_work_for_the_onnx_package(tmp_path: Path) -> None:
    nodes = [
        node("Shape", ["x"], "s"),
        node("Expand", ["one", "s"], "e"),
        node("Add", ["x", "e"], "y"),
    ]
    before = typed(tmp_path, nodes, weights={"one": np.ones((1, 1), np.float32)})
    after = moved(before, "onnx")
    assert calls(after) == ["Expand", "onnx.Add"]
    assert "no symbolic extents" in next(r.refused for r in rows(after) if r.refused)
    same(before, legalize(after), x=numbers(3, 8))


def test_what_the_onnx_package_gets_wrong_is_not_given_to_it(tmp_path: Path) -> None:
    """Its loop over the channels ends at the number of images (onnx 1.23)."""
    before = typed(tmp_path, [node("LRN", ["x"], "y", size=5)], {"x": [2, 6, 3, 3]})
    after = moved(before, "onnx")
    assert calls(after) == ["LRN"]
    assert "own evaluator" in next(r.refused for r in rows(after) if r.refused)


# The user's own.

X = wild("x")
GELU_PATTERN = op("Mul", op("Mul", X, op("Add", op("Erf", op("Div", X, sqrt(2))), 1)), 0.5)


def gelu(x: np.ndarray) -> np.ndarray:
    return (x * 0.5 * (1 + np.vectorize(_erf)(x / sqrt(2)))).astype(np.float32)


def _erf(value: float) -> float:
    from math import erf

    return erf(value)


def test_a_function_of_the_users_own_takes_a_pattern(tmp_path: Path) -> None:
    explorer.library("mylib.gelu", pattern=GELU_PATTERN, annotation=lambda x: x)(gelu)
    before = typed(tmp_path)
    after = moved(before, "mylib", "blas")
    assert calls(after) == ["blas.matmul_add", "mylib.gelu", "blas.matmul"]
    (row,) = [r for r in rows(after) if r.library == "mylib.gelu"]
    assert row.operators == ("Mul", "Mul", "Add", "Erf", "Div")
    origins = frozenset[str]().union(*(b.origin for b in before.main.body))
    assert origins == frozenset[str]().union(*(b.origin for b in after.main.body))
    same(before, after, x=numbers(5, 8))


def test_a_function_may_write_into_what_it_is_given(tmp_path: Path) -> None:
    seen: list[np.ndarray] = []

    @explorer.library("mylib.relu", pattern="Relu", annotation=lambda x: x)
    def relu(x: np.ndarray, out: np.ndarray) -> None:
        seen.append(out)
        np.maximum(x, 0, out=out)

    nodes = [node("Neg", ["x"], "h"), node("Relu", ["h"], "r"), node("Neg", ["r"], "y")]
    model = written(tmp_path, nodes, {"x": ["n", 8]}, ["y"])
    options = explorer.Options(relax=RelaxOptions(dispatch=("mylib.relu",)))
    compiled = explorer.compile(model, options=options)
    for extent in (1, 3, 3):
        x = numbers(extent, 8)
        np.testing.assert_array_equal(compiled.run({"x": x})["y"], -np.maximum(-x, 0))
    assert all(out.base is not None for out in seen), "it wrote into the arena"
    (found,) = call_library("mylib", "relu", (), [numbers(2, 2)], 1)
    assert found.shape == (2, 2)


def test_attributes_reach_keyword_parameters(tmp_path: Path) -> None:
    @explorer.library("mylib.leaky", pattern="LeakyRelu")
    def leaky(x: np.ndarray, *, alpha: float = 0.01) -> np.ndarray:
        return np.where(x < 0, np.float32(alpha) * x, x)

    before = typed(tmp_path, [node("LeakyRelu", ["x"], "y", alpha=0.25)])
    after = moved(before, "mylib.leaky")
    assert calls(after) == ["mylib.leaky"]
    same(before, after, x=numbers(4, 8))


def test_a_check_narrows_a_pattern(tmp_path: Path) -> None:
    def wide(match) -> str:
        (x,) = match.args
        return "" if x.type.dims[-1] == 16 else f"{x.name} has {x.type.dims[-1]} columns, not 16"

    explorer.library("mylib.neg", pattern="Neg", check=wide)(lambda x: -x)
    after = moved(typed(tmp_path, [node("Neg", ["x"], "y")]), "mylib.neg")
    assert calls(after) == ["Neg"]
    assert rows(after)[0].refused == "x has 8 columns, not 16"


def test_a_wrong_shape_or_dtype_is_an_error_by_name(tmp_path: Path) -> None:
    model = written(tmp_path, [node("Neg", ["x"], "y")], {"x": ["n", 8]}, ["y"])
    options = explorer.Options(relax=RelaxOptions(dispatch=("mylib.neg",)))

    def run() -> object:
        compiled = explorer.compile(model, options=options)
        x = numbers(2, 8)
        with pytest.raises((ShapeError, DtypeError), match=r"mylib\.neg returned"):
            evaluate(compiled.program, {"x": x})
        return compiled.run({"x": x})

    explorer.library("mylib.neg", pattern="Neg")(lambda x: -x[:1])
    with pytest.raises(
        ShapeError, match=r"mylib\.neg returned an array of shape \(1, 8\), and 'y' was deduced"
    ):
        run()
    explorer.library("mylib.neg", pattern="Neg")(lambda x: -x.astype(np.float64))
    with pytest.raises(
        DtypeError, match=r"mylib\.neg returned an array of float64, and 'y' was deduced"
    ):
        run()
    explorer.library("mylib.neg", pattern="Neg", annotation=lambda x: x)(lambda x: -x[:1])
    with pytest.raises(ShapeError, match=r"mylib\.neg returned an array of shape \(1, 8\)"):
        run()
    explorer.library("mylib.neg", pattern="Neg", annotation=lambda x: x)(lambda x: x > 0)
    with pytest.raises(DtypeError, match=r"mylib\.neg returned an array of bool"):
        run()
    explorer.library("mylib.neg", pattern="Neg")(lambda x: (x, x))
    with pytest.raises(ShapeError, match=r"mylib\.neg returned 2 results where 1 are bound"):
        run()


def test_an_annotation_that_cannot_be_true_is_an_error_when_compiling(tmp_path: Path) -> None:
    before = typed(tmp_path, [node("Neg", ["x"], "y")])

    def row(x: Tensor) -> Tensor:
        return Tensor((x.dims[0], 9), x.dtype)

    explorer.library("mylib.neg", pattern="Neg", annotation=row)(lambda x: -x)
    with pytest.raises(ShapeError, match=r"mylib\.neg is annotated to give float32\[n, 9\]"):
        moved(before, "mylib.neg")
    explorer.library("mylib.neg", pattern="Neg", annotation=lambda x, y: x)(lambda x: -x)
    with pytest.raises(BadOption, match=r"annotation of mylib\.neg failed"):
        moved(before, "mylib.neg")


def test_names_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="named 'cublas'"):
        patterns(("cublas",))
    with pytest.raises(BadOption, match=r"library\.function"):
        explorer.library("gelu", pattern="Gelu")(gelu)
    with pytest.raises(BadOption, match=r"library\.function"):
        explorer.library("blas.gelu", pattern="Gelu")(gelu)
    with pytest.raises(BadOption, match="how large that is must be said"):
        explorer.library("mylib.gelu", pattern="Gelu")(lambda x, out: None)
    with pytest.raises(BadOption, match="cannot be inspected"):
        explorer.library("mylib.gelu", pattern="Gelu")(max)
    with pytest.raises(UnsupportedOperator, match="no function 'nothing'"):
        call_library("blas", "nothing", (), [], 1)


# Patterns.


def test_a_wildcard_that_stands_twice_is_one_value(tmp_path: Path) -> None:
    square = op("Mul", "x", "x")
    explorer.library("mylib.square", pattern=square)(lambda x: x * x)
    nodes = [node("Mul", ["x", "x"], "a"), node("Mul", ["x", "a"], "y")]
    before = typed(tmp_path, nodes)
    after = moved(before, "mylib")
    assert calls(after) == ["mylib.square", "Mul"]
    same(before, after, x=numbers(3, 8))


def test_numbers_and_attributes_are_part_of_a_pattern(tmp_path: Path) -> None:
    explorer.library("mylib.double", pattern=op("Mul", "x", number(2.0)))(lambda x: x + x)
    nodes = [node("Mul", ["two", "x"], "a"), node("Mul", ["a", "three"], "y")]
    weights = {"two": np.array([2], np.float32), "three": np.array([3], np.float32)}
    assert calls(moved(typed(tmp_path, nodes, weights=weights), "mylib")) == ["mylib.double", "Mul"]
    explorer.library("mylib.rows", pattern=op("Softmax", "x", axis=-1))(lambda x: x)
    rows_only = typed(tmp_path, [node("Softmax", ["x"], "h", axis=0), node("Softmax", ["h"], "y")])
    assert calls(moved(rows_only, "mylib.rows"))[0] == "Softmax"


def test_no_operator_is_in_two_calls(tmp_path: Path) -> None:
    chain = Op("Neg", (Op("Neg", (wild("x"),)),))
    explorer.library("mylib.twice", pattern=chain)(lambda x: x)
    nodes = [
        node("Neg", ["x"], "t1"),
        node("Neg", ["t1"], "t2"),
        node("Neg", ["t2"], "t3"),
        node("Neg", ["t3"], "t4"),
        node("Neg", ["t4"], "y"),
    ]
    before = typed(tmp_path, nodes)
    after = moved(before, "mylib.twice")
    assert calls(after) == ["Neg", "mylib.twice", "mylib.twice"]
    same(before, after, x=numbers(3, 8))
