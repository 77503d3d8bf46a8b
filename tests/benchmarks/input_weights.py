"""Products and convolutions whose weights are inputs, against the same with constant weights:
`python -m tests.benchmarks.input_weights`. The ratio is what inputs cost, in turns on one thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import explorer
import explorer.np as enp
from explorer.measure.compare import compare
from explorer.rammer import Options as RammerOptions

Shape = tuple[int, ...]
CASES: dict[str, tuple[Callable[[Any, Any], Any], Shape, Shape]] = {
    "64 x 1024 by 1024 x 1024": (lambda x, w: x @ w, (64, 1024), (1024, 1024)),
    "64 x 1000 by 1000 x 1000": (lambda x, w: x @ w, (64, 1000), (1000, 1000)),
    "the same, turned": (lambda x, w: x @ w.T, (64, 1000), (1000, 1000)),
    "8 x 1024 by 1024 x 1024": (lambda x, w: x @ w, (8, 1024), (1024, 1024)),
    "3 x 3, 64 channels, 56 x 56": (
        lambda x, w: enp.conv(x, w, padding=1), (1, 64, 56, 56), (64, 64, 3, 3)
    ),
    "3 x 3, 512 channels, 7 x 7, 8 images": (
        lambda x, w: enp.conv(x, w, padding=1), (8, 512, 7, 7), (512, 512, 3, 3)
    ),
    "1 x 1, 256 channels, 28 x 28": (
        lambda x, w: enp.conv(enp.relu(x), w), (1, 256, 28, 28), (256, 256, 1, 1)
    ),
}  # fmt: skip


def main() -> None:
    """Print a row for each case."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--threads", type=int, default=1)
    asked.add_argument("--seconds", type=float, default=3.0)
    found = asked.parse_args()
    options = explorer.Options(rammer=RammerOptions(threads=found.threads))
    draw = np.random.default_rng(0)
    for name, (function, images, shape) in CASES.items():
        x = draw.standard_normal(images).astype(np.float32)
        w = draw.standard_normal(shape).astype(np.float32)
        kinds = [explorer.tensor("float32", *s) for s in (images, shape)]
        given = explorer.compile(explorer.trace(function)(*kinds), options=options)
        held = explorer.trace(lambda x, f=function, w=w: f(x, w))(kinds[0])
        constant = explorer.compile(held, options=options)
        for a, b in zip(given.run(x, w).values(), constant.run(x).values(), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-2)

        def as_input(c: Any = given, w: np.ndarray = w, x: np.ndarray = x) -> Any:
            return c.run(x, w)

        def as_constant(c: Any = constant, x: np.ndarray = x) -> Any:
            return c.run(x)

        race = compare(as_constant, as_input, seconds=found.seconds)
        us = f"{race.second.median_us:.0f} us, constant {race.first.median_us:.0f}"
        print(f"{name}: {us}, {race.ratio:.2f} [{race.low:.2f}, {race.high:.2f}]", flush=True)


if __name__ == "__main__":
    main()
