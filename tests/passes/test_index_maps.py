"""Indices taken apart and put together."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.ir.affine import Affine, var
from explorer.ir.shapes.dims import ShapeEnv, symbol
from explorer.passes.copies.index_maps import (
    Ranges,
    Split,
    divide,
    linear,
    reshape_groups,
    through_reshape,
    unravel,
)


def at(index: Affine, **values: int) -> int:
    found = index.substitute({n: Affine((), v) for n, v in values.items()})
    assert isinstance(found.const, int) and not found.terms
    return found.const


def test_a_merged_index_divides_into_its_digits() -> None:
    ranges = Ranges({"g": 3, "o": 80})
    assert divide(var("g") * 80 + var("o"), 80, ranges) == (var("g"), var("o"))


def test_a_bare_axis_asks_to_be_split() -> None:
    assert divide(var("c"), 68, Ranges({"c": 204})) == Split("c", 68)


def test_an_axis_that_is_walked_backwards_is_split_like_any_other() -> None:
    backwards = var("c") * -1 + 203
    assert divide(backwards, 68, Ranges({"c": 204})) == Split("c", 68)
    parts = (var("o") * 68 + var("r")) * -1 + 203
    assert divide(parts, 68, Ranges({"o": 3, "r": 68})) == (var("o") * -1 + 2, var("r") * -1 + 67)


@given(
    st.lists(
        st.tuples(st.integers(1, 12), st.integers(-12, 12).filter(bool)), min_size=1, max_size=3
    ),
    st.integers(-9, 30),
    st.integers(2, 12),
)
def test_an_index_divides_as_numbers_do_or_names_a_split_that_can_be_made(
    axes: list[tuple[int, int]], const: int, by: int
) -> None:
    extents = {f"a{n}": extent for n, (extent, _) in enumerate(axes)}
    index = Affine((), const)
    for name, (_, factor) in zip(extents, axes, strict=True):
        index = index + var(name) * factor
    found = divide(index, by, Ranges(extents))
    if isinstance(found, Split):
        assert isinstance(found.inner, int) and 1 < found.inner < extents[found.axis]
        assert extents[found.axis] % found.inner == 0
    elif found is not None:
        for point in np.ndindex(*extents.values()):
            here = dict(zip(extents, map(int, point), strict=True))
            assert (at(found[0], **here), at(found[1], **here)) == divmod(at(index, **here), by)


def test_an_axis_that_does_not_divide_is_refused() -> None:
    assert divide(var("c"), 68, Ranges({"c": 200})) is None


def test_symbolic_extents_divide_exactly() -> None:
    batch, seq = symbol("batch"), symbol("seq")
    ranges = Ranges({"m": batch * seq, "b": batch, "s": seq}, ShapeEnv())
    assert divide(var("m"), seq, ranges) == Split("m", seq)
    assert divide(var("b") * seq + var("s"), seq, ranges) == (var("b"), var("s"))


def test_an_offset_beyond_a_symbol_cannot_be_told() -> None:
    seq = symbol("seq")
    assert divide(var("s") + 5, seq, Ranges({"s": seq})) is None


def test_shapes_fall_into_the_smallest_groups() -> None:
    n = symbol("n")
    groups = reshape_groups((n, 12, 64), (n, 768))
    assert groups == [(range(0, 1), range(0, 1)), (range(1, 3), range(1, 2))]


def test_a_padded_index_is_passed_on_where_its_dim_stays() -> None:
    ranges = Ranges({"n": 2, "h": 6, "c": 12})
    index = (var("n"), var("h") - 1, var("c"))
    found = through_reshape(index, (2, 4, 12), (2, 4, 3, 4), ranges)
    assert found == Split("c", 4)
    assert through_reshape(index, (2, 4, 12), (8, 12), ranges) is None


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_places_in_memory_unravel_to_their_index(shape: list[int], data: st.DataObject) -> None:
    names = [f"i{d}" for d in range(len(shape))]
    ranges = Ranges(dict(zip(names, shape, strict=True)))
    index = tuple(var(n) for n in names)
    found = unravel(linear(index, tuple(shape)), tuple(shape), ranges)
    assert isinstance(found, tuple)
    point = {n: data.draw(st.integers(0, e - 1)) for n, e in zip(names, shape, strict=True)}
    assert [at(i, **point) for i in found] == list(point.values())


@given(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4), st.randoms())
def test_reshaped_indices_name_the_same_element(shape: list[int], random: object) -> None:
    digits = [d for n in shape for d in ((2, 2) if n == 4 else (n,))]
    coarse = tuple(shape)
    fine = tuple(digits)
    names = [f"i{d}" for d in range(len(fine))]
    ranges = Ranges(dict(zip(names, fine, strict=True)))
    found = through_reshape(tuple(var(n) for n in names), fine, coarse, ranges)
    assert isinstance(found, tuple)
    values = np.arange(prod(fine)).reshape(fine)
    merged = values.reshape(coarse)
    for point in np.ndindex(*fine):
        here = dict(zip(names, map(int, point), strict=True))
        assert merged[tuple(at(i, **here) for i in found)] == values[point]


@pytest.mark.parametrize("target", [(4,), (2, 2), (2, 1, 2)])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_element_of_a_tensor_is_where_its_offset_says(
    shape: tuple[int, ...], target: tuple[int, ...]
) -> None:
    """Of a scalar it was the first one, whatever the offset."""
    for place in range(4):
        found = through_reshape((Affine(),) * len(shape), shape, target, Ranges({}), place)
        assert isinstance(found, tuple)
        wanted = np.unravel_index(place, target)
        assert [at(index) for index in found] == [int(i) for i in wanted]


def test_padding_around_one_element_is_not_lost_with_its_last_dim() -> None:
    """Elements beside it were read as that element, and not as 0."""
    beside = (var("i") - 1,)
    assert through_reshape(beside, (1,), (), Ranges({"i": 4})) is None
    assert through_reshape((Affine(),), (1,), (), Ranges({"i": 4})) == ()
