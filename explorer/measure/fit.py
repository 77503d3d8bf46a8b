"""Figures of this machine: bandwidths, and constants fitted to probe kernels.

Every memory level is read and copied by one unit and by all at once. The micro performance model's
constants (Roller, section 3.3) are those that predict the times of the probe kernels best.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter_ns

import numpy as np

from explorer.cost.counts import Counts
from explorer.cost.estimate import Estimate
from explorer.devices.costs import NAMES, Costs, Fit
from explorer.devices.model import Device
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Expr,
    Kernel,
    Read,
    TensorSpec,
    apply,
    at,
    axes,
)
from explorer.ir.kernels.normal import normalise
from explorer.measure.one_kernel import Operands, PreparedKernel, prepare
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers.aligned_memory import address_of
from explorer.runtime.workers.launch import Launch, Row, rows_of
from explorer.runtime.workers.workers import teams

BURST_BYTES = 4 << 20  # that one unit reads in a timed run
RUNS, LARGE_RUNS = 30, 6
ALIGNMENT = 64
END: Row = (isa.END, 0, 0, 0, 0)

READ = """
def kernel(first, last, args):
    wide()
    x = argument(args, 0)
    y = argument(args, 1)
    n = argument(args, 2)
    for task in range(first, last):
        total = F(0.0)
        for i in range(n):
            total = add_any_order(total, ld_float32(x, i))
        st_float32(y, urem(task, 2), total)
"""
COPY = """
def kernel(first, last, args):
    wide()
    x = argument(args, 0)
    y = argument(args, 1)
    n = argument(args, 2)
    for task in range(first, last):
        for i in range(n):
            st_float32(y, i, ld_float32(x, i) + F(1.0))
"""
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
class Bandwidth:
    """Bandwidth of one level in GB/s for each unit.

    `read` counts bytes read, `copy` bytes read and written; by one unit alone, and by each of all
    units together.
    """

    level: str
    read: float
    copy: float
    read_together: float
    copy_together: float

    @property
    def store_weight(self) -> float:
        """Cost of a stored byte, in bytes read; at least 0."""
        return max(0.0, 2 * self.read / self.copy - 1)


def bandwidths(
    spans: Mapping[str, int], shared: frozenset[str], units: int, read: int, copy: int
) -> tuple[Bandwidth, ...]:
    """Measure every level with a span of bytes that fits in it.

    A span is for one unit, or for all units that share the level. `read` and `copy` are the
    addresses of the two kernels.
    """
    largest = max(spans.values())
    block = np.full(largest // 2 + 64 * units, 1.0, np.float32)  # both halves of a copy
    base = (address_of(block) + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    measured = []
    for level, span in spans.items():
        rates = []
        for count in (1, units):
            share = max(1 << 10, span // (count if level in shared else 1) // 256 * 256)
            share = min(share, block.nbytes // (2 * count) // 256 * 256)
            rates.append(_rate(read, base, share, count, False))
            rates.append(_rate(copy, base, share, count, True))
        measured.append(Bandwidth(level, *rates))
    return tuple(measured)


def _rate(kernel: int, base: int, share: int, units: int, copies: bool) -> float:
    """Return GB/s for each unit, each in its own part; the best of several runs."""
    moved = share // 2 if copies else share
    repeats = max(1, BURST_BYTES // share)
    out = np.zeros((units, 32), np.float32)
    blocks = []
    for unit in range(units):
        first = base + unit * share
        second = first + share // 2 if copies else address_of(out[unit])
        blocks.append(np.array([first, second, moved // 4], np.int64))
    rows: list[Row] = [(isa.RUN, 0, 0, repeats, 0), END]
    launch = Launch([rows_of(rows)] * units, 1, 0)
    for unit, words in enumerate(blocks):
        launch.code[unit, 0] = (kernel, address_of(words))
    runs = RUNS if share <= BURST_BYTES else LARGE_RUNS
    seconds = []
    for _ in range(runs):
        begin = perf_counter_ns()
        launch.run(teams())
        seconds.append((perf_counter_ns() - begin) / 1e9)
    return round(share * repeats / min(seconds) / 1e9, 1)


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


def sample_kernel(
    name: str,
    shapes: dict[str, tuple[Dim, ...]],
    computes: Sequence[Compute],
    inputs: tuple[str, ...],
    constants: Sequence[str] = (),
) -> Kernel:
    """Return a normalised kernel with one output `y`."""
    tensors = tuple(TensorSpec(n, s) for n, s in shapes.items())
    return normalise(Kernel(name, tensors, tuple(computes), inputs, ("y",), frozenset(constants)))


def product(m: Dim, k: Dim, n: Dim, constant: bool = True) -> Kernel:
    """Return `y[m, n] = max(sum over k of x[m, k] * w[k, n] + b[n], 0)`."""
    i, j, r = Axis("i", m), Axis("j", n), Axis("k", k)
    summed = Compute("t", (i, j), Apply("mul", (at("x", (i, r)), at("w", (r, j)))), (r,), "sum")
    e = axes("e", (m, n))
    out = Compute("y", e, apply("max", Apply("add", (at("t", e), at("b", e[1:]))), 0.0))
    shapes: dict[str, tuple[Dim, ...]]
    shapes = {"x": (m, k), "w": (k, n), "b": (n,), "t": (m, n), "y": (m, n)}
    constants = ("w", "b") if constant else ("b",)
    return sample_kernel("product", shapes, (summed, out), ("x", "w", "b"), constants)


def softmax(rows: Dim, columns: Dim) -> Kernel:
    """Return a row-wise softmax: maximum, exponentials, their sum, quotients."""
    lead, r = axes("s", (rows,)), Axis("r", columns)
    every = (*lead, r)
    exponential = Apply("exp", (Apply("sub", (at("x", every), at("top", lead))),))
    computes = (
        Compute("top", lead, at("x", every), (r,), "max"),
        Compute("e", every, exponential),
        Compute("total", lead, at("e", every), (r,), "sum"),
        Compute("y", every, Apply("div", (at("e", every), at("total", lead)))),
    )
    shapes: dict[str, tuple[Dim, ...]] = dict.fromkeys(("x", "e", "y"), (rows, columns))
    return sample_kernel("softmax", shapes | {"top": (rows,), "total": (rows,)}, computes, ("x",))


def elementwise(shape: tuple[Dim, ...], *functions: str) -> Kernel:
    """Return a chain of functions of one operand, or of two, as "add", with a second tensor."""
    a = axes("a", shape)
    value: Expr = at("x", a)
    for name in functions:
        two = name in ("add", "sub", "mul", "div", "max", "min")
        value = Apply(name, (value, at("z", a)) if two else (value,))
    shapes = dict.fromkeys(("x", "z", "y"), shape)
    return sample_kernel("elementwise", shapes, (Compute("y", a, value),), ("x", "z"))


def transpose_of(rows: Dim, columns: Dim) -> Kernel:
    """Return a matrix transpose: `y[i, j] = x[j, i]`."""
    a = axes("a", (rows, columns))
    shapes: dict[str, tuple[Dim, ...]] = {"x": (columns, rows), "y": (rows, columns)}
    read = Read("x", (var("a1"), var("a0")))
    return sample_kernel("transpose", shapes, (Compute("y", a, read),), ("x",))
