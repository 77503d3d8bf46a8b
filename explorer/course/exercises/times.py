"""Exercises on times: constants of a machine (chapter 05), and verdicts (chapter 08)."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.compiler.pipeline import compile
from explorer.course.exercise import Check, Exercise, require
from explorer.devices.catalogue import device
from explorer.devices.model import Device
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor

Row = tuple[float, float, float]
SIMULATED = 256  # times in memory: those of all machines and of an answer's; chosen


def roofline_us(flops: float, size: float, launch_us: float, gflops: float, gb: float) -> float:
    """Return the time of a kernel: its launch plus the longer of computing and moving bytes."""
    return launch_us + max(flops / gflops, size / gb) / 1e3


def _machine(rng: np.random.Generator) -> tuple[float, float, float]:
    return (
        float(rng.uniform(1, 8)),
        float(10 ** rng.uniform(2, 4)),
        float(10 ** rng.uniform(1.3, 2.7)),
    )


def _kernels(rng: np.random.Generator, count: int, ridge: float) -> list[tuple[float, float]]:
    """Return (operations, bytes) of kernels, at least a quarter on each side of the ridge."""
    size = 10 ** rng.uniform(5, 8, count)
    memory_bound = rng.integers(count // 4, count - count // 4 + 1)
    sign = rng.permutation(np.where(np.arange(count) < memory_bound, -1.0, 1.0))
    return [
        (float(b * ridge * 10 ** (s * f)), float(b))
        for b, s, f in zip(size, sign, rng.uniform(0.1, 1.0, count))
    ]


def _check_unseen_kernels(answer: Any, seed: int, noise: float, most: float) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(5):
        launch, gflops, gb = _machine(rng)
        ridge = gflops / gb
        rows = [
            (f, b, roofline_us(f, b, launch, gflops, gb) * float(np.exp(rng.normal(0, noise))))
            for f, b in _kernels(rng, 24, ridge)
        ]
        constants = _constants_of(answer.run(_record_machine, rows))
        off = max(
            abs(roofline_us(f, b, *constants) / roofline_us(f, b, launch, gflops, gb) - 1)
            for f, b in _kernels(rng, 24, ridge)
        )
        require(
            off <= most,
            f"launch {launch:.1f} us, {gflops:.0f} GFLOP/s, {gb:.0f} GB/s: it says "
            f"{constants[0]:.1f}, {constants[1]:.0f} and {constants[2]:.0f}, and is off by "
            f"{off:.0%} of a kernel that it did not see; {most:.0%} is the most",
        )


def _record_machine(answer: Any, rows: list[Row]) -> tuple[float, float, float]:
    """Return launch, GFLOP/s and GB/s of the answer's machine, all units together."""
    machine = answer(rows)
    require(isinstance(machine, Device), f"a machine is wanted, and it gives {machine!r}"[:200])
    gflops = machine.reached_gflops_per_unit * machine.units
    gb = machine.levels[-1].alone_gb_per_s * machine.units
    return float(machine.launch_us), float(gflops), float(gb)


def _constants_of(sent: Any) -> tuple[float, float, float]:
    """Return launch, GFLOP/s and GB/s that a helper sent."""
    is_valid = isinstance(sent, tuple) and [type(x) for x in sent] == [float] * 3
    require(is_valid, "the constants of the machine are three numbers")
    launch, gflops, gb = sent
    is_valid = isfinite(sum(sent)) and launch >= 0 and gflops > 0 and gb > 0
    require(is_valid, f"a launch is 0 us or more, and speeds are above 0: {launch}, {gflops}, {gb}")
    return launch, gflops, gb


def _variant_of_v100(launch_us: float, times: float) -> Device:
    """Return a V100 with another launch time and another memory bandwidth."""
    base = device("v100")
    memory = base.levels[-1]
    memory = replace(memory, alone_gb_per_s=memory.alone_gb_per_s * times)
    return replace(base, name="other", launch_us=launch_us, levels=(*base.levels[:-1], memory))


@lru_cache(maxsize=SIMULATED)
def _simulated_us(arguments: int, n: int, target: Device) -> float:
    """Return the wall time of the sum of `arguments` vectors; of one vector, its exp."""
    function = _SUMS[arguments]
    types = (tensor("float32", n),) * arguments
    return float(
        compile(load(trace(function)(*types)), target=target, until="planned")
        .planned_wall()
        .total_us
    )


_SUMS: dict[int, Any] = {
    1: lambda x: enp.exp(x),
    2: lambda x, y: x + y,
    3: lambda x, y, z: x + y + z,
}


# Launches in us, and shares of a V100's bandwidth: few machines, so that each was tried.
LAUNCHES_US, BANDWIDTHS = (2.0, 4.0, 6.5, 9.0), (0.5, 0.8, 1.25, 2.0)


