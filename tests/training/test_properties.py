"""Loss scales against a run in float64, and memory that steps do not add to."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.ir.types import Tensor
from explorer.training import SGD, LossScale, first_state, train_step

DRAW = np.random.default_rng(4)
X = DRAW.standard_normal((32, 6)).astype(np.float32)
Y = (X @ DRAW.standard_normal(6)).astype(np.float32)


def squares(p: Any, x: Any, y: Any) -> Any:
    return ((x @ p["w"] - y) ** 2).mean()


@pytest.mark.parametrize("spoiled", [(), (0,), (3, 4), (0, 1, 9)])
def test_a_scaled_run_is_that_of_float64_without_the_steps_that_overflow(
    spoiled: tuple[int, ...],
) -> None:
    o, scale = SGD(0.05, momentum=0.9), LossScale(first=1024.0, interval=4)
    params = {"w": np.zeros(6, np.float32)}
    state = first_state(o, params, scale)
    step = train_step(squares, o, scale)
    kinds = [_declared(t) for t in (params, state, o.numbers, X, Y)]
    c = explorer.compile(explorer.trace(lambda p, s, n, x, y: step(p, s, n, x, y))(*kinds))
    names = list(c.model.inputs)
    given = dict(zip(names, [*_leaves(params), *_leaves(state)], strict=False))
    rest = dict(zip(names[len(given) :], [*o.numbers.values(), X, Y], strict=True))
    factor = next(n for n in given if n.endswith("scale.scale"))

    w, total, factors, clean = np.zeros(6), None, 1024.0, 0
    for n in range(12):
        x = np.where(n in spoiled, np.float32(np.inf), X)
        out = list(c.run({**given, **rest, names[-2]: x}).values())
        given = dict(zip(given, out[:-1], strict=True))
        if n in spoiled:
            factors, clean = factors / 2, 0
        else:
            g = 2 * X.astype(np.float64).T @ (X @ w - Y) / len(Y)
            total = g if total is None else 0.9 * total + g
            w = w - 0.05 * total
            clean += 1
            if clean == 4:
                factors, clean = factors * 2, 0
        assert float(given[factor]) == factors
        np.testing.assert_allclose(given[names[0]], w, rtol=1e-5, atol=1e-6)


def _declared(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {k: _declared(v) for k, v in tree.items()}
    return Tensor(np.shape(tree), np.asarray(tree).dtype.name)


def _leaves(tree: Any) -> list[Any]:
    return [a for v in tree.values() for a in (_leaves(v) if isinstance(v, dict) else [v])]


def test_a_longer_run_takes_no_more_memory_than_what_it_tells() -> None:
    """A batch is 64 KiB; a step leaves its loss and some spans."""
    rows, kept = 2048, []

    def peak(steps: int) -> int:
        def data() -> Iterator[Any]:
            for _ in range(steps):
                yield np.ones((rows, 7), np.float32), np.ones(rows, np.float32)

        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        kept.append(explorer.fit(squares, {"w": np.zeros(7, np.float32)}, data(), ahead=3))
        return tracemalloc.get_traced_memory()[1] - before

    peak(5)  # compiles
    tracemalloc.start()
    try:
        few, many = peak(20), peak(420)
    finally:
        tracemalloc.stop()
    assert [len(k.losses) for k in kept] == [5, 20, 420]
    assert many - few < 400 * 2048
