"""What a kernel costs as the softmax in it will be iterated over: what welds kernels asks before
the rewrite is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from explorer.ir.kernel import Kernel
from explorer.ir.shapes.dims import ShapeEnv
from explorer.passes.softmax.online_softmax import OnlineSoftmax

Cut = tuple[tuple[str, int], ...]  # tile sizes by axis


class Price(Protocol):
    """Modelled microseconds of a kernel, at its best tiling or inside of a given tile."""

    def __call__(self, kernel: Kernel, env: ShapeEnv) -> float: ...

    def tiled(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> float: ...

    def allows(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> str: ...


@dataclass(frozen=True, slots=True)
class PriceInBlocks:
    """A price of kernels as `softmax` leaves them."""

    price: Price
    softmax: OnlineSoftmax

    def __call__(self, kernel: Kernel, env: ShapeEnv) -> float:
        """Microseconds at the best tiling of the rewritten kernel."""
        return self.price(self.softmax.left(kernel), env)

    def tiled(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> float:
        """The same inside of a given tile."""
        return self.price.tiled(kernel, env, cut)

    def allows(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> str:
        """Why no tiling inside of a given tile is legal, "" where one is."""
        return self.price.allows(kernel, env, cut)
