"""Programs of the reference's list A6, by number: what TVM's own tests expect, as black boxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.errors import BadOption, BoundError, DtypeError, ShapeError, VerifyError
from explorer.ir.affine import var
from explorer.ir.calls import Expr, FunctionCall, KernelCall, MatchCast, OpCall, ShapeOf, Var, View
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, floor_div, symbol
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.program import Binding, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.text.program_text import parse_program, print_program
from explorer.ir.types import Annotation, Object, Tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.frame import trace_heap
from explorer.ops.interpreter.shape_heap import heap_of
from explorer.ops.interpreter.verify import verify
from explorer.relax import deduce, legalize
from explorer.transforms.simplify.substitution import BindSymbols, bind_symbols

n, m, k = symbol("n"), symbol("m"), symbol("k")


def f32(*dims: Dim) -> Tensor:
    return Tensor(dims, "float32")


def program_of(
    params: Mapping[str, Annotation],
    body: Mapping[str, tuple[Annotation, Expr]],
    result: Annotation | None = None,
    stage: Stage = Stage.TYPED,
) -> Program:
    """A program that gives the last value of its body, or else its last parameter, as `result`."""
    given = tuple(Var(name, type) for name, type in params.items())
    bindings = tuple(Binding((Var(v, t),), e) for v, (t, e) in body.items())
    last = bindings[-1].var if bindings else given[-1]
    out = Var(last.name, result or last.type)
    main = Function("main", given, bindings, (out,), (out.name,))
    env = ShapeEnv(tuple(SymbolBound(s, 0) for s in "nmk"))
    return Program((main,), env=env, stage=stage)


def runs(program: Program) -> tuple[Callable[[Mapping[str, Any]], Mapping[str, Any]], ...]:
    """The reference interpreter, and the program as it is compiled for this machine."""
    compiled = explorer.compile(explorer.Model("test", "", program))
    return partial(evaluate, program), compiled.run


# 9: a function that promises (m, n) for whatever it is given.


def test_a6_09_what_a_function_promises_is_checked_when_it_returns() -> None:
    i32 = Tensor((n, m), "int32")
    program = program_of({"x": i32, "y": Object()}, {}, Tensor((m, n), "int32"))
    verify(program)
    x = np.zeros((1, 2), np.int32)
    for run in runs(program):
        assert run({"x": x, "y": np.ones((2, 1), np.int32)})["y"].tolist() == [[1], [1]]
        for shape, words in [
            ((1, 2), "dim 0 of the result 'y' of 'main' must be m = 2 and is 1"),
            ((2, 1, 1), r"the result 'y' of 'main' must have shape \[m, n\] and has \[2, 1, 1\]"),
        ]:
            with pytest.raises(ShapeError, match=words):
                run({"x": x, "y": np.ones(shape, np.int32)})


def test_a6_09_a_promise_that_is_proved_costs_nothing_and_one_that_is_broken_is_refused() -> None:
    x = Var("x", f32(n, m))
    for kept in (f32(n, m), f32(n, (m + 1) - 1), Tensor(None, "float32", 2), Object()):
        program = program_of({"x": x.type}, {"y": (x.type, OpCall("Relu", (x,)))}, kept)
        assert deduce(program).main.outputs[0].type == x.type
    turned = program_of({"x": x.type}, {"y": (x.type, OpCall("Relu", (x,)))}, f32(m, n))
    for run in runs(turned):
        assert run({"x": np.ones((3, 3), np.float32)})["y"].shape == (3, 3)
        with pytest.raises(ShapeError, match="dim 0 of the result 'y' of 'main' must be m = 2"):
            run({"x": np.ones((3, 2), np.float32)})
    with pytest.raises(ShapeError, match=r"the result 'y' must be float32\[n\] and is"):
        deduce(program_of({"x": x.type}, {"y": (x.type, OpCall("Relu", (x,)))}, f32(n)))
    with pytest.raises(DtypeError, match=r"the result 'y' must be int32\[n, m\] and is float32"):
        wrong = Tensor((n, m), "int32")
        deduce(program_of({"x": x.type}, {"y": (x.type, OpCall("Relu", (x,)))}, wrong))


def test_a6_09_the_promise_stands_in_the_text() -> None:
    program = program_of({"x": f32(n, m), "y": Object()}, {}, f32(m, n))
    text = print_program(program)
    assert "output y: float32[m, n]" in text
    assert parse_program(text, {}) == program


# 10: match_cast of anything to (n, m), and a shape made of what was found.

DOUBLED = program_of(
    {"x": Object()},
    {
        "y": (f32(n, m), MatchCast(Var("x", Object()))),
        "z": (Tensor((2,), "int64"), ShapeOf((2 * n, 3 * m))),
    },
)


def test_a6_10_a_match_cast_makes_symbols_of_what_it_finds() -> None:
    verify(DOUBLED)
    for run in runs(DOUBLED):
        assert run({"x": np.zeros((32, 16), np.float32)})["z"].tolist() == [64, 48]


WRONG: list[tuple[type[Exception], str, Any]] = [
    (DtypeError, "the match_cast 'y' must be float32 and is int32", np.zeros((32, 16), np.int32)),
    (ShapeError, r"the match_cast 'y' must have shape \[n, m\] and has \[32\]", np.zeros(32, "f4")),
    (DtypeError, "the match_cast 'y' must be float32 and is", [1.0]),
]


@pytest.mark.parametrize(("kind", "words", "value"), WRONG, ids=["dtype", "rank", "list"])
def test_a6_10_a_match_cast_names_itself(kind: type[Exception], words: str, value: Any) -> None:
    for run in runs(DOUBLED):
        with pytest.raises(kind, match=words):
            run({"x": value})


# 11: four slots, k stored, m asserted, k + 1 checked in the second round.

RANK_3 = program_of(
    {"x": f32(n, m), "y": Tensor(None, "float32", 3)},
    {"z": (f32(k, m, k + 1), MatchCast(Var("y", Tensor(None, "float32", 3))))},
)


def test_a6_11_the_shape_heap_of_a_match_cast() -> None:
    heap = heap_of(RANK_3.main, ShapeEnv())
    assert heap.slots == (n, m, k, k + 1)
    ops = [(i.op.value, i.axis, i.slot) for i in heap.casts["z"].instructions]
    assert ops == [
        ("STORE", 0, 2),
        ("ASSERT_EQ_LOAD", 1, 1),
        ("NO_OP", 2, 3),
        ("COMPUTE", -1, 3),
        ("ASSERT_EQ_LOAD", 2, 3),
    ]


def test_a6_11_the_second_round_raises() -> None:
    x = np.zeros((2, 3), np.float32)
    for run in runs(RANK_3):
        assert run({"x": x, "y": np.zeros((4, 3, 5), np.float32)})["z"].shape == (4, 3, 5)
        with pytest.raises(ShapeError, match=r"dim 2 .* 'z' must be k \+ 1 = 4 and is 5"):
            run({"x": x, "y": np.zeros((3, 3, 5), np.float32)})
    shapes = {"x": (2, 3), "y": (3, 3, 5), "z": (3, 3, 5)}
    shown = trace_heap(heap_of(RANK_3.main, ShapeEnv()), shapes)
    assert (shown[-1].slot, shown[-1].value, shown[-1].ok) == (3, 4, False)


# 15: a kernel that flattens, and what its call may declare.


def flattened(rows: Dim, columns: Dim, declared: Dim) -> Program:
    x = TensorSpec("x", (rows, columns))
    whole = Compute(
        "y",
        (Axis("i", rows), Axis("j", columns)),
        Read("x", (var("i"), var("j"))),
        store=(var("i") * columns + var("j"),),
    )
    y = TensorSpec("y", (rows * columns,))
    kernel = Kernel("flatten", (x, y), (whole,), ("x",), ("y",))
    given = {"x": f32(rows, columns)}
    body = {"y": (f32(declared), KernelCall(kernel, (Var("x", given["x"]),)))}
    return program_of(given, body, stage=Stage.LEGALIZED)


def test_a6_15_a_kernel_call_declares_what_its_kernel_makes() -> None:
    verify(flattened(8, 4, 32))
    with pytest.raises(VerifyError, match=r"is float32\[64\] and the kernel makes float32\[32\]"):
        verify(flattened(8, 4, 64))
    verify(flattened(n, m, n * m))
    verify(flattened(n, m, (n + 1) * m - m))
    for wrong in (n + m, 32, floor_div(n * m, 2)):
        with pytest.raises(VerifyError, match=r"and the kernel makes float32\[m\*n\]: "):
            verify(flattened(n, m, wrong))
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    assert evaluate(flattened(n, m, n * m), {"x": x})["y"].tolist() == list(range(32))


# 16: symbols of the inputs become numbers.


def matmul() -> Program:
    x, w = Var("x", f32(symbol("M"), symbol("K"))), Var("w", f32(symbol("K"), symbol("N")))
    y = Var("y", f32(symbol("M"), symbol("N")))
    body = (Binding((y,), OpCall("MatMul", (x, w))),)
    env = ShapeEnv((SymbolBound("M", 1, 512), SymbolBound("K"), SymbolBound("N")))
    return Program((Function("main", (x, w), body, (y,), ("y",)),), env=env)


SIZES = {"M": 128, "K": 64, "N": 32}


@pytest.mark.parametrize("stage", [Stage.IMPORTED, Stage.TYPED, Stage.LEGALIZED])
def test_a6_16_bound_symbols_are_numbers_everywhere(stage: Stage) -> None:
    program = matmul()
    program = program if stage == Stage.IMPORTED else deduce(program)
    program = legalize(program) if stage == Stage.LEGALIZED else program
    bound = bind_symbols(program, SIZES)
    assert bound.main.outputs[0].type == f32(128, 32)
    assert bound.env == ShapeEnv()
    assert "M" not in {s.name for b in bound.main.body for s in _symbols(b.var.type)}
    verify(bound)
    x, w = np.ones((128, 64), np.float32), np.ones((64, 32), np.float32)
    assert np.array_equal(evaluate(bound, {"x": x, "w": w})["y"], x @ w)
    with pytest.raises(ShapeError, match="dim 0 of the input 'x' must be 128 and is 127"):
        evaluate(bound, {"x": x[1:], "w": w})


def _symbols(type: Annotation) -> set[Any]:
    assert isinstance(type, Tensor)
    return {s for d in type.dims if not isinstance(d, int) for s in d.free_symbols}


def test_a6_16_the_others_stay() -> None:
    bound = bind_symbols(matmul(), {"K": 64})
    assert bound.main.outputs[0].type == f32(symbol("M"), symbol("N"))
    assert [s.name for s in bound.env.symbols] == ["M", "N"]
    assert BindSymbols((("K", 64),))(matmul()) == bound


def test_a6_16_a_name_that_is_unknown_or_stands_twice_is_refused() -> None:
    with pytest.raises(BadOption, match=r"no input has a dim 'Q'; the symbols .* are K, M, N"):
        bind_symbols(matmul(), {"Q": 1})
    with pytest.raises(BadOption, match="the symbol 'M' is bound twice"):
        bind_symbols(matmul(), (("M", 1), ("M", 2)))
    with pytest.raises(BoundError, match=r"M is 513 and was bounded to 1 \.\. 512"):
        bind_symbols(matmul(), {"M": 513})


def test_a6_16_a_called_functions_symbols_are_its_own() -> None:
    x, w = Var("x", f32(n)), Var("w", f32(n + 1))
    double = Function("double", (x,), (Binding((w,), OpCall("Relu", (x,))),), (x,))
    given = Var("g", f32(n, 1))
    flat = Var("f", f32(n))
    body = (
        Binding((flat,), View(given)),
        Binding((Var("y", f32(n)),), FunctionCall("double", (flat,))),
    )
    main = Function("main", (given,), body, (Var("y", f32(n)),))
    bound = bind_symbols(Program((main, double), env=ShapeEnv((SymbolBound("n", 0),))), {"n": 3})
    assert bound.function("double") == double
    assert bound.main.body[1].expr == FunctionCall("double", (Var("f", f32(3)),))
