"""What a gradient takes and gives, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
import explorer.np as enp
from explorer.errors import BadOption, DtypeError, ShapeError, TraceError, UnsupportedOperator
from explorer.ir.calls import Gradient
from explorer.ir.stage import Stage
from explorer.ir.text.program_text import parse_program, print_program
from explorer.ops.interpreter.verify import verify

DRAW = np.random.default_rng(13)
PARAMS = {"w": DRAW.normal(size=(4, 3)), "b": [DRAW.normal(size=3), DRAW.normal(size=())]}


def loss(params: Any, x: Any) -> Any:
    h = enp.tanh(x @ params["w"] + params["b"][0]) * params["b"][1]
    return (h * h).mean()


@explorer.trace
def step(  # type: ignore[no-untyped-def]
    w: explorer.tensor("float32", 4, 3), x: explorer.tensor("float32", "n", 4)
):
    return explorer.value_and_grad(lambda w: (enp.tanh(x @ w) ** 2).sum())(w)


def test_gradients_nest_as_their_arguments() -> None:
    x = DRAW.normal(size=(5, 4))
    found = explorer.grad(loss)(PARAMS, x)
    assert found["w"].shape == (4, 3) and [b.shape for b in found["b"]] == [(3,), ()]
    both = explorer.grad(loss, argnums=(1, 0))(PARAMS, x)
    np.testing.assert_array_equal(both[1]["w"], found["w"])
    assert both[0].shape == x.shape


def test_what_else_a_function_gives_is_given_as_it_is() -> None:
    f = explorer.value_and_grad(lambda x: ((x * x).sum(), {"twice": 2 * x}))
    (value, more), gradient = f(np.arange(3.0))
    assert value == 5 and more["twice"].tolist() == [0, 2, 4] == gradient.tolist()
    gradient, more = explorer.grad(lambda x: ((x * x).sum(), x + 1))(np.arange(3.0))
    assert gradient.tolist() == [0, 2, 4] and more.tolist() == [1, 2, 3]


def test_so_is_a_part_of_it_whose_size_only_a_run_knows() -> None:
    @explorer.trace
    def f(x: explorer.tensor("float64", 5)):  # type: ignore[no-untyped-def]
        return explorer.value_and_grad(lambda x: ((x * x).sum(), x[x > 0][:2]))(x)

    x = np.array([1.0, -2, 3, -4, 5])
    c = explorer.compile(f, check=True)
    assert not [s for s in c.snapshots if isinstance(s.checked, str)]
    value, first, gradient = c.run(x).values()
    assert value == 55 and first.tolist() == [1, 3] and gradient.tolist() == (2 * x).tolist()


def test_an_argument_that_nothing_depends_on_has_zeros() -> None:
    found = explorer.grad(lambda x, y: x.sum(), argnums=(0, 1))(np.ones(2), np.ones((3, 2)))
    assert found[0].tolist() == [1, 1] and not found[1].any() and found[1].shape == (3, 2)


def test_a_second_derivative() -> None:
    x, step = DRAW.normal(size=4), 1e-6

    def slope(x: Any) -> Any:
        return (explorer.grad(lambda y: (enp.tanh(y) ** 3).sum())(x) ** 2).sum()

    found = explorer.grad(slope)(x)
    ends = [[slope(x + s * step * np.eye(4)[n]) for s in (1, -1)] for n in range(4)]
    np.testing.assert_allclose(found, [(a - b) / (2 * step) for a, b in ends], rtol=1e-6, atol=1e-8)


def test_vjp_takes_a_seed_for_each_result() -> None:
    x, y = DRAW.normal(size=(2, 3)), DRAW.normal(size=3)
    seeds = (DRAW.normal(size=(2, 3)), DRAW.normal(size=2))
    value, (gx, gy) = explorer.vjp(lambda x, y: (x * y, (x * x).sum(axis=1)))(seeds, x, y)
    np.testing.assert_allclose(value[0], x * y)
    np.testing.assert_allclose(gx, seeds[0] * y + 2 * x * seeds[1][:, None])
    np.testing.assert_allclose(gy, (seeds[0] * x).sum(axis=0))


def test_a_gradient_of_a_traced_function_is_one_and_has_its_inputs() -> None:
    @explorer.trace
    def f(x: explorer.tensor("float32", "n"), y: explorer.tensor("float32", "n")):  # type: ignore[no-untyped-def]
        return (x * y * y).sum()

    c = explorer.compile(explorer.grad(f, argnums=1), check=True)
    assert [*c.model.inputs] == ["x", "y"]
    x, y = (DRAW.normal(size=7).astype(np.float32) for _ in range(2))
    (found,) = c.run(x, y).values()
    np.testing.assert_allclose(found, 2 * x * y, rtol=1e-6)


def test_a_gradient_is_one_call_until_it_is_spelled_out_and_text_keeps_it() -> None:
    model = explorer.load(step)
    (call,) = (b.expr for b in model.program.main.body if isinstance(b.expr, Gradient))
    assert call.wrt == (0,) and not call.seeds
    again = parse_program(print_program(model.program), model.program.constants)
    assert again == model.program
    verify(again)
    c = explorer.compile(model, check=True)
    before = c.snapshot("differentiate").before
    assert before.stage is Stage.TYPED and any(
        isinstance(b.expr, Gradient) for b in before.main.body
    )
    after = c.snapshot("differentiate").after
    assert after.stage is Stage.DIFFERENTIATED
    assert not any(isinstance(b.expr, Gradient) for _, b in after.bindings())
    origins = {o for b in after.main.body for o in b.origin}
    assert any("gradient" in o for o in origins) and any("matmul" in o for o in origins)
    assert all(s.checked for s in c.snapshots if s.checked is not None)


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_symbols_stay_symbols(rows: int) -> None:
    c = explorer.compile(step)
    w, x = (DRAW.normal(size=s).astype(np.float32) for s in ((4, 3), (rows, 4)))
    _, gradient = c.run(w, x).values()
    t = np.tanh(x.astype(float) @ w)
    np.testing.assert_allclose(gradient, x.T @ (2 * t * (1 - t * t)), rtol=2e-5, atol=1e-5)


def test_what_has_no_gradient_is_refused_with_its_line() -> None:
    x, n = np.ones(3), np.arange(3)
    with pytest.raises(
        ShapeError, match=r"test_gradients.py:\d+.*a gradient is that of one number"
    ):
        explorer.grad(lambda x: x * 2)(x)
    with pytest.raises(DtypeError, match="differentiated by int64"):
        explorer.grad(lambda n: n.sum())(n)
    with pytest.raises(DtypeError, match="is a float"):
        explorer.grad(lambda x: (x > 0).sum())(x)
    with pytest.raises(TraceError, match="argnums counts 2"):
        explorer.grad(lambda x: x.sum(), argnums=2)(x)
    for wrong in ((0, 0), (), "x", -1, None, (0, 1.5), True):
        with pytest.raises(BadOption, match="argnums counts arguments from 0 on"):
            explorer.grad(lambda x: x.sum(), argnums=wrong)  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="a function is differentiated"):
        explorer.grad(3)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="the seeds are"):
        explorer.vjp(lambda x: x * 2)(np.ones(2), x)


def test_a_library_call_has_no_derivative_and_is_named() -> None:
    with pytest.raises(UnsupportedOperator, match=r"unique.*which has no kernel"):
        explorer.grad(lambda x: enp.unique(x).sum())(np.array([3.0, 1.0, 2.0]))


def test_what_sorts_hands_back_to_where_its_elements_were() -> None:
    weights = np.arange(3.0)
    found = explorer.grad(lambda x: (enp.sort(x) * weights).sum())(np.array([3.0, 1.0, 2.0]))
    assert found.tolist() == [2, 0, 1]
