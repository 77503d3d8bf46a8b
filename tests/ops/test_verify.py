"""Each way in which a program can be malformed, and the sentence for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.errors import (
    BoundError,
    DtypeError,
    MissingInput,
    ShapeError,
    UnknownInput,
    VerifyError,
)
from explorer.frontends.load import load
from explorer.ir.affine import Affine, var
from explorer.ir.calls import Branch, KernelCall, Loop, OpCall, Var, View
from explorer.ir.kernel import Apply, Axis, Compute, Const, IndexValue, Read
from explorer.ir.program import Binding, Program
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.frame import bind_sizes
from explorer.ops.interpreter.verify import verify
from explorer.relax import deduce, legalize
from tests.frontends.models import saved
from tests.runtime.test_scans import rnn

DATA = Path(__file__).parent.parent / "data"


def kernels(name: str = "tiny_resnet18") -> Program:
    return legalize(deduce(load(DATA / f"{name}.onnx").program))


def with_first(program: Program, change: Callable[[Any], Any]) -> Program:
    """The first kernel call of main changed."""
    body = list(program.main.body)
    at = next(i for i, b in enumerate(body) if isinstance(b.expr, KernelCall))
    body[at] = change(body[at])
    return program.with_body(tuple(body))


def kernel_of(**changes: Any) -> Callable[[Any], Any]:
    return lambda b: replace(b, expr=replace(b.expr, kernel=replace(b.expr.kernel, **changes)))


def compute_of(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda b: kernel_of(
        computes=(change(b.expr.kernel.computes[0]), *b.expr.kernel.computes[1:])
    )(b)


def beside(c: Compute, op: str, other: Any) -> Compute:
    return replace(c, expr=Apply(op, (c.expr, other)))


def retyped(b: Binding) -> Binding:
    return replace(b, vars=(Var(b.var.name, Tensor((9,), "float32")),))


WRONG: list[tuple[str, Callable[[Any], Any]]] = [
    ("arguments for", lambda b: replace(b, expr=replace(b.expr, args=b.expr.args[:-1]))),
    ("the kernel's 'x' is", lambda b: replace(b, expr=replace(b.expr, args=b.expr.args[::-1]))),
    ("and the kernel makes", retyped),
    ("not a constant", kernel_of(constants=frozenset({"x"}))),
    ("which are not source operators", lambda b: replace(b, origin=frozenset({"ghost"}))),
    ("two axes have one name", compute_of(lambda c: replace(c, reduce=(*c.reduce, Axis("n", 2))))),
    (
        "not its axes|not one of its axes",
        compute_of(
            lambda c: replace(c, expr=Apply("mul", (Read("x", (var("q"),) * 4), Const(1.0))))
        ),
    ),
    ("does not fit", compute_of(lambda c: replace(c, combiner=None))),
    ("does not fit", compute_of(lambda c: replace(c, combiner="mean"))),
    (
        "is not a scalar function",
        compute_of(lambda c: replace(c, expr=Apply("gelu", (Const(1.0),)))),
    ),
    ("not there yet", compute_of(lambda c: replace(c, expr=Read("y", (Affine(),) * 4)))),
    ("by 1 indices", compute_of(lambda c: replace(c, expr=Read("x", (Affine(),))))),
    ("computes int64", compute_of(lambda c: replace(c, expr=Const(1, "int64")))),
    (
        "'mul' takes arguments of one dtype, and has float32 and float64",
        compute_of(lambda c: beside(c, "mul", Const(1.0, "float64"))),
    ),
    (
        "'add' takes arguments of one dtype, and has float32 and int64",
        compute_of(lambda c: beside(c, "add", IndexValue(var("n")))),
    ),
    (
        "'bitand' is not defined on float32; it takes int8",
        compute_of(lambda c: beside(c, "bitand", Const(1.0))),
    ),
    (
        "'and' is not defined on float32; it takes bool",
        compute_of(lambda c: beside(c, "and", Const(1.0))),
    ),
    (
        "'lt' takes arguments of one dtype, and has float32 and bool",
        compute_of(lambda c: beside(c, "lt", Const(True, "bool"))),
    ),
    ("takes one argument and has 2", compute_of(lambda c: beside(c, "exp", Const(1.0)))),
    ("takes 3 arguments and has 2", compute_of(lambda c: beside(c, "where", Const(1.0)))),
    (
        "'exp' is not defined on float16; it takes float32, float64",
        compute_of(lambda c: replace(c, expr=Apply("exp", (Apply("cast_float16", (c.expr,)),)))),
    ),
    (
        "another number of bytes",
        compute_of(lambda c: replace(c, expr=Apply("bits_int64", (c.expr,)))),
    ),
    ("a constant of int32 is 0.5", compute_of(lambda c: beside(c, "add", Const(0.5, "int32")))),
    (
        "by an index of float32",
        compute_of(lambda c: replace(c, expr=Read("x", (Const(1.0), *(var("n"),) * 3)))),
    ),
    ("comes from no source", compute_of(lambda c: replace(c, origin=frozenset()))),
    ("writes 1 indices", compute_of(lambda c: replace(c, store=(var("n"),)))),
    ("must write", kernel_of(outputs=("x",))),
    ("occurs twice", kernel_of(inputs=("x", "x"))),
]


@pytest.mark.parametrize(
    ("words", "change"), WRONG, ids=[f"{i}-{w[0]}" for i, w in enumerate(WRONG)]
)
def test_a_malformed_kernel_call_is_named(words: str, change: Callable[[Any], Any]) -> None:
    with pytest.raises(VerifyError, match=words):
        verify(with_first(kernels(), change))


def test_a_value_is_bound_once() -> None:
    program = kernels()
    with pytest.raises(VerifyError, match="a second time"):
        verify(program.with_body((*program.main.body, program.main.body[0])))


def test_a_value_is_bound_before_it_is_read() -> None:
    program = kernels()
    with pytest.raises(VerifyError, match="before it is bound"):
        verify(program.with_body(program.main.body[::-1]))


def test_outputs_are_bound() -> None:
    program = kernels()
    with pytest.raises(VerifyError, match="the outputs of 'main'"):
        verify(program.with_body(program.main.body[:-1]))


def test_no_operator_is_left_after_legalisation() -> None:
    program = deduce(load(DATA / "tiny_resnet18.onnx").program)
    with pytest.raises(VerifyError, match="Conv is not a kernel at stage LEGALIZED"):
        verify(replace(program, stage=kernels().stage))


def test_no_source_operator_is_lost() -> None:
    program = kernels()
    changed = with_first(program, lambda b: replace(b, origin=program.main.body[1].origin))
    found = with_first(
        changed, compute_of(lambda c: replace(c, origin=program.main.body[1].origin))
    )
    found = with_first(
        found,
        lambda b: replace(
            b,
            expr=replace(
                b.expr,
                kernel=replace(
                    b.expr.kernel,
                    computes=tuple(replace(c, origin=b.origin) for c in b.expr.kernel.computes),
                ),
            ),
        ),
    )
    with pytest.raises(VerifyError, match="without a reason"):
        verify(found)


def test_a_view_fits_into_its_argument() -> None:
    program = kernels()
    x = program.main.params[0]
    wide = Binding((Var("wide", Tensor((1, 3, 64, 65), "float32")),), View(x))
    with pytest.raises(VerifyError, match="does not fit into"):
        verify(program.with_body((wide, *program.main.body)))
    other = Binding((Var("wide", Tensor((1, 3, 64, 64), "int32")),), View(x))
    with pytest.raises(VerifyError, match="a view of float32 as int32"):
        verify(program.with_body((other, *program.main.body)))


def test_calls_fit_what_they_call() -> None:
    program = kernels("tiny_skip")
    at = next(i for i, b in enumerate(program.main.body) if isinstance(b.expr, Branch))
    branch = program.main.body[at]

    def changed(expr: Any) -> Program:
        body = list(program.main.body)
        body[at] = replace(branch, expr=expr)
        return program.with_body(tuple(body))

    assert isinstance(branch.expr, Branch)
    for expr, words in [
        (replace(branch.expr, then="nowhere"), "no function 'nowhere'"),
        (replace(branch.expr, args=()), "0 arguments, expected 1"),
        (replace(branch.expr, cond=program.main.params[0]), "the condition 'x' is float32"),
    ]:
        with pytest.raises(VerifyError, match=words):
            verify(changed(expr))


def test_a_loop_keeps_its_state() -> None:
    program = kernels("tiny_while")
    at = next(i for i, b in enumerate(program.main.body) if isinstance(b.expr, Loop))
    loop = program.main.body[at]
    assert isinstance(loop.expr, Loop)
    body = list(program.main.body)
    body[at] = replace(loop, expr=replace(loop.expr, state=loop.expr.state[::-1]))
    with pytest.raises(VerifyError, match=r"is float32\[1, 32\] and"):
        verify(program.with_body(tuple(body)))


@pytest.mark.parametrize(
    ("dims", "words"),
    [((9, 1, 4), r"stacks float32\[1, 5\]"), ((8, 1, 5), "has 9 rows"), ((), "stacks float32")],
)
def test_a_loop_stacks_as_many_rows_as_it_makes(
    dims: tuple[int, ...], words: str, tmp_path: Path
) -> None:
    program = legalize(deduce(load(saved(rnn(9), tmp_path)).program))
    verify(program)
    at = next(i for i, b in enumerate(program.main.body) if isinstance(b.expr, Loop))
    loop = program.main.body[at]
    body = list(program.main.body)
    body[at] = replace(loop, vars=(loop.vars[0], Var("ys", Tensor(dims, "float32"))))
    with pytest.raises(VerifyError, match=words):
        verify(program.with_body(tuple(body)))


def test_room_for_rows_has_a_bound(tmp_path: Path) -> None:
    program = legalize(deduce(load(saved(rnn(9), tmp_path)).program))
    at = next(i for i, b in enumerate(program.main.body) if isinstance(b.expr, Loop))
    loop = program.main.body[at]
    assert isinstance(loop.expr, Loop)
    body = list(program.main.body)
    body[at] = replace(loop, expr=replace(loop.expr, trip=None, padded=True))
    with pytest.raises(VerifyError, match="without a limit has no buffer"):
        verify(program.with_body(tuple(body)))


def test_values_have_annotations_after_deduction() -> None:
    program = load(DATA / "tiny_resnet18.onnx").program
    params = (Var("x", Tensor()),)
    bad = program.with_function(replace(program.main, params=params))
    with pytest.raises(VerifyError, match="no annotation"):
        verify(replace(bad, stage=kernels().stage))


def test_two_functions_of_one_name_are_named() -> None:
    program = kernels("tiny_skip")
    with pytest.raises(VerifyError, match="one name"):
        verify(replace(program, functions=(*program.functions, program.functions[0])))


# Inputs.

IDS = np.zeros((2, 5), np.int64)
INPUTS: list[tuple[type[Exception], str, dict[str, Any]]] = [
    (MissingInput, "the input 'x' is missing", {}),
    (UnknownInput, "no input 'z'; the inputs are 'x'", {"x": IDS, "z": IDS}),
    (DtypeError, "'x' must be int64 and is float32", {"x": IDS.astype(np.float32)}),
    (ShapeError, r"'x' must have shape \[batch, seq\] and has \[5\]", {"x": IDS[0]}),
    (BoundError, r"batch is 9 and was bounded to 1 \.\. 8", {"x": np.zeros((9, 5), np.int64)}),
    (BoundError, r"seq is 1 and was bounded to 2 \.\. 512", {"x": IDS[:, :1]}),
]


@pytest.mark.parametrize(("kind", "words", "given"), INPUTS, ids=[i[1][:20] for i in INPUTS])
def test_inputs_that_do_not_fit_are_named(
    kind: type[Exception], words: str, given: dict[str, Any]
) -> None:
    program = deduce(load(DATA / "tiny_bert.onnx", {"batch": (1, 8), "seq": (2, 512)}).program)
    with pytest.raises(kind, match=words):
        evaluate(program, given)


def test_sizes_follow_from_the_inputs() -> None:
    program = load(DATA / "tiny_bert.onnx").program
    assert bind_sizes(program, {"x": IDS}) == {"batch": 2, "seq": 5}


def test_a_fixed_extent_is_named() -> None:
    program = load(DATA / "tiny_resnet18.onnx").program
    with pytest.raises(ShapeError, match="dim 2 of the input 'x' must be 64 and is 32"):
        bind_sizes(program, {"x": np.zeros((1, 3, 32, 64), np.float32)})


def test_one_symbol_has_one_value() -> None:
    n = Tensor(load(DATA / "tiny_bert.onnx").inputs["x"].dims[:1] * 2, "float32")
    program = load(DATA / "tiny_bert.onnx").program
    square = program.with_function(replace(program.main, params=(Var("x", n),)))
    with pytest.raises(ShapeError, match="dim 1 of the input 'x' must be batch = 2 and is 3"):
        bind_sizes(square, {"x": np.zeros((2, 3), np.float32)})


def test_an_operator_keeps_its_arguments_when_left_out() -> None:
    call = OpCall("Clip", (None,), (("min", 0.0),))
    assert call.attr("min") == 0.0
    assert call.attr("max") is None
