"""Annotations are deduced forward; arithmetic on shapes leaves the program; nothing is guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import sympy
from onnx import TensorProto, helper, numpy_helper

from explorer.errors import BoundError, DtypeError, ShapeError
from explorer.frontends.load import load
from explorer.ir.calls import OpCall, ShapeOf
from explorer.ir.dims import symbol
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.relax import deduce, legalize
from tests.conformance.salt import LIGHT
from tests.frontends.models import DATA, model, saved, value

m, n, k = symbol("m"), symbol("n"), symbol("k")
INT64 = TensorProto.INT64


def typed(
    folder: Path, nodes: Any, inputs: Any, outputs: Any, constants: Any = None, bounds: Any = None
) -> Program:
    program = deduce(load(saved(model(nodes, inputs, outputs, constants), folder), bounds).program)
    verify(program)
    return program


def node(op: str, inputs: str, outputs: str, **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), name=outputs.split()[0], **attrs)


def type_of(program: Program, name: str) -> Any:
    return next(v.type for b in program.main.body for v in b.vars if v.name == name)


def test_a_broadcast_of_symbols_keeps_them(tmp_path: Path) -> None:
    found = typed(
        tmp_path, [node("Add", "a b", "y")], [value("a", ["m", 1]), value("b", ["n"])], ["y"]
    )
    assert type_of(found, "y") == Tensor((m, n), "float32")


def test_a_symbol_against_a_number_is_not_guessed(tmp_path: Path) -> None:
    program = deduce(
        load(
            saved(
                model([node("Mul", "a b", "y")], [value("a", [5]), value("b", ["k"])], ["y"]),
                tmp_path,
            )
        ).program
    )
    assert type_of(program, "y") == Tensor((5,), "float32")  # or there is no product
    assert not legalize(program).library_calls
    a = np.arange(5, dtype=np.float32)
    for k in (5, 1):
        found = evaluate(legalize(program), {"a": a, "b": np.full(k, 3, np.float32)})["y"]
        np.testing.assert_array_equal(found, a * 3)
    with pytest.raises(ShapeError, match=r"Mul at 'y': \[5\] and \[4\] do not broadcast"):
        evaluate(program, {"a": a, "b": np.full(4, 3, np.float32)})


def test_a_bound_can_prove_what_was_a_guess(tmp_path: Path) -> None:
    found = typed(
        tmp_path,
        [node("Mul", "a b", "y")],
        [value("a", [5]), value("b", ["k"])],
        ["y"],
        bounds={"k": 5},
    )
    assert isinstance(type_of(found, "y"), Tensor)


def test_extents_that_cannot_agree_are_named(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match=r"Add at 'y'.*5 and 4"):
        typed(tmp_path, [node("Add", "a b", "y")], [value("a", [5]), value("b", [4])], ["y"])
    with pytest.raises(
        ShapeError, match=r"MatMul at 'y': inner is 5 on the left and 4 on the right"
    ):
        typed(
            tmp_path, [node("MatMul", "a b", "y")], [value("a", [3, 5]), value("b", [4, 3])], ["y"]
        )


def reshape_by_shapes(folder: Path) -> Program:
    """x: [m, n, 6] -> [m*n, 6], by Shape, Gather, Mul, Unsqueeze and Concat."""
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "a"),
        node("Gather", "s one", "b"),
        node("Mul", "a b", "ab"),
        node("Unsqueeze", "ab axes", "row"),
        node("Concat", "row rest", "shape", axis=0),
        node("Reshape", "x shape", "y"),
    ]
    constants = {
        "zero": np.array(0),
        "one": np.array(1),
        "axes": np.array([0]),
        "rest": np.array([-1]),
    }
    return typed(folder, nodes, [value("x", ["m", "n", 6])], ["y"], constants)


def test_arithmetic_on_shapes_is_folded_and_says_so(tmp_path: Path) -> None:
    found = reshape_by_shapes(tmp_path)
    assert [b.expr.op for b in found.main.body if isinstance(b.expr, OpCall)] == ["Reshape"]
    assert type_of(found, "y") == Tensor((m * n, 6), "float32")
    assert dict(found.dropped) == dict.fromkeys(
        ["s", "a", "b", "ab", "row", "shape"], "folded into shapes"
    )


def test_one_program_serves_all_sizes(tmp_path: Path) -> None:
    found = legalize(reshape_by_shapes(tmp_path))
    for shape in [(1, 1, 6), (3, 5, 6), (2, 7, 6)]:
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(evaluate(found, {"x": x})["y"], x.reshape(-1, 6))


def test_a_shape_that_is_an_output_is_made_of_dims(tmp_path: Path) -> None:
    nodes = [node("Shape", "x", "s"), node("Mul", "s two", "y")]
    found = typed(tmp_path, nodes, [value("x", ["m", "n"])], ["y"], {"two": np.array(2)})
    (binding,) = found.main.body
    assert binding.expr == ShapeOf((2 * m, 2 * n))
    np.testing.assert_array_equal(evaluate(found, {"x": np.zeros((3, 4), np.float32)})["y"], [6, 8])


def test_whole_numbers_become_a_constant(tmp_path: Path) -> None:
    nodes = [node("Shape", "x", "s"), node("Mul", "s two", "y")]
    found = typed(tmp_path, nodes, [value("x", [3, 4])], ["y"], {"two": np.array(2)})
    assert found.main.body == ()
    np.testing.assert_array_equal(found.constants["y"].array, [6, 8])
    assert dict(found.dropped)["y"] == "folded into a constant"


def test_a_comparison_of_shapes_decides_a_where(tmp_path: Path) -> None:
    """Exporters write Where(shape == -1, 1, shape); no shape is -1."""
    nodes = [
        node("Shape", "x", "s"),
        node("Equal", "s minus", "e"),
        node("Where", "e ones s", "w"),
        node("Expand", "c w", "y"),
    ]
    constants = {
        "minus": np.array([-1]),
        "ones": np.array([1, 1]),
        "c": np.ones((1, 1), np.float32),
    }
    found = typed(tmp_path, nodes, [value("x", ["m", "n"])], ["y"], constants)
    assert type_of(found, "y") == Tensor((m, n), "float32")


def test_what_nothing_reads_is_dropped_with_its_reason(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "y"), node("Exp", "x", "z"), node("Abs", "z", "w")]
    found = typed(tmp_path, nodes, [value("x", [2])], ["y"])
    assert dict(found.dropped) == {"z": "nothing reads it", "w": "nothing reads it"}


def test_a_limit_in_the_model_becomes_a_bound(tmp_path: Path) -> None:
    """Positions are cut from a table of 512: the sequence cannot be longer."""
    found = deduce(load(DATA / "tiny_bert.onnx").program)
    assert found.env.of("seq").high == 512
    with pytest.raises(BoundError, match=r"seq is 513 and was bounded to 1 \.\. 512"):
        evaluate(found, {"x": np.zeros((1, 513), np.int64)})
    with pytest.raises(ShapeError, match=r"512 and seq \(600 .. 700\) do not broadcast"):
        deduce(load(DATA / "tiny_bert.onnx", {"seq": (600, 700)}).program)


SLICES = [
    ((0, 2), {}, lambda n: min(n, 2)),
    ((1, 2**63 - 1), {}, lambda n: n - 1),
    ((-3, 2**63 - 1), {}, lambda n: min(n, 3)),
    ((5, 9), {}, lambda n: max(0, min(n, 9) - 5)),
]


@pytest.mark.parametrize(("ends", "bounds", "length"), SLICES)
def test_the_length_of_a_slice_of_a_symbol(
    ends: Any, bounds: Any, length: Any, tmp_path: Path
) -> None:
    constants = {"s": np.array([ends[0]]), "e": np.array([ends[1]])}
    found = typed(tmp_path, [node("Slice", "x s e", "y")], [value("x", ["n"])], ["y"], constants)
    for size in (1, 2, 3, 4, 8, 20):
        x = np.arange(size, dtype=np.float32)
        right = x[slice(*ends)]
        assert len(right) == length(size)
        for program in (found, legalize(found)):
            np.testing.assert_array_equal(evaluate(program, {"x": x})["y"], right)


def test_a_condition_that_is_no_bool_is_named(tmp_path: Path) -> None:
    side = helper.make_graph([node("Relu", "x", "r")], "g", [], [onnx.ValueInfoProto(name="r")])
    made = model(
        [node("If", "x", "y", then_branch=side, else_branch=side)], [value("x", [1])], ["y"]
    )
    with pytest.raises(DtypeError, match="If at 'y'"):
        deduce(load(saved(made, tmp_path)).program)


def test_branches_that_give_other_shapes_get_what_both_have_in_common(tmp_path: Path) -> None:
    def side(axis: int) -> onnx.GraphProto:
        body = [node("Unsqueeze", "x ax", "r")] if axis else [node("Concat", "x x", "r", axis=0)]
        made = [] if not axis else [numpy_helper.from_array(np.array([0]), "ax")]
        graph = helper.make_graph(body, "g", [], [onnx.ValueInfoProto(name="r")], made)
        return graph

    made = model(
        [node("If", "c", "y", then_branch=side(0), else_branch=side(1))],
        [value("x", [2, 3]), value("c", [], TensorProto.BOOL)],
        ["y"],
    )
    program = deduce(load(saved(made, tmp_path)).program)
    assert type_of(program, "y") == Tensor(None, "float32")  # one of rank 2, one of rank 3
    x = np.ones((2, 3), np.float32)
    for flag, shape in ((True, (4, 3)), (False, (1, 2, 3))):
        assert evaluate(program, {"x": x, "c": np.array(flag)})["y"].shape == shape


@pytest.mark.parametrize("name", ["squeezenet", "densenet121", "shufflenet"])
def test_a_static_model_has_no_symbolic_dims(name: str) -> None:
    for program in (found := deduce(load(LIGHT / f"light_{name}.onnx").program), legalize(found)):
        for _, binding in program.bindings():
            for var in binding.vars:
                assert isinstance(var.type, Tensor)
                assert all(type(d) is int for d in var.type.dims)


def test_a_static_model_never_calls_sympy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **more: Any) -> Any:
        raise AssertionError("sympy was called")

    for name in ("sympify", "expand", "cancel", "simplify", "Mul", "Add"):
        monkeypatch.setattr(sympy, name, refuse)
    found = legalize(deduce(load(LIGHT / "light_densenet121.onnx").program))
    assert found.stage == Stage.LEGALIZED


def test_deducing_twice_changes_nothing() -> None:
    for name in ("tiny_bert", "tiny_while", "tiny_skip", "tiny_lstm"):
        once = deduce(load(DATA / f"{name}.onnx").program)
        assert deduce(once) == once


def test_extents_that_must_agree_are_checked_when_it_runs(tmp_path: Path) -> None:
    """The inner extents of a product, one of them found by the host."""
    w = np.arange(12, dtype=np.float32).reshape(4, 3)
    program = typed(
        tmp_path,
        [
            node("Reshape", "x s", "h"),
            node("MatMul", "h w", "p"),
            node("Concat", "p q", "y", axis=0),
        ],
        [value("x", ["n"]), value("s", [2], INT64), value("q", [2, "m"])],
        ["y"],
        {"w": w},
    )
    low = legalize(program)
    assert not low.library_calls
    x, q = np.ones(8, np.float32), np.zeros((2, 3), np.float32)
    found = evaluate(low, {"x": x, "s": np.array([2, -1]), "q": q})["y"]
    np.testing.assert_array_equal(found, np.concatenate([x.reshape(2, 4) @ w, q]))
    for shape, rest in (([4, 2], q), ([2, 4], q[:, :2])):
        with pytest.raises(ShapeError, match="argument"):
            evaluate(low, {"x": x, "s": np.array(shape), "q": rest})


def test_a_branch_whose_condition_is_known_is_its_body(tmp_path: Path) -> None:
    """The other side may even be wrong: nobody takes it."""
    then = helper.make_graph([node("Relu", "x", "a")], "then", [], [value("a", None)])
    wrong = helper.make_graph(
        [node("Reshape", "x seven", "b")],
        "orelse",
        [],
        [value("b", None)],
    )
    nodes = [
        node("Shape", "x", "shape"),
        node("Size", "shape", "rank"),
        node("Equal", "rank two", "flat"),
        node("If", "flat", "y", then_branch=then, else_branch=wrong),
    ]
    constants = {"two": np.array(2), "seven": np.array([7])}
    program = typed(tmp_path, nodes, [value("x", [2, 3])], ["y"], constants)
    assert [b.expr.op for b in program.main.body if isinstance(b.expr, OpCall)] == ["Relu"]
    assert len(program.functions) == 1
    assert ("b", "its branch is never taken") in program.dropped


def test_a_number_is_a_condition_where_it_is_known(tmp_path: Path) -> None:
    """PyTorch casts an extent to bool: `if state.shape[0]`."""
    sides = [
        helper.make_graph([node(op, "x", out)], out, [], [value(out, None)])
        for op, out in (("Relu", "a"), ("Neg", "b"))
    ]
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "extent"),
        node("Cast", "extent", "flag", to=TensorProto.BOOL),
        node("If", "flag", "y", then_branch=sides[0], else_branch=sides[1]),
    ]
    constants = {"zero": np.array(0)}
    for extent in (2, "n"):
        program = typed(tmp_path, nodes, [value("x", [extent, 3])], ["y"], constants)
        assert [b.expr.op for b in program.main.body if isinstance(b.expr, OpCall)] == ["Relu"]


def test_a_slice_of_a_whole_dim_keeps_its_extent(tmp_path: Path) -> None:
    """Also where bounds do not say that it is no less than 0."""
    nodes = [node("Conv", "x k", "c"), node("Slice", "c zero end two", "y")]
    constants = {"k": np.ones((1, 1, 3), np.float32), "zero": np.array([0])}
    constants |= {"end": np.array([2**63 - 1]), "two": np.array([2])}
    found = typed(tmp_path, nodes, [value("x", ["m", 1, "n"])], ["y"], constants)
    assert type_of(found, "y") == Tensor((m, 1, n - 2), "float32")


def test_hints_are_raised_until_windows_fit(tmp_path: Path) -> None:
    taps = {"k": np.ones((1, 1, 400), np.float32)}
    nodes = [node("Conv", "x k", "c", strides=[160]), node("Relu", "c", "y")]
    hints = typed(tmp_path, nodes, [value("x", ["a", 1, "b"])], ["y"], taps).env.hints
    assert hints["a"] == 1 and hints["b"] > 400 + 10 * 160
    kept = typed(tmp_path, nodes, [value("x", ["a", 1, "b"])], ["y"], taps, {"b": (512, 1024)})
    assert kept.env.hints["b"] == 1024


def test_rows_that_must_be_one_leave_the_columns_as_they_are(tmp_path: Path) -> None:
    """Without columns the elements would be as many, too: none."""
    nodes = [
        node("MaxPool", "x", "p", kernel_shape=[4, 4], strides=[4, 4]),
        node("Shape", "p", "columns", start=3),
        node("Concat", "head columns", "shape", axis=0),
        node("Reshape", "p shape", "y"),
    ]
    head = {"head": np.array([0, 1])}
    hints = typed(tmp_path, nodes, [value("x", ["n", 1, "z", "a"])], ["y"], head).env.hints
    assert hints["z"] // 4 == 1 and hints["a"] > 100


def test_hints_at_which_no_extent_is_missing_stay(tmp_path: Path) -> None:
    nodes = [node("MaxPool", "x", "y", kernel_shape=[3, 3])]
    assert typed(tmp_path, nodes, [value("x", ["a", 1, "b", "b"])], ["y"]).env.hints["b"] == 224
    bounded = typed(tmp_path, nodes, [value("x", [1, 1, "b", "b"])], ["y"], None, {"b": (1, 2)})
    assert bounded.env.hints["b"] == 2  # no greater one is allowed
