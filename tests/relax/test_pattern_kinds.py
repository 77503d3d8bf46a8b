"""Pattern kinds are read off index maps alone: what a kernel is called changes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from explorer.ir.affine import Affine, affine, var
from explorer.ir.calls import KernelCall, Var, View
from explorer.ir.dims import Shape
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Const,
    Expr,
    IndexValue,
    Kernel,
    Read,
    TensorSpec,
    apply,
    at,
    axes,
    rename_tensors,
)
from explorer.ir.kernels.canonical import canonical
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.relax import FuseOps
from explorer.relax.legalization import is_reshape, name_reshapes
from explorer.relax.pattern_kinds import KindFinding, PatternKind, kinds, pattern_kind
from tests.relax.kernel_programs import Body, n, tensor
from tests.transforms.programs import legalized

E, B, I = PatternKind.ELEMENTWISE, PatternKind.BROADCAST, PatternKind.INJECTIVE  # noqa: E741
REDUCE, OUT, OPAQUE = (
    PatternKind.COMM_REDUCE,
    PatternKind.OUT_EWISE_FUSABLE,
    PatternKind.OPAQUE,
)


def kernel(shapes: dict[str, Shape], *computes: Compute) -> Kernel:
    """A kernel whose inputs are the tensors that no compute writes."""
    made = {c.out for c in computes}
    tensors = tuple(TensorSpec(t, s) for t, s in shapes.items())
    inputs = tuple(t for t in shapes if t not in made)
    return Kernel("some", tensors, computes, inputs, (computes[-1].out if computes else "y",))


def of_operator(
    tmp_path: Path, op: str, inputs: dict[str, Shape], constants: dict[str, np.ndarray], **attrs
) -> Kernel:
    node = helper.make_node(op, [*inputs, *constants], ["y"], **attrs)
    program = legalized(tmp_path, [node], inputs, ["y"], constants)
    return program.kernel_calls[-1].expr.kernel


ONE = np.array([1], np.int64)
OPERATORS = {
    "matmul": ("MatMul", {"a": (32, 64), "b": (64, 16)}, {}, {}, OUT),
    "batched matmul": ("MatMul", {"a": ("n", 8, 64), "b": (64, 16)}, {}, {}, OUT),
    "gemm of a transposed operand": (
        "Gemm",
        {"a": (32, 64), "b": (16, 64), "c": (16,)},
        {},
        {"transB": 1},
        OUT,
    ),
    "conv": ("Conv", {"x": (1, 8, 9, 9), "w": (4, 8, 3, 3)}, {}, {"pads": [1, 1, 1, 1]}, OUT),
    "depthwise conv": ("Conv", {"x": (1, 8, 9, 9), "w": (8, 1, 3, 3)}, {}, {"group": 8}, OUT),
    "max_pool2d": ("MaxPool", {"x": (1, 8, 9, 9)}, {}, {"kernel_shape": [3, 3]}, OUT),
    "softmax": ("Softmax", {"x": ("n", 64)}, {}, {"axis": -1}, OUT),
    "sum": ("ReduceSum", {"x": ("n", 64)}, {"axes": ONE}, {}, REDUCE),
    "sum of all": ("ReduceSum", {"x": ("n", 64)}, {}, {"keepdims": 0}, REDUCE),
    "max": ("ReduceMax", {"x": ("n", 64)}, {}, {"axes": [1]}, REDUCE),
    "add": ("Add", {"a": ("n", 64), "b": ("n", 64)}, {}, {}, E),
    "bias_add": ("Add", {"a": ("n", 64), "b": (64,)}, {}, {}, E),
    "add with unit dims": ("Add", {"a": (1, 64, "n"), "b": (1, 64, 1)}, {}, {}, E),
    "0-d add": ("Add", {"a": (), "b": ()}, {}, {}, E),
    "add of what broadcasts both ways": ("Add", {"a": ("n", 1), "b": (1, 64)}, {}, {}, B),
    "expand": ("Expand", {"x": (1, 64)}, {"shape": np.array([8, 64])}, {}, B),
    "transpose": ("Transpose", {"x": ("n", 64)}, {}, {"perm": [1, 0]}, I),
    "pad": ("Pad", {"x": ("n", 4)}, {"pads": np.array([0, 1, 0, 1])}, {}, I),
    "gather": ("Gather", {"x": (9, 4)}, {"i": np.array([3, 1, 1])}, {}, I),
}


@pytest.mark.parametrize("case", OPERATORS)
def test_a5_07_the_kind_of_an_operator_is_that_of_the_table(case: str, tmp_path: Path) -> None:
    op, inputs, constants, attrs, kind = OPERATORS[case]
    found = of_operator(tmp_path, op, inputs, constants, **attrs)
    assert pattern_kind(found).kind is kind, pattern_kind(found).steps


@pytest.mark.parametrize("case", OPERATORS)
def test_a5_07_names_of_operators_tensors_and_axes_change_no_kind(
    case: str, tmp_path: Path
) -> None:
    op, inputs, constants, attrs, kind = OPERATORS[case]
    found = of_operator(tmp_path, op, inputs, constants, **attrs)
    names = {t.name: f"z{count}" for count, t in enumerate(reversed(found.tensors))}
    other = replace(rename_tensors(canonical(found)[0], names), name="conv_softmax_cumsum")
    assert pattern_kind(other).kind is kind


def total(out: str, expr: Expr) -> Compute:
    return Compute(out, axes("i", (n,)), expr, (Axis("k", 64),), "sum")


def test_a5_07_a_sum_and_a_sum_of_squares_are_one_reduction() -> None:
    x = Read("x", (var("i0"), var("k")))
    both = kernel(
        {"x": (n, 64), "s": (n,), "y": (n,)}, total("s", x), total("y", apply("mul", x, x))
    )
    assert pattern_kind(both).kind is REDUCE


def test_a5_07_two_stores_are_opaque_as_in_a_cumulative_sum() -> None:
    first = Compute("y", axes("i", (1,)), Read("x", (var("i0"),)))
    rest = Compute(
        "y",
        axes("i", (n - 1,)),
        Read("x", (var("i0") + 1,)),
        (Axis("k", 2),),
        "sum",
        (var("i0") + 1,),
    )
    found = pattern_kind(kernel({"x": (n,), "y": (n,)}, first, rest))
    assert found.kind is OPAQUE
    assert "2 stores write it at different places" in found.steps[0]


def test_a5_07_no_store_is_opaque() -> None:
    found = pattern_kind(Kernel("some", (TensorSpec("x", (n,)),), (), ("x",), ("x",)))
    assert (found.kind, found.steps) == (OPAQUE, ("nothing is stored",))


def test_casts_do_not_hide_a_product() -> None:
    a, b = Read("a", (var("i0"), var("k"))), Read("b", (var("k"), var("i1")))
    double = apply("mul", apply("cast_float64", a), apply("cast_float64", b))
    made = Compute("y", axes("i", (n, 8)), double, (Axis("k", 4),), "sum")
    assert pattern_kind(kernel({"a": (n, 4), "b": (4, 8), "y": (n, 8)}, made)).kind is OUT


def test_one_row_of_a_matrix_is_no_broadcast() -> None:
    made = Compute("y", axes("i", (n, 4)), Read("x", (affine({}), var("i1"))))
    assert pattern_kind(kernel({"x": (3, 4), "y": (n, 4)}, made)).kind is I
    assert pattern_kind(kernel({"x": (1, 4), "y": (n, 4)}, made)).kind is B


def test_a_kernel_in_the_memory_of_another_tensor_is_opaque() -> None:
    made = Compute("y", axes("i", (n,)), Read("x", (var("i0"),)))
    over = replace(kernel({"x": (n,), "z": (n,), "y": (n,)}, made), updates=(("y", "z"),))
    assert pattern_kind(over).kind is OPAQUE


def test_each_load_has_its_evidence(tmp_path: Path) -> None:
    found = of_operator(tmp_path, "Add", {"a": ("n", 64), "b": (64,)}, {})
    kind: KindFinding = pattern_kind(found)
    said = {load.tensor: (load.kind, load.sentence) for load in kind.loads}
    assert said == {
        "a": (E, "all indices equal"),
        "b": (B, "a subset of the store's indices, in order"),
    }
    (pooled,) = pattern_kind(
        of_operator(tmp_path, "MaxPool", {"x": (1, 8, 9, 9)}, {}, kernel_shape=[3, 3])
    ).steps
    assert "as pooling does" in pooled


def test_the_kinds_of_a_program_are_found_by_value(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    program = legalized(tmp_path, nodes, {"x": ("n", 4), "w": (4, 3)}, ["y"])
    assert {name: found.kind for name, found in kinds(program).items()} == {"h": OUT, "y": E}


# Reshapes.


def quotient(index: Affine, by: int) -> Apply:
    return Apply("floordiv", (IndexValue(index), Const(by, "int64")))


def rest(index: Affine, by: int) -> Apply:
    return Apply("mod", (IndexValue(index), Const(by, "int64")))


def test_a_reshape_is_found_where_flattened_indices_are_equal() -> None:
    flat = affine({"i0": 6, "i1": 1})
    by_quotients = Compute("y", axes("i", (n, 6)), Read("x", (quotient(flat, 3), rest(flat, 3))))
    assert is_reshape(kernel({"x": (2 * n, 3), "y": (n, 6)}, by_quotients))
    twice = Compute(
        "y",
        axes("i", (n, 6)),
        Read(
            "x",
            (
                quotient(flat, 6),
                Apply("floordiv", (rest(flat, 6), Const(2, "int64"))),
                rest(flat, 2),
            ),
        ),
    )
    assert is_reshape(kernel({"x": (n, 3, 2), "y": (n, 6)}, twice))
    merged = Compute(
        "y",
        axes("i", (n, 2, 3)),
        at("x", axes("i", (n, 2, 3))),
        store=(var("i0"), affine({"i1": 3, "i2": 1})),
    )
    assert is_reshape(kernel({"x": (n, 2, 3), "y": (n, 6)}, merged))
    squeezed = Compute("y", axes("i", (n, 6)), Read("x", (affine({}), var("i0"), var("i1"))))
    assert is_reshape(kernel({"x": (1, n, 6), "y": (n, 6)}, squeezed))


def test_what_moves_bytes_is_no_reshape(tmp_path: Path) -> None:
    flat = affine({"i0": 6, "i1": 1})
    other = Compute("y", axes("i", (n, 6)), Read("x", (quotient(flat, 2), rest(flat, 3))))
    assert not is_reshape(kernel({"x": (2 * n, 3), "y": (n, 6)}, other))
    assert not is_reshape(of_operator(tmp_path, "Transpose", {"x": ("n", 4)}, {}, perm=[1, 0]))
    assert not is_reshape(of_operator(tmp_path, "Relu", {"x": ("n", 4)}, {}))
    row = Compute("y", axes("i", (4,)), Read("x", (affine({}, 1), var("i0"))))
    assert not is_reshape(kernel({"x": (3, 4), "y": (4,)}, row))


def test_a_kernel_that_only_reshapes_becomes_a_view() -> None:
    body = Body()
    x = Var("x", tensor(2 * n, 3))
    flat = affine({"i0": 6, "i1": 1})
    load = Read("a", (quotient(flat, 3), rest(flat, 3)))
    h = body.kernel("reshape", [x], (n, 6), Compute("y", axes("i", (n, 6)), load))
    y = body.map("neg", h)
    s = Var("s", tensor(n))
    before = body.program([x, s], y)
    after = name_reshapes(before)
    verify(after)
    assert [type(b.expr) for b in after.main.body] == [View, KernelCall]
    inputs = {"x": np.arange(24, dtype=np.float32).reshape(8, 3), "s": np.zeros(4, np.float32)}
    np.testing.assert_array_equal(evaluate(before, inputs)["v1"], evaluate(after, inputs)["v1"])


def test_what_two_fused_kernels_undo_is_a_view() -> None:
    body = Body()
    x = Var("x", tensor(n, 3))
    program = body.program([x], body.transpose(body.transpose(x)))
    fused = FuseOps()(program)
    assert isinstance(fused.main.body[0].expr, KernelCall)
    assert isinstance(name_reshapes(fused).main.body[0].expr, View)


def test_a_copy_of_what_is_written_over_later_stays_a_copy() -> None:
    body = Body()
    x = Var("x", tensor(n, 3))
    base = body.map("abs", x)
    copy = body.transpose(body.transpose(base))
    over = body.put(base, x)
    program = FuseOps()(body.program([x], copy, over))
    assert name_reshapes(program).main == program.main
