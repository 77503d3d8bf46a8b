"""Products and convolutions whose weights are inputs, against the same with constant weights.

python -m tests.benchmarks input_weights [--threads 1] [--seconds 3] [--json]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import explorer
import explorer.np as enp
from explorer.rammer import Options as RammerOptions
from tests.benchmarks.rows import Row, parser_of, report, timed

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


def row(name: str, threads: int, seconds: float) -> Row:
    """Time a case with its weights as constants and as inputs."""
    function, images, shape = CASES[name]
    options = explorer.Options(rammer=RammerOptions(threads=threads))
    draw = np.random.default_rng(0)
    x, w = (draw.standard_normal(s).astype(np.float32) for s in (images, shape))
    kinds = [explorer.tensor("float32", *s) for s in (images, shape)]
    given = explorer.compile(explorer.trace(function)(*kinds), options=options)
    constant = explorer.compile(explorer.trace(lambda x: function(x, w))(kinds[0]), options=options)
    for a, b in zip(given.run(x, w).values(), constant.run(x).values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-2)
    runs = {"constant": partial(constant.run, x), "input": partial(given.run, x, w)}
    return timed(f"{name}; {threads} threads", runs, None, seconds, base="constant")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each case."""
    flags = parser_of(__doc__, threads="1", seconds=3.0).parse_args(arguments)
    cases = [(name, threads) for threads in flags.threads for name in CASES]
    report((row(*case, flags.seconds) for case in cases), flags.json)


if __name__ == "__main__":
    main()
