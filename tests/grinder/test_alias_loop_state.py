"""A loop's state lies where its first value was made, if nobody else reads that."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import tensor
from explorer.grinder import BranchTask, LoopTask, UTask, uprogram

N = 40


def loops(parts: Sequence[UTask]) -> Iterator[LoopTask]:
    for part in parts:
        if isinstance(part, LoopTask):
            yield part
            yield from loops(part.body)
        elif isinstance(part, BranchTask):
            yield from loops((*part.then, *part.orelse))


def copied(c: explorer.Compilation) -> list[int]:
    """For each loop, an outer one first, how many arrays it copies before its first trip."""
    found = uprogram(c.program)
    at = found.values
    return [
        sum(
            not at[s.param].is_at(at[s.initial])
            for s in loop.carried
            if s.initial and at[s.param].type.dims
        )
        for loop in loops(found.parts)
    ]


def made_before(x: tensor("float32", N, 4), k: tensor("int64")) -> Any:
    y = x * 2
    for t in range(k):
        y = y * 0.5 + t
    return y


def one_loop_after_the_other(x: tensor("float32", N, 4), k: tensor("int64")) -> Any:
    y = x * 2
    for t in range(k):
        y = y + t
    for t in range(k):
        y[t] = 1 + y[t + 1]
    return y


def in_each_other(x: tensor("float32", N, 4), k: tensor("int64")) -> Any:
    y = x * 2
    for s in range(k):
        for t in range(k):
            y[s + t] = y[t] + s
    return y


def read_behind(x: tensor("float32", N, 4), k: tensor("int64")) -> Any:
    y = x * 2
    z = y
    for t in range(k):
        z = z + t
    return y, z


def read_in_every_trip(x: tensor("float32", N, 4), k: tensor("int64")) -> Any:
    y = x * 2
    z = y
    for _t in range(k):
        z = z + y
    return z


def two_states(x: tensor("float32", N, 4), k: tensor("int64")) -> Any:
    y = x * 2
    z = y
    for _t in range(k):
        y, z = z + 1, y
    return y, z


def an_input(x: tensor("float32", N, 4), k: tensor("int64")) -> Any:
    y = x
    for t in range(k):
        y = y + t
    return y


def a_view(x: tensor("float32", N, 4), k: tensor("int64")) -> Any:
    y = (x * 2).reshape(4, N)
    for t in range(k):
        y = y + t
    return y


def the_outer_state_is_read_behind(x: tensor("float32", N, 4), k: tensor("int64")) -> Any:
    y = x * 2
    for _s in range(k):
        before = y
        for t in range(k):
            y = y + t
        y = y + before
    return y


def the_outer_state_is_the_inner_one_and_more(
    x: tensor("float32", N, 4), k: tensor("int64")
) -> Any:
    y = x * 2
    z = x * 3
    for _s in range(k):
        before = y
        for t in range(k):
            y = y * 0.5 + t
        z, y = y, z + before
    return y, z


def new_in_each_trip(x: tensor("float32", N, 4), k: tensor("int64")) -> Any:
    total = x * 2
    for s in range(k):
        y = x + s
        for t in range(k):
            y = y + t
        total = total + y
    return total


def on_a_side(x: tensor("float32", N, 4), k: tensor("int64")) -> Any:
    y = x * 2
    if k > 2:
        for t in range(k):
            y = y + t
    return y


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (made_before, [0]),
        (one_loop_after_the_other, [0, 0]),
        (in_each_other, [0, 0]),
        (read_behind, [1]),
        (read_in_every_trip, [1]),
        (two_states, [2]),
        (an_input, [1]),
        (a_view, [1]),
        (the_outer_state_is_read_behind, [0, 1]),
        (the_outer_state_is_the_inner_one_and_more, [0, 1]),
        (new_in_each_trip, [0, 0]),
        (on_a_side, [1]),
    ],
)
def test_a_first_value_that_nobody_else_reads_is_the_state(function: Any, wanted: Any) -> None:
    c = explorer.compile(explorer.trace(function), check=True)
    assert copied(c) == wanted
    x = np.random.default_rng(0).standard_normal((N, 4)).astype(np.float32)
    for k in (3, 0, 1, 6):
        results = function(x.copy(), np.int64(k))
        for _ in range(2):
            found = c.run(x, np.array(k)).values()
            whole = results if isinstance(results, tuple) else (results,)
            for ours, right in zip(found, whole, strict=True):
                np.testing.assert_allclose(ours, right, rtol=1e-5)
