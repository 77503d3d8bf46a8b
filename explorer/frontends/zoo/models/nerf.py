"""The multi-layer perceptron of a neural radiance field, one row for each point on a ray.

Mildenhall et al. 2020; the size is that of the Welder paper (section 5.1): a picture of 1920 by
1080 points, 64 input features, seven layers, red, green and blue.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.frontends.zoo.layers import Layers, V


@dataclass(frozen=True, slots=True)
class Nerf:
    """Sizes of the model."""

    points: int = 1920 * 1080
    width: int = 64
    layers: int = 7

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        x = net.input("features", (self.points, self.width))
        for n in range(self.layers - 1):
            with net.inside(f"layers.{n}"):
                x = net.relu(net.linear("linear", x, self.width, self.width, gain=2))
        colour = net.linear("colour", x, self.width, 3)
        net.output("rgb", colour, (self.points, 3))


SMALL = Nerf(points=1000, width=16, layers=3)
