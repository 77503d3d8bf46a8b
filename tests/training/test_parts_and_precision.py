"""A batch in parts is one batch; few bits in the products, all of them in the parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
import explorer.np as enp
from explorer.errors import BadOption, ShapeError
from explorer.training import SGD, Adam, LossScale, cross_entropy, dropout
from explorer.training.step import clip_gradients

DRAW = np.random.default_rng(0)
X = DRAW.standard_normal((64, 12)).astype(np.float32)
Y = (X @ DRAW.standard_normal((12, 4))).argmax(1)
START = {
    "w": (DRAW.standard_normal((12, 16)) / 4).astype(np.float32),
    "v": (DRAW.standard_normal((16, 4)) / 4).astype(np.float32),
}


def loss(p: Any, x: Any, y: Any) -> Any:
    return cross_entropy(enp.tanh(x @ p["w"]) @ p["v"], y)


@pytest.mark.exhaustive
@pytest.mark.parametrize("parts", [2, 16, 64])
def test_a_batch_in_parts_is_the_whole_batch(parts: int) -> None:
    whole = explorer.fit(loss, START, [(X, Y)] * 8, Adam(1e-2), clip_norm=1.0)
    found = explorer.fit(loss, START, [(X, Y)] * 8, Adam(1e-2), clip_norm=1.0, parts=parts)
    np.testing.assert_allclose(found.losses, whole.losses, rtol=1e-6)
    for name, array in whole.params.items():
        np.testing.assert_allclose(found.params[name], array, rtol=1e-5, atol=1e-6)


@pytest.mark.exhaustive
def test_the_program_does_not_grow_with_the_parts_and_its_memory_shrinks() -> None:
    wide = {"w": DRAW.standard_normal((12, 512)).astype(np.float32) / 4}
    wide["v"] = DRAW.standard_normal((512, 4)).astype(np.float32) / 16
    x, y = np.tile(X, (32, 1)), np.tile(Y, 32)
    size, arena = [], []
    for parts in (1, 2, 16):
        c = explorer.fit(loss, wide, [(x, y)], parts=parts).program
        assert c is not None
        size.append(sum(len(f.body) for f in c.program.functions))
        arena.append(c.memory().planned_bytes)
    assert size[1] == size[2]
    assert arena[2] < arena[1] < arena[0]


@pytest.mark.exhaustive
def test_a_part_that_is_not_finite_skips_the_step() -> None:
    broken = X.copy()
    broken[63, 0] = np.nan
    found = explorer.fit(loss, START, [(broken, Y)] * 2, parts=4, scale=LossScale())
    assert found.skipped == 2
    np.testing.assert_array_equal(found.params["w"], START["w"])


def test_each_part_drops_other_elements() -> None:
    def dropped(p: Any, x: Any, key: Any) -> Any:
        return (dropout(x, 0.5, key) * p).sum()

    ones = np.ones((2, 1000), np.float32)
    found = explorer.fit(
        dropped, np.ones(1000, np.float32), [ones], Adam(0.0), parts=2, seed=1, epochs=2
    )
    one, two = (
        [
            float(np.sum(np.asarray(dropout(ones[:1], 0.5, np.array([1, n])))))
            for n in (2 * step, 2 * step + 1)
        ]
        for step in range(2)
    )
    np.testing.assert_allclose(found.losses, [np.mean(one), np.mean(two)], rtol=1e-5)
    assert len({*one, *two}) == 4


@pytest.mark.exhaustive
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_few_bits_learn_what_all_bits_learn(precision: str) -> None:
    whole = explorer.fit(loss, START, [(X, Y)] * 150, Adam(2e-2))
    found = explorer.fit(
        loss, START, [(X, Y)] * 150, Adam(2e-2), precision=precision, scale=LossScale(first=1024)
    )
    assert found.params["w"].dtype == np.float32
    assert abs(found.losses[0] - whole.losses[0]) < 0.02
    assert found.losses[0] != whole.losses[0]
    assert found.losses[-1] < 0.3 * found.losses[0]


def test_float16_overflows_and_the_scale_goes_down_until_it_fits() -> None:
    found = explorer.fit(
        lambda p, x: (p * x).sum() * 100,
        np.zeros(4, np.float32),
        [np.full(4, 8, np.float32)] * 12,
        Adam(1e-3),
        precision="float16",
        scale=LossScale(first=65536.0),
    )
    assert found.skipped > 0
    assert found.step - found.skipped > 0
    assert found.state["scale"]["scale"] == 65536 / 2**found.skipped
    assert np.isfinite(found.params).all()


def test_the_norm_of_float16_gradients_does_not_overflow() -> None:
    made = clip_gradients([np.full(4, 300, np.float16)], 1.0)
    np.testing.assert_allclose(made[0], 0.5, rtol=1e-3)


def test_parameters_of_float64_are_trained_in_parts() -> None:
    data = [(X[:4].astype(np.float64),)]
    found = explorer.fit(
        lambda p, x: (x @ p).mean(), np.zeros(12), data, SGD(1.0), parts=2, clip_norm=None
    )
    np.testing.assert_allclose(found.params, -data[0][0].mean(0), rtol=1e-12)


@pytest.mark.parametrize("labels", [Y[:4], Y[:1], Y[:8, None]])
def test_labels_that_do_not_fit_their_scores_are_refused(labels: Any) -> None:
    with pytest.raises(ShapeError, match=r"expected labels|labels of shape"):
        explorer.fit(loss, START, [(X[:8], labels)])


def test_what_has_no_meaning_is_refused() -> None:
    with pytest.raises(BadOption, match="no precision 'int8'"):
        explorer.fit(loss, START, [(X, Y)], precision="int8")
    with pytest.raises(BadOption, match="parts must be an integer of at least 1"):
        explorer.fit(loss, START, [(X, Y)], parts=0)
    with pytest.raises(ShapeError, match="taken in 5 parts"):
        explorer.fit(loss, START, [(X, Y)], parts=5)
