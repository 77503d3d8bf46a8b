"""The annotation lattice: what two values have in common, and what fits where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.ir.annotations import (
    Match,
    defined_by,
    erase,
    instantiate,
    lca,
    match,
    symbols_in,
)
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.text.program_text import print_type
from explorer.ir.types import Annotation, Callable, Object, ShapeType, Tensor, TupleType

n, m, k = symbol("n"), symbol("m"), symbol("k")
ENV = ShapeEnv((SymbolBound("n", 1, 8), SymbolBound("m", 0, None), SymbolBound("k", 1, None)))
ANY = Tensor()


def f32(*dims: Dim) -> Tensor:
    return Tensor(dims, "float32")


def f32_of_rank(rank: int | None) -> Tensor:
    return Tensor(None, "float32", rank)


COMMON: list[tuple[Annotation, Annotation, Annotation]] = [
    (f32(n, m, 1), f32(n, m, 1), f32(n, m, 1)),
    (f32(n, m, 1), f32(n, m, 2), f32_of_rank(3)),
    (f32_of_rank(2), f32_of_rank(3), f32_of_rank(None)),
    (f32(2), ShapeType((2,)), Object()),
    (f32(n), Tensor((n,), "int32"), Tensor((n,))),
    (f32(n), f32(n, m), f32_of_rank(None)),
    (f32(n), Tensor(None, "int64", 1), Tensor(None, None, 1)),
    (f32(n * (m + 1)), f32(n * m + n), f32(n * m + n)),
    (ShapeType((n, 2)), ShapeType((n, 2)), ShapeType((n, 2))),
    (ShapeType((n, 2)), ShapeType((n, 3)), ShapeType(None, 2)),
    (ShapeType((n, 2)), ShapeType(None, 3), ShapeType()),
    (TupleType((f32(n), f32(2))), TupleType((f32(n), f32(3))), TupleType((f32(n), f32_of_rank(1)))),
    (TupleType((f32(n),)), TupleType((f32(n), f32(n))), Object()),
    (TupleType((f32(n),)), f32(n), Object()),
    (Object(), f32(n), Object()),
    (
        Callable((f32(n),), f32(n)),
        Callable((f32(n),), f32(2)),
        Callable((f32(n),), f32_of_rank(1)),
    ),
    (Callable((f32(n),), f32(n)), Callable((f32(m),), f32(2)), Callable(None, f32_of_rank(1))),
]


@pytest.mark.parametrize(("a", "b", "both"), COMMON, ids=lambda t: print_type(t))
def test_what_two_annotations_have_in_common(
    a: Annotation, b: Annotation, both: Annotation
) -> None:
    assert lca(a, b, ENV) == both


DISJOINT, COARSE, CHECKED, PROVED = Match
FITS: list[tuple[Annotation, Annotation, Match, str]] = [
    (Object(), f32(n), PROVED, "any value is accepted"),
    (f32(n), Object(), COARSE, "nothing is known about it"),
    (f32(n), f32(n), PROVED, "n is n"),
    (f32(n, m), f32(n, m + 0 * k), PROVED, "n is n"),
    (f32(n * m + n), f32(n * (m + 1)), PROVED, "== m*n + n for every binding"),
    (f32(n), f32(m), CHECKED, "m == n is not proved; the run checks it"),
    (f32(n), f32(9), DISJOINT, "9 is never n"),
    (f32(n), f32(8), CHECKED, "8 == n is not proved"),
    (f32(n), f32(n + 1), DISJOINT, "n + 1 is never n"),
    (f32(4), f32(5), DISJOINT, "5 is never 4"),
    (f32(n), f32_of_rank(1), CHECKED, "its dims are not known"),
    (f32(n), f32_of_rank(2), DISJOINT, "it has 2 dims where 1 are wanted"),
    (f32(n), f32_of_rank(None), COARSE, "its rank is not known"),
    (f32(n), Tensor((n,)), COARSE, "its dtype is not known"),
    (f32(n), Tensor((n,), "int32"), DISJOINT, "int32 is never float32"),
    (f32_of_rank(1), f32(n), PROVED, "it has 1 dims"),
    (f32(), f32(), PROVED, "it has 0 dims"),
    (f32_of_rank(None), f32(n), PROVED, "any rank is accepted"),
    (ANY, f32(n), PROVED, "any rank is accepted"),
    (f32(n), ShapeType((n,)), DISJOINT, "is never"),
    (ShapeType((n, m)), ShapeType((n, m)), PROVED, "n is n"),
    (ShapeType((n, m)), ShapeType((n, 3)), CHECKED, "3 == m is not proved"),
    (ShapeType((n, 2)), ShapeType((n, 3)), DISJOINT, "3 is never 2"),
    (ShapeType((n,)), ShapeType(None, 1), CHECKED, "its dims are not known"),
    (ShapeType((n,)), ShapeType(), COARSE, "its rank is not known"),
    (ShapeType(), ShapeType((n,)), PROVED, "any rank is accepted"),
    (TupleType((f32(n), f32(m))), TupleType((f32(n), f32(3))), CHECKED, "3 == m"),
    (TupleType((f32(n), f32(m))), TupleType((f32(n),)), DISJOINT, "is never"),
    (TupleType((f32(n), f32(2))), TupleType((f32(m), f32(3))), DISJOINT, "3 is never 2"),
    (TupleType(()), TupleType(()), PROVED, "there is nothing to match"),
    (Callable((f32(n),), f32(n)), Callable((f32(k),), f32(k)), PROVED, "signatures are equal"),
    (Callable((f32(n),), f32(n)), Callable((f32(k),), f32(k + 1)), DISJOINT, "is never"),
    (Callable((f32(n),), f32(n)), Callable((f32(n), f32(n)), f32(n)), DISJOINT, "2 arguments"),
    (Callable(None, Object()), Callable((f32(n),), f32(n)), PROVED, "it accepts the arguments"),
    (Callable((f32(n),), f32(n)), Callable(None, f32_of_rank(1)), CHECKED, "not proved to match"),
    (Callable((f32(2),), f32(2)), Callable((f32_of_rank(1),), f32(2)), PROVED, "it accepts"),
    (Callable((f32_of_rank(1),), f32(2)), Callable((f32(2),), f32(2)), CHECKED, "not proved"),
    (f32(n), Tensor((n, n)), DISJOINT, "it has 2 dims"),
    (Callable((f32(2),), f32(2)), Callable((f32(3),), f32(2)), DISJOINT, "2 is never 3"),
]


@pytest.mark.parametrize(
    ("base", "derived", "level", "words"),
    FITS,
    ids=[f"{i}-{f[2].name}" for i, f in enumerate(FITS)],
)
def test_how_far_a_value_fits_and_why(
    base: Annotation, derived: Annotation, level: Match, words: str
) -> None:
    found, why = match(base, derived, ENV)
    assert (found, words in why) == (level, True), why


def test_only_a_bare_dim_defines_its_symbol() -> None:
    assert defined_by(f32(n + 1, m, 2)) == ("m",)
    assert defined_by(ShapeType((k, n))) == ("k", "n")
    assert defined_by(TupleType((f32(n, m), f32(n + 4, 4)))) == ("n", "m")
    assert defined_by(Callable((f32(n),), f32(n))) == ()
    assert defined_by(Object()) == ()


def test_what_is_not_defined_is_erased_to_a_rank() -> None:
    assert erase(f32(n + 1, k + 2), {"n", "m"}) == f32_of_rank(2)
    assert erase(f32(n + 1, m), {"n", "m"}) == f32(n + 1, m)
    assert erase(ShapeType((n,)), ()) == ShapeType(None, 1)
    assert erase(TupleType((f32(n), f32(2))), ()) == TupleType((f32_of_rank(1), f32(2)))
    closed = Callable((f32(n),), f32(n))
    assert erase(closed, ()) == closed


def test_symbols_are_replaced_all_at_once() -> None:
    assert instantiate(f32(n, m + 1), {"n": m, "m": n}) == f32(m, n + 1)
    assert instantiate(f32(n, m + 1), {"n": 3, "m": 4}) == f32(3, 5)
    assert instantiate(f32(n, m), {"n": 3}) == f32_of_rank(2)
    assert symbols_in(TupleType((f32(n + m), ShapeType((k,))))) == {"n", "m", "k"}


# Properties.

dims = st.one_of(
    st.integers(0, 3), st.sampled_from([n, m, k, n + 1, n * m, n * m + n, n * (m + 1)])
)
dtypes = st.sampled_from([None, "float32", "int64"])
tensors = st.one_of(
    st.builds(lambda s, d: Tensor(tuple(s), d), st.lists(dims, max_size=3), dtypes),
    st.builds(lambda d, r: Tensor(None, d, r), dtypes, st.sampled_from([None, 0, 1, 2])),
)
shapes = st.one_of(
    st.builds(lambda s: ShapeType(tuple(s)), st.lists(dims, max_size=3)),
    st.builds(lambda r: ShapeType(None, r), st.sampled_from([None, 0, 1, 2])),
)
annotations: st.SearchStrategy[Annotation] = st.recursive(
    st.one_of(st.just(Object()), tensors, shapes),
    lambda inner: st.one_of(
        st.builds(lambda i: TupleType(tuple(i)), st.lists(inner, max_size=2)),
        st.builds(lambda p, r: Callable(tuple(p), r), st.lists(tensors, max_size=2), tensors),
    ),
    max_leaves=4,
)


@given(annotations, annotations)
def test_what_is_common_does_not_depend_on_the_order(a: Annotation, b: Annotation) -> None:
    assert lca(a, b, ENV) == lca(b, a, ENV)


@given(annotations, annotations)
def test_what_is_common_holds_for_both(a: Annotation, b: Annotation) -> None:
    both = lca(a, b, ENV)
    assert match(both, a, ENV)[0] == match(both, b, ENV)[0] == Match.PROVED


@given(annotations, annotations, annotations)
def test_what_is_common_grows_with_its_arguments(
    a: Annotation, b: Annotation, c: Annotation
) -> None:
    wider = lca(lca(a, c, ENV), b, ENV)
    assert match(wider, lca(a, b, ENV), ENV)[0] == Match.PROVED


@given(annotations)
def test_every_annotation_fits_itself_and_is_common_to_itself(a: Annotation) -> None:
    assert match(a, a, ENV)[0] == Match.PROVED
    assert lca(a, a, ENV) == a


@given(annotations, annotations, annotations)
def test_fitting_is_transitive(a: Annotation, b: Annotation, c: Annotation) -> None:
    a, b = lca(lca(a, b, ENV), c, ENV), lca(b, c, ENV)
    if match(a, b, ENV)[0] == Match.PROVED:
        assert match(a, c, ENV)[0] == Match.PROVED


@given(annotations, annotations)
def test_what_is_disjoint_is_so_both_ways(a: Annotation, b: Annotation) -> None:
    if Match.COARSE not in (found := (match(a, b, ENV)[0], match(b, a, ENV)[0])):
        assert (found[0] == Match.DISJOINT) == (found[1] == Match.DISJOINT)


@given(annotations)
def test_what_is_erased_fits_what_it_was(a: Annotation) -> None:
    assert match(erase(a, {"n"}), a, ENV)[0] == Match.PROVED
