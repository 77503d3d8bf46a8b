"""A product that several kernels read by columns is made in each of them, once in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.frontends.model import Model
from explorer.ir.calls import KernelCall
from explorer.ir.dims import evaluate_dim
from explorer.ir.kernels.contraction import contraction
from explorer.ir.program import Program
from explorer.welder import recompute_columns
from explorer.welder.what_if import WhatIf
from tests.roller.test_policy import DEVICE

Step = Callable[..., Any]


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + xp.exp(-x))


def lstm(weights: np.ndarray) -> Step:
    """One cell: the new cell state and the new hidden state."""

    def step(x: Any, h: Any, c: Any) -> Any:
        i, f, g, o = xp.split(h @ weights + x, 4, axis=1)
        new = sigmoid(f) * c + sigmoid(i) * xp.tanh(g)
        return new, sigmoid(o) * xp.tanh(new)

    return step


def gru(weights: np.ndarray) -> Step:
    """One cell whose reset gate comes after the product."""

    def step(x: Any, h: Any) -> Any:
        z, r, n = xp.split(h @ weights, 3, axis=1)
        a, b, d = xp.split(x, 3, axis=1)
        new = xp.tanh(d + sigmoid(r + b) * n)
        gate = sigmoid(z + a)
        return gate * h + (1.0 - gate) * new

    return step


def rnn(weights: np.ndarray) -> Step:
    """Elman's cell."""
    return lambda x, h: xp.tanh(h @ weights + x)


CELLS = {"lstm": (lstm, 4, 3), "gru": (gru, 3, 2), "rnn": (rnn, 1, 2)}


def traced(name: str, batch: int, width: int) -> tuple[Model, Step, list[np.ndarray]]:
    make, gates, count = CELLS[name]
    rng = np.random.default_rng(width)
    weights = (rng.standard_normal((width, gates * width)) / np.sqrt(width)).astype(np.float32)
    shapes = [(batch, gates * width), *[(batch, width)] * (count - 1)]
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    step = make(weights)
    given = [explorer.tensor("float32", *s) for s in shapes]
    model = explorer.trace(step)(*given)
    assert isinstance(model, Model)
    return model, step, arrays


def products(program: Program) -> list[list[int]]:
    """The columns of every product, kernel by kernel."""
    found = []
    for b in program.kernel_calls:
        assert isinstance(b.expr, KernelCall)
        sums = [c for c in b.expr.kernel.computes if contraction(c) is not None]
        found.append([evaluate_dim(c.axes[-1].extent, {}) for c in sums])
    return found


SIZES = [
    ("lstm", 7, 1),
    ("lstm", 100, 3),
    ("lstm", 257, 1),
    ("gru", 7, 3),
    ("gru", 257, 8),
    ("rnn", 100, 1),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "width", "batch"), SIZES)
def test_a_cell_is_as_in_numpy(name: str, width: int, batch: int) -> None:
    model, step, arrays = traced(name, batch, width)
    got = explorer.compile(model).run(*arrays)
    want = step(*arrays)
    for g, w in zip(got.values(), want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-5)


def test_the_gates_of_a_cell_are_made_where_they_are_used() -> None:
    model, _, _ = traced("lstm", 1, 256)
    program = explorer.compile(model, DEVICE, until="ROLLED").program
    assert products(program) == [[256] * 3, [256]]
    graph = program.decisions.tile_graph
    assert graph is not None
    steps = [s for g in graph.groups for s in g.steps if " by columns into " in s.label]
    assert steps and all(s.value is True and not s.refused for s in steps)
    assert {n for s in steps for n, _ in s.terms} == {"apart", "welded", "barrier"}


def test_one_reader_of_all_gates_takes_them_in_blocks() -> None:
    model, _, _ = traced("gru", 1, 256)
    assert products(explorer.compile(model, DEVICE, until="ROLLED").program) == [[256] * 3]


def test_cells_that_differ_by_the_row_they_read_are_weighed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps, width, weighed = 7, 32, []
    rng = np.random.default_rng(0)
    weights = (rng.standard_normal((width, 4 * width)) / 8).astype(np.float32)
    cell, tried = lstm(weights), recompute_columns._try_fusing

    def run(x: Any, h: Any, c: Any) -> Any:
        for t in range(steps):
            c, h = cell(x[t], h, c)
        return h, c

    def counted(*args: Any) -> Any:
        weighed.append(args)
        return tried(*args)

    monkeypatch.setattr(recompute_columns, "_try_fusing", counted)
    shapes = [(steps, 1, 4 * width), (1, width), (1, width)]
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    c = explorer.compile(explorer.trace(run)(*(explorer.tensor("float32", *s) for s in shapes)))
    steps_of = (s for g in c.program.decisions.tile_graph.groups for s in g.steps)
    spread = [s for s in steps_of if " by columns into " in s.label]
    assert len(spread) == 2 * steps and len(weighed) < steps
    for found, wanted in zip(c.run(*arrays).values(), run(*arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def test_a_product_whose_columns_are_read_twice_is_stored() -> None:
    weights = np.ones((64, 192), np.float32)

    def step(h: Any) -> Any:
        t = h @ weights
        return xp.tanh(t[:, :128]), xp.exp(t[:, 64:])

    model = explorer.trace(step)(explorer.tensor("float32", 1, 64))
    assert products(explorer.compile(model, DEVICE, until="ROLLED").program)[0] == [192]


def test_what_a_spread_product_hides_is_not_moved_by_hand() -> None:
    """Its columns are in several groups: to take one of them apart would leave the others."""
    model, _, _ = traced("lstm", 1, 256)
    c = explorer.compile(model, DEVICE, until="WELDED")
    times = Counter(m for g in c.program.decisions.tile_graph.groups for m in g.members)
    spread = {m for m, count in times.items() if count > 1}
    assert spread
    refused = 0
    for value in sorted({m for g in c.program.decisions.tile_graph.groups for m in g.members}):
        found = WhatIf(c).connect(value, "L1")
        if found.refused is None:
            found.compile()
        refused += found.refused is not None and found.refused.condition == "spread"
    assert refused
