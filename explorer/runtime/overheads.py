"""What the runtime itself costs on this machine: a task, a barrier between two units, a launch."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter_ns

from explorer.runtime import instructions as isa
from explorer.runtime.launch import Launch, Row, rows_of
from explorer.runtime.workers import cores, team

REPEATS = 400  # short ones: some of them are not disturbed, whatever else runs
COUNT = 64
END: Row = (isa.END, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Overheads:
    """Least times of several tries. With one core there is no second unit to wait for."""

    task_ns: float
    barrier_us: float
    launch_us: float


def overheads() -> Overheads:
    """Measured with a kernel that does nothing, in about a tenth of a second."""
    units = min(2, cores())
    shown: list[Row] = [(isa.RUN, 0, 0, 1, step + 1) for step in range(COUNT)]
    meeting: list[Row] = [(isa.BARRIER, 0, 0, 0, 0)] * COUNT
    empty_us = _least_us([[END]] * units)
    task_us = (_least_us([[*shown, END]]) - _least_us([[END]])) / COUNT
    barrier_us = (_least_us([[*meeting, END]] * units) - empty_us) / COUNT
    return Overheads(max(0.0, task_us) * 1000, max(0.0, barrier_us), empty_us)


def _least_us(units: Sequence[Sequence[Row]]) -> float:
    launch = Launch([rows_of(rows) for rows in units], 1, 0)
    nothing = ctypes.cast(
        ctypes.CDLL(None).labs, ctypes.c_void_p
    ).value  # takes a number, writes none
    launch.code[:, :, 0] = nothing or 0
    workers = team()
    times = []
    launch.run(workers)
    with _cores_of_their_own([0, *workers.thread_ids]):
        for _ in range(REPEATS):
            begin = perf_counter_ns()
            launch.run(workers)
            times.append(perf_counter_ns() - begin)
    return min(times) / 1000


@contextmanager
def _cores_of_their_own(threads: Sequence[int]) -> Iterator[None]:
    """Keep the system from putting two of the threads on one core because the others are busy."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    usable = sorted(os.sched_getaffinity(0))
    for n, thread in enumerate(threads):
        os.sched_setaffinity(thread, {usable[n % len(usable)]})
    try:
        yield
    finally:
        for thread in threads:
            os.sched_setaffinity(thread, usable)
