"""Steps that data may skip, against a plain loop that does not make them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
import explorer.np as enp
from explorer.errors import BadOption
from explorer.ir.types import Tensor
from explorer.training import SGD, Adam, AdamW, LossScale, first_state, train_step
from explorer.training.step import Recipe, gradients_of, scaled_gradients

STEPS = 6
Array = np.ndarray


def skipping_sgd(o: SGD, p: Array, gradients: list[Array], found: list[bool]) -> Array:
    """PyTorch's SGD, called where nothing was found."""
    total: Array | None = None
    for g, skipped in zip(gradients, found, strict=True):
        if skipped:
            continue
        d = (-g if o.maximize else g) + o.weight_decay * p
        if o.momentum:
            total = d if total is None else o.momentum * total + (1 - o.dampening) * d
            d = d + o.momentum * total if o.nesterov else total
        p = p - o.learning_rate * d
    return p


def skipping_adam(o: Adam, p: Array, gradients: list[Array], found: list[bool]) -> Array:
    """PyTorch's Adam and AdamW, called where nothing was found."""
    m = v = top = np.zeros_like(p)
    step = 0
    for g, skipped in zip(gradients, found, strict=True):
        if skipped:
            continue
        step += 1
        g = -g if o.maximize else g
        if isinstance(o, AdamW):
            p = p * (1 - o.learning_rate * o.weight_decay)
        else:
            g = g + o.weight_decay * p
        m, v = o.beta1 * m + (1 - o.beta1) * g, o.beta2 * v + (1 - o.beta2) * g * g
        top = np.maximum(top, v)
        size = np.sqrt(top if o.amsgrad else v) / np.sqrt(1 - o.beta2**step) + o.epsilon
        p = p - o.learning_rate / (1 - o.beta1**step) * m / size
    return p


OPTIMIZERS: tuple[Any, ...] = (
    SGD(0.1),
    SGD(0.1, weight_decay=0.05),
    SGD(0.1, momentum=0.9),
    SGD(0.1, momentum=0.9, dampening=0.3, weight_decay=0.05),
    SGD(0.1, momentum=0.9, nesterov=True, maximize=True),
    Adam(0.1),
    Adam(0.1, weight_decay=0.05, maximize=True),
    Adam(0.1, amsgrad=True),
    AdamW(0.1),
    AdamW(0.1, amsgrad=True, weight_decay=0.3),
)


def run(o: Any, p: Array, gradients: list[Array], found: list[bool], update: Any) -> Array:
    """The same by steps that data skip; what was found spoils the gradient."""
    params, state = {"p": p}, o.init({"p": p})
    for g, skipped in zip(gradients, found, strict=True):
        given = np.where(skipped, np.nan, g)
        params, state = update(params, {"p": given}, state, o.numbers, np.array(skipped))
        assert all(np.isfinite(leaf).all() for leaf in (params["p"], *flat(state)))
    assert int(state["step"]) == found.count(False)
    return np.asarray(params["p"])


def flat(tree: Any) -> list[Any]:
    return [a for v in tree.values() for a in (flat(v) if isinstance(v, dict) else [v])]


@pytest.mark.parametrize("o", OPTIMIZERS, ids=repr)
@settings(max_examples=20, deadline=None)
@given(found=st.lists(st.booleans(), min_size=STEPS, max_size=STEPS), seed=st.integers(0, 2**32))
def test_a_step_that_data_skip_is_no_step(o: Any, found: list[bool], seed: int) -> None:
    draw = np.random.default_rng(seed)
    p, gradients = draw.normal(size=4), list(draw.normal(size=(STEPS, 4)))
    reference = skipping_sgd if isinstance(o, SGD) else skipping_adam
    wanted = reference(o, p, gradients, found)
    np.testing.assert_allclose(
        run(o, p, gradients, found, o.update), wanted, rtol=1e-12, atol=1e-12
    )


def test_a_step_of_few_bits_is_computed_in_float32() -> None:
    """In bfloat16 a decay of 0.999 is 1, so that the corrected mean of squares is 0 / 0."""
    draw = np.random.default_rng(3)
    gradients = [draw.normal(size=4).astype(np.float32) for _ in range(STEPS)]
    for o in (Adam(0.1), AdamW(0.1), SGD(0.1, momentum=0.9)):
        p = {"p": np.ones(4, ml_dtypes.bfloat16)}
        state, wide = o.init(p), {"p": np.ones(4, np.float32)}
        wide_state = o.init(wide)
        for g in gradients:
            g16 = {"p": g.astype(ml_dtypes.bfloat16)}
            g32 = {"p": g16["p"].astype(np.float32)}
            p, state = o.update(p, g16, state, o.numbers, np.array(False))
            wide, wide_state = o.update(wide, g32, wide_state, o.numbers, np.array(False))
        assert p["p"].dtype == ml_dtypes.bfloat16
        np.testing.assert_allclose(p["p"].astype(np.float32), wide["p"], atol=STEPS * 2**-9)


