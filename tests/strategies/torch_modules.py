"""Small random PyTorch modules, to be exported with automatic dims; importing it needs PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.strategies.choices import Choices, Refused, generator

Step = Callable[[Any], Any]
EXTENTS = (2, 3, 4, 5, 6, 7, 8, 9, 11)
MOST_ELEMENTS = 20_000


class Module(nn.Module):
    """Steps one after another; `last` values are returned. A layer is a step with parameters."""

    def __init__(self, steps: list[Step], last: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(s for s in steps if isinstance(s, nn.Module))
        self.steps, self.last = steps, last

    def forward(self, x: Any) -> Any:
        values = [x]
        for step in self.steps:
            values.append(step(values[-1]))
        return tuple(values[-self.last :])


@dataclass(frozen=True)
class Sample:
    """A module, an input, and the names of its steps."""

    module: nn.Module
    x: Any
    names: tuple[str, ...]


def elementwise(c: Choices, x: Any) -> Step:
    """A function of one element."""
    return c.one([
        torch.relu, torch.tanh, torch.sigmoid, F.gelu, F.silu, F.hardswish, F.softplus, F.mish,
        F.elu, torch.abs, torch.neg, torch.floor, torch.sin, torch.erf, torch.exp, F.leaky_relu,
        F.relu6,
        lambda x: x.clamp(-1, 2), lambda x: torch.log1p(x.abs()),
        lambda x: x.clamp(min=0.5).rsqrt(),
        lambda x: torch.where(x > 0, x, x * 0.3), lambda x: x.masked_fill(x > 1, -2.0),
        lambda x: (x > 0).to(x.dtype) + x, lambda x: x ** 2, lambda x: torch.remainder(x, 1.5),
        lambda x: x.to(torch.float64).sum(-1, keepdim=True).to(x.dtype) - x,
    ])  # fmt: skip


def by_size(c: Choices, x: Any) -> Step:
    """Numbers made of sizes: means by hand, positions, masks."""
    d = c.number(-x.dim(), -1)
    choices: list[Step] = [
        lambda x: x / x.shape[d],
        lambda x: x.sum(d, keepdim=True) / x.size(d) - x,
        lambda x: x + torch.arange(x.shape[-1], dtype=x.dtype),
        lambda x: x * torch.linspace(0, 1, x.shape[-1]),
        lambda x: torch.cat([x, x.new_zeros(x.shape)], d),
        lambda x: x.new_ones(x.shape[-1]) + x,
        lambda x: x * (x.numel() // x.shape[d]),
        lambda x: x + torch.zeros_like(x).fill_(x.shape[d]),
    ]
    if x.dim() > 1:
        choices += [
            lambda x: x.masked_fill(torch.ones(x.shape[-2:], dtype=torch.bool).triu(1), 0.0),
            lambda x: x + torch.eye(x.shape[-2], x.shape[-1]),
        ]
    return c.one(choices)


def reduction(c: Choices, x: Any) -> Step:
    """A sum, mean, norm, largest or order along dims."""
    d, keep = c.number(-x.dim(), -1), c.chance()
    several = [a - x.dim() for a in c.permutation(x.dim())[: c.number(1, x.dim())]]
    return c.one([
        lambda x: x.sum(several, keepdim=keep), lambda x: x.mean(several, keepdim=keep),
        lambda x: x.amax(several, keepdim=keep), lambda x: x.amin(d, keepdim=keep),
        lambda x: x.var(d, correction=0, keepdim=keep),
        lambda x: x.std(several, keepdim=keep, correction=1),
        lambda x: x.logsumexp(d, keepdim=keep), lambda x: x.norm(dim=d, keepdim=keep),
        lambda x: x.argmax(d, keepdim=keep).to(x.dtype), lambda x: x.max(d, keepdim=keep).values,
        lambda x: x.prod(d, keepdim=keep), lambda x: x.min(d, keepdim=keep).indices.float(),
        lambda x: x.cumsum(d), lambda x: x.sort(d).values, lambda x: x.topk(2, d).values,
        lambda x: F.normalize(x, dim=d), lambda x: x.softmax(d), lambda x: x.log_softmax(d),
        lambda x: F.glu(torch.cat([x, x], d), d), lambda x: x.any(d, keepdim=keep).float(),
        lambda x: x.flip(d).cumsum(d).flip(d), lambda x: x.argsort(dim=d, stable=True).float(),
    ])  # fmt: skip


def view(c: Choices, x: Any) -> Step:
    """A step that moves elements."""
    rank = x.dim()
    d, e, n = c.number(-rank, -1), c.number(-rank, -1), c.number(1, 3)
    order = c.permutation(rank)
    choices: list[Step] = [
        lambda x: x.permute(order), lambda x: x.transpose(d, e), lambda x: x.flip(d),
        lambda x: x.roll(n, d), lambda x: x.unsqueeze(d), lambda x: torch.cat([x, x], d),
        lambda x: torch.stack([x, x * 2], d), lambda x: x.narrow(d, 1, x.shape[d] - 1),
        lambda x: x.select(d, -1), lambda x: x.index_select(d, torch.tensor([0, 1, 0])),
        lambda x: x.repeat_interleave(2, d), lambda x: x.repeat(*[2] * x.dim()),
        lambda x: x.unfold(d, 2, 1), lambda x: x.flatten(), lambda x: x.reshape(x.shape[0], -1),
        lambda x: x.unsqueeze(0).expand(n, *x.shape), lambda x: x.movedim(d, e),
        lambda x: torch.cat([x.narrow(d, 1, x.shape[d] - 1), x.narrow(d, 0, 1)], d),
        lambda x: x[..., ::2], lambda x: x[1:], lambda x: x[..., : x.shape[-1] // 2 + 1],
        lambda x: x[:, None] * x[None], lambda x: x[:-1] if x.dim() == 1 else x[:, -1],
        lambda x: torch.chunk(x, 2, d)[0], lambda x: x.diff(dim=d), lambda x: x.tril(),
        lambda x: x.reshape(*x.shape[:-1], x.shape[-1], 1), lambda x: x.squeeze(),
        lambda x: x.transpose(d, e).contiguous().flatten(0, 1),
        lambda x: x.reshape(-1, x.shape[-1]),
    ]  # fmt: skip
    choices.append(lambda x: x.split([1, x.shape[d] - 1], d)[1])
    return c.one(choices)


def padding(c: Choices, x: Any) -> Step:
    """Padding of every mode."""
    a, b = c.number(0, 2), c.number(0, 2)
    mode = c.one(("constant", "constant", "reflect", "replicate", "circular"))
    return lambda x: F.pad(x, (a, b), mode=mode)


def product(c: Choices, x: Any) -> Step:
    """A product of matrices, or attention of a value with itself."""
    if x.dim() < 2:
        return lambda x: x[:, None] * x
    out = c.number(1, 6)
    choices: list[Any] = [
        nn.Linear(x.shape[-1], out, bias=c.chance()),
        lambda x: x @ x.transpose(-1, -2),
        lambda x: x.transpose(-1, -2) @ x,
        lambda x: F.scaled_dot_product_attention(x, x, x),
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda x: torch.einsum("...i,...j->...ij", x, x),
    ]
    if x.dim() == 3:
        choices.append(lambda x: torch.bmm(x, x.mT))
        choices.append(lambda x: torch.einsum("bij,bkj->bik", x, x))
    return c.one(choices)


def norm(c: Choices, x: Any) -> Step:
    """A normalisation; its channels are numbers."""
    width = x.shape[-1]
    choices: list[Any] = [nn.LayerNorm(width), nn.RMSNorm(width)]
    if x.dim() > 2:
        n = x.shape[1]
        groups = c.one([g for g in range(1, n + 1) if n % g == 0])
        choices += [nn.GroupNorm(groups, n), nn.LocalResponseNorm(3)]
        kind = {3: "1d", 4: "2d", 5: "3d"}.get(x.dim())
        if kind:
            choices += [getattr(nn, f"BatchNorm{kind}")(n), getattr(nn, f"InstanceNorm{kind}")(n)]
    return c.one(choices)


def window(c: Choices, x: Any) -> Step:
    """A convolution or a pool."""
    if x.dim() not in (3, 4, 5):
        raise Refused
    rank, n = x.dim() - 2, x.shape[1]
    k, s, p, d = c.number(1, 3), c.number(1, 3), c.number(0, 1), c.number(1, 2)
    groups = c.one([g for g in range(1, n + 1) if n % g == 0])
    kind = f"{rank}d"
    half = min(p, k // 2)
    conv, turned = getattr(nn, f"Conv{kind}"), getattr(nn, f"ConvTranspose{kind}")
    size = c.number(1, 3)
    choices: list[Any] = [
        conv(n, groups * 2, k, s, p, d, groups),
        conv(n, groups, k, s, p, padding_mode=c.one(("zeros", "reflect", "replicate", "circular"))),
        conv(n, 3, k, padding="same", dilation=d),
        turned(n, groups * 2, k, s, min(p, k - 1), c.number(0, s - 1), groups),
        getattr(nn, f"MaxPool{kind}")(k, s, half, ceil_mode=c.chance()),
        getattr(nn, f"AvgPool{kind}")(k, s, half, c.chance(), c.chance()),
        getattr(nn, f"AdaptiveAvgPool{kind}")(size),
        getattr(nn, f"AdaptiveMaxPool{kind}")(size),
    ]
    if rank == 2:
        places = c.chance()
        choices += [
            nn.Upsample(scale_factor=2, mode=c.one(("nearest", "nearest-exact"))),
            nn.Upsample(scale_factor=c.one((2.0, 1.5, 0.5)), mode="bilinear", align_corners=places),
            nn.Upsample(scale_factor=c.one((2.0, 0.5)), mode="bicubic", align_corners=places),
            nn.Upsample(size=(5, 7), mode="bilinear", align_corners=places),
            lambda x: F.interpolate(x, size=(x.shape[2] * 2, x.shape[3] + 1), mode="bilinear"),
            nn.Unfold(k, padding=half, stride=s),
            lambda x: F.pixel_unshuffle(F.interpolate(x, scale_factor=2), 2),
            nn.PixelShuffle(2) if n % 4 == 0 else nn.ZeroPad2d((1, 0, 2, 1)),
        ]
    return c.one(choices)


def layer(c: Choices, x: Any) -> Step:
    """A recurrent layer, an attention layer or an embedding, whose states begin at zero."""
    if x.dim() != 3:
        raise Refused
    width, hidden = x.shape[-1], c.number(1, 4)
    more = {"batch_first": c.chance(), "bidirectional": c.chance()}
    of = c.one((nn.LSTM, nn.GRU, nn.RNN))(width, hidden, **more)
    heads = nn.MultiheadAttention(width, c.one((1, width)), batch_first=True)
    encoder = nn.TransformerEncoderLayer(width, 1, 8, 0.0, batch_first=True, norm_first=c.chance())
    table = nn.Embedding(7, hidden)
    first, attended = First(of), Attended(heads)
    return c.one((first, attended, encoder, Looked(table)))


class First(nn.Module):
    """The first result of a layer."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(x)[0]


