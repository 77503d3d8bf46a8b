"""Cost of kernels after the online-softmax rewrite, for fusion decisions made before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from explorer.ir.kernel import Kernel
from explorer.ir.shapes.dims import ShapeEnv
from explorer.passes.softmax.online_softmax import OnlineSoftmax

Cut = tuple[tuple[str, int], ...]  # tile sizes by axis


class Price(Protocol):
    """Modelled microseconds of a kernel, at its best tiling or within a given tile."""

    def __call__(self, kernel: Kernel, env: ShapeEnv) -> float:
        """Return microseconds at the best tiling."""

    def tiled(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> float:
        """Return microseconds within a given tile."""

    def allows(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> str:
        """Return why no tiling within a given tile is legal, "" if one is."""


@dataclass(frozen=True, slots=True)
class PriceInBlocks:
    """A price of kernels after the rewrite by `softmax`."""

    price: Price
    softmax: OnlineSoftmax

    def __call__(self, kernel: Kernel, env: ShapeEnv) -> float:
        """Return microseconds at the best tiling of the rewritten kernel."""
        return self.price(self.softmax.apply(kernel), env)

    def tiled(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> float:
        """Return microseconds within a given tile."""
        return self.price.tiled(kernel, env, cut)

    def allows(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> str:
        """Return why no tiling within a given tile is legal, "" if one is."""
        return self.price.allows(kernel, env, cut)
