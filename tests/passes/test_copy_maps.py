"""A map of a copy says where each element was read: every point is compared with the copy made."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.ir.affine import Affine, var
from explorer.ir.kernel import Axis
from explorer.passes.copies.copy_maps import AffineMap, CopyMap, Origin, ViewMap
from explorer.passes.copies.index_maps import Index, Ranges
from tests.examples import examples

EXTENTS = st.sampled_from([1, 1, 1, 2, 3, 4])
FILLS = st.sampled_from([None, 0.0, -1.0])


def points(extents: dict[str, int]) -> Iterator[dict[str, Affine]]:
    for point in product(*map(range, extents.values())):
        yield {n: Affine((), v) for n, v in zip(extents, point, strict=True)}


def at(index: Index, point: dict[str, Affine]) -> tuple[int, ...]:
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
        result[at(copy.pattern, point)] = value(source, at(copy.index, point), copy.fill)
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
        wanted = value(result, at(index, point), fill)
        assert value(source, at(found.index, point), found.fill) == wanted


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
        stored[at(found, point)] = source[at(index, point)]
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
        row = at((var("j") + var("r") - 1,), point)[0]
        assert (at(found.index, point)[2] == 0) == (row == 0)