@pytest.mark.few(1)
@pytest.mark.parametrize("o", (OPTIMIZERS[3], OPTIMIZERS[7], OPTIMIZERS[8]), ids=repr)
def test_compiled_it_is_the_same(o: Any) -> None:
    draw = np.random.default_rng(5)
    p, gradients = draw.normal(size=4), list(draw.normal(size=(STEPS, 4)))
    declared = {"p": Tensor((4,), "float64")}
    state = o.init({"p": p})
    types = {k: Tensor((), "int64") if k == "step" else declared for k in state}
    numbers = {n: Tensor((), "float64") for n in o.numbers}
    flag = Tensor((), "bool")
    model = explorer.trace(o.update)(declared, declared, types, numbers, flag)
    c = explorer.compile(model, check=True)

    def update(params: Any, g: Any, state: Any, numbers: Any, found: Any) -> Any:
        out = list(c.run(params["p"], g["p"], *flat(state), *numbers.values(), found).values())
        rest = dict(zip(state, out[1:], strict=True))
        return {"p": out[0]}, {k: v if k == "step" else {"p": v} for k, v in rest.items()}

    found = [True, False, False, True, True, False]
    reference = skipping_sgd if isinstance(o, SGD) else skipping_adam
    wanted = reference(o, p, gradients, found)
    np.testing.assert_allclose(run(o, p, gradients, found, update), wanted, rtol=1e-12, atol=1e-12)


def test_the_scale_halves_grows_after_clean_steps_and_never_overflows() -> None:
    scale = LossScale(first=4.0, interval=3)
    state, seen = scale.init(), []
    for found in (False, False, True, False, False, False, False):
        state = scale.update(state, np.array(found))
        seen.append((float(state["scale"]), int(state["clean"])))
    assert seen == [(4, 1), (4, 2), (2, 0), (2, 1), (2, 2), (4, 0), (4, 1)]
    huge = LossScale(first=3e38, interval=1)
    assert float(huge.update(huge.init(), np.array(False))["scale"]) == np.float32(3e38)


def test_the_inverse_of_a_scale_is_finite_after_any_number_of_overflows() -> None:
    scale = LossScale()
    state = scale.init()
    for _ in range(200):
        state = scale.update(state, np.array(True))
    assert np.isfinite(np.float32(1) / state["scale"])


def test_a_gradient_that_is_infinite_without_its_scale_skips_the_step() -> None:
    recipe = Recipe(lambda p: (p * 1e25 * 1e25).sum(), LossScale())
    params = np.full(2, 1e-30, np.float32)
    _, scaled = scaled_gradients(recipe, params, np.float32(1e-20), {}, ())
    _, made, found = gradients_of(recipe, params, np.float32(1e-20), {}, ())
    assert np.isfinite(scaled).all() and np.isinf(made).all() and bool(found)


def loss(params: Any, x: Any, y: Any) -> Any:
    h = enp.tanh(x @ params["w"] + params["b"])
    return ((h @ params["v"] - y) ** 2).mean()


def drawn(seed: int = 0) -> tuple[dict[str, Array], Array, Array]:
    draw = np.random.default_rng(seed)
    params = {"w": draw.normal(size=(4, 8)), "b": np.zeros(8), "v": draw.normal(size=(8, 2)) * 0.3}
    params = {n: a.astype(np.float32) for n, a in params.items()}
    x = draw.normal(size=(16, 4)).astype(np.float32)
    y = np.sin(x[:, :2]).astype(np.float32)
    return params, x, y


def declared(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {k: declared(v) for k, v in tree.items()}
    return Tensor(np.shape(tree), np.asarray(tree).dtype.name)


@pytest.mark.exhaustive
def test_a_step_is_one_program_that_reads_nothing_and_compiles_once() -> None:
    params, x, y = drawn()
    o, scale = Adam(0.02), LossScale(first=8.0, interval=10)
    step = train_step(loss, o, scale, clip_norm=5.0)
    state = first_state(o, params, scale)
    given = declared(params), declared(state), declared(o.numbers), declared(x), declared(y)
    c = explorer.compile(explorer.trace(lambda p, s, n, x, y: step(p, s, n, x, y))(*given))
    assert not c.program.library_calls
    flat_params, losses = list(params.values()), []
    flat_state = flat(state)
    before, reads = explorer.counters.kernel_compiles, explorer.counters.host_reads
    for n in range(100):
        spoiled = np.full_like(x, np.inf) if n in (0, 1, 50) else x
        rate = o.numbers | {"learning_rate": np.array([0.02, 1e-8][n == 99])}
        out = list(c.run(*flat_params, *flat_state, *rate.values(), spoiled, y).values())
        count = len(flat_params)
        if n in (0, 1, 50):
            for old, new in zip(flat_params, out[:count], strict=True):
                np.testing.assert_array_equal(old, new)
        flat_params, flat_state = out[:count], out[count:-1]
        losses.append(float(out[-1]))
    assert explorer.counters.kernel_compiles == before
    assert explorer.counters.host_reads == reads
    assert losses[98] < 0.2 * losses[2]
    names = dict(zip(paths(state), flat_state, strict=True))
    assert int(names["optimizer.step"]) == 97 and names["scale.scale"] > 0


def paths(tree: Any, prefix: str = "") -> list[str]:
    found: list[str] = []
    for k, v in tree.items():
        found += paths(v, f"{prefix}{k}.") if isinstance(v, dict) else [f"{prefix}{k}"]
    return found


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(BadOption, match="learning_rate must be a number of at least"):
        SGD(-1.0)
    with pytest.raises(BadOption, match="beta1 must be less than 1"):
        Adam(beta1=1.0)
    with pytest.raises(BadOption, match="growth must be a number of at least 1"):
        LossScale(growth=0.5)
    with pytest.raises(BadOption, match="clip_norm"):
        train_step(loss, SGD(), clip_norm=float("nan"))
    with pytest.raises(BadOption, match="another tree has"):
        SGD().update({"a": np.ones(1)}, [np.ones(1)], {"step": np.array(0)}, SGD().numbers, False)
