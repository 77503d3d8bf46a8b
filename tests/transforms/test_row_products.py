"""Products of the rows that a loop goes over, done before it: the same numbers, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.errors import BadOption
from explorer.frontends.python.trace import Traced
from explorer.ir.calls import Loop, OpCall
from explorer.ir.program import Function, Program
from explorer.measure.this_cpu import this_cpu
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.relax import deduce
from explorer.transforms.shared_products import HoistRowProducts
from explorer.transforms.shared_products import Options as Recurrent
from explorer.transforms.simplify.fold_constants import fold_constants

RNG = np.random.default_rng(0)
W, U, V = (RNG.standard_normal((8, 8), np.float32) / 3 for _ in range(3))
tensor = explorer.tensor
ON = Recurrent(hoist="on")


def typed(function: Callable[..., Any], **inputs: Any) -> Program:
    return fold_constants(deduce(explorer.load(Traced(function), inputs=inputs).program))


def hoisted(program: Program, options: Recurrent = ON) -> Program:
    after = HoistRowProducts(this_cpu(), options)(program)
    verify(after)
    return after


def products(function: Function) -> int:
    return sum(isinstance(b.expr, OpCall) and b.expr.op == "MatMul" for b in function.body)


def counts(program: Program) -> tuple[int, int]:
    """Products around the loops, and in their bodies."""
    return products(program.main), sum(products(f) for f in program.functions[1:])


def rnn(x: Any, h: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        h = xp.tanh(row @ W + h @ U)
        return h, h

    return explorer.scan(step, h, x)


@pytest.mark.few(4)
@pytest.mark.parametrize("steps", [0, 1, 5, "steps"])
@pytest.mark.parametrize("batch", [1, 3, "batch"])
def test_the_inputs_of_a_scan_are_projected_before_it(steps: Any, batch: Any) -> None:
    shapes = {"x": tensor("float32", steps, batch, 8), "h": tensor("float32", batch, 8)}
    before = typed(rnn, **shapes)
    after = hoisted(before)
    assert (counts(before), counts(after)) == ((0, 2), (1, 1))
    rows, columns = (2 if isinstance(n, str) else n for n in (steps, batch))
    x, h = RNG.standard_normal((rows, columns, 8), np.float32), np.ones((columns, 8), np.float32)
    model = explorer.load(Traced(rnn), inputs=shapes)
    compiled = explorer.compile(model, options=explorer.Options(recurrent=ON), check=True)
    wanted = rnn(x, h)
    for found in (evaluate(after, {"x": x, "h": h}), compiled.run({"x": x, "h": h})):
        for value, right in zip(found.values(), wanted, strict=True):
            np.testing.assert_allclose(value, right, rtol=1e-5, atol=1e-6)


def test_rows_may_be_vectors_and_the_matrix_an_input() -> None:
    def run(x: Any, w: Any) -> Any:
        h = w[0]
        for row in x:
            h = xp.tanh(row @ w + h)
        return h

    after = hoisted(typed(run, x=tensor("float32", "n", 8), w=tensor("float32", 8, 8)))
    assert counts(after) == (1, 0)
    x = RNG.standard_normal((4, 8), np.float32)
    (found,) = evaluate(after, {"x": x, "w": W}).values()
    np.testing.assert_allclose(found, run(x, W), rtol=1e-5, atol=1e-6)


def test_rows_in_any_order_are_projected_too() -> None:
    def run(x: Any) -> Any:
        h = x[0]
        for row, back in zip(x, reversed(x)):
            h = xp.tanh(row @ W + back @ V + h)
        return h

    after = hoisted(typed(run, x=tensor("float32", "n", 8)))
    assert counts(after) == (2, 0)
    x = RNG.standard_normal((4, 8), np.float32)
    (found,) = evaluate(after, {"x": x}).values()
    np.testing.assert_allclose(found, run(x), rtol=1e-5, atol=1e-6)


def test_two_loops_over_each_other_are_both_done_ahead() -> None:
    def run(x: Any, h: Any) -> Any:
        return rnn(rnn(x, h)[1], h)

    shapes = {"x": tensor("float32", 5, 2, 8), "h": tensor("float32", 2, 8)}
    assert counts(hoisted(typed(run, **shapes))) == (2, 2)


def ended_by_data(x: Any) -> Any:
    h = x[0]
    for row in x:
        h = xp.tanh(row @ W + h)
        if h.sum() > 3:
            break
    return h


def of_its_state(x: Any) -> Any:
    h = x[0]
    for row in x:
        h = xp.tanh(h @ W + row)
    return h


def by_its_state(x: Any) -> Any:
    w = xp.zeros((8, 8), "float32") + x[0]
    for row in x:
        w = w + (row @ w)[None]
    return w


def more_rows_than_trips(x: Any) -> Any:
    h = x[0]
    for i in range(x.shape[0] // 2):
        h = xp.tanh(x[i] @ W + h)
    return h


@pytest.mark.parametrize(
    "function", [ended_by_data, of_its_state, by_its_state, more_rows_than_trips]
)
def test_what_may_not_be_read_or_is_not_there_yet_stays(function: Callable[..., Any]) -> None:
    before = typed(function, x=tensor("float32", "n", 8))
    assert hoisted(before) == before
    assert any(isinstance(b.expr, Loop) for b in before.main.body)


def test_the_model_weighs_what_reading_the_matrix_once_is_worth() -> None:
    def wide(x: Any, h: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = xp.tanh(row @ np.ones((512, 512), np.float32) + h)
            return h, None

        return explorer.scan(step, h, x)[0]

    def decided(batch: int, hoist: str = "auto") -> Any:
        shapes = {"x": tensor("float32", 64, batch, 512), "h": tensor("float32", batch, 512)}
        (found,) = hoisted(typed(wide, **shapes), Recurrent(hoist=hoist)).decisions.products
        return found

    assert decided(1).chosen == "together"
    many = decided(1024)  # as much arithmetic either way, and rows to write and to read
    assert many.chosen == "apart" and "longer by the model" in many.candidates[1].refused
    assert decided(1, "off").chosen == "apart"
    with pytest.raises(BadOption, match="hoist"):
        Recurrent(hoist="sometimes")


def test_the_product_stays_that_of_its_line() -> None:
    shapes = {"x": tensor("float32", 5, 2, 8), "h": tensor("float32", 2, 8)}
    after = hoisted(typed(rnn, **shapes))
    (product,) = (
        b for b in after.main.body if isinstance(b.expr, OpCall) and b.expr.op == "MatMul"
    )
    assert all("matmul" in origin for origin in product.origin) and product.origin
