"""Fit of the micro performance model's constants to probe kernels (Roller, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from explorer.cost.counts import Counts
from explorer.cost.estimate import Estimate
from explorer.devices.costs import NAMES, Costs, Fit
from explorer.devices.model import Device
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec, apply
from explorer.ir.shapes.dims import ShapeEnv, SymbolBound, symbol
from explorer.measure.this_machine.one_kernel import Operands, PreparedKernel, prepare
from explorer.measure.this_machine.sample_kernels import elementwise, product, softmax, transpose_of

M, K, N = symbol("m"), symbol("k"), symbol("n")
ENV = ShapeEnv((SymbolBound("m", 1, 4096), SymbolBound("k", 1, 4096), SymbolBound("n", 1, 4096)))
STRIDE_ELEMENTS = 24  # between those that are read one by one; chosen
BURSTS = 9
BURST_US = 300.0
DESCENTS, CLOSE = 2000, 1e-4
PRIOR_WEIGHT = 0.01  # of where a constant was: no probe says anything of some; chosen

Sizes = tuple[tuple[str, int], ...]
Time = Callable[[PreparedKernel], float]  # microseconds of a run, the best of a burst


@dataclass(frozen=True, slots=True)
class Probe:
    """A kernel with symbols, so that it is compiled once, and the bindings to time it at."""

    name: str
    kernel: Kernel
    tiling: Tiling
    bindings: tuple[Sizes, ...]


@dataclass(frozen=True, slots=True)
class Observation:
    """Counts of one probe and its measured time, in cycles of the device."""

    name: str
    counts: Counts
    cycles: float
    spread: float


def probes(lanes: int, registers: int) -> tuple[Probe, ...]:
    """Return kernels with operands in or near L1, at bindings that separate the constants.

    The sums of their register tiles fit in `registers`: spills would be attributed to tiles without
    any.
    """
    rows = max(n for n in (4, 6, 8) if Micro(n, 2, lanes).registers <= registers)
    large, small = Micro(rows, 2, lanes), Micro(4, 1, lanes)
    many, wide = 8 * rows, 2 * lanes
    contracted = product(M, K, N, constant=False)
    pairs = elementwise((M, N), "add")
    strided = Axis("i", M)
    every_second = Compute(
        "y", (strided,), apply("add", Read("x", (var("i") * STRIDE_ELEMENTS,)), 1.0)
    )
    gather = Kernel(
        "strided",
        (TensorSpec("x", (STRIDE_ELEMENTS * M,)), TensorSpec("y", (M,))),
        (every_second,),
        ("x",),
        ("y",),
    )
    return (
        Probe(
            f"contraction {rows}x2",
            contracted,
            Tiling((), large),
            (
                _mkn(many, 32, wide),
                _mkn(many, 128, wide),
                _mkn(many, 8, wide),
                _mkn(rows - 1, 32, wide),
                _mkn(many, 32, wide + 5),
                _mkn(rows, 128, wide),
                _mkn(many, 32, wide + lanes),
            ),
        ),
        Probe(
            "contraction 4x1",
            contracted,
            Tiling((), small),
            (_mkn(64, 32, wide), _mkn(64, 8, wide), _mkn(66, 8, wide + 7)),
        ),
        Probe("transpose", transpose_of(M, N), Tiling(), (_mn(64, 64), _mn(16, 16), _mn(40, 24))),
        Probe(
            "add",
            pairs,
            Tiling((("a1", 3 * lanes),)),
            (_mn(16, 3 * lanes), _mn(16, 3 * lanes + 7), _mn(16, 5), _mn(16, 9 * lanes)),
        ),
        Probe("exp", elementwise((N,), "exp"), Tiling(), (_mn(1, 1024), _mn(1, 256 + lanes // 2))),
        Probe("strided", gather, Tiling(), ((("m", 256),),)),
        Probe("softmax", softmax(M, N), Tiling(), (_mn(16, 128), _mn(16, 32), _mn(64, 15))),
        Probe("task", pairs, Tiling((("a0", 1), ("a1", lanes))), (_mn(64, lanes),)),
    )


def _mkn(m: int, k: int, n: int) -> Sizes:
    """Return a binding of m, k and n."""
    return ("m", m), ("k", k), ("n", n)


def _mn(m: int, n: int) -> Sizes:
    """Return a binding of m and n."""
    return ("m", m), ("n", n)


def observe(
    device: Device, kernels: Sequence[Probe], time: Time | None = None
) -> list[Observation]:
    """Time every probe at each of its bindings on one unit."""
    observations = []
    for probe in kernels:
        estimate = Estimate(probe.kernel, probe.tiling, device, once=True)
        for binding in probe.bindings:
            sizes = dict(binding)
            ready = prepare(
                probe.kernel, probe.tiling, Operands(probe.kernel, sizes), device, 1, ENV
            )
            times = [(time or _burst)(ready) for _ in range(BURSTS)]
            best = min(times)
            label = f"{probe.name} {' '.join(f'{k}={n}' for k, n in binding)}"
            cycles = max(0.0, best * 1e3 - device.task_ns) * device.clock_ghz
            spread = median(times) / best - 1 if best else 0.0
            observations.append(
                Observation(label, estimate.counts(sizes), cycles, round(spread, 3))
            )
    return observations


def _burst(ready: PreparedKernel) -> float:
    """Return the best time of a burst of runs."""
    return ready.best_us(BURST_US)


def fitted(device: Device, seen: Sequence[Observation], start: Costs = Costs()) -> Costs:
    """Return the non-negative costs that explain observations with the least relative error.

    Least squares on relative errors, with a prior that draws each constant to its start in
    proportion to its size. The residual of each probe is stored in `fits`.
    """
    first = np.array(start.values)
    scale = np.array([1.0 / max(1.0, o.cycles) for o in seen])
    rows = np.array([o.counts.each for o in seen]).reshape(len(seen), len(NAMES))
    remaining = np.array([o.cycles - o.counts.multiply - o.counts.waits for o in seen])
    prior = np.diag(PRIOR_WEIGHT / np.maximum(first, 1e-3))
    matrix = np.vstack([rows * scale[:, None], prior])
    wanted = np.concatenate([remaining * scale, np.full(len(NAMES), PRIOR_WEIGHT)])
    values = _not_negative(matrix, wanted)
    costs = start.with_values([round(float(v), 3) for v in values])
    return replace(costs, fits=tuple(_residuals(device, seen, costs)))


def _not_negative(matrix: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Solve non-negative least squares by coordinate descent."""
    values = np.zeros(matrix.shape[1])
    left = wanted.copy()
    sizes = (matrix**2).sum(0)
    for _ in range(DESCENTS):
        before = values.copy()
        for n in np.flatnonzero(sizes):
            new = max(0.0, values[n] + matrix[:, n] @ left / sizes[n])
            left -= matrix[:, n] * (new - values[n])
            values[n] = new
        if np.abs(values - before).max() < CLOSE:
            break
    return values


def _residuals(device: Device, seen: Sequence[Observation], costs: Costs) -> list[Fit]:
    """Return measured and modelled time of each probe."""
    per_us = device.clock_ghz * 1e3
    return [
        Fit(
            o.name,
            round(o.cycles / per_us, 3),
            round(_modelled(o.counts, costs) / per_us, 3),
            o.spread,
        )
        for o in seen
    ]


def _modelled(counts: Counts, costs: Costs) -> float:
    """Return the modelled cycles."""
    every = tuple(range(len(NAMES)))
    return counts.multiply + counts.waits + counts.cycles(costs.values, every)
