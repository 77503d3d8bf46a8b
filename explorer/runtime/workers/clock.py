"""Rate of the cycle counter, calibrated against the operating system's clock."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache

from explorer.runtime.device_program.instructions import ASK_CYCLES
from explorer.runtime.device_program.native import native

SHORTEST_NS = 1_000_000  # between two readings for the rate: 0.2 % suffices at first
TRIES = 7


@dataclass(frozen=True, slots=True)
class Instant:
    """The cycle counter and the operating system's clock at one moment."""

    cycles: int
    ns: int


def cycles() -> int:
    """Return the counter."""
    return native().call(ASK_CYCLES, 0, 0)


def now() -> Instant:
    """Return both clocks: of several readings, the one that took the least time."""
    call = native().call
    best = (1 << 62, 0, 0)
    for _ in range(TRIES):
        before = time.perf_counter_ns()
        count = call(ASK_CYCLES, 0, 0)
        after = time.perf_counter_ns()
        best = min(best, (after - before, count, (before + after) // 2))
    return Instant(best[1], best[2])


@cache
def _first() -> Instant:
    return now()


def cycles_per_us() -> float:
    """Return the counter's rate, which gets more exact the longer the process lives."""
    first = _first()
    last = now()
    while last.ns - first.ns < SHORTEST_NS:
        last = now()
    return (last.cycles - first.cycles) * 1000 / (last.ns - first.ns)
