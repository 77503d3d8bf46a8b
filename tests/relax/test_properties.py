"""The testable properties of Relax, by the numbers of the reference's list A5."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer
from explorer.errors import DtypeError, IronworksError, ShapeError, VerifyError
from explorer.ir.affine import var
from explorer.ir.annotations import signature_of
from explorer.ir.calls import (
    Branch,
    Expr,
    FunctionCall,
    KernelCall,
    LibraryCall,
    MatchCast,
    OpCall,
    ShapeOf,
    Var,
)
from explorer.ir.calls import View as ViewCall
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.program import Binding, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.text.program_text import print_program
from explorer.ir.types import Annotation, ShapeType, Tensor
from explorer.ops.interpreter import libraries
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.relax import deduce

n, m, k = symbol("n"), symbol("m"), symbol("k")


def f32(*dims: Dim) -> Tensor:
    return Tensor(dims, "float32")


def program_of(
    params: Mapping[str, Annotation],
    body: Mapping[str, tuple[Annotation, Expr]],
    *others: Function,
    stage: Stage = Stage.TYPED,
) -> Program:
    """A program that gives the last value of its body."""
    given = tuple(Var(name, type) for name, type in params.items())
    bindings = tuple(Binding((Var(v, t),), e) for v, (t, e) in body.items())
    main = Function("main", given, bindings, (bindings[-1].var,), (bindings[-1].var.name,))
    env = ShapeEnv(tuple(SymbolBound(s, 0) for s in "nmk"))
    return Program((main, *others), env=env, stage=stage)


_compiled: dict[str, explorer.Compilation] = {}


def compile_once(program: Program) -> explorer.Compilation:
    """The program as it runs on this machine."""
    text = print_program(program)
    if text not in _compiled:
        _compiled[text] = explorer.compile(explorer.Model("test", "", program))
    return _compiled[text]


X = Var("x", f32(n, m))
COPIED = Compute("y", (Axis("i", k),), Read("x", (var("i"),)))
WIDE = Kernel("copy", (TensorSpec("x", (n,)), TensorSpec("y", (k,))), (COPIED,), ("x",), ("y",))

UNDEFINED: list[tuple[str, tuple[Annotation, Expr]]] = [
    ("an annotation", (f32(n, k), OpCall("Relu", (X,)))),
    ("a shape", (Tensor((2,), "int64"), ShapeOf((n, k)))),
    ("an attribute", (f32(n, m), OpCall("Reshape", (X,), (("dims", (k, n)),)))),
    ("a view", (f32(k), ViewCall(X))),
    ("the place of a view", (f32(n), ViewCall(X, k))),
    ("the output of a kernel call", (f32(k), KernelCall(WIDE, (Var("x", f32(n, m)),)))),
    ("the output of a library call", (f32(k), LibraryCall("onnx", "NonZero", (X,)))),
    ("a match_cast", (f32(n, k + 1), MatchCast(X))),
]


@pytest.mark.parametrize(("place", "bound"), UNDEFINED, ids=[u[0] for u in UNDEFINED])
def test_a5_02_a_symbol_that_nothing_defines_is_rejected(
    place: str, bound: tuple[Annotation, Expr]
) -> None:
    with pytest.raises(VerifyError, match="'y': uses 'k', which no parameter and no match"):
        verify(program_of({"x": f32(n, m)}, {"y": bound}))


@pytest.mark.parametrize(("place", "bound"), UNDEFINED[:-1], ids=[u[0] for u in UNDEFINED[:-1]])
def test_a5_02_a_symbol_that_is_defined_later_is_rejected(
    place: str, bound: tuple[Annotation, Expr]
) -> None:
    cast = (f32(n, k), MatchCast(X))
    with pytest.raises(VerifyError, match="uses 'k' before the match_cast 'z' defines it"):
        verify(program_of({"x": f32(n, m)}, {"y": bound, "z": cast}))


def test_a5_02_an_expression_defines_nothing() -> None:
    x = Var("x", f32(n + 1))
    relu = (f32(n), OpCall("Relu", (Var("w", f32(n)),)))
    with pytest.raises(VerifyError, match="'x' has only in an expression, which defines nothing"):
        verify(program_of({"x": x.type, "w": Tensor(None, "float32", 1)}, {"y": relu}))
    verify(program_of({"x": x.type, "w": f32(n)}, {"y": relu}))
    given = Var("w", Tensor(None, "float32", 1))
    cast = {"v": (f32(n), MatchCast(given)), "y": (f32(n), OpCall("Relu", (Var("v", f32(n)),)))}
    verify(program_of({"x": x.type, "w": given.type}, cast))


def test_a5_02_bodies_see_the_symbols_of_their_caller_and_called_functions_do_not() -> None:
    c, z = Var("c", Tensor((), "bool")), Var("z", Tensor(None, "float32", 1))
    inner = Var("w", Tensor((1,), "int64"))
    body = (Binding((inner,), ShapeOf((n,))),)
    sides = [Function(name, (z,), body, (inner,)) for name in ("yes", "no")]
    branch = (inner.type, Branch(c, "yes", "no", (z,)))
    params = {"x": f32(n), "c": c.type, "z": z.type}
    verify(program_of(params, {"y": branch}, *sides))
    with pytest.raises(VerifyError, match="uses 'n', which no parameter"):
        verify(program_of(params, {"y": (inner.type, FunctionCall("yes", (z,)))}, *sides))


# Wrong inputs.

WRONG: list[tuple[type[IronworksError], str, dict[str, Any]]] = [
    (ShapeError, r"the input 'x' must have shape \[n, 2\*m\] and has \[4\]", {"x": (4,)}),
    (DtypeError, "the input 'x' must be float32 and is int32", {"x": np.zeros((3, 4), np.int32)}),
    (ShapeError, r"dim 1 of the input 'x' must be 2\*m = 4 and is 5", {"x": (3, 5)}),
    (ShapeError, "dim 0 of the input 'y' must be n = 3 and is 2", {"y": (2, 2)}),
    (ShapeError, r"dim 0 of the match_cast 'v' must be n \+ 1 = 4 and is 5", {"z": (5,)}),
    (ShapeError, r"the match_cast 'v' must have shape \[n \+ 1\] and has \[4, 1\]", {"z": (4, 1)}),
]


@pytest.mark.parametrize(("kind", "words", "changed"), WRONG, ids=[w[1][:32] for w in WRONG])
def test_a5_03_wrong_inputs_raise_before_any_kernel_runs(
    kind: type[IronworksError],
    words: str,
    changed: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    z = Var("z", Tensor(None, "float32"))
    v = Var("v", f32(n + 1))
    params = {"x": f32(n, 2 * m), "y": f32(n, m), "z": z.type}
    body = {"v": (v.type, MatchCast(z)), "r": (v.type, OpCall("Relu", (v,)))}
    program = program_of(params, body)
    given = {"x": (3, 4), "y": (3, 2), "z": (4,)}

    def arrays(shapes: Mapping[str, Any]) -> dict[str, Any]:
        return {
            s: np.zeros(a, np.float32) if isinstance(a, tuple) else a for s, a in shapes.items()
        }

    assert evaluate(program, arrays(given))["r"].shape == (4,)

    def refuse(*args: Any) -> None:
        raise AssertionError("an operator was run")

    monkeypatch.setattr(libraries, "operator_results", refuse)
    with pytest.raises(kind, match=words):
        evaluate(program, arrays(given | changed))
    compiled = compile_once(program)
    assert compiled.run(arrays(given))["r"].shape == (4,)
    before = explorer.counters.regions_run
    with pytest.raises(kind, match=words):
        compiled.run(arrays(given | changed))
    assert explorer.counters.regions_run == before


# match_cast.


def test_a5_06_a_match_cast_gives_the_new_symbol_to_what_follows() -> None:
    """Data-dependent NonZero, then operators of fixed rank over the symbol that it made."""
    x = Var("x", f32(n))
    found = Var("found", Tensor(None, "int64", 2))
    where = Var("where", Tensor((1, k), "int64"))
    flat = Var("flat", Tensor((k,), "int64"))
    twice = Var("twice", Tensor((2 * k,), "int64"))
    body: dict[str, tuple[Annotation, Expr]] = {
        "found": (found.type, OpCall("NonZero", (x,))),
        "where": (where.type, MatchCast(found)),
        "flat": (flat.type, OpCall("Reshape", (where,), (("dims", (k,)),))),
        "twice": (twice.type, OpCall("Concat", (flat, flat), (("axis", 0),))),
        "size": (Tensor((1,), "int64"), ShapeOf((2 * k,))),
        "y": (twice.type, OpCall("Add", (twice, Var("size", Tensor((1,), "int64"))))),
    }
    program = program_of({"x": x.type}, body)
    verify(program)
    compiled = compile_once(program)
    for values in ([], [0.0], [1.0, 0.0, 2.0], [1.0] * 7):
        places = np.flatnonzero(values)
        given = np.array(values, np.float32)
        wanted = np.concatenate([places, places]) + 2 * len(places)
        assert evaluate(program, {"x": given})["y"].tolist() == wanted.tolist()
        assert evaluate(deduce(program), {"x": given})["y"].tolist() == wanted.tolist()
        assert compiled.run({"x": given})["y"].tolist() == wanted.tolist()


def test_a5_06_a_match_cast_that_fails_raises() -> None:
    x = Var("x", Tensor(None, "float32", 2))
    program = program_of({"x": x.type}, {"y": (f32(n, n), MatchCast(x))})
    for a, b in itertools.product(range(3), repeat=2):
        given = {"x": np.zeros((a, b), np.float32)}
        for run in (partial(evaluate, program), compile_once(program).run):
            if a == b:
                assert run(given)["y"].shape == (a, a)
                continue
            with pytest.raises(ShapeError, match=f"the match_cast 'y' must be n = {a} and is {b}"):
                run(given)


def test_a5_06_the_elements_of_a_tensor_become_symbols() -> None:
    x, at = Var("x", f32(n)), Var("at", Tensor(None, "int64", 1))
    body: dict[str, tuple[Annotation, Expr]] = {
        "dims": (ShapeType((m, k)), MatchCast(at)),
        "y": (f32(m, k), OpCall("Reshape", (x,), (("dims", (m, k)),))),
    }
    program = program_of({"x": x.type, "at": at.type}, body)
    verify(program)
    given = {"x": np.arange(6, dtype=np.float32), "at": np.array([3, 2])}
    assert evaluate(program, given)["y"].tolist() == [[0, 1], [2, 3], [4, 5]]
    compiled = compile_once(program)
    assert compiled.run(given)["y"].tolist() == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(ShapeError, match=r"the match_cast 'dims' must have shape \[m, k\] and has"):
        compiled.run(given | {"at": np.array([3, 2, 1])})


# Signatures.


def calling(steps: list[str], known: bool) -> Program:
    """main(x: [m, k]) = [Relu(f(x)), f(f(x))], where f(y: [n, m]) -> [m, n] is made of steps."""
    y = Var("y", f32(n, m))
    body: list[Binding] = []
    last, turned = y, False
    for at, step in enumerate([*steps, "Transpose"]):
        turned ^= step == "Transpose"
        out = Var(f"s{at}", f32(m, n) if turned else f32(n, m))
        args = (last, last) if step == "Mul" else (last,)
        attrs = (("perm", (1, 0)),) if step == "Transpose" else ()
        body.append(Binding((out,), OpCall(step, args, attrs)))
        last = out
    if not known:  # what the body alone can know is erased from the signature
        out = Var("cast", f32(k, n))
        body.append(Binding((out,), MatchCast(last)))
        last = out
    callee = Function("f", (y,), tuple(body), (last,))
    x, unknown = Var("x", f32(m, k)), Tensor(None, "float32", 2)
    once = Var("once", f32(k, m) if known else unknown)
    twice = Var("twice", f32(m, k) if known else unknown)
    found = (
        Binding((once,), FunctionCall("f", (x,))),
        Binding((Var("r", once.type),), OpCall("Relu", (once,))),
        Binding((twice,), FunctionCall("f", (once,))),
    )
    outputs = (Var("r", once.type), twice)
    main = Function("main", (x,), found, outputs, ("r", "twice"))
    env = ShapeEnv(tuple(SymbolBound(s, 0) for s in "nmk"))
    return Program((main, callee), env=env)


@given(
    st.lists(st.sampled_from(["Relu", "Neg", "Mul", "Abs"]), max_size=6),
    st.lists(st.sampled_from(["Relu", "Neg", "Mul", "Abs"]), max_size=6),
    st.booleans(),
)
def test_a5_04_another_body_of_the_same_signature_changes_no_caller(
    one: list[str], other: list[str], known: bool
) -> None:
    first, second = (deduce(calling(steps, known)) for steps in (one, other))
    assert first.main == second.main
    assert first.env == second.env
    assert signature_of(first.function("f")) == signature_of(second.function("f"))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for program in (first, second):
        verify(program)
        found = evaluate(program, {"x": x})
        assert [a.shape for a in found.values()] == [(3, 2), (2, 3)]


def test_a5_04_the_caller_speaks_of_its_own_symbols() -> None:
    main = deduce(calling(["Relu"], True)).main
    types = {v.name: v.type for b in main.body for v in b.vars}
    assert types == {"once": f32(k, m), "r": f32(k, m), "twice": f32(m, k)}
