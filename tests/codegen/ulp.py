"""Errors of the elementary functions in units in the last place (ulp).

`python -m tests.codegen.ulp` measures them again. float32 is compared with float64's
functions, over every bit pattern that the step meets; float64 with mpmath, over random numbers of
all sizes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpmath import mp
from numba import njit

from explorer.codegen.cpu import vector_math
from explorer.ir.scalar_functions import RECORDS

OURS = {r.name: r.ulp for r in RECORDS if any(r.ulp)}
BOUNDS = {name: single for name, (single, _) in OURS.items()}
"""The largest error of each function in float32, in units in the last place."""
BOUNDS_64 = {name: double for name, (_, double) in OURS.items()}
"""The same in float64."""
BLOCK_VALUES = 1 << 22  # that are compared at once: a bound on memory, chosen


@dataclass(frozen=True, slots=True)
class Error:
    """The largest error of a function, and its argument."""

    ulp: float
    at: float


def _sigmoid(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


EXACT: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
}
EXACT_64: dict[str, Callable[[Any], Any]] = {
    "exp": mp.exp,
    "log": mp.log,
    "tanh": mp.tanh,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "erf": mp.erf,
}


def every(name: str, bits: int = 32) -> Callable[[np.ndarray, np.ndarray], None]:
    """Return a function applied to an array, compiled like a kernel's loop."""
    function = getattr(vector_math, f"{name}{bits}")

    @njit(fastmath={"contract", "nsz"}, error_model="numpy")
    def run(x: Any, y: Any) -> None:
        for i in range(x.size):
            y[i] = function(x[i])

    return run


def largest_error(name: str, step: int = 1) -> Error:
    """Return the largest error in float32 over every `step`-th bit pattern.

    NaN and infinities must be where NumPy has them.
    """
    run, worst = every(name), Error(0.0, 0.0)
    for start in range(0, 1 << 32, BLOCK_VALUES * step):
        stop = min(start + BLOCK_VALUES * step, 1 << 32)
        x = np.arange(start, stop, step, dtype=np.uint64).astype(np.uint32).view(np.float32)
        y = np.empty_like(x)
        run(x, y)
        with np.errstate(all="ignore"):
            exact = EXACT[name](x.astype(np.float64))
            rounded = exact.astype(np.float32)
        assert np.array_equal(np.isnan(y), np.isnan(rounded)), name
        assert np.array_equal(np.isinf(y), np.isinf(rounded)), name
        fine = np.isfinite(rounded)
        gap = np.abs(y[fine].astype(np.float64) - exact[fine])
        error = gap / np.spacing(np.abs(rounded[fine])).astype(np.float64)
        if error.size and error.max() > worst.ulp:
            worst = Error(float(error.max()), float(x[fine][error.argmax()]))
    return worst


def numbers(count: int, seed: int = 0) -> np.ndarray:
    """Return float64 numbers of all sizes, more of them about one."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.uniform(-300, 300, count // 4) * rng.choice([-1, 1], count // 4)
    near = rng.standard_normal(count - 2 * (count // 4))
    return np.concatenate([sizes, near, rng.uniform(-40, 40, count // 4)])


def largest_error_64(name: str, count: int = 20_000) -> Error:
    """Return the largest error in float64 over random numbers, against 40 digits."""
    run, x = every(name, 64), numbers(count)
    x = np.abs(x) if name == "log" else x
    y, worst = np.empty_like(x), Error(0.0, 0.0)
    run(x, y)
    with mp.workdps(40):
        for a, b in zip(x.tolist(), y.tolist(), strict=True):
            exact = EXACT_64[name](mp.mpf(a))
            near = float(exact)
            if math.isfinite(near) and abs(near) > 1e-307:
                error = float(abs(mp.mpf(b) - exact) / mp.mpf(math.ulp(near)))
                worst = max(worst, Error(error, a), key=lambda e: e.ulp)
    return worst


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="errors of the elementary functions, in ulp")
    parser.add_argument("--step", type=int, default=1, help="every so many float32 bit patterns")
    step = parser.parse_args().step
    for name in BOUNDS:
        single, double = largest_error(name, step), largest_error_64(name)
        print(
            f"{name:8} float32 {single.ulp:6.3f} ulp at {single.at:<14.7g}"
            f"float64 {double.ulp:6.3f} ulp at {double.at:.7g}",
            flush=True,
        )


if __name__ == "__main__":
    main()
