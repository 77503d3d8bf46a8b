"""Bandwidth of every memory level, read and copied, by one unit and by all units at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np

from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers.arena import address_of
from explorer.runtime.workers.launch import Launch, Row, rows_of
from explorer.runtime.workers.teams import teams

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
