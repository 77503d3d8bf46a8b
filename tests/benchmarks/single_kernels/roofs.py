"""What this machine can do at most, measured in the same run: products, and bytes of each level.

Williams et al. 2009, Roofline: an insightful visual performance model, with a roof for each memory
level. A copy is measured beside a read, since stores cost more than loads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Barrier, Thread
from time import perf_counter_ns

import numpy as np

from explorer.devices.model import Device, MemoryLevel
from explorer.measure.fit import READ
from explorer.measure.this_cpu import Native, native_function

COPY = """
def kernel(first, last, args):
    wide()
    x = argument(args, 0)
    y = argument(args, 1)
    n = argument(args, 2)
    for task in range(first, last):
        for i in range(n):
            st_float32(y, i, ld_float32(x, i))
"""
BURST_BYTES = 16 << 20  # moved in one timed run of a thread
RUNS = 25
LEVEL_PART = 2  # of a level that a span fills: half of it; chosen


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """One memory level under so many threads at once: GB/s of all of them together, a copy's bytes
    counted as read and as written.
    """

    level: str
    capacity_bytes: int | None  # of all threads together
    read_gb_per_s: float
    copy_gb_per_s: float

    def floor_us(self, read_bytes: int, written_bytes: int) -> float:
        """The least time for an operator's bytes: as much of both as there is of either is copied,
        the rest is read, or written at the speed of a copy.
        """
        copied = 2 * min(read_bytes, written_bytes) + max(0, written_bytes - read_bytes)
        read = max(0, read_bytes - written_bytes)
        return copied / self.copy_gb_per_s / 1e3 + read / self.read_gb_per_s / 1e3


@dataclass(frozen=True, slots=True)
class Roofs:
    """The roofs for a number of threads."""

    threads: int
    peak_gflops: float
    levels: tuple[Bandwidth, ...]

    def level_of(self, size: int) -> Bandwidth:
        """The nearest level that holds so many bytes."""
        fits = (m for m in self.levels if m.capacity_bytes is None or size <= m.capacity_bytes)
        return next(fits, self.levels[-1])


def roofs(device: Device, threads: int) -> Roofs:
    """The roofs of this machine, measured in about a second."""
    peak = device.peak_gflops_per_unit * threads
    return Roofs(threads, peak, tuple(_bandwidth(m, device, threads) for m in device.levels))


def _bandwidth(level: MemoryLevel, device: Device, threads: int) -> Bandwidth:
    held = level.capacity_bytes
    last = max(m.capacity_bytes or 0 for m in device.levels)
    size = (held or 4 * LEVEL_PART * last) // LEVEL_PART
    each = size // threads if level.shared else size  # bytes of one thread
    together = held if held is None or level.shared else held * threads
    read = _gb_per_s(native_function(READ), each, 0, threads)
    copied = [
        _gb_per_s(f, each // 2, each // 2, threads) for f in (native_function(COPY), _memmove())
    ]
    return Bandwidth(level.name, together, round(read, 1), round(max(copied), 1))


def _memmove() -> Native:
    """The same by the C library, which takes non-temporal stores where they are faster."""
    move = ctypes.CDLL(None).memmove
    move.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

    def run(first: int, last: int, args: int) -> None:
        x, y, n = (ctypes.c_int64 * 3).from_address(args)
        for _ in range(first, last):
            move(y, x, 4 * n)

    return run


def _gb_per_s(function: Native, read: int, written: int, threads: int) -> float:
    """All threads at once, the best of several runs: what they moved over the slowest's time."""
    blocks = [argument_block(read, written) for _ in range(threads)]
    repeats = max(1, BURST_BYTES // max(1, read + written))
    best = min(_run_ns(function, [b[0] for b in blocks], repeats) for _ in range(RUNS))
    return threads * repeats * (read + written) / best


def argument_block(read: int, written: int) -> tuple[np.ndarray, np.ndarray]:
    """An argument block, and the memory it points into: written, so that every page is its own."""
    memory = np.ones((read + written) // 4 + 64, np.float32)
    begin = (int(memory.ctypes.data) + 63) // 64 * 64
    return np.array([begin, begin + read, read // 4], np.int64), memory


def _run_ns(function: Native, blocks: Sequence[np.ndarray], repeats: int) -> int:
    times = [0] * len(blocks)
    start = Barrier(len(blocks))

    def work(n: int) -> None:
        address = int(blocks[n].ctypes.data)
        function(0, 1, address)
        start.wait()
        begin = perf_counter_ns()
        function(0, repeats, address)
        times[n] = perf_counter_ns() - begin

    others = [Thread(target=work, args=(n,)) for n in range(1, len(blocks))]
    for thread in others:
        thread.start()
    work(0)
    for thread in others:
        thread.join()
    return max(times)
