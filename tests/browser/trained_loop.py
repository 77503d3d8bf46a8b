"""A program with all that rooms show: an open size, a gradient, a loop whose trips data decides."""

from typing import Any

import numpy as np

import explorer
from explorer import np as enp

BATCH, TRIPS = 32, 3


def loss(weights: Any, x: Any) -> Any:
    scores = enp.tanh(x @ weights["w"]) @ weights["v"]
    e = enp.exp(scores - enp.max(scores, axis=-1, keepdims=True))
    return -enp.log((e / enp.sum(e, axis=-1, keepdims=True))[:, 0]).mean()


def step(weights: Any, x: Any, steps: Any) -> Any:
    value, gradient = explorer.value_and_grad(loss)(weights, x)
    new = {name: weights[name] - 0.1 * gradient[name] for name in weights}

    def more(i: Any, h: Any) -> Any:
        return i < steps

    def one(i: Any, h: Any) -> Any:
        return i + 1, enp.tanh(h @ new["v"] @ enp.transpose(new["v"]))

    return value, new, explorer.while_loop(more, one, np.int32(0), x @ new["w"])[1]


def compiled() -> explorer.Compilation:
    kinds = {"w": explorer.tensor("float32", 64, 48), "v": explorer.tensor("float32", 48, 10)}
    x, steps = explorer.tensor("float32", "batch", 64), explorer.tensor("int32")
    return explorer.compile(explorer.trace(step)(kinds, x, steps))


def house() -> Any:
    """What a notebook shows."""
    import widgets

    c = compiled()
    inputs = {**c.random_inputs({"batch": BATCH}), "steps": np.array(TRIPS, np.int32)}
    return widgets.explore(c, sizes={"batch": BATCH}, inputs=inputs)
