"""Steps of training, in turns with PyTorch where it is installed.

    python -m tests.benchmarks.training_step [--models mlp,cnn,lstm,gpt] [--threads 1,2]
        [--seconds 5]

A step is forward, backward and Adam's update, for one batch. Parameters, moments and counters are
donated: they stay where they are. PyTorch is raced eagerly, with its fused Adam where it has one,
on as many threads, in a process of its own. The losses of the first steps are compared first. The
ratio is PyTorch's time over ours, with its 99 % interval.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

import explorer
import explorer.np as enp
from explorer.compilation import Compilation
from explorer.frontends.tracing.structure import flatten
from explorer.ir.types import Tensor, dtype_of
from explorer.rammer import Options as RammerOptions
from explorer.training import Adam, first_state, train_step
from tests.benchmarks.turns import Racer, race

Arrays = dict[str, np.ndarray]
Loss = Callable[..., Any]
RATE, STEPS = 1e-3, 20


def mlp(draw: np.random.Generator) -> tuple[Loss, Arrays, tuple[np.ndarray, ...]]:
    """784, 512, 256 and 10 wide, a batch of 64."""
    widths = (784, 512, 256, 10)
    params = {
        f"w{n}": draw.normal(size=(a, b)) / np.sqrt(a) for n, (a, b) in enumerate(pairwise(widths))
    }
    params |= {f"b{n}": np.zeros(b) for n, b in enumerate(widths[1:])}

    def loss(p: Any, x: Any, y: Any) -> Any:
        for n in range(3):
            x = x @ p[f"w{n}"] + p[f"b{n}"]
            x = enp.relu(x) if n < 2 else x
        return -(enp.log_softmax(x, axis=1) * y).sum(axis=1).mean()

    return loss, params, (draw.normal(size=(64, 784)), np.eye(10)[draw.integers(0, 10, 64)])


def cnn(draw: np.random.Generator) -> tuple[Loss, Arrays, tuple[np.ndarray, ...]]:
    """Two 3 x 3 convolutions of stride 2 and a product, on 32 images of 28 x 28."""
    params = {
        "w0": draw.normal(size=(16, 1, 3, 3)) / 3,
        "w1": draw.normal(size=(32, 16, 3, 3)) / 12,
        "w2": draw.normal(size=(32 * 49, 10)) / 40,
        "b0": np.zeros((16, 1, 1)),
        "b1": np.zeros((32, 1, 1)),
    }

    def loss(p: Any, x: Any, y: Any) -> Any:
        x = enp.relu(enp.conv(x, p["w0"], strides=2, padding=1) + p["b0"])
        x = enp.relu(enp.conv(x, p["w1"], strides=2, padding=1) + p["b1"])
        x = x.reshape(32, -1) @ p["w2"]
        return -(enp.log_softmax(x, axis=1) * y).sum(axis=1).mean()

    return loss, params, (draw.normal(size=(32, 1, 28, 28)), np.eye(10)[draw.integers(0, 10, 32)])


def lstm(draw: np.random.Generator) -> tuple[Loss, Arrays, tuple[np.ndarray, ...]]:
    """One layer of 64 over 32 steps, a batch of 16."""
    params = {
        "w": draw.normal(size=(64, 256)) / 8,
        "u": draw.normal(size=(64, 256)) / 8,
        "b": np.zeros(256),
        "v": draw.normal(size=(64, 1)) / 8,
    }

    def loss(p: Any, x: Any, y: Any) -> Any:
        def cell(state: Any, row: Any) -> Any:
            h, c = state
            i, f, g, o = enp.split(row + h @ p["u"], 4, axis=1)
            c = enp.sigmoid(f) * c + enp.sigmoid(i) * enp.tanh(g)
            return (enp.sigmoid(o) * enp.tanh(c), c), None

        zero = enp.zeros((16, 64), "float32")
        (h, _), _ = explorer.scan(cell, (zero, zero), x @ p["w"] + p["b"])
        return ((h @ p["v"] - y) ** 2).mean()

    return loss, params, (draw.normal(size=(32, 16, 64)), draw.normal(size=(16, 1)))


def gpt(draw: np.random.Generator) -> tuple[Loss, Arrays, tuple[np.ndarray, ...]]:
    """Two layers 64 wide with 4 heads, a batch of 8 times 64 words of 128."""
    width, heads, words, length = 64, 4, 128, 64
    params: Arrays = {"words": draw.normal(size=(words, width)) * 0.1}
    for n in range(2):
        params |= {
            f"qkv{n}": draw.normal(size=(width, 3 * width)) / 8,
            f"out{n}": draw.normal(size=(width, width)) / 8,
            f"up{n}": draw.normal(size=(width, 4 * width)) / 8,
            f"down{n}": draw.normal(size=(4 * width, width)) / 16,
            f"s{n}": np.ones(width),
            f"t{n}": np.ones(width),
        }
    mask = np.where(np.tri(length, dtype=bool), 0.0, -1e9).astype(np.float32)

    def loss(p: Any, x: Any, y: Any) -> Any:
        h = p["words"][x]
        for n in range(2):
            z = enp.rms_norm(h, p[f"s{n}"]) @ p[f"qkv{n}"]
            q, k, v = (
                enp.transpose(part.reshape(8, length, heads, -1), (0, 2, 1, 3))
                for part in enp.split(z, 3, axis=2)
            )
            a = enp.softmax(q @ enp.swapaxes(k, -1, -2) / 4 + mask, axis=-1) @ v
            h = h + enp.transpose(a, (0, 2, 1, 3)).reshape(8, length, width) @ p[f"out{n}"]
            z = enp.rms_norm(h, p[f"t{n}"])
            h = h + enp.gelu(z @ p[f"up{n}"]) @ p[f"down{n}"]
        scores = enp.log_softmax(h @ p["words"].T, axis=-1)
        return -enp.take_along_axis(scores, y, axis=2).mean()

    x = draw.integers(0, words, (8, length))
    return loss, params, (x, np.roll(x, -1, 1)[..., None])


MODELS = {"mlp": mlp, "cnn": cnn, "lstm": lstm, "gpt": gpt}


def declared(tree: Any) -> Any:
    """The types of nested arrays."""
    if isinstance(tree, dict):
        return {k: declared(v) for k, v in tree.items()}
    return Tensor(np.shape(tree), dtype_of(np.asarray(tree)))


class Ours:
    """A step compiled, and the arrays that it hands on."""

    def __init__(self, loss: Loss, params: Arrays, batch: tuple[Any, ...], threads: int) -> None:
        optimizer = Adam(RATE)
        state = first_state(optimizer, params)
        step = train_step(loss, optimizer)

        def whole(params: Any, state: Any, numbers: Any, x: Any, y: Any) -> Any:
            return step(params, state, numbers, x, y)

        given = [declared(part) for part in (params, state, optimizer.numbers, *batch)]
        options = explorer.Options(rammer=RammerOptions(threads=threads))
        self.state = [np.array(a) for a in flatten((params, state))[0]]
        model = explorer.trace(whole)(*given)
        kept = list(model.inputs)[: len(self.state)]
        self.compiled: Compilation = explorer.compile(model, options=options, donate=kept)
        self.rest = [*optimizer.numbers.values(), *batch]

    def __call__(self) -> float:
        *state, loss = self.compiled.run(*self.state, *self.rest).values()
        self.state = state
        return float(loss)


def theirs(name: str, params: Arrays, batch: tuple[Any, ...], threads: int) -> Callable[[], float]:
    """The same in PyTorch; its functions under the names that the models use."""
    import torch

    from tests.benchmarks.training_peer import in_torch

    torch.set_num_threads(threads)
    mine = {n: torch.nn.Parameter(torch.tensor(a)) for n, a in params.items()}
    optimizer = torch.optim.Adam(mine.values(), lr=RATE, fused=True)
    data = [torch.tensor(a) for a in batch]
    run = in_torch(name)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        value = run(mine, *data)
        value.backward()
        optimizer.step()
        return float(value.detach())

    return step


def made(runtime: str, name: str, threads: int) -> Callable[[], float]:
    """One step of a model."""
    loss, params, batch = MODELS[name](np.random.default_rng(0))
    params = {n: a.astype(np.float32) for n, a in params.items()}
    data = tuple(a.astype(np.float32) if a.dtype.kind == "f" else a for a in batch)
    if runtime == "PyTorch":
        return theirs(name, params, data, threads)
    return Ours(loss, params, data, threads)


def main() -> None:
    """Print a row for each model and number of threads."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--models", default=",".join(MODELS))
    asked.add_argument("--threads", default="1,2")
    asked.add_argument("--seconds", type=float, default=5.0)
    found = asked.parse_args()
    for name in found.models.split(","):
        for threads in map(int, found.threads.split(",")):
            with ExitStack() as stack:
                ours, other = (
                    Racer(partial(made, runtime, name, threads), threads)
                    for runtime in ("ours", "PyTorch")
                )
                stack.callback(ours.close)
                stack.callback(other.close)
                first = zip(ours.values(STEPS), other.values(STEPS), strict=True)
                apart = max(abs(a - b) / max(abs(b), 1e-6) for a, b in first)
                told = race(ours, other, found.seconds)
            print(f"{name}, {threads} threads: {told}; losses apart {apart:.1e}", flush=True)


if __name__ == "__main__":
    main()
