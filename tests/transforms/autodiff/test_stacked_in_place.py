"""Loops that stack rows in the place of rows that they read: the same gradients in less memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import explorer
import explorer.np as enp
from explorer.grinder import Options as GrinderOptions
from explorer.ir.calls import Loop
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.transforms.autodiff.options import Options
from tests.examples import examples
from tests.transforms.autodiff.test_rematerialisation import agrees, compiled, flat


def recurrent(weights: Any, rows: Any) -> Any:
    """A layer that multiplies its rows before its loop, as `x @ w + h @ u`."""
    w, u = weights

    def cell(h: Any, row: Any) -> Any:
        a, b = enp.split(row + h @ u, 2, axis=1)
        return enp.tanh(a) * enp.sigmoid(b), None

    first = enp.zeros((rows.shape[1], u.shape[0]), "float32")
    last = explorer.scan(cell, first, rows @ w)[0]
    return (last * last).mean()


def recurrent_args(trips: int = 48) -> Any:
    draw = np.random.default_rng(7)
    weights = [draw.normal(size=(n, 62)).astype(np.float32) / 4 for n in (19, 31)]
    return weights, draw.normal(size=(trips, 5, 19)).astype(np.float32)


@pytest.mark.exhaustive
def test_products_and_their_adjoints_lie_where_the_rows_lay_that_they_were_made_of() -> None:
    """Of three arrays of 62 numbers a row there is one, and the states."""
    args = recurrent_args()
    plain, again = (compiled(recurrent, args, Options(share=s)) for s in (1.0, 0.0))
    assert agrees(plain, again, args)
    array = 4 * args[1].shape[0] * 5 * 62
    assert plain.memory().planned_bytes > 2.5 * array
    assert again.memory().planned_bytes < 1.75 * array
    verify(again.snapshot("stack rows in place").after)
    inputs = dict(zip(again.model.inputs, flat(args), strict=True))
    found = [evaluate(s.after, inputs) for s in again.snapshots if s.name != "generate code"]
    for values in found[1:]:
        for name, value in values.items():
            np.testing.assert_allclose(value, found[0][name], rtol=1e-4, atol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("schedule", ["device", "host", "eager", "unrolled"])
def test_rows_lie_in_place_in_every_schedule(schedule: str) -> None:
    args, grinder = recurrent_args(7), GrinderOptions(schedule=schedule)
    one, other = (compiled(recurrent, args, Options(share=s), grinder=grinder) for s in (1.0, 0.0))
    assert agrees(one, other, args)


def in_place(f: Any, *types: Any) -> int:
    """How many more states loops have where their rows may lie in place."""
    model = explorer.trace(f)(*types)
    counts = []
    for share in (1.0, 0.0):
        options = explorer.Options(rematerialisation=Options(share=share))
        c = explorer.compile(model, options=options, until="differentiated")
        loops = [b.expr for _, b in c.program.bindings() if isinstance(b.expr, Loop)]
        counts.append(sum(len(loop.state) for loop in loops))
    return counts[1] - counts[0]


def test_rows_that_are_read_again_stay() -> None:
    x = explorer.tensor("float32", 6, 4)

    def rows(h: Any, row: Any) -> Any:
        return h + row, enp.tanh(h * row)

    def free(x: Any) -> Any:
        return explorer.scan(rows, enp.zeros((4,), "float32"), x * 2.0)[1] + 1.0

    def read_behind(x: Any) -> Any:
        double = x * 2.0
        return explorer.scan(rows, enp.zeros((4,), "float32"), double)[1] + double

    def a_result(x: Any) -> Any:
        double = x * 2.0
        return explorer.scan(rows, enp.zeros((4,), "float32"), double)[1] + 1.0, double

    def an_input(x: Any) -> Any:
        return explorer.scan(rows, enp.zeros((4,), "float32"), x)[1] + 1.0

    def all_rows(x: Any) -> Any:
        double = x * 2.0

        def cell(h: Any, row: Any) -> Any:
            return h + double.sum(), enp.tanh(h * row)

        return explorer.scan(cell, enp.zeros((4,), "float32"), double)[1] + 1.0

    def other_rows(x: Any) -> Any:
        double = x * 2.0

        def cell(h: Any, n: Any) -> Any:
            return h + double[5 - n], enp.tanh(h * double[n])

        return explorer.scan(cell, enp.zeros((4,), "float32"), np.arange(6))[1] + 1.0

    assert in_place(free, x) == 1
    for f in (read_behind, a_result, an_input, all_rows, other_rows):
        assert in_place(f, x) == 0, f.__name__


# Any cell.

PARTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "tanh": lambda p, h, u: enp.tanh(p),
    "backwards": lambda p, h, u: p[..., ::-1],
    "turned": lambda p, h, u: enp.concatenate([p[..., 1:], p[..., :1]], axis=-1),
    "product": lambda p, h, u: p @ u,
    "sum": lambda p, h, u: p + h,
    "gate": lambda p, h, u: p * h,
    "softmax": lambda p, h, u: enp.softmax(p, axis=-1),
    "total": lambda p, h, u: p + p.sum(axis=-1, keepdims=True),
    "running": lambda p, h, u: enp.cumsum(p, axis=-1) * 0.1,
}
KINDS = st.lists(st.sampled_from(sorted(PARTS)), max_size=2)


@dataclass(frozen=True)
class Cell:
    """What a trip stacks of its row, what it makes its state of, and whether it has two arrays."""

    stacked: list[str]
    state: list[str]
    two: bool

    def loss(self, weights: Any, x: Any) -> Any:
        def trip(h: Any, rows: Any) -> Any:
            row, other = rows if self.two else (rows, rows)
            y = row
            for part in self.stacked:
                y = PARTS[part](y, h, weights[1])
            z = y * 0.5 + h
            for part in self.state:
                z = PARTS[part](z, h, weights[1])
            return enp.tanh(z), (y, y * other)

        made = x @ weights[0]
        first = enp.full(x.shape[1:], 0.1, "float32")
        rows = (made, enp.tanh(x) * 2.0) if self.two else made
        h, stacked = explorer.scan(trip, first, rows)
        return sum(((enp.sin(y) * y).sum() for y in stacked), (h * h).sum())


@pytest.mark.exhaustive
@settings(max_examples=examples(60, few=2), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.builds(Cell, KINDS, KINDS, st.booleans()),
    st.sampled_from([(1, 3), (2, 1, 1), (5, 3, 4), (9, 20, 17), (3, 2, 32)]),
)
def test_any_cell_gives_the_same(cell: Cell, shape: tuple[int, ...]) -> None:
    draw, n = np.random.default_rng(3), shape[-1]
    weights = [(draw.normal(size=(n, n)) / 3).astype(np.float32) for _ in range(2)]
    args = (weights, draw.normal(size=shape).astype(np.float32))
    one, other = (compiled(cell.loss, args, Options(share=s)) for s in (1.0, 0.0))
    moved = other.snapshot("stack rows in place")
    assert moved.before != moved.after
    assert agrees(one, other, args)
