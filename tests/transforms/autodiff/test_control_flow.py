"""Gradients through branches, loops and calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
import explorer.np as enp
from explorer.frontends.python.tracing.emit import emit_several, traced
from explorer.frontends.python.tracing.frames import attributed_to_call
from tests.transforms.autodiff.finite import check

DRAW = np.random.default_rng(12)


def some(*shape: int) -> np.ndarray:
    return DRAW.normal(size=shape)


def recurrent(x: Any, w: Any, h: Any) -> Any:
    def body(h: Any, row: Any) -> Any:
        h = enp.tanh(h @ w + row)
        return h, h * 2

    last, rows = explorer.scan(body, h, x)
    return enp.concatenate([rows.reshape(-1), last.reshape(-1)])


def in_a_loop(x: Any, w: Any) -> Any:
    """A loop in a loop; the inner one's carry is also scaled by all rows of the outer one."""

    def body(h: Any, row: Any) -> Any:
        def inner(k: Any, q: Any) -> Any:
            return k * q.sum() + x.mean(), k

        k, _ = explorer.scan(inner, h, w)
        return enp.sin(k) + row, row * k

    h, rows = explorer.scan(body, enp.ones((3,), "float64"), x)
    return rows + h


def as_long_as(a: Any) -> Any:
    def step(count: Any, x: Any) -> Any:
        return count + 1, x * 1.5 + 0.1 * x * x

    start = enp.zeros((), "int64")
    return explorer.while_loop(lambda c, x: (x * x).sum() < 50.0, step, start, a)[1]


def fewer_rows(x: Any) -> Any:
    """Trips read some of the rows: those behind get nothing."""
    total = x[0] * 0
    for t in range(2):
        total = total * x[t] + x[t]
    return total


@pytest.mark.few(1)
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_scan_hands_back_to_its_rows_its_state_and_what_it_reads(rows: int) -> None:
    check(recurrent, some(rows, 3), some(3, 3), some(1, 3))


def test_a_loop_in_a_loop() -> None:
    check(in_a_loop, some(4, 3), some(2, 2))


def test_a_while_makes_as_many_trips_backwards() -> None:
    check(as_long_as, np.abs(some(3)) * 0.3 + 0.1)
    check(as_long_as, np.full(3, 10.0))  # no trip


def test_rows_that_no_trip_reads_get_nothing() -> None:
    check(fewer_rows, some(4, 3))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_branch_hands_back_through_the_side_that_was_taken(sign: int) -> None:
    def f(a: Any, b: Any) -> Any:
        return explorer.cond(a.sum() * sign > 0, lambda x: x * b, lambda x: x - b * b * a, a)

    check(f, np.abs(some(3)), some(3))


def test_a_branch_in_a_loop() -> None:
    def f(x: Any, w: Any) -> Any:
        def body(h: Any, row: Any) -> Any:
            h = explorer.cond(row.sum() > 0, lambda h: h * w, lambda h: h + row, h)
            return h, h

        return explorer.scan(body, enp.ones((3,), "float64"), x)[1]

    check(f, some(5, 3), some(3))


@pytest.mark.exhaustive
@pytest.mark.parametrize("steps", [3, 40])  # unrolled, and a loop
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_recurrent_layer_by_one_of_its_arguments(steps: int, which: int) -> None:
    """A loop that an operator becomes depends on what is made before it, inside of the operator."""
    given = [some(steps, 2, 3), some(1, 8, 3) * 0.5, some(1, 8, 2) * 0.5]

    def layer(moved: Any) -> Any:
        args = [traced(moved if n == which else a) for n, a in enumerate(given)]
        with attributed_to_call("LSTM"):
            rows, _, _ = emit_several("LSTM", 3, *args, hidden_size=2)
        return (rows * rows).sum()

    def loss(moved: Any) -> float:
        return float(explorer.value_and_grad(layer)(moved)[0])

    found, step = explorer.grad(layer)(given[which]), 1e-6
    for place in [(0, 0, 0), (-1, 1, 1), (-1, -1, -1)]:
        place = tuple(n % e for n, e in zip(place, found.shape, strict=True))
        ends = []
        for sign in (1, -1):
            moved = given[which].copy()
            moved[place] += sign * step
            ends.append(loss(moved))
        wanted = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(found[place], wanted, rtol=1e-5, atol=1e-7)


@explorer.function
def scaled(x: explorer.tensor("float64", "n"), s: explorer.tensor("float64")):  # type: ignore[no-untyped-def]
    return x * s * s


def test_calls_of_functions() -> None:
    check(lambda x, s: scaled(x, s) + scaled(x[:2], s * 3).sum(), some(4), some())