def _check_on_simulated_machine(answer: Any, seed: int) -> None:
    """Check the answer on other kernels than those timed on a simulated machine."""
    rng = np.random.default_rng(seed)
    secret = _variant_of_v100(float(rng.choice(LAUNCHES_US)), float(rng.choice(BANDWIDTHS)))
    rows = [
        (float(n * max(1, a - 1)), 4.0 * n * (a + 1), _simulated_us(a, n, secret))
        for a in _SUMS
        for n in ((2 + a) << 20, (7 + 3 * a) << 20)
    ]
    launch, _, gb = _constants_of(answer.run(_record_machine, rows))
    base = device("v100")
    far = base.levels[-1].alone_gb_per_s * base.units
    sheet = _variant_of_v100(launch, gb / far)  # its maps are bound by memory
    for n in (1 << 22, 1 << 25):
        actual, predicted = _simulated_us(1, n, secret), _simulated_us(1, n, sheet)
        require(
            abs(predicted / actual - 1) <= 0.1,
            f"a map of {n:,} elements takes {actual:.1f} us there, and {predicted:.1f} us by the "
            f"machine with a launch of {launch:.1f} us and {gb:.0f} GB/s",
        )


_CONSTANTS_HEAD = '''\
from dataclasses import replace

import numpy as np

import explorer


def constants(rows):
    """Return (launch in us, GFLOP/s, GB/s) from rows of (operations, bytes, us)."""
'''

_CONSTANTS_REST = '''

def machine(rows):
    """Return a V100 with these constants: `compile(model, target=machine(rows))`."""
    launch, gflops, gb = constants(rows)
    base = explorer.device("v100")
    far = replace(base.levels[-1], alone_gb_per_s=gb / base.units)
    return replace(
        base,
        name="mine",
        launch_us=launch,
        unit_gflops=gflops / base.units,
        levels=(*base.levels[:-1], far),
    )
'''

CONSTANTS = Exercise(
    name="constants",
    chapter="05_cost_models",
    title="Three constants of a machine",
    goal="A kernel takes `launch + max(operations / gflops, bytes / gb) / 1000` microseconds. "
    "Write `constants(rows)`, which finds the three numbers from timed kernels. They must "
    "predict other kernels within 1 % without noise, and within 15 % if each time has an "
    "error of 2 %. All timed kernels may be memory-bound. `machine(rows)` makes a target of "
    "the three numbers: a model is then compiled, tiled and planned for the timed machine.",
    answer="machine",
    stub=_CONSTANTS_HEAD + "    raise NotImplementedError\n" + _CONSTANTS_REST,
    solution=_CONSTANTS_HEAD
    + """\
    flops, size, us = np.array(sorted(rows, key=lambda r: r[0] / r[1]), dtype=float).T
    best = (np.inf, None)
    for split in range(len(us) + 1):  # the first `split` kernels wait for memory
        waits = np.arange(len(us)) < split
        terms = np.stack([np.ones(len(us)), flops / 1e3 * ~waits, size / 1e3 * waits], 1)
        used = terms.any(axis=0)
        scaled = terms[:, used] / us[:, None]  # minimise relative errors
        scale = np.abs(scaled).max(axis=0)
        fit = np.zeros(3)
        fit[used] = np.linalg.lstsq(scaled / scale, np.ones(len(us)), rcond=None)[0] / scale
        fit = np.maximum(fit, (0, 1e-9, 1e-9))
        predicted = fit[0] + np.maximum(flops * fit[1], size * fit[2]) / 1e3
        error = np.square(np.log(predicted / us)).sum()
        if error < best[0]:
            best = (error, fit)
    launch, per_flop, per_byte = best[1]
    return launch, 1 / per_flop, 1 / per_byte
"""
    + _CONSTANTS_REST,
    hints=(
        "If you knew which kernels are memory-bound, a linear fit would give the three numbers.",
        "Sorted by operations per byte, the memory-bound kernels come first: try every split.",
        "Divide each equation by its time; otherwise the longest kernel alone decides the launch.",
    ),
    checks=(
        Check(
            "kernels that it did not see, without noise",
            2,
            lambda a, s: _check_unseen_kernels(a, s, 0, 0.01),
        ),
        Check("with noise", 1, lambda a, s: _check_unseen_kernels(a, s, 0.02, 0.15)),
        Check("models compiled for another machine, as a target", 2, _check_on_simulated_machine),
        Check("other machines", 1, lambda a, s: _check_unseen_kernels(a, s + 1, 0.02, 0.15), True),
    ),
    exit_question="Which of the three constants would you trust least, and which kernel would "
    "you time next?",
)


TURNS = 30
VERDICTS = ("faster", "slower", "not distinguishable")
TRIALS = 1000
# Of the trials, whose number of wrong verdicts is binomial. An answer that is wrong in 5 of 100 in
# each of the four checks loses points in 8 of 100,000 gradings. One that calls 10 of 100 equal
# programs different passes both checks of equal programs in 31 of 100,000; of 12, in fewer than
# one in a billion.
MOST_WRONG = 80
# Pairs that differ by more than a tenth, in the other direction, stand among the trials: a constant
# answer is wrong in all of them, and one that misses 5 of 100 misses a quarter of them never.
CONTROLS, LEAST_RIGHT_CONTROLS = 200, 150
LESS, MORE = 0.8, 1.25


