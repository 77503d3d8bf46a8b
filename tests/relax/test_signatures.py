"""What a call gives, from the signature of what is called alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import DtypeError, ShapeError
from explorer.ir.annotations import Match, derive_call, match, signature_of
from explorer.ir.calls import MatchCast, Var
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.program import Binding, Function
from explorer.ir.types import Annotation, Callable, Object, ShapeType, Tensor, TupleType

n, m, k, a, b = (symbol(s) for s in ("n", "m", "k", "a", "b"))
ENV = ShapeEnv((SymbolBound("a", 1, 8), SymbolBound("b", 0, None)))


def f32(*dims: Dim) -> Tensor:
    return Tensor(dims, "float32")


def f32_of_rank(rank: int | None) -> Tensor:
    return Tensor(None, "float32", rank)


TURNED = Callable((f32(n, m),), f32(m + 1, n))
PAIR = Callable((TupleType((f32(n, m), f32(n + 4, 4))),), f32(m, n))


def given_(signature: Callable, *args: Annotation) -> Annotation:
    return derive_call(signature, args, ENV).result


def test_the_result_speaks_of_the_arguments_dims() -> None:
    assert given_(TURNED, f32(10, 11)) == f32(12, 10)
    assert given_(TURNED, f32(a, b)) == f32(b + 1, a)
    assert given_(TURNED, f32(a + 1, 3)) == f32(4, a + 1)


def test_a_caller_may_call_its_symbols_what_the_callee_calls_others() -> None:
    assert given_(TURNED, f32(m, n)) == f32(n + 1, m)


def test_what_no_argument_says_is_erased() -> None:
    assert given_(TURNED, f32_of_rank(2)) == f32_of_rank(2)
    both = Callable((f32(n), f32(m)), TupleType((f32(n), f32(n, m))))
    assert given_(both, f32(3), f32_of_rank(1)) == TupleType((f32(3), f32_of_rank(2)))


def test_a_coarse_argument_is_taken_where_its_symbol_comes_from_another() -> None:
    args = TupleType((f32(a, 4), f32_of_rank(2)))
    derived = derive_call(PAIR, (args,), ENV)
    assert derived.result == f32(4, a)
    assert derived.level == Match.CHECKED


def test_the_table_has_a_line_for_each_dim() -> None:
    derived = derive_call(Callable((f32(n + 1), f32(n, 4)), f32(n)), (f32(b), f32(a, 4)), ENV)
    assert [(r.argument, r.param, r.arg, r.symbol, r.level.name) for r in derived.rows] == [
        (0, "n + 1", "b", "", "CHECKED"),
        (1, "n", "a", "n", "PROVED"),
        (1, "4", "4", "", "PROVED"),
    ]
    assert derived.rows[0].reason == "b == a + 1 is not proved; the run checks it"
    assert derived.symbols == (("n", a),)


def test_a_symbol_that_stands_first_in_an_expression_is_bound_by_a_later_parameter() -> None:
    signature = Callable((f32(n + 1), f32(n)), f32(n))
    derived = derive_call(signature, (f32(a + 1), f32(a)), ENV)
    assert derived.level == Match.PROVED
    with pytest.raises(ShapeError, match=r"number 1 must be n \+ 1 and is 7: 7 is never 6"):
        derive_call(signature, (f32(7), f32(5)), ENV)


def test_an_expression_alone_is_left_to_the_run() -> None:
    derived = derive_call(Callable((f32(n + 1),), f32(n)), (f32(5),), ENV)
    assert derived.rows[0].reason == "n is not known; the run checks it"
    assert derived.result == f32_of_rank(1)


def test_a_shape_as_an_argument_defines_symbols_too() -> None:
    full = Callable((ShapeType((n, m)),), f32(n, m))
    assert given_(full, ShapeType((a, 3))) == f32(a, 3)
    assert given_(full, ShapeType(None, 2)) == f32_of_rank(2)


def test_an_opaque_function_gives_what_it_says() -> None:
    assert given_(Callable(None, Object()), f32(3), Object()) == Object()
    assert given_(Callable(None, f32(n)), f32(3)) == f32_of_rank(1)


REFUSED: list[tuple[type[Exception], str, tuple[Annotation, ...], tuple[Annotation, ...]]] = [
    (DtypeError, "'x' must be .* int64 is never float32", (f32(n),), (Tensor((3,), "int64"),)),
    (DtypeError, "its dtype is not known", (f32(n),), (Tensor((3,)),)),
    (ShapeError, "'x' must be .* it has 2 dims where 1 are wanted", (f32(n),), (f32(3, 3),)),
    (ShapeError, "'x' must be .* its rank is not known", (f32(n),), (f32_of_rank(None),)),
    (ShapeError, "'x' must be .* nothing is known about it", (f32(n),), (Object(),)),
    (ShapeError, "'x' must be 4 and is 5", (f32(4),), (f32(5),)),
    (ShapeError, "'y' must be n and is 5: 5 is never 3", (f32(n), f32(n)), (f32(3), f32(5))),
    (ShapeError, "'y' must be n and is a [+] 1", (f32(n), f32(n)), (f32(a), f32(a + 1))),
    (ShapeError, "f takes 1 arguments and is given 2", (f32(n),), (f32(3), f32(3))),
    (ShapeError, "'x' must be shape", (ShapeType((n,)),), (f32(n),)),
]


@pytest.mark.parametrize(
    ("kind", "words", "params", "args"), REFUSED, ids=[r[1][:24] for r in REFUSED]
)
def test_an_argument_that_cannot_fit_is_named(
    kind: type[Exception],
    words: str,
    params: tuple[Annotation, ...],
    args: tuple[Annotation, ...],
) -> None:
    with pytest.raises(kind, match=words):
        derive_call(Callable(params, Object()), args, ENV, callee="f", names=("x", "y"))


def test_a_signature_is_closed() -> None:
    x, y = Var("x", f32(n, m)), Var("y", f32(n + 1, k + 2))
    function = Function("f", (x,), (Binding((y,), MatchCast(x)),), (y,))
    assert signature_of(function) == Callable((f32(n, m),), f32_of_rank(2))


def test_a_function_of_two_values_gives_a_tuple() -> None:
    x = Var("x", f32(n, m))
    function = Function("f", (x,), (), (x, x))
    assert signature_of(function).result == TupleType((f32(n, m), f32(n, m)))


def test_a_parameter_of_expressions_defines_nothing() -> None:
    x = Var("x", f32(n + 1))
    assert signature_of(Function("f", (x,), (), (x,))).result == f32_of_rank(1)


# Properties.

sizes = st.sampled_from([0, 1, 4, a, b, a + 1, a * b])


@given(st.tuples(sizes, sizes), st.tuples(sizes, sizes))
def test_knowing_less_of_an_argument_gives_a_coarser_result(
    x: tuple[Dim, Dim], y: tuple[Dim, Dim]
) -> None:
    signature = Callable((f32(n, m), f32(m, k)), TupleType((f32(n, k), f32(m), f32(n + m))))
    args = (f32(*x), f32(x[1], y[1]))
    fine = derive_call(signature, args, ENV).result
    for coarse in ((f32_of_rank(2), args[1]), (args[0], f32_of_rank(2)), (f32_of_rank(2),) * 2):
        assert match(derive_call(signature, coarse, ENV).result, fine, ENV)[0] == Match.PROVED


@given(st.tuples(sizes, sizes), st.tuples(sizes, sizes))
def test_the_result_speaks_of_the_caller_alone(x: tuple[Dim, Dim], y: tuple[Dim, Dim]) -> None:
    signature = Callable((f32(n, m), Tensor(y, "float32")), f32(n, k, m + n))
    try:
        found = given_(signature, f32(*x), f32_of_rank(2))
    except ShapeError:
        return
    assert found == f32_of_rank(3)
