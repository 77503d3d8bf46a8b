"""Index maps of views, copies and reshaped tensors: they never change which value is read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.ir.affine import Affine, var
from explorer.ir.dims import ShapeEnv, symbol
from explorer.ir.kernel import Axis
from explorer.transforms.copies.index_maps import (
    AffineMap,
    CopyMap,
    Index,
    Origin,
    Ranges,
    Split,
    ViewMap,
    divide,
    linear,
    reshape_groups,
    through_reshape,
    unravel,
)
from tests.examples import examples


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


EXTENTS = st.sampled_from([1, 1, 1, 2, 3, 4])
FILLS = st.sampled_from([None, 0.0, -1.0])


def points(extents: dict[str, int]) -> Iterator[dict[str, Affine]]:
    for point in product(*map(range, extents.values())):
        yield {n: Affine((), v) for n, v in zip(extents, point, strict=True)}


def at_point(index: Index, point: dict[str, Affine]) -> tuple[int, ...]:
    found = [i.substitute(point) for i in index]
    assert not any(i.terms for i in found)
    return tuple(int(i.const) for i in found)


def value(array: np.ndarray, index: tuple[int, ...], fill: float | None) -> float:
    """The element; the fill where there is none, which a load without one never asks for."""
    if all(0 <= i < n for i, n in zip(index, array.shape, strict=True)):
        return float(array[index])
    assert fill is not None, "read outside, with nothing to stand for it"
    return fill


def copied(copy: CopyMap, source: np.ndarray) -> np.ndarray:
    """What the copy makes of the source."""
    if isinstance(copy, ViewMap):
        size, start = int(np.prod(copy.result)), copy.offset
        assert isinstance(start, int)
        return source.ravel()[start : start + size].reshape(copy.result)
    result = np.full(copy.result, np.nan)
    for point in points({a.name: int(a.extent) for a in copy.axes}):
        result[at_point(copy.pattern, point)] = value(
            source, at_point(copy.index, point), copy.fill
        )
    return result


@st.composite
def affine_copies(draw: st.DrawFn) -> AffineMap:
    """A permuted slice with steps of either sign, or a padding; some dims are walked by two axes,
    some unit dims by none.
    """
    rank = draw(st.integers(1, 3))
    fill = draw(FILLS)
    axes, pattern = list[Axis](), list[Affine]()
    result, source, index = list[int](), list[int](), list[Affine]()
    for d in range(rank):
        inner = draw(st.sampled_from([1, 1, 1, 2]))
        outer = draw(EXTENTS)
        mine = [Axis(f"a{d}", outer)] + ([Axis(f"b{d}", inner)] if inner > 1 else [])
        place = var(f"a{d}") if inner == 1 else var(f"a{d}") * inner + var(f"b{d}")
        size = outer * inner
        if size == 1 and draw(st.booleans()):
            mine, place = [], Affine()
        axes += mine
        pattern.append(place)
        result.append(size)
        step, low, high = 1, 0, 0
        if draw(st.booleans()):
            step = draw(st.sampled_from([1, 1, 2, -1, -2]))
            low, high = draw(st.tuples(*[st.integers(0 if fill is None else -2, 2)] * 2))
        reach = abs(step) * (size - 1)
        source.append(max(1, low + reach + 1 + high))
        index.append(place * step + (low if step > 0 else low + reach))
    order = draw(st.permutations(range(rank)))
    return AffineMap(
        tuple(source[d] for d in order),
        tuple(result),
        tuple(axes),
        tuple(pattern),
        tuple(index[d] for d in order),
        fill,
    )


@st.composite
def views(draw: st.DrawFn) -> ViewMap:
    """The same elements by other dims."""
    digits = draw(st.lists(EXTENTS, min_size=1, max_size=5))

    def merged() -> tuple[int, ...]:
        out = [1]
        for n in digits:
            out = [*out, n] if draw(st.booleans()) else [*out[:-1], out[-1] * n]
        return tuple(out)

    return ViewMap(merged(), merged())


COPIES = st.one_of(affine_copies(), views())


@st.composite
def reads_of(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[dict[str, int], Index, float | None]:
    """Axes, an index of a tensor in them and what stands for what is outside of it: a window that
    may begin before the tensor and end behind it, dim by dim.
    """
    extents, index = dict[str, int](), list[Affine]()
    fill = draw(FILLS)
    for d, n in enumerate(shape):
        outside = 0 if fill is None else draw(st.integers(0, 2))
        window = draw(st.integers(1, n + outside))
        extents |= {f"y{d}": n + outside - window + 1, f"r{d}": window}
        index.append(var(f"y{d}") + var(f"r{d}") - (outside and draw(st.integers(0, outside))))
    return extents, tuple(index), fill


@settings(max_examples=examples(250))
@given(COPIES, st.data())
def test_what_is_read_behind_a_copy_is_what_the_copy_holds(
    copy: CopyMap, data: st.DataObject
) -> None:
    source = np.arange(1.0, 1 + np.prod(copy.source)).reshape(copy.source)
    result = copied(copy, source)
    extents, index, fill = data.draw(reads_of(result.shape))
    found = copy.origin(index, fill, Ranges(extents))
    if not isinstance(found, Origin):
        return
    for point in points(extents):
        wanted = value(result, at_point(index, point), fill)
        assert value(source, at_point(found.index, point), found.fill) == wanted


@settings(max_examples=examples(250))
@given(COPIES)
def test_what_is_stored_where_a_copy_puts_it_is_what_the_copy_makes(copy: CopyMap) -> None:
    source = np.arange(1.0, 1 + np.prod(copy.source)).reshape(copy.source)
    extents = {f"s{d}": n for d, n in enumerate(source.shape)}
    index = tuple(map(var, extents))
    found = copy.destination(index, Ranges(extents))
    if not isinstance(found, tuple):
        return
    stored = np.full(copied(copy, source).shape, np.nan)
    for point in points(extents):
        stored[at_point(found, point)] = source[at_point(index, point)]
    assert np.array_equal(stored, copied(copy, source))


@pytest.mark.parametrize("extents", [(4, 1, 3), (1, 1, 1)])
def test_a_dim_of_one_element_is_left_where_its_reader_leaves_it(
    extents: tuple[int, int, int],
) -> None:
    """A transpose that is read with a border: row -1 is outside, whatever the number of rows."""
    n, h, c = extents
    axes = (Axis("n", n), Axis("h", h), Axis("c", c))
    pattern, index = tuple(map(var, "nhc")), tuple(map(var, "nch"))
    copy = AffineMap((n, c, h), (n, h, c), axes, pattern, index, None)
    ranges = Ranges({"i": n, "j": h, "r": 3, "k": c})
    found = copy.origin((var("i"), var("j") + var("r") - 1, var("k")), 0.0, ranges)
    assert isinstance(found, Origin) and found.fill == 0.0
    for point in points({"i": n, "j": h, "r": 3, "k": c}):
        row = at_point((var("j") + var("r") - 1,), point)[0]
        assert (at_point(found.index, point)[2] == 0) == (row == 0)
