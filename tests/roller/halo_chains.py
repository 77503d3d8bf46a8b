"""Chains of products and windows as one kernel: tiles need a halo of what is made inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.kernel import Apply, Axis, Compute, Const, Kernel, Read, TensorSpec
from explorer.ir.kernels.normal import normalise

Kind = Literal["point", "depth", "conv", "pool", "gate"]


@dataclass(frozen=True)
class Step:
    """One operator: a product of 1 x 1, windows of each channel, of all of them, their greatest, or
    one half of the channels times the other. `pads` stand before and after the image.
    """

    kind: Kind
    channels: int = 0
    size: int = 3
    stride: int = 1
    pads: tuple[int, int] = (1, 1)
    relu: bool = False


@dataclass(frozen=True)
class Chain:
    """Steps on an image of `[height, width, channels]`."""

    height: int
    width: int
    channels: int
    steps: tuple[Step, ...]

    def kernel(self) -> Kernel:
        """All steps in one kernel, in normal form."""
        tensors = [TensorSpec("x", (self.height, self.width, self.channels))]
        computes: list[Compute] = []
        inputs = ["x"]
        for n, step in enumerate(self.steps):
            last = tensors[-1]
            made, weights = _compute(n, step, last)
            if weights is not None:
                tensors.insert(0, weights)
                inputs.append(weights.name)
            for c in made:
                shape = tuple(a.extent for a in c.axes)
                tensors.append(TensorSpec(c.out, shape))
            computes += made
        constants = frozenset(inputs[1:])
        whole = Kernel(
            "chain", tuple(tensors), tuple(computes), tuple(inputs), (tensors[-1].name,), constants
        )
        return normalise(whole)

    def arrays(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Values for the inputs."""
        kernel, rng = self.kernel(), np.random.default_rng(seed)
        shapes = {n: tuple(int(d) for d in kernel.shape(n)) for n in kernel.inputs}
        return {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def _compute(n: int, step: Step, last: TensorSpec) -> tuple[tuple[Compute, ...], TensorSpec | None]:
    height, width, channels = (int(d) for d in last.shape)
    h, w, c = var(f"h{n}"), var(f"w{n}"), var(f"c{n}")
    if step.kind == "gate":
        axes = _axes(n, height, width, channels // 2)
        halves = (Read(last.name, (h, w, c)), Read(last.name, (h, w, c + channels // 2)))
        return (Compute(f"y{n}", axes, Apply("mul", halves)),), None
    if step.kind == "point":
        axes = _axes(n, height, width, step.channels)
        weights = TensorSpec(f"k{n}", (step.channels, channels))
        d = var(f"d{n}")
        product = Apply("mul", (Read(last.name, (h, w, d)), Read(weights.name, (c, d))))
        over = (Axis(f"d{n}", channels),)
        return _mapped(n, step, Compute(f"s{n}", axes, product, over, "sum")), weights
    rows = [(e + sum(step.pads) - step.size) // step.stride + 1 for e in (height, width)]
    out = step.channels if step.kind == "conv" else channels
    axes = _axes(n, rows[0], rows[1], out)
    i, j = var(f"i{n}"), var(f"j{n}")
    at = (h * step.stride + i - step.pads[0], w * step.stride + j - step.pads[0])
    fill = -np.inf if step.kind == "pool" else 0.0
    taps = (Axis(f"i{n}", step.size), Axis(f"j{n}", step.size))
    inner: Affine = var(f"d{n}") if step.kind == "conv" else c
    data = Read(last.name, (*at, inner), float(fill) if any(step.pads) else None)
    if step.kind == "pool":
        return _mapped(n, step, Compute(f"s{n}", axes, data, taps, "max")), None
    if step.kind == "depth":
        weights = TensorSpec(f"k{n}", (step.size, step.size, channels))
        product = Apply("mul", (data, Read(weights.name, (i, j, c))))
        return _mapped(n, step, Compute(f"s{n}", axes, product, taps, "sum")), weights
    weights = TensorSpec(f"k{n}", (out, step.size, step.size, channels))
    product = Apply("mul", (data, Read(weights.name, (c, i, j, inner))))
    every = (*taps, Axis(f"d{n}", channels))
    return _mapped(n, step, Compute(f"s{n}", axes, product, every, "sum")), weights


def _axes(n: int, height: int, width: int, channels: int) -> tuple[Axis, ...]:
    return Axis(f"h{n}", height), Axis(f"w{n}", width), Axis(f"c{n}", channels)


def _mapped(n: int, step: Step, c: Compute) -> tuple[Compute, ...]:
    if not step.relu:
        return (c,)
    names = {a.name: var(f"{a.name}_m") for a in c.axes}
    axes = tuple(Axis(f"{a.name}_m", a.extent) for a in c.axes)
    value = Apply("max", (Read(c.out, tuple(names.values())), Const(0.0)))
    return c, Compute(f"y{n}", axes, value)
