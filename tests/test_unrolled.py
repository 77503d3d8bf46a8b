"""Work on a model that is unrolled over time grows with its steps, and no faster."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.process.counters import counters

WIDTH = 16
FEW, MANY = 16, 64
ROOM = 1.25  # for what grows with the logarithm


def lstm(steps: int, layers: int, seed: int) -> Callable[..., Any]:
    """Layers over each other; all the states of the last one are the answer."""
    rng = np.random.default_rng(seed)
    shapes = ((WIDTH, 4 * WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH,))
    cells = [[rng.standard_normal(s).astype(np.float32) / 4 for s in shapes] for _ in range(layers)]
    tensor = explorer.tensor

    @explorer.trace
    def unrolled(x: tensor("float32", steps, "batch", WIDTH)) -> Any:
        hs = [x[t] for t in range(steps)]
        for inputs, state, bias in cells:
            h = c = xp.zeros((x.shape[1], WIDTH), xp.float32)
            for t in range(steps):
                gates = hs[t] @ inputs + h @ state + bias
                i, f, g, o = xp.split(gates, 4, axis=1)
                c = xp.sigmoid(f) * c + xp.sigmoid(i) * xp.tanh(g)
                h = xp.sigmoid(o) * xp.tanh(c)
                hs[t] = h
        return xp.concatenate(hs, axis=0)

    return unrolled


def calls_of(work: Callable[[], object]) -> int:
    """How many functions of Python's are called."""
    count = 0

    def called(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.exhaustive
@pytest.mark.parametrize("layers", [1, 2])
def test_work_is_linear_in_the_steps(layers: int) -> None:
    counts: dict[int, int] = {}
    for steps in (3, FEW, MANY):  # the first one imports and reads what is needed once
        function = lstm(steps, layers, seed=10 * steps + layers)
        x = np.random.default_rng(0).standard_normal((steps, 3, WIDTH)).astype(np.float32)

        def work(function: Any = function, x: np.ndarray = x) -> None:
            compiled = explorer.compile(function)
            compiled.run({"x": x})
            compiled.planned_wall({"batch": 3})
            compiled.memory({"batch": 3})

        counts[steps] = calls_of(work)
    assert counts[MANY] <= ROOM * (MANY / FEW) * counts[FEW], counts


@pytest.mark.exhaustive
def test_code_and_its_prices_do_not_grow_with_the_steps() -> None:
    made: dict[int, tuple[int, int]] = {}
    for steps in (FEW, MANY):
        function = lstm(steps, layers=2, seed=steps)
        compiled = explorer.compile(function)
        x = np.random.default_rng(0).standard_normal((steps, 3, WIDTH)).astype(np.float32)
        with counters.delta() as did:
            found = compiled.run({"x": x})["output"]
        np.testing.assert_allclose(found, function(x), rtol=1e-5, atol=1e-5)
        made[steps] = len({k.source for k in compiled.kernels}), did.estimates_made
    assert made[MANY][0] == made[FEW][0] < FEW
    assert all(prices <= 2 * sources for sources, prices in made.values())  # shapes may differ
