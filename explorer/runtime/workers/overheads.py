"""Overheads of the runtime on this machine: task, barrier, launch, and Python's steps."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from statistics import median
from time import perf_counter_ns, sleep

import numpy as np

from explorer.process.allowance import cores
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers import clock
from explorer.runtime.workers.aligned_memory import address_of
from explorer.runtime.workers.launch import Launch, Row, rows_of
from explorer.runtime.workers.workers import teams

TRIES = 40
TASKS, BARRIERS = 4096, 256
MOST_TAKEN_UNITS = 4  # that a worker may take from another one that is late; chosen
AWAKE_TURNS = 30_000  # of an empty loop: longer than a worker takes to wake up
BEFORE_SLEEP_S = 0.004  # after a run, when all workers sleep; chosen
SMALL_ELEMENTS, ACTIONS = 16, 256  # elements of a copied array; actions in a try
END: Row = (isa.END, 0, 0, 0, 0)
BARRIER: Row = (isa.BARRIER, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class RuntimeOverheads:
    """Medians of several tries. With one core there is no second unit to wait for."""

    task_ns: float
    barrier_us: float
    launch_us: float
    copy_us: float
    look_us: float


def overheads() -> RuntimeOverheads:
    """Measure the overheads with an empty kernel, in about a tenth of a second."""
    return RuntimeOverheads(
        median(task_times()),
        median(barrier_times()) / 1000,
        median(launch_times()) / 1000,
        median(copy_times()) / 1000,
        median(read_times()) / 1000,
    )


def task_times(tries: int = TRIES, traced: bool = False) -> list[float]:
    """Return the nanoseconds of an empty task, with its row and its published step.

    `traced`: with its two time stamps.
    """
    rows: list[Row] = [(isa.RUN, 0, 0, 1, step + 1) for step in range(TASKS)]
    probe = _Probe([[*rows, END]])
    return [probe.ns(TASKS if traced else 0) / TASKS for _ in range(tries)]


def barrier_times(tries: int = TRIES) -> list[float]:
    """Return the nanoseconds of a barrier between two threads.

    Runs in which one worker carried both units do not count, unless all were so.
    """
    units = min(2, cores())
    probe = _Probe([[*repeat(BARRIER, BARRIERS), END]] * units)
    runs = [(probe.ns() / BARRIERS, probe.taken) for _ in range(tries)]
    return [ns for ns, taken in runs if taken <= MOST_TAKEN_UNITS] or [ns for ns, _ in runs]


def launch_times(tries: int = TRIES) -> list[float]:
    """Return the nanoseconds of an empty launch from Python, of two units if there are."""
    probe = _Probe([[END]] * min(2, cores()))
    return [probe.outer_ns() for _ in range(tries)]


def copy_times(tries: int = TRIES) -> list[float]:
    """Return the nanoseconds of NumPy's copy of a small array."""
    source, target = np.zeros(SMALL_ELEMENTS), np.zeros(SMALL_ELEMENTS)
    return _python_times(lambda: np.copyto(target, source), tries)


def read_times(tries: int = TRIES) -> list[float]:
    """Return the nanoseconds of Python's read of a scalar in memory."""
    flag = np.ones(1, np.bool_)
    return _python_times(lambda: bool(flag[0]), tries)


def _python_times(action: Callable[[], object], tries: int) -> list[float]:
    times = []
    for _ in range(tries):
        begin = perf_counter_ns()
        for _ in range(ACTIONS):
            action()
        times.append((perf_counter_ns() - begin) / ACTIONS)
    return times


def wake_times(tries: int = TRIES) -> list[float]:
    """Return the nanoseconds from a launch to the first task of a worker that slept.

    There are fewer than `tries` if others took its core, and none with one core.
    """
    if cores() < 2:
        return []
    busy: list[Row] = [(isa.LET, 0, 0, 0, 0), (isa.LOOP, 0, 0, 4, 0), (isa.NEXT, 0, 0, 0, 0)]
    rows = [[*busy, (isa.JUMP, 1, 0, 0, 0), END], [(isa.RUN, 0, 0, 1, 0), END]]
    probe = _Probe(rows, AWAKE_TURNS)
    return [ns for ns in [probe.wake_ns() for _ in range(tries)] if ns]


class _Probe:
    """A launch of an empty kernel; its one slot holds a number of turns."""

    def __init__(self, units: Sequence[Sequence[Row]], turns: int = 0) -> None:
        self.launch = Launch([rows_of(rows) for rows in units], 1, 1)
        nothing = ctypes.CDLL(None).labs  # takes a number, writes nothing
        self.launch.code[:, :, 0] = ctypes.cast(nothing, ctypes.c_void_p).value or 0
        self.turns = np.array([turns], np.int64)
        self.launch.slots[:, 0] = address_of(self.turns)
        self.team, self.rate = teams(), clock.cycles_per_us()
        self.taken = 0
        self.launch.run(self.team)

    def ns(self, capacity: int = 0) -> float:
        """Return the time from its begin to its end; `taken` counts units stolen meanwhile."""
        before = self.team.taken
        if capacity:
            stamps = self.launch.trace(self.team, capacity)
            span = stamps.end - stamps.begin
        else:
            span = self.launch.span(self.team)
        self.taken = self.team.taken - before
        return 1000 * span / self.rate

    def outer_ns(self) -> float:
        """Return the time that its caller sees."""
        begin = perf_counter_ns()
        self.launch.run(self.team)
        return float(perf_counter_ns() - begin)

    def wake_ns(self) -> float:
        """Return the time to the first stamp of unit 1, if its own worker carried it; or 0."""
        sleep(BEFORE_SLEEP_S)
        before = self.team.taken
        stamps = self.launch.trace(self.team, 1)
        if self.team.taken > before:
            return 0.0
        return 1000 * float(stamps.units[1][0, 1] - stamps.begin) / self.rate
