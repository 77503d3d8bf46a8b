"""Text that reads well, and reads back to an equal program."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import SnapshotError
from explorer.frontends.load import load
from explorer.ir.affine import Affine, affine, var
from explorer.ir.calls import (
    Branch,
    FunctionCall,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    ShapeOf,
    Var,
    View,
)
from explorer.ir.decisions.tiling import Micro, Tiling, thread_block
from explorer.ir.dims import ShapeEnv, SymbolBound, ceil_div, floor_div, symbol
from explorer.ir.kernel import Apply, Axis, Compute, Const, IndexValue, Kernel, Read, TensorSpec
from explorer.ir.program import Binding, Constant, Function, Program, SourceOp
from explorer.ir.stage import Stage
from explorer.ir.text.program_text import (
    parse_program,
    print_affine,
    print_dim,
    print_expr,
    print_program,
    print_type,
)
from explorer.ir.text.text_lines import Line
from explorer.ir.text.text_parser import (
    parse_affine,
    parse_dim,
    parse_expr,
    parse_type,
    parse_value,
)
from explorer.ir.text.text_tokens import print_value
from explorer.ir.types import Callable as CallableType
from explorer.ir.types import Object, ShapeType, Tensor, TupleType
from explorer.relax import deduce, legalize

DATA = Path(__file__).parent.parent / "data"
n, m = symbol("n"), symbol("m")
F = Tensor((2, 3), "float32")


def back(program: Program) -> Program:
    return parse_program(print_program(program), program.constants)


# Words.

DIMS = [
    7,
    n,
    n + 1,
    2 * n * m - 3,
    n**2,
    floor_div(n + 1, 2),
    ceil_div(n + 5, 3),
    floor_div(n * m, 7),
    sympy.Max(0, n - 5),
    sympy.Min(512, n, m + 1),
    sympy.Mod(n, 4),
    floor_div(n, m),
    m * n + n,
    floor_div(sympy.Max(n, 3) + 1, 2) + 1,
    symbol("odd name"),
]


@pytest.mark.parametrize("dim", DIMS, ids=str)
def test_a_dim_reads_back(dim: Any) -> None:
    plain = symbol("odd_name") if dim == symbol("odd name") else dim
    assert parse_dim(Line(print_dim(plain), 1)) == plain


TYPES = [
    Tensor((n, 64), "float32"),
    Tensor((), "bool"),
    Tensor(),
    Tensor(None, "int8"),
    Tensor((2,), None),
    Tensor(None, "float32", 3),
    Object(),
    ShapeType((n, 2)),
    ShapeType(None, 2),
    ShapeType(),
    TupleType((Tensor((n,), "int64"), Object())),
    CallableType(None, Object()),
    CallableType((Tensor((n,), "int64"), Object()), TupleType(())),
]


@pytest.mark.parametrize("type", TYPES, ids=print_type)
def test_an_annotation_reads_back(type: Any) -> None:
    assert parse_type(Line(print_type(type), 1)) == type


VALUES = [
    None,
    True,
    False,
    0,
    -3,
    2**63 - 1,
    0.5,
    -1e-12,
    float("inf"),
    -float("inf"),
    "",
    'a "b" \\ c',
    (),
    (1,),
    (1, -2),
    ("x", 0.5, (True, None)),
    n,
    n + 1,
    (n, 64, floor_div(n, 2)),
]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_an_attribute_reads_back(value: Any) -> None:
    found = parse_value(Line(print_value(value), 1))
    assert found == value
    assert type(found) is type(value)


factors = st.one_of(st.integers(-9, 9), st.sampled_from([n, n * m, 2 * n - 1]))
indices = st.builds(
    affine, st.dictionaries(st.sampled_from(["h", "kh", "c", "i0", 'a"b', "n"]), factors), factors
)


@given(indices)
def test_an_index_reads_back(index: Affine) -> None:
    assert parse_affine(Line(print_affine(index), 1)) == index


def test_an_index_looks_like_the_paper() -> None:
    assert print_affine(var("h") * 2 + var("kh") - 3) == "h*2 + kh - 3"
    assert print_affine(Affine()) == "0"
    assert print_affine(var("i") * -1 + n) == "-i + (n)"


numbers = st.one_of(
    st.builds(Const, st.floats(allow_nan=False, width=32)),
    st.builds(Const, st.integers(-100, 100), st.sampled_from(["int64", "int32", "uint8"])),
    st.builds(Const, st.booleans(), st.just("bool")),
    st.builds(Const, st.sampled_from([n, n + 1]), st.sampled_from(["int64", "float32"])),
    st.builds(Const, st.floats(allow_nan=False), st.sampled_from(["float64", "float16"])),
)
reads = st.builds(
    Read,
    st.sampled_from(["x", "w", "exp", "x.y"]),
    st.tuples(indices),
    st.one_of(st.none(), st.floats(allow_nan=False)),
)
OPS = ["add", "sub", "mul", "div", "max", "lt", "ge", "eq", "pow", "and", "mod"]
expressions = st.recursive(
    st.one_of(numbers, reads, st.builds(IndexValue, indices)),
    lambda inner: st.one_of(
        st.builds(lambda op, a, b: Apply(op, (a, b)), st.sampled_from(OPS), inner, inner),
        st.builds(
            lambda op, a: Apply(op, (a,)),
            st.sampled_from(["neg", "exp", "cast_int64", "not"]),
            inner,
        ),
        st.builds(lambda a, b, c: Apply("where", (a, b, c)), inner, inner, inner),
        st.builds(
            lambda t, i, j: Read(t, (i, j)),
            st.just("table"),
            inner.filter(lambda e: not isinstance(e, Affine)),
            indices,
        ),
    ),
    max_leaves=12,
)


@given(expressions)
def test_a_scalar_expression_reads_back(expr: Any) -> None:
    line = Line(print_expr(expr), 1)
    assert parse_expr(line) == expr
    line.end()


def test_an_expression_has_no_needless_parentheses() -> None:
    a, b = Read("a", (var("i"),)), Read("b", (var("i"),))
    total = Apply("mul", (Apply("add", (a, b)), Apply("sub", (a, Apply("sub", (b, Const(0.5)))))))
    assert print_expr(total) == "(a[i] + b[i]) * (a[i] - (b[i] - 0.5))"
    assert print_expr(Apply("add", (Apply("mul", (a, b)), b))) == "a[i] * b[i] + b[i]"


# Programs.


def kernel() -> Kernel:
    """Everything a kernel may say."""
    i, j, k = Axis("i", 2), Axis("j", n), Axis("k", 3)
    x, w = (
        Read("x", (var("i"), var("k") - 1), 0.0),
        Read("w", (var("k"), Apply("abs", (IndexValue(var("j")),)))),
    )
    tensors = (
        TensorSpec("y", (2, n)),
        TensorSpec("x", (2, 3)),
        TensorSpec("acc", (2, n)),
        TensorSpec("w", (3, n)),
    )
    return Kernel(
        "odd kernel",
        tensors,
        (
            Compute("acc", (i, j), Apply("mul", (x, w)), (k,), "sum", (), frozenset({"one"})),
            Compute(
                "y",
                (i, j),
                Read("acc", (var("i"), var("j"))),
                store=(var("i"), var("j")),
                origin=frozenset({"one", "other op"}),
            ),
        ),
        ("x", "w"),
        ("y",),
        frozenset({"w"}),
    )


B = thread_block((("i", 2),), 96, (("i", 2),), (("k", 8),), (("k", 4),), ("i", "j", "k"))


def everything() -> Program:
    """A program with every form of binding."""
    x, c, w = Var("x", F), Var("c/d.0", Tensor((), "bool")), Var("w", Tensor((3, n), "float32"))
    names = [Var(f"v{i}", F) for i in range(12)] + [Var("data:0", F)]
    one = frozenset({"one"})
    tiling = Tiling((("i", 2), ("j", 16)), Micro(6, 2, 8), True, 512)
    body = (
        Binding((names[0],), OpCall("Clip", (x, None, w), (("axis", 1), ("shape", (n, 2)))), one),
        Binding((Var("k", Tensor((2, n), "float32")),), KernelCall(kernel(), (x, w), tiling), one),
        Binding((Var("b", Tensor((2, n), "float32")),), KernelCall(kernel(), (x, w), B), one),
        Binding((names[1],), KernelCall(replace(kernel(), constants=frozenset()), (x, w)), one),
        Binding((Var("z", Tensor((n,), "float32")),), View(w, 2 * n), one),
        Binding((names[12],), View(x), one),
        Binding(
            (names[3], names[4]),
            LibraryCall("onnx", "TopK", (names[12], None, x), (("k", 2),)),
            one,
        ),
        Binding((names[5],), FunctionCall("inner", (x,)), one),
        Binding((Var("p", Tensor((m, 3), "float32")),), MatchCast(x), one),
        Binding((Var("s", Tensor((2,), "int64")),), ShapeOf((n, floor_div(n, 2))), one),
        Binding((Var("t", Tensor((), "int64")),), ShapeOf((n,), 0), one),
        Binding((names[6],), Branch(c, "inner", "other one", (x,)), frozenset({"one", "other op"})),
        Binding(
            (names[7], names[8]),
            Loop("body", Var("t", Tensor((), "int64")), c, (x, names[0]), (w,)),
            one,
        ),
        Binding((names[9],), Loop("body", None, None, (x,), ()), one),
        Binding(
            (names[11], names[2]),
            Loop("body", None, c, (x,), (w,), 1, (Tensor((1, 8), "float64"),)),
            one,
        ),
        Binding((Var("cast", ShapeType((n, m + 1))),), MatchCast(names[3]), one),
        Binding((Var("loose", Tensor(None, "string", 2)),), MatchCast(x), one),
        Binding((Var("list", Object()),), LibraryCall("onnx", "SequenceConstruct", (x,)), one),
        Binding((names[10],), OpCall("Relu", (x,)), frozenset()),
    )
    inner = Function("inner", (Var("q", F),), (), (Var("q", F),))
    other = Function(
        "other one",
        (Var("q", F),),
        (Binding((Var("r", F),), OpCall("Relu", (Var("q", F),))),),
        (Var("r", F), w),
    )
    promised = (names[10], names[0], Var("list", TupleType((F, Object()))))
    main = Function("main", (x, c), body, promised, ("v10", "gpu_0/out", "list"))
    return Program(
        (main, inner, other),
        {"w": Constant(np.ones((3, 4), np.float32))},
        ShapeEnv((SymbolBound("n", 1, None, 4), SymbolBound("m", 2, 64, 8))),
        (SourceOp("one", "Conv", "v0"), SourceOp("other op", "Relu")),
        (("gone", "folded into shapes"),),
        Stage.ROLLED,
        name="my model",
    )


def test_a_program_with_every_form_of_binding_reads_back() -> None:
    program = everything()
    w = Var("w", Tensor((3, 4), "float32"))

    def typed(v: Any) -> Any:
        return w if v is not None and v.name == "w" else v

    body = tuple(
        replace(b, expr=replace(b.expr, args=tuple(typed(a) for a in b.expr.args)))
        if isinstance(b.expr, (OpCall, Loop))
        else b
        for b in program.main.body
        if not isinstance(b.expr, (KernelCall, View)) or b.var.name == "data:0"
    )
    other = replace(program.function("other one"), outputs=(Var("r", F), w))
    plain = program.with_body(body).with_function(other)
    again = back(plain)
    assert again == plain
    assert [b.origin for b in again.main.body] == [b.origin for b in plain.main.body]


def kernels_only(tiling: Tiling | None, constants: frozenset[str]) -> Program:
    x, w = Var("x", F), Var("w", Tensor((3, n), "float32"))
    made = replace(kernel(), constants=constants)
    main = Function(
        "main",
        (x, w),
        (
            Binding(
                (Var("k", Tensor((2, n), "float32")),),
                KernelCall(made, (x, w), tiling),
                frozenset({"one"}),
            ),
        ),
        (Var("k", Tensor((2, n), "float32")),),
    )
    return Program((main,), stage=Stage.ROLLED)


@pytest.mark.parametrize("tiling", [None, Tiling(), Tiling((("i", 4),), Micro(6, 2, 8), True, 512)])
@pytest.mark.parametrize("constants", [frozenset(), frozenset({"w"})])
def test_a_kernel_reads_back_with_its_tiles_and_origins(
    tiling: Tiling | None, constants: frozenset[str]
) -> None:
    program = kernels_only(tiling, constants)
    again = back(program)
    assert again == program
    before, after = (p.kernel_calls[0].expr for p in (program, again))
    assert isinstance(before, KernelCall)
    assert isinstance(after, KernelCall)
    assert [c.origin for c in after.kernel.computes] == [c.origin for c in before.kernel.computes]


@pytest.mark.parametrize("name", sorted(p.stem for p in DATA.glob("tiny_*.onnx")))
def test_a_real_program_reads_back_at_every_stage_up_to_kernels(name: str) -> None:
    imported = load(DATA / f"{name}.onnx").program
    typed = deduce(imported)
    for program in (imported, typed, legalize(typed)):
        again = back(program)
        assert again == program
        assert [b.origin for _, b in again.bindings()] == [b.origin for _, b in program.bindings()]


def test_the_text_of_kernels_is_what_students_read(snapshot: Callable[[str, str], None]) -> None:
    for name in ("tiny_resnet18", "tiny_skip", "tiny_while", "tiny_bert"):
        program = legalize(deduce(load(DATA / f"{name}.onnx").program))
        snapshot(f"ir/{name}.txt", print_program(program, digests=False))


def test_a_constant_with_other_bytes_is_refused() -> None:
    program = load(DATA / "tiny_skip.onnx").program
    text = print_program(program)
    name = next(iter(program.constants))
    others = {**program.constants, name: Constant(program.constants[name].array + 1)}
    with pytest.raises(SnapshotError, match="other bytes"):
        parse_program(text, others)
    with pytest.raises(SnapshotError, match="missing"):
        parse_program(text, {})


BROKEN = [
    "",
    "program",
    "program x at NOWHERE",
    "program x at TYPED\nnonsense",
    "program x at TYPED\ndef f(:",
    "program x at TYPED\ndef f(x: float32[2]):\n  y: float32[2] = Relu(z)\n  return y",
    "program x at TYPED\ndef f():\n  y: float32[2] = kernel k()\n  return y",
    "program x at TYPED\ndef f():",
    "program x at TYPED\ndef f():\n  y: float99[2] = Relu()\n  return y",
    "program x at TYPED\ndef f():\n  y: float32[2] = Relu(\x00)\n  return y",
]


@pytest.mark.parametrize("text", BROKEN)
def test_text_that_cannot_be_read_says_where(text: str) -> None:
    with pytest.raises(SnapshotError):
        parse_program(text, {})


@given(st.randoms(use_true_random=False))
def test_damaged_text_gives_a_named_error_or_a_program(chance: Any) -> None:
    program = load(DATA / "tiny_skip.onnx").program
    text = list(print_program(program))
    for _ in range(3):
        text[chance.randrange(len(text))] = chance.choice('()[]{},:= x0"#@-\n')
    try:
        parse_program("".join(text), program.constants)
    except SnapshotError as error:
        assert error.sentence


@pytest.mark.exhaustive
def test_printing_takes_time_linear_in_the_program() -> None:
    x = Var("x", F)

    def chain(length: int) -> Program:
        body, last = [], x
        for i in range(length):
            body.append(Binding((Var(f"v{i}", F),), OpCall("Relu", (last,)), frozenset({f"op{i}"})))
            last = body[-1].var
        return Program((Function("main", (x,), tuple(body), (last,)),))

    def seconds(program: Program) -> float:
        times = []
        for _ in range(3):  # the least: a collection of garbage can fall into any of them
            start = time.perf_counter()
            assert back(program) == program
            times.append(time.perf_counter() - start)
        return min(times)

    seconds(chain(100))
    assert seconds(chain(8000)) < 24 * seconds(chain(1000))
