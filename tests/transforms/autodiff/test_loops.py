"""What reversed loops carry, stack and compute again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
import explorer.np as enp
from explorer.ir.calls import KernelCall, Loop
from explorer.ir.kernels.contraction import contraction
from explorer.ir.program import Binding, Function
from tests.transforms.autodiff.finite import check

DRAW = np.random.default_rng(5)


def some(*shape: int) -> np.ndarray:
    return DRAW.normal(size=shape) * 0.5


def plain(x: Any, w: Any, h: Any) -> Any:
    def body(h: Any, row: Any) -> Any:
        return enp.tanh(h @ w + row), None

    return explorer.scan(body, h, x)[0]


def gated(x: Any, u: Any, h: Any) -> Any:
    """Gates that are parts of one product."""

    def body(state: Any, row: Any) -> Any:
        h, c = state
        i, f, g = enp.split(row + h @ u, 3, axis=1)
        c = enp.sigmoid(f) * c + enp.sigmoid(i) * enp.tanh(g)
        return (enp.tanh(c), c), h * 2

    (h, _), rows = explorer.scan(body, (h, h * 0.5), x)
    return enp.concatenate([rows.reshape(-1), h.reshape(-1)])


def twice(x: Any, w: Any, h: Any) -> Any:
    """A product that is an output and a state, a weight that two products read, and its rows."""

    def body(h: Any, row: Any) -> Any:
        p = h @ w
        return enp.sin(p) + (row * p) @ w, p

    h, rows = explorer.scan(body, h, x)
    return rows + h


def until_large(w: Any, h: Any) -> Any:
    def step(count: Any, h: Any) -> Any:
        return count + 1, h @ w + h * h

    start = enp.zeros((), "int64")
    return explorer.while_loop(lambda c, h: (h * h).sum() < 50.0, step, start, h)[1]


def linear(x: Any, w: Any, h: Any) -> Any:
    def body(h: Any, row: Any) -> Any:
        return h @ w + row, None

    return explorer.scan(body, h, x)[0]


@pytest.mark.few(1)
@pytest.mark.parametrize(("trips", "batch"), [(0, 5), (1, 1), (7, 5)])
def test_gradients_of_products_in_loops(trips: int, batch: int) -> None:
    check(gated, some(trips, batch, 6), some(2, 6), some(batch, 2))
    check(linear, some(trips, batch, 3), some(3, 3), some(batch, 3), compiled=False)


@pytest.mark.few(1)
@pytest.mark.parametrize("trips", [0, 3])
def test_gradients_of_a_weight_that_is_read_twice_and_of_products_that_are_results(
    trips: int,
) -> None:
    check(twice, some(trips, 2, 3), some(3, 3), some(2, 3))


def test_gradients_of_products_in_a_loop_whose_trips_only_a_run_counts() -> None:
    check(until_large, some(3, 3), some(2, 3) + 1)
    check(until_large, some(3, 3), np.full((2, 3), 9.0))  # no trip


@pytest.mark.exhaustive
def test_rows_that_a_loop_stacks_in_each_trip_of_another_are_no_rows_of_that() -> None:
    """A trip of the outer loop makes one trip of the inner one or three, as data say."""

    def f(w: Any, x: Any) -> Any:
        def trip(h: Any, row: Any) -> Any:
            def step(count: Any, h: Any) -> Any:
                return count + 1, enp.tanh(h @ w)

            most = enp.where(row.sum() > 0, 3, 1)
            start = enp.zeros((), "int64")
            return explorer.while_loop(lambda c, h: c < most, step, start, h + row)[1], None

        return explorer.scan(trip, enp.zeros((1, 9), "float64"), x)[0]

    x = some(3, 1, 9)
    x[0] -= x[0].mean() - 1.0
    x[1] -= x[1].mean() + 1.0
    check(f, some(9, 9) / 2, x)


def reversed_loop(
    f: Any, *shapes: tuple[int, ...], by: tuple[int, ...] = (1,)
) -> tuple[list[Binding], Loop, Function, Loop]:
    """What the gradient by the second argument, or by these, is made of: the main body, the loop,
    the body of the reversed one, and that.
    """
    types = [explorer.tensor("float32", *shape) for shape in shapes]

    def slope(x: Any, w: Any, h: Any) -> Any:
        return explorer.grad(lambda *args: f(*args).sum(), argnums=by)(x, w, h)

    model = explorer.trace(slope)(*types)
    program = explorer.compile(model, until="legalized").program
    body = list(program.main.body)
    first, second = (b.expr for b in body if isinstance(b.expr, Loop))
    return body, first, next(f for f in program.functions if f.name == second.body), second


def products(body: list[Binding]) -> int:
    """How many of a body's kernels sum products."""
    calls = [b.expr for b in body if isinstance(b.expr, KernelCall)]
    return sum(contraction(c) is not None for call in calls for c in call.kernel.computes)


@pytest.mark.parametrize("f", [plain, gated])
def test_a_trip_backwards_multiplies_once_and_the_weight_gets_its_sum_behind_the_loop(
    f: Any,
) -> None:
    wide = 8 if f is plain else 24
    main, _, back, loop = reversed_loop(f, (11, 2, wide), (8, wide), (2, 8))
    assert products(list(back.body)) == 1
    assert all(v.tensor.dims != (8, wide) for v in loop.state)
    (behind,) = (
        c
        for b in main
        if isinstance(b.expr, KernelCall)
        for c in b.expr.kernel.computes
        if contraction(c) is not None
    )
    assert [a.extent for a in behind.reduce] == [11, 2]


def test_a_sum_that_is_smaller_than_what_it_is_made_of_is_carried() -> None:
    _, _, back, loop = reversed_loop(plain, (11, 65, 3), (3, 3), (65, 3))
    assert [v.tensor.dims for v in loop.state] == [(65, 3), (3, 3)]
    assert products(list(back.body)) == 2


def test_a_loop_stacks_no_more_than_its_reverse_reads() -> None:
    _, first, _, _ = reversed_loop(linear, (5, 2, 8), (8, 8), (2, 8))
    assert first.scans == 1  # the states, for the weight: no product is read
    _, first, _, _ = reversed_loop(plain, (5, 2, 8), (8, 8), (2, 8))
    assert first.scans == 2


@pytest.mark.parametrize("f", [plain, gated])
def test_an_adjoint_that_rows_get_and_a_sum_behind_the_loop_reads_is_stacked_once(f: Any) -> None:
    wide = 8 if f is plain else 24
    shapes = (11, 2, wide), (8, wide), (2, 8)
    _, _, _, alone = reversed_loop(f, *shapes)
    _, _, _, both = reversed_loop(f, *shapes, by=(0, 1))
    assert alone.scans == both.scans == 1


def test_products_over_rows_of_unknown_number_get_their_gradients() -> None:
    def slope(x: Any, w: Any, h: Any) -> Any:
        return explorer.grad(lambda *args: plain(*args).sum(), argnums=1)(x, w, h)

    kinds = (("n", 2, 3), (3, 3), (2, 3))
    compiled = explorer.compile(
        explorer.trace(slope)(*(explorer.tensor("float32", *k) for k in kinds))
    )
    for rows in (1, 2, 6):
        given = [some(*(rows if n == "n" else n for n in k)).astype(np.float32) for k in kinds]
        (found,) = compiled.run(*given).values()
        np.testing.assert_allclose(found, slope(*map(np.float64, given)), rtol=1e-4, atol=1e-6)