def _times(rng: np.random.Generator, ratio: float, trials: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of times in turns [trials, turns], in us, with drift, noise and rare outliers.

    Every magnitude is chosen.
    """
    periods = rng.uniform(1, 6, (trials, 1))
    drift = 100 * (1 + 0.2 * np.sin(periods * np.linspace(0, 1, TURNS)))
    pair = [drift * np.exp(rng.normal(0, 0.02, drift.shape)) for _ in range(2)]
    for times in pair:
        times[rng.random(times.shape) < 0.05] *= 3
    return pair[0], pair[1] * ratio


def _record_verdicts(answer: Any, a: np.ndarray, b: np.ndarray) -> list[Any]:
    """Return the verdict of each pair of rows."""
    return [answer(x, y) for x, y in zip(a, b, strict=True)]


def _check_verdicts(answer: Any, seed: int, ratio: float, want: str) -> None:
    """Check that few of many verdicts are wrong; pairs of another ratio stand among them."""
    rng = np.random.default_rng(seed)
    other = MORE if ratio < 1 else LESS
    parts = [_times(rng, r, n) for r, n in ((ratio, TRIALS), (other, CONTROLS))]
    order = rng.permutation(TRIALS + CONTROLS)
    a, b = (np.concatenate(times)[order] for times in zip(*parts, strict=True))
    sent = answer.run(_record_verdicts, a, b)
    require(isinstance(sent, list) and len(sent) == len(order), "the verdicts cannot be read")
    unknown = next((s for s in sent if s not in VERDICTS), None)
    require(unknown is None, f"{unknown!r} is none of {', '.join(VERDICTS)}")
    verdicts = [verdict for _, verdict in sorted(zip(order, sent, strict=True))]
    right = verdicts[:TRIALS].count(want)
    require(
        right >= TRIALS - MOST_WRONG,
        f"b takes {ratio:g} of a's time: {right} of {TRIALS} times it said {want!r}; an answer as "
        f"good as the goal says so at least {TRIALS - MOST_WRONG} times",
    )
    want = VERDICTS[0] if other < 1 else VERDICTS[1]
    right = verdicts[TRIALS:].count(want)
    require(
        right >= LEAST_RIGHT_CONTROLS,
        f"b takes {other:g} of a's time in some pairs between: {right} of {CONTROLS} times it said "
        f"{want!r}",
    )


MEASURING = Exercise(
    name="measuring",
    chapter="08_measuring",
    title="Faster, slower, or not distinguishable",
    goal="Two programs were timed in turns: `a[i]` and `b[i]` were measured one after the other, "
    "on a machine that drifts and sometimes stops for a moment. Write `verdict(a, b)`. It "
    "returns 'faster' if b takes less time than a, 'slower' if b takes more, and 'not "
    "distinguishable' otherwise. For equal programs it may be wrong 5 times in 100. It must "
    "find a difference of one tenth 95 times in 100.",
    answer="verdict",
    stub='''\
import numpy as np


def verdict(a, b):
    """Return how b compares with a: "faster", "slower", or "not distinguishable"."""
    raise NotImplementedError
''',
    solution='''\
import numpy as np


def verdict(a, b):
    """Return how b compares with a: "faster", "slower", or "not distinguishable"."""
    ratios = np.sort(np.log(np.asarray(b) / np.asarray(a)))
    n = len(ratios)
    # The sign test: order statistics around the median hold it 99 times in 100.
    k = max(0, int(np.floor(n / 2 - 2.576 * np.sqrt(n) / 2)))
    low, high = ratios[k], ratios[n - 1 - k]
    return "faster" if high < 0 else "slower" if low > 0 else "not distinguishable"
''',
    hints=(
        "The drift is the same in a[i] and b[i]: look at their ratios, pair by pair.",
        "The hiccups change a mean, but not a median.",
        "Use an interval of the median: of n sorted ratios, those at n / 2 -+ 1.29 * sqrt(n) "
        "enclose it 99 times in 100. If 1 lies outside, the two programs differ.",
    ),
    checks=(
        Check("equal programs", 2, lambda a, s: _check_verdicts(a, s, 1.0, VERDICTS[2])),
        Check("one tenth less", 1, lambda a, s: _check_verdicts(a, s, 0.9, VERDICTS[0])),
        Check("one tenth more", 1, lambda a, s: _check_verdicts(a, s, 1.1, VERDICTS[1])),
        Check(
            "equal programs, other days",
            1,
            lambda a, s: _check_verdicts(a, s + 1, 1.0, VERDICTS[2]),
            True,
        ),
    ),
    exit_question="How many turns would you need to find a difference of one hundredth?",
    own_answers=tuple(
        f"explorer.measure.compare:{name}"
        for name in ("compare", "comparison", "median_interval", "verdict")
    ),
)
