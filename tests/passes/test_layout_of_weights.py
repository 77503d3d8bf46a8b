"""Channels last where the weights are inputs: they move once a run, and so does what is learnt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
import explorer.np as enp
from explorer.ir.calls import KernelCall
from explorer.ops.reference.evaluate import evaluate
from tests.examples import examples


def traced(images: tuple[int, ...], weights: tuple[int, ...], learn: bool, **window: Any) -> Any:
    """Two convolutions with a Relu between, or the gradients of their sum by weights and image."""

    def model(x: Any, w: Any, v: Any) -> Any:
        return enp.conv(enp.relu(enp.conv(x, w, **window)), v)

    def loss(x: Any, w: Any, v: Any) -> Any:
        y = model(x, w, v)
        return (y * y).sum()

    used = explorer.grad(loss, argnums=(0, 1, 2)) if learn else model
    one = (weights[0], weights[0], 1, 1)
    kinds = [explorer.tensor("float32", *shape) for shape in (images, weights, one)]
    return explorer.trace(used)(*kinds)


@pytest.mark.few(1)
@pytest.mark.parametrize("learn", [False, True])
def test_what_is_multiplied_is_dense_in_channels_and_inputs_stay_as_they_are(learn: bool) -> None:
    model = traced((2, 16, 9, 9), (32, 16, 3, 3), learn, strides=2, padding=1)
    c = explorer.compile(model, check=True)
    laid = c.snapshot("put channels last").after.main
    assert [p.tensor.dims for p in laid.params] == [
        p.tensor.dims for p in model.program.main.params
    ]
    found = 0
    for b in laid.body:
        if isinstance(b.expr, KernelCall) and b.expr.kernel.name in ("conv", "d_x", "d_weight"):
            for compute in b.expr.kernel.computes:
                found += 1
                column = compute.axes[-1].name
                assert compute.target[-1].bare == column, b.name
    assert found == (10 if learn else 2)


@given(st.data())
@settings(max_examples=examples(15, few=2), deadline=None)
def test_random_windows_equal_the_interpreter(data: st.DataObject) -> None:
    groups = data.draw(st.sampled_from([1, 1, 2, 3]), "groups")
    each, made = (data.draw(st.integers(1, 5), n) for n in ("channels", "made"))
    height, width = (data.draw(st.integers(3, 8), n) for n in ("height", "width"))
    kernel = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)), "kernel")
    window = {
        "strides": data.draw(st.integers(1, 3), "strides"),
        "padding": data.draw(st.integers(0, 2), "padding"),
        "groups": groups,
    }
    images = (data.draw(st.integers(1, 3), "batch"), each * groups, height, width)
    weights = (made * groups, each, *kernel)
    learn = data.draw(st.booleans(), "learn")
    model = traced(images, weights, learn, **window)
    c = explorer.compile(model, check=True)
    inputs = c.random_inputs()
    right = evaluate(model.program, inputs)
    for name, got in c.run(inputs).items():
        scale = float(np.abs(right[name]).max(initial=1.0))
        np.testing.assert_allclose(got / scale, right[name] / scale, atol=2e-5, err_msg=name)


def test_heads_beside_channels_are_no_window() -> None:
    """Keys are read at `head * 16 + k` in a product of values: nothing of it slides."""
    c = explorer.compile("zoo:small_conformer", until="legalized")
    laid = c.snapshot("put channels last").after.main
    products = [
        b for b in laid.body if isinstance(b.expr, KernelCall) and b.expr.kernel.name == "matmul"
    ]
    assert products
    assert not [b.name for b in products if b.name.endswith("channels_last")]