class Attended(First):
    """Attention of a value with itself."""

    def forward(self, x: Any) -> Any:
        return self.inner(x, x, x, need_weights=False)[0]


class Looked(First):
    """Rows of a table by numbers below 7."""

    def forward(self, x: Any) -> Any:
        return self.inner(x.abs().long().remainder(7))


STEPS: tuple[tuple[float, Callable[[Choices, Any], Step]], ...] = (
    (3, elementwise), (2, by_size), (3, reduction), (4, view), (1, padding), (2, product),
    (1.5, norm), (4, window), (1, layer),
)  # fmt: skip


@generator
def samples(c: Choices) -> Sample:
    """A module of up to five steps, in eval mode, and an input."""
    torch.manual_seed(c.number(0, 2**31 - 1))
    x = torch.randn([c.one(EXTENTS) for _ in range(c.one((1, 2, 2, 3, 3, 3, 4, 4, 4, 5)))])
    if x.numel() > MOST_ELEMENTS // 4:
        raise Refused
    steps, names, value = [], [], x
    for _ in range(c.number(1, 5)):
        draw = STEPS[c.weighted([w for w, _ in STEPS])][1]
        try:
            step = draw(c, value)
            if isinstance(step, nn.Module):
                step.eval()
            with torch.no_grad():
                after = step(value)
        except (Refused, RuntimeError, ValueError, IndexError, AssertionError):
            continue
        fits = 0 < after.numel() <= MOST_ELEMENTS and after.dim() <= 6
        if fits and bool(torch.isfinite(after).all()):
            value = after
            steps.append(step)
            names.append(f"{draw.__name__}:{getattr(step, '__name__', type(step).__name__)}")
    if not steps:
        raise Refused
    return Sample(Module(steps, c.number(1, min(2, len(steps)))).eval(), x, tuple(names))
