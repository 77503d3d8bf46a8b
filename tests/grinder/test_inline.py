"""Calls in whose place the function's own bindings stand: which go, which stay, and how many."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.grinder.inline import decide_inlining, inline_calls
from explorer.grinder.recursion import find_recursive
from explorer.ir.calls import FunctionCall, OpCall, Var
from explorer.ir.dims import ShapeEnv, SymbolBound, symbol
from explorer.ir.program import Binding, Function, Program, SourceOp
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from tests.examples import examples
from tests.runtime.programs import Model, inputs_of, vector
from tests.runtime.test_executable import same

N = 12
VECTOR, COUNT = vector(N), Tensor((), "int64")


def called(program: Program) -> set[str]:
    return {b.expr.function for _, b in program.bindings() if isinstance(b.expr, FunctionCall)}


def circle(seed: int) -> tuple[Program, int]:
    """A random circle of functions over (x, k), each with one branch; how many there are."""
    rnd, model = Random(seed), Model()
    count = rnd.randint(2, 4)

    def side(name: str, callees: list[str]) -> str:
        def write(b: Any, x: Any, k: Any) -> list[Any]:
            less = b.less(k)
            for callee in callees:
                x = b.mix(b.call(callee, [b.flip(x), less], VECTOR), x)
            return [b.flip(x)]

        return model.function(name, (model.var(VECTOR), model.var(COUNT)), write)

    for n in range(count):
        callees = [f"f{(n + 1) % count}"]
        if rnd.random() < 0.4:
            callees.append("f0" if rnd.random() < 0.8 else f"f{rnd.randrange(count)}")
        arms = side(f"step{n}", callees), side(f"base{n}", [])
        turned = rnd.random() < 0.5

        def write(b: Any, x: Any, k: Any, arms: Any = arms, turned: bool = turned) -> list[Any]:
            found = b.branch(b.test(k), *arms, [x, k], VECTOR)
            return [x if rnd.random() < 0.1 else b.flip(found) if turned else found]

        model.function(f"f{n}", (model.var(VECTOR), model.var(COUNT)), write)

    def main(b: Any, x: Any, k: Any) -> list[Any]:
        return [b.call(f"f{rnd.randrange(count)}", [x, k], VECTOR) for _ in range(2)]

    return model.program((Var("x", VECTOR), Var("k", COUNT)), main), count


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 3))
def test_one_of_a_circle_stays_where_one_can_and_results_are_the_same(seed: int, k: int) -> None:
    program, count = circle(seed)
    found = decide_inlining({f.name: f for f in program.functions})
    after = inline_calls(program)
    assert called(after) == called(program) - found.inlined
    names = [
        v.name for f in after.functions for v in (*f.params, *(v for b in f.body for v in b.vars))
    ]
    assert len(names) == len(set(names))
    if found.inlined:
        assert len(found.recursive) == 1 and len(found.inlined) == count - 1
        assert "" in {find_recursive(after)[name] for name in found.recursive}
        assert inline_calls(after) is after
    else:
        assert after is program
        assert {why.split(", ")[1] for why in find_recursive(program).values()} == {
            "and more than one of them itself"
        }
    inputs = inputs_of(program, N, seed) | {"k": np.array(k)}
    same(evaluate(after, inputs), evaluate(program, inputs))


def test_what_is_called_from_outside_stays_before_others() -> None:
    for callee in ("f", "g"):
        model = Model()
        for name, other in (("f", "g"), ("g", "f")):
            params = model.var(VECTOR), model.var(COUNT)
            model.function(
                name, params, lambda b, x, k, other=other: [b.call(other, [x, k], VECTOR)]
            )
        program = model.program(
            (Var("x", VECTOR), Var("k", COUNT)),
            lambda b, x, k, callee=callee: [b.call(callee, [x, k], VECTOR)],
        )
        after = inline_calls(program)
        assert called(after) == {callee} and len(after.functions) == 2


def test_a_program_without_such_calls_stays_as_it_is() -> None:
    model = Model()
    model.function("f", (model.var(VECTOR),), lambda b, x: [b.flip(x)])
    program = model.program((Var("x", VECTOR),), lambda b, x: [b.call("f", [x], VECTOR)])
    assert inline_calls(program) is program
    none = model.program((Var("x", VECTOR),), lambda b, x: [b.flip(x)])
    assert inline_calls(none) is none


@pytest.mark.parametrize("room", [0, 3, 100])
def test_no_more_is_inlined_than_there_is_room_for(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, _ = circle(11)
    assert len(decide_inlining({f.name: f for f in program.functions}).inlined) > 1
    monkeypatch.setattr("explorer.grinder.inline.MOST_BINDINGS", room)
    after = inline_calls(program)
    before, now = (sum(len(f.body) for f in p.functions) for p in (program, after))
    assert now <= before + room and (after is program) == (room == 0)
    inputs = inputs_of(program, N) | {"k": np.array(2)}
    same(evaluate(after, inputs), evaluate(program, inputs))


def test_operators_of_functions_that_nothing_calls_have_a_reason() -> None:
    x, y = (Var(name, Tensor((2, 0), "float32")) for name in "xy")
    a, b = (Var(name, Tensor(tuple(map(symbol, "pq")), "float32")) for name in "ab")

    def relu(name: str, origin: str, given: Var, made: Var) -> Function:
        body = (Binding((made,), OpCall("Relu", (given,)), frozenset({origin})),)
        return Function(name, (given,), body, (made,))

    call = Binding((y,), FunctionCall("f", (x,)), frozenset({"Call"}))
    main = Function("main", (x,), (call,), (y,), ("y",))
    functions = (main, relu("f", "Relu", a, b), relu("g", "Lost", a, b))
    sources = tuple(SourceOp(name, "op") for name in ("Call", "Relu", "Lost"))
    bounds = tuple(SymbolBound(name, 0) for name in "pq")
    program = Program(functions, {}, ShapeEnv(bounds), sources)
    verify(program)
    after = inline_calls(program)
    verify(after)
    assert [f.name for f in after.functions] == ["main"]
    assert after.dropped == (("Lost", "nothing reads it"),)
