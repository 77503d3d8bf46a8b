"""Predicted against measured times of tilings that are drawn from the whole legal space.

    python -m tests.benchmarks tile_prediction [--operators conv,softmax] [--threads 2] [--json]

Operators of every class; ends with 0 where both bounds are met, else with 1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from statistics import median

import numpy as np

from explorer.cost.estimate import kernel_terms
from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel
from explorer.measure.fit import elementwise, product, softmax
from explorer.measure.machine import machine
from explorer.measure.one_kernel import Operands, PreparedKernel, prepare
from explorer.measure.this_cpu import measured_cpu, this_cpu
from explorer.roller.named_policies import DEFAULT, POLICIES
from explorer.roller.tiling_space import space_of
from tests.benchmarks.rows import parser_of, say
from tests.sample_kernels import (
    batched_product,
    convolution,
    layer_norm,
    pooling,
    reduction,
    transpose,
)

TILINGS, TOP, SEED = 40, 10, 0
NEAR_RATIO = 1.15  # of the best of the first ten; chosen
WANTED_RANK, WANTED_SHARE = 0.7, 0.8
ROUNDS, TOP_ROUNDS, TURN_US = 3, 10, 400.0

Times = Callable[[Sequence[PreparedKernel], int], list[float]]


def operators() -> Mapping[str, Kernel]:
    """Kernels of every class, with even and odd sizes."""
    return {
        "matmul 512x512x512": product(512, 512, 512),
        "matmul 8x768x3072": product(8, 768, 3072),
        "matmul 127x383x509": product(127, 383, 509),
        "attention scores 12x128x64": batched_product(12, 128, 64, 128, turned=True),
        "conv 3x3 128 at 28": convolution(28, 128, 128, 3),
        "conv 1x1 1024 to 256 at 14": convolution(14, 1024, 256, 1),
        "conv 3x3 / 2 64 to 128 at 56": convolution(56, 64, 128, 3, 2),
        "depthwise 3x3 144 at 56": convolution(56, 144, 144, 3, 1, 144),
        "max pool 3x3 / 2 64 at 112": pooling(112, 64, 3, 2),
        "softmax 1536x128": softmax(1536, 128),
        "layer norm 512x768": layer_norm(512, 768),
        "sum of columns 512x1024": reduction(512, 1024, 0),
        "add 28x28x1024": elementwise((28, 28, 1024), "add"),
        "tanh, mul 128x3072": elementwise((128, 3072), "tanh", "mul"),
        "transpose 1024x1024": transpose((1024, 1024), (1, 0)),
    }


@dataclass(frozen=True, slots=True)
class Point:
    """One tiling: what the model says of it, and what it took."""

    tiling: str
    predicted_us: float
    measured_us: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """One operator: the rank correlation over tilings by chance, and Roller's first ten as they
    came.
    """

    operator: str
    space: int
    rank: float
    top1_over_best: float
    drawn: tuple[Point, ...]
    top: tuple[Point, ...]


def predict(
    name: str, kernel: Kernel, device: Device, threads: int, times: Times | None = None
) -> Prediction:
    """Predicted and measured times of one kernel on a number of threads."""
    env, timed = ShapeEnv(), times or in_rounds
    here = replace(device, units=threads)
    space = space_of(kernel, here, env, {})
    drawn = space.sample(TILINGS, SEED)
    top = rollers_first(kernel, here, env, TOP)
    operands = Operands(kernel, {})

    def points(tilings: Sequence[Tiling], rounds: int) -> tuple[Point, ...]:
        ready = [prepare(kernel, t, operands, this_cpu(), threads, env) for t in tilings]
        told = [sum(us for _, us in kernel_terms(kernel, t, here, {})) for t in tilings]
        rows = zip(tilings, told, timed(ready, rounds), strict=True)
        return tuple(Point(t.words, round(p, 3), round(m, 3)) for t, p, m in rows)

    seen, best = points(drawn, ROUNDS), points(top, TOP_ROUNDS)
    rank = rank_correlation([p.predicted_us for p in seen], [p.measured_us for p in seen])
    over = best[0].measured_us / min(p.measured_us for p in best)
    return Prediction(name, space.count, round(rank, 3), round(over, 3), seen, best)


def rollers_first(kernel: Kernel, device: Device, env: ShapeEnv, count: int) -> list[Tiling]:
    """The first tilings of Roller's default policy, best first by the model."""
    found = islice(POLICIES[DEFAULT](kernel, device, env, {}, count), count)
    return [c.value for c in found if not c.refused and isinstance(c.value, Tiling)]


def in_rounds(ready: Sequence[PreparedKernel], rounds: int) -> list[float]:
    """Microseconds of each, the best of several turns: they take turns, so that what disturbs the
    machine disturbs all of them alike.
    """
    best = [float("inf")] * len(ready)
    for _ in range(rounds):
        best = [min(b, r.best_us(TURN_US)) for b, r in zip(best, ready)]
    return best


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's: the correlation of ranks, which equal values share; 0 where all are equal."""
    a, b = _ranks(one), _ranks(other)
    if a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    _, place, counts = np.unique(np.asarray(values, float), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    middle: np.ndarray = ends - (counts - 1) / 2
    return middle[place]


def summary(found: Sequence[Prediction]) -> dict[str, float]:
    """The median rank correlation, and the share of operators whose first tiling is good enough."""
    near = [p.top1_over_best <= NEAR_RATIO for p in found]
    return {
        "operators": len(found),
        "median_rank": round(median([p.rank for p in found]), 3) if found else 0.0,
        "share_within": round(sum(near) / len(near), 3) if near else 0.0,
        "wanted_rank": WANTED_RANK,
        "wanted_share": WANTED_SHARE,
    }


def line(p: Prediction) -> str:
    """One operator in a line."""
    first, best = p.top[0].measured_us, min(x.measured_us for x in p.top)
    return (
        f"{p.operator:32s} rank {p.rank:5.2f}   top-1 {first:9.1f} us, best of top-{len(p.top)} "
        f"{best:9.1f} us ({p.top1_over_best:.2f}x), best drawn "
        f"{min(x.measured_us for x in p.drawn):9.1f} us of {p.space:,} points"
    )


def predictions(names: Sequence[str], threads: int) -> Iterator[Prediction]:
    """Every operator whose name has one of these words in it, told of while it is done."""
    device = measured_cpu()
    for name, kernel in operators().items():
        if not names or any(word in name for word in names):
            found = predict(name, kernel, device, threads)
            say(line(found))
            yield found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0 where both bounds are met, else 1."""
    parser = parser_of(__doc__)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--threads", type=int, default=0, help="default: all cores")
    parser.add_argument("--operators", default="", help="words of names, separated by commas")
    flags = parser.parse_args(arguments)
    threads = flags.threads or measured_cpu().units
    found = list(predictions([w for w in flags.operators.split(",") if w], threads))
    told = summary(found)
    if flags.json:
        rows = [asdict(p) for p in found]
        card = {"machine": machine().line, "threads": threads}
        print(json.dumps(card | told | {"predictions": rows}, indent=1))
    else:
        print(
            f"{len(found)} operators, {threads} threads: median rank correlation "
            f"{told['median_rank']}, top-1 within 15 % for {told['share_within']:.0%}"
        )
    met = told["median_rank"] >= WANTED_RANK and told["share_within"] >= WANTED_SHARE
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
