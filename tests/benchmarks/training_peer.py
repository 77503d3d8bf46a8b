"""The models of `training_step` in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F


def mlp(p: Any, x: Any, y: Any) -> Any:
    for n in range(3):
        x = torch.addmm(p[f"b{n}"], x, p[f"w{n}"])
        x = F.relu(x) if n < 2 else x
    return -(F.log_softmax(x, 1) * y).sum(1).mean()


def cnn(p: Any, x: Any, y: Any) -> Any:
    x = F.relu(F.conv2d(x, p["w0"], p["b0"].reshape(-1), 2, 1))
    x = F.relu(F.conv2d(x, p["w1"], p["b1"].reshape(-1), 2, 1))
    return -(F.log_softmax(x.reshape(32, -1) @ p["w2"], 1) * y).sum(1).mean()


def lstm(p: Any, x: Any, y: Any) -> Any:
    h = c = torch.zeros(16, 64)
    for row in x @ p["w"] + p["b"]:
        i, f, g, o = (row + h @ p["u"]).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return ((h @ p["v"] - y) ** 2).mean()


def gpt(p: Any, x: Any, y: Any) -> Any:
    h, width, length = p["words"][x], 64, x.shape[1]
    for n in range(2):
        z = F.rms_norm(h, (width,), p[f"s{n}"], 1e-5) @ p[f"qkv{n}"]
        q, k, v = (a.reshape(8, length, 4, -1).transpose(1, 2) for a in z.chunk(3, 2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + a.transpose(1, 2).reshape(8, length, width) @ p[f"out{n}"]
        z = F.rms_norm(h, (width,), p[f"t{n}"], 1e-5)
        h = h + F.gelu(z @ p[f"up{n}"]) @ p[f"down{n}"]
    scores = F.log_softmax(h @ p["words"].T, -1)
    return -scores.gather(2, y).mean()


def in_torch(name: str) -> Callable[..., Any]:
    """The loss of that model."""
    found: Callable[..., Any] = globals()[name]
    return found
