"""A gradient program in pieces is the program: the same bindings, the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer
from explorer import np as enp
from explorer.training.pieces import (
    LEAST_BYTES,
    LINE_BYTES,
    MOST_BUCKETS,
    Gradient,
    bucket_arrays,
    buckets,
    cut,
    done_at,
)

X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
P = [np.random.default_rng(n).standard_normal((8, 8)).astype(np.float32) for n in range(4)]


def chained(p: Any, x: Any) -> Any:
    for w in p:
        x = enp.tanh(x @ w)
    return (x * x).mean()


def looped(p: Any, x: Any) -> Any:
    def cell(h: Any, row: Any) -> Any:
        return enp.tanh(h @ p[1] + row), None

    return (explorer.scan(cell, enp.zeros((8,), "float32"), x @ p[0])[0] @ p[2] @ p[3]).sum()


def branched(p: Any, x: Any) -> Any:
    h = x @ p[0]
    h = explorer.cond(h.sum() > 0, lambda: enp.tanh(h @ p[1]), lambda: enp.exp(-h * h @ p[1]))
    return (h @ p[2]).sum()  # the last one has a gradient of zeros


@pytest.mark.few(2)
@pytest.mark.parametrize("loss", [chained, looped, branched])
@pytest.mark.parametrize("order", [(3, 2, 1, 0), (0, 1, 2, 3)])
def test_pieces_make_what_the_whole_makes(loss: Callable[..., Any], order: tuple[int, ...]) -> None:
    model = explorer.trace(explorer.value_and_grad(loss))(
        [explorer.tensor("float32", 8, 8)] * 4, explorer.tensor("float32", 4, 8)
    )
    wanted = [*explorer.compile(model).run(*P, X).values()]
    program = explorer.compile(model, until="differentiated").program
    value, *results = program.main.outputs
    parts = cut(program, [[value], *([results[n]] for n in order)], "piece")
    bodies = [b for part in parts for b in part.model.program.main.body]
    assert len({b.name for b in bodies}) == len(bodies) <= len(program.main.body)
    values = dict(zip(model.inputs, (*P, X), strict=True))
    made: list[np.ndarray] = []
    for part in parts:
        found = list(explorer.compile(part.model).run(*(values[n] for n in part.reads)).values())
        values |= zip([v.name for v in part.makes], found, strict=True)
        made += found[: part.wanted]
    for n, array in zip((0, *(1 + n for n in order)), made, strict=True):
        np.testing.assert_allclose(array, wanted[n], rtol=1e-5, atol=1e-6)


def test_a_value_that_a_later_piece_reads_is_made_once_and_handed_on() -> None:
    model = explorer.trace(explorer.value_and_grad(chained))(
        [explorer.tensor("float32", 8, 8)] * 4, explorer.tensor("float32", 4, 8)
    )
    program = explorer.compile(model, until="differentiated").program
    value, *results = program.main.outputs
    assert [done_at(program, r) for r in results] == sorted(
        [done_at(program, r) for r in results], reverse=True
    )  # the last layer's gradient first
    first, *rest = cut(program, [[value], *([r] for r in reversed(results))], "piece")
    handed = {v.name for v in first.makes[first.wanted :]}
    assert {n for n in handed if n.startswith("tanh")} == {"tanh", "tanh.2", "tanh.3", "tanh.4"}
    assert handed <= {n for part in rest for n in part.reads}


SIZES = st.lists(st.integers(1, 8 * LEAST_BYTES), min_size=1, max_size=60)


@given(SIZES, st.randoms())
def test_a_bucket_is_filled_in_the_order_of_the_backward_pass(sizes: list[int], draw: Any) -> None:
    made = draw.sample(range(1000), len(sizes))
    rows = [Gradient(f"p{n}", s, m) for n, (s, m) in enumerate(zip(sizes, made, strict=True))]
    found = buckets(rows)
    order = [n for group in found for n in group]
    assert order == sorted(range(len(rows)), key=lambda n: made[n])
    assert 1 <= len(found) <= MOST_BUCKETS
    each = [sum(sizes[n] for n in group) for group in found]
    assert all(size >= LEAST_BYTES for size in each[:-1])
    assert len(found) == 1 or each[-1] >= LEAST_BYTES // 2
    for group, size in zip(found[:-1], each, strict=False):  # full with its last one, not before
        assert size - sizes[group[-1]] < max(LEAST_BYTES, -(-sum(sizes) // MOST_BUCKETS))


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 40)), max_size=4), max_size=4),
    st.sampled_from(["float32", "float64"]),
)
def test_arrays_of_buckets_share_no_byte(groups: list[list[tuple[int, int]]], dtype: str) -> None:
    groups = [g for g in groups if g] or [[(1, 1)]]
    shapes = [shape for group in groups for shape in group]
    at, numbered = 0, []
    for group in groups:
        numbered.append(list(range(at, at + len(group))))
        at += len(group)
    found = bucket_arrays(shapes, numbered, np.dtype(dtype))
    views = [*found.gradients.values(), *found.flag_of.values(), found.loss]
    found.flat[...] = 0
    for view in views:
        view[...] += 1
    assert found.flat.sum() == sum(v.size for v in views)  # each element is in one of them
    assert sum(b.size for b in found.buckets) == found.flat.size
    for group, bucket, flags in zip(numbered, found.buckets, found.flags, strict=True):
        assert bucket.ctypes.data % LINE_BYTES == 0
        for n, g in enumerate(group):
            assert found.gradients[g].shape == shapes[g]
            assert found.gradients[g].ctypes.data % LINE_BYTES == 0
            assert np.shares_memory(flags[n : n + 1], found.flag_of[g])
            assert not found.gradients[g].size or np.may_share_memory(bucket, found.gradients[g])
    assert np.may_share_memory(found.buckets[0], found.loss)
