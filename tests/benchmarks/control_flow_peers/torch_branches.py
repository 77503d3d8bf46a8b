"""Models with branches in PyTorch, in words that TorchScript takes too."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.benchmarks.control_flow_peers.torch_recurrent import Cell, Weights


class Conv(nn.Module):
    def __init__(self, w: Weights, name: str, stride: int = 1) -> None:
        super().__init__()
        self.weight, self.bias = w[f"{name}.weight"], w[f"{name}.bias"]
        self.stride, self.pad = stride, self.weight.shape[-1] // 2

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias, self.stride, self.pad)


class Block(nn.Module):
    """Of BlockDrop: two convolutions, and what was kept added."""

    def __init__(self, w: Weights, name: str) -> None:
        super().__init__()
        outputs, inputs = w[f"{name}.first.weight"].shape[:2]
        self.halves = outputs != inputs
        self.first = Conv(w, f"{name}.first", 2 if self.halves else 1)
        self.second = Conv(w, f"{name}.second")

    def kept(self, x: Tensor) -> Tensor:
        if self.halves:
            x = F.avg_pool2d(x, 2)
            x = torch.cat([x, torch.zeros_like(x)], 1)
        return x

    def forward(self, x: Tensor, kept: Tensor) -> Tensor:
        return (self.second(self.first(x).relu()) + kept).relu()


def blocks(w: Weights, name: str) -> nn.ModuleList:
    names = [n.removesuffix(".first.weight") for n in w if n.startswith(name)]
    return nn.ModuleList(Block(w, n) for n in names if f"{n}.first.weight" in w)


class BlockDrop(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.policy_stem, self.policy = Conv(w, "policy.stem"), blocks(w, "policy.")
        self.policy_head, self.policy_bias = w["policy.head.weight"], w["policy.head.bias"]
        self.stem, self.net = Conv(w, "net.stem"), blocks(w, "net.")
        self.head, self.bias = w["head.weight"], w["head.bias"]

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.policy_stem(image).relu()
        for block in self.policy:
            x = block(x, block.kept(x))
        wanted = x.mean((2, 3)) @ self.policy_head + self.policy_bias > 0
        x = self.stem(image).relu()
        run = 0
        for n, block in enumerate(self.net):
            kept = block.kept(x)
            wants = wanted[:, n]
            if bool(wants.any()):
                x = torch.where(wants[:, None, None, None], block(x, kept), kept)
                run += 1
            else:
                x = kept
        return x.mean((2, 3)) @ self.head + self.bias, wanted, torch.tensor(run)


class Bottleneck(nn.Module):
    """Of SkipNet, with the gate that looks at what comes of it."""

    def __init__(self, w: Weights, name: str) -> None:
        super().__init__()
        stage, number = map(int, name.split(".")[1:])
        stride = 2 if stage and not number else 1
        self.reduce = Conv(w, f"{name}.reduce")
        self.middle = Conv(w, f"{name}.middle", stride)
        self.expand = Conv(w, f"{name}.expand")
        self.is_first = not number
        at = f"{name}.shortcut" if self.is_first else f"{name}.expand"
        self.shortcut = Conv(w, at, stride)
        self.gate, self.bias = w[f"{name}.gate.weight"], w[f"{name}.gate.bias"]

    def kept(self, x: Tensor) -> Tensor:
        if self.is_first:
            x = self.shortcut(x)
        return x

    def forward(self, x: Tensor, kept: Tensor) -> Tensor:
        y = self.middle(self.reduce(x).relu()).relu()
        return (self.expand(y) + kept).relu()

    def seen(self, x: Tensor) -> Tensor:
        return x.mean((2, 3)) @ self.gate + self.bias


class SkipNet(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        names = [n.removesuffix(".reduce.weight") for n in w if n.endswith(".reduce.weight")]
        self.stem, self.parts = Conv(w, "stem", 2), nn.ModuleList(Bottleneck(w, n) for n in names)
        self.memory, self.width = Cell(w, "memory"), w["memory.state"].shape[0]
        self.decide, self.decide_bias = w["decide.weight"], w["decide.bias"]
        self.head, self.bias = w["head.weight"], w["head.bias"]

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = F.max_pool2d(self.stem(image).relu(), 2)
        h = torch.zeros(1, self.width)
        c = h
        run = 0
        runs = True
        for part in self.parts:
            kept = part.kept(x)
            if runs:
                x = part(x, kept)
                run += 1
            else:
                x = kept
            h, c = self.memory(part.seen(x), h, c)
            runs = bool((h @ self.decide + self.decide_bias)[0, 0] > 0)
        return x.mean((2, 3)) @ self.head + self.bias, torch.tensor(run)


class Expert(nn.Module):
    def __init__(self, w: Weights, name: str) -> None:
        super().__init__()
        self.inner, self.inner_bias = w[f"{name}.in.weight"], w[f"{name}.in.bias"]
        self.outer, self.outer_bias = w[f"{name}.out.weight"], w[f"{name}.out.bias"]

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.inner + self.inner_bias).relu() @ self.outer + self.outer_bias


class Experts(nn.Module):
    """All tokens of an expert at once."""

    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.router = w["router"]
        count = self.router.shape[1]
        self.experts = nn.ModuleList(Expert(w, f"experts.{n}") for n in range(count))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        likely, which = (x @ self.router).softmax(1).max(1)
        y = x.clone()
        for n, expert in enumerate(self.experts):
            rows = (which == n).nonzero()[:, 0]
            if rows.shape[0] > 0:
                y[rows] += expert(x[rows]) * likely[rows, None]
        return y, which
