"""The boundaries of calls: what a parameter says, what its argument says, and what comes back."""

from dataclasses import replace

import pytest

from explorer.ir.calls import Branch, FunctionCall, Loop, Var
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.program import Binding, Function, Program
from explorer.ir.types import Tensor
from tests.widgets import made_by_hand as hand
from tests.widgets.drawn_geometry import ALL_SIZES, SIZES, problems
from widgets.relax import call_boundary
from widgets.relax.call_boundary import BoundaryRow

n, m = symbol("n"), symbol("m")
ENV = ShapeEnv((SymbolBound("n", 1), SymbolBound("m", 1)))


def f32(*dims: Dim) -> Tensor:
    return Tensor(dims, "float32")


def function(name: str, params: tuple[Tensor, ...], result: Tensor) -> Function:
    given = tuple(Var(f"p{i}", t) for i, t in enumerate(params))
    return Function(name, given, (), (Var("out", result),))


def called(callee: Function, *args: Tensor) -> BoundaryRow:
    given = tuple(Var(f"x{i}", t) for i, t in enumerate(args))
    y = Binding((Var("y", f32(1)),), FunctionCall(callee.name, given), frozenset({"call"}))
    main = Function("main", given, (y,), (y.var,))
    (row,) = call_boundary.of_program(Program((main, callee), env=ENV), kernels=False)
    return row


def test_bare_symbols_are_bound_and_the_result_is_in_the_callers_words() -> None:
    row = called(function("turn", (f32(n, m),), f32(m + 1, n)), f32(10, m))
    assert [(r.declared, r.actual, r.binds) for r in row.rows] == [
        ("n", "10", "n"),
        ("m", "m", "m"),
    ]
    assert (row.result, row.level, row.kind, row.callee) == (
        "f32[m + 1, 10]",
        "proved",
        "function",
        "turn",
    )


def test_what_cannot_be_proved_is_left_to_the_run_and_says_why() -> None:
    row = called(function("add", (f32(n), f32(n)), f32(n)), f32(n), f32(m))
    assert [r.level for r in row.rows] == ["proved", "checked by the run"]
    assert row.level == "checked by the run" and row.rows[1].reason
    assert ">at run<" in call_boundary.figure((row,), SIZES[0], ("n", "m")).body


def test_what_can_never_fit_is_crossed() -> None:
    row = called(function("four", (f32(4),), f32(4)), f32(5))
    assert row.level == "never fits"
    body = call_boundary.figure((row,), SIZES[0]).body
    assert 'stroke="var(--bad)"' in body and 'class="bad"' in body


def test_both_arms_of_a_branch_and_the_body_of_a_loop_have_a_table() -> None:
    flag, x = Var("flag", Tensor((), "bool")), Var("x", f32(n))
    count = Var("count", Tensor((), "int64"))
    arms = tuple(function(name, (f32(n),), f32(n)) for name in ("yes", "no"))
    state = (Tensor((), "int64"), Tensor((), "bool"), f32(n))
    body = function("body", state, f32(n))  # type: ignore[arg-type]
    bound = (
        Binding((Var("a", f32(n)),), Branch(flag, "yes", "no", (x,))),
        Binding((Var("b", f32(n)),), Loop("body", count, None, (x,), ())),
    )
    main = Function("main", (flag, count, x), bound, (bound[-1].var,))
    rows = call_boundary.of_program(Program((main, *arms, body), env=ENV), kernels=False)
    assert [(r.kind, r.callee) for r in rows] == [
        ("branch", "yes"),
        ("branch", "no"),
        ("loop", "body"),
    ]
    assert all(r.level == "proved" for r in rows)


def test_a_kernels_buffers_are_in_the_callers_symbols() -> None:
    rows = {r.name: r for r in call_boundary.data(hand.HandMade())}
    assert rows["fc_out"].result == "f32[batch, 10]" and rows["fc_out"].kind == "kernel"
    dims = [(r.param, r.declared) for r in rows["fc_out"].rows]
    assert dims == [("x", "batch"), ("x", "576"), ("w", "10"), ("w", "576")]
    assert {r.level for r in rows.values()} == {"proved"}


@pytest.mark.parametrize("size", ALL_SIZES)
def test_many_calls_are_counted_and_none_says_so(size: tuple[int, int]) -> None:
    row = called(function("f", tuple(f32(n, m + 1) for _ in range(9)), f32(n)), *[f32(n, m)] * 9)
    rows = tuple(
        replace(row, name=f"call_{i}", display_name=f"call_{i}", ops=(f"op_{i}",))
        for i in range(30)
    )
    figure = call_boundary.figure(rows, size, ("n", "m"), "op_20")
    assert problems(figure) == [] and "call_20" in figure.body
    assert "more call" in figure.body and ("more<" in figure.body or size[0] > 1200)
    none = call_boundary.figure((), size)
    assert problems(none) == [] and "Nothing is called yet" in none.body
    assert call_boundary.table(()).rows


def test_a_kernel_gets_the_array_of_its_result_and_a_function_returns_it() -> None:
    kernels = {r.name: r for r in call_boundary.data(hand.HandMade())}
    found = kernels["fc_out"]
    assert [(p.param, p.argument, p.actual) for p in found.passed] == [
        ("x", "flat", "f32[batch, 576]"),
        ("w", "fc_w", "f32[10, 576]"),
    ]
    assert [(p.param, p.declared) for p in found.results] == [("y", "f32[batch, 10]")]
    assert 'data-k="destination"' in call_boundary.figure((found,), SIZES[0]).body
    row = called(function("turn", (f32(n, m),), f32(m + 1, n)), f32(10, m))
    (back,) = row.results
    assert (back.param, back.declared, back.actual) == ("out", "f32[m + 1, n]", "f32[m + 1, 10]")
    assert row.passed[0].binds == ("n = 10", "m = m")
    body = call_boundary.figure((row,), SIZES[0]).body
    assert 'data-k="back"' in body and 'data-k="destination"' not in body.split("boundary")[0]


def test_dims_that_are_written_alike_are_one_line_of_the_table() -> None:
    row = called(function("f", (f32(4, 8), f32(n)), f32(4)), f32(4, 8), f32(m))
    first, *others = call_boundary.table((row,)).rows
    assert first[4:6] == ("4, 8", "4, 8") and first[-1] == "written alike"
    assert [r[3] for r in others] == ["p1"] and others[0][-1] != "written alike"
