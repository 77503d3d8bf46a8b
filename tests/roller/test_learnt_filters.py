"""Filters that a run is given lie with the window innermost: they are copied into panels in blocks
that turn, and a task that does it has many rows.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.cost.estimate import Estimate
from explorer.devices.costs import NAMES
from explorer.ir.affine import var
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.kernels.normal import normalise
from explorer.roller.cpu_candidates import cpu_candidates
from tests.roller.test_policy import DEVICE

IMAGES, CHANNELS, SIDE = 8, 512, 2


def gradient_of_images() -> Kernel:
    """What a 3 x 3 convolution of small images with many channels hands back."""
    over = tuple(
        Axis(name, n) for name, n in (("n", IMAGES), ("y", SIDE), ("x", SIDE), ("c", CHANNELS))
    )
    summed = (Axis("kh", 3), Axis("kw", 3), Axis("o", CHANNELS))
    image, filters = (IMAGES, SIDE, SIDE, CHANNELS), (CHANNELS, CHANNELS, 3, 3)
    place = (var("n"), var("y") - var("kh") + 1, var("x") - var("kw") + 1, var("o"))
    weight = Read("w", (var("o"), var("c"), var("kh"), var("kw")))
    made = Compute("d", over, Apply("mul", (Read("g", place, 0.0), weight)), summed, "sum")
    shapes = {"g": image, "w": filters, "d": image}
    specs = tuple(TensorSpec(name, shape, "float32") for name, shape in shapes.items())
    return normalise(Kernel("d_x", specs, (made,), ("g", "w"), ("d",)))


def test_filters_that_lie_with_the_window_innermost_are_copied_once() -> None:
    kernel = gradient_of_images()
    best = next(cpu_candidates(kernel, DEVICE, ShapeEnv(()), {}))
    cut = dict(best.value.tile)
    assert cut.get("n", IMAGES) == IMAGES
    counts = Estimate(kernel, best.value, replace(DEVICE, units=1), once=True).counts({})
    assert counts.each[NAMES.index("turn")] == 9 * CHANNELS * CHANNELS
    assert counts.each[NAMES.index("pack")] == 0
