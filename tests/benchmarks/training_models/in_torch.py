"""The models in PyTorch, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from tests.benchmarks.training_models.shapes import BERT, GPT2, Encoder, blocks_of


def mlp(p: Any, x: Any, y: Any) -> Any:
    for n in range(3):
        x = torch.addmm(p[f"b{n}"], x, p[f"w{n}"])
        x = F.relu(x) if n < 2 else x
    return _entropy(x, y)


def cnn(p: Any, x: Any, y: Any) -> Any:
    x = F.relu(F.conv2d(x, p["w0"], p["b0"].reshape(-1), 2, 1))
    x = F.relu(F.conv2d(x, p["w1"], p["b1"].reshape(-1), 2, 1))
    return _entropy(x.reshape(32, -1) @ p["w2"], y)


def resnet18(p: Any, x: Any, y: Any) -> Any:
    def part(name: str, x: Any, stride: int, padding: int) -> Any:
        z = F.conv2d(x, p[name], None, stride, padding)
        return F.batch_norm(z, None, None, p[f"{name}.scale"], p[f"{name}.shift"], training=True)

    x = F.max_pool2d(F.relu(part("stem", x, 2, 3)), 3, 2, 1)
    for name, _, _, stride in blocks_of():
        z = F.relu(part(f"{name}.a", x, stride, 1))
        kept = part(f"{name}.short", x, stride, 0) if stride > 1 else x
        x = F.relu(part(f"{name}.b", z, 1, 1) + kept)
    return _entropy(torch.addmm(p["b"], x.mean((2, 3)), p["w"]), y)


def lstm(p: Any, x: Any, y: Any) -> Any:
    zero = torch.zeros(1, 16, 64)
    weights = (p["w"].T, p["u"].T, p["b"], torch.zeros(256))
    _, h, _ = torch.lstm(x, (zero, zero), weights, True, 1, 0.0, True, False, False)
    return ((h[0] @ p["v"] - y) ** 2).mean()


def lstm_steps(p: Any, x: Any, y: Any) -> Any:
    """Step by step, which a compiler can see through."""
    h = c = torch.zeros(16, 64)
    for row in x @ p["w"] + p["b"]:
        i, f, g, o = (row + h @ p["u"]).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return ((h @ p["v"] - y) ** 2).mean()


def bert(p: Any, x: Any, y: Any) -> Any:
    h = _norm(p, p["words"][x] + p["places"], "end")
    for n in range(BERT.layers):
        h = _norm(p, h + _attention(p, h, n, BERT, False), f"s{n}")
        h = _norm(p, h + _forward(p, h, n, "none"), f"t{n}")
    return _entropy(torch.addmm(p["b"], h[:, 0], p["w"]), y)


def gpt2(p: Any, x: Any, y: Any) -> Any:
    h = p["words"][x] + p["places"]
    for n in range(GPT2.layers):
        h = h + _attention(p, _norm(p, h, f"s{n}"), n, GPT2, True)
        h = h + _forward(p, _norm(p, h, f"t{n}"), n, "tanh")
    scores = _norm(p, h, "end") @ p["words"].T
    return F.cross_entropy(scores.reshape(-1, GPT2.words), y.reshape(-1))


def _attention(p: Any, x: Any, n: int, shape: Encoder, causal: bool) -> Any:
    size = (shape.batch, shape.length, shape.heads, -1)
    parts = _linear(p, x, f"qkv{n}").chunk(3, 2)
    q, k, v = (a.reshape(size).transpose(1, 2) for a in parts)
    found = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return _linear(p, found.transpose(1, 2).reshape(x.shape), f"out{n}")


def _forward(p: Any, x: Any, n: int, approximate: str) -> Any:
    return _linear(p, F.gelu(_linear(p, x, f"up{n}"), approximate=approximate), f"down{n}")


def _linear(p: Any, x: Any, name: str) -> Any:
    return F.linear(x, p[name].T, p[f"{name}.b"])


def _norm(p: Any, x: Any, name: str) -> Any:
    return F.layer_norm(x, x.shape[-1:], p[name], p[f"{name}.b"], 1e-5)


def _entropy(scores: Any, y: Any) -> Any:
    return -(F.log_softmax(scores, 1) * y).sum(1).mean()


Arrays = dict[str, np.ndarray]


def step_of(
    name: str, params: Arrays, batch: tuple[np.ndarray, ...], rate: float, form: str
) -> Callable[[], float]:
    """One step with the fused Adam. `form`: "eager" or "compile", and "-last" behind it where
    images lie with channels last, "-steps" where the LSTM is a loop of Python's.
    """
    how, *asked = form.split("-")
    run: Any = globals()["lstm_steps" if "steps" in asked else name]
    layout = torch.channels_last if "last" in asked else torch.contiguous_format

    def held(array: np.ndarray) -> torch.Tensor:
        found = torch.tensor(array)
        return found.to(memory_format=layout) if found.dim() == 4 else found

    mine = {n: torch.nn.Parameter(held(a)) for n, a in params.items()}
    optimizer = torch.optim.Adam(mine.values(), lr=rate, fused=True)
    data = [held(a) for a in batch]
    run = torch.compile(run) if how == "compile" else run

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        value = run(mine, *data)
        value.backward()
        optimizer.step()
        return float(value.detach())

    return step
