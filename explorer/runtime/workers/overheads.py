"""What the runtime itself costs on this machine: a task, a barrier between two units, a launch,
and what Python does between launches.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from statistics import median
from time import perf_counter_ns, sleep

import numpy as np

from explorer.allowance import cores
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers import clock
from explorer.runtime.workers.arena import address_of
from explorer.runtime.workers.launch import Launch, Row, rows_of
from explorer.runtime.workers.teams import teams

TRIES = 40
TASKS, BARRIERS = 4096, 256
MOST_TAKEN_UNITS = 4  # that a worker may take of another one's while that comes; chosen
AWAKE_TURNS = 30_000  # of an empty loop: longer than a worker takes to wake up
BEFORE_SLEEP_S = 0.004  # after a run, when all workers sleep; chosen
SMALL_ELEMENTS, DEEDS = 16, 256  # of an array that is copied; in a try
END: Row = (isa.END, 0, 0, 0, 0)
BARRIER: Row = (isa.BARRIER, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Overheads:
    """Medians of several tries. With one core there is no second unit to wait for."""

    task_ns: float
    barrier_us: float
    launch_us: float
    copy_us: float
    look_us: float


def overheads() -> Overheads:
    """Measured with a kernel that does nothing, in about a tenth of a second."""
    return Overheads(
        median(task_times()),
        median(barrier_times()) / 1000,
        median(launch_times()) / 1000,
        median(copy_times()) / 1000,
        median(look_times()) / 1000,
    )


def task_times(tries: int = TRIES, traced: bool = False) -> list[float]:
    """Nanoseconds of a task that does nothing, its row and what shows its step; `traced`: with its
    two time stamps.
    """
    shown: list[Row] = [(isa.RUN, 0, 0, 1, step + 1) for step in range(TASKS)]
    tried = _Tried([[*shown, END]])
    return [tried.ns(TASKS if traced else 0) / TASKS for _ in range(tries)]


def barrier_times(tries: int = TRIES) -> list[float]:
    """Nanoseconds of a barrier between two threads; runs in which one carried both do not count,
    unless all were so.
    """
    units = min(2, cores())
    tried = _Tried([[*repeat(BARRIER, BARRIERS), END]] * units)
    found = [(tried.ns() / BARRIERS, tried.taken) for _ in range(tries)]
    return [ns for ns, taken in found if taken <= MOST_TAKEN_UNITS] or [ns for ns, _ in found]


def launch_times(tries: int = TRIES) -> list[float]:
    """Nanoseconds of a launch from Python in which nothing is done, of two units if there are."""
    tried = _Tried([[END]] * min(2, cores()))
    return [tried.outer_ns() for _ in range(tries)]


def copy_times(tries: int = TRIES) -> list[float]:
    """Nanoseconds of NumPy's copy of a small array."""
    source, target = np.zeros(SMALL_ELEMENTS), np.zeros(SMALL_ELEMENTS)
    return _python_times(lambda: np.copyto(target, source), tries)


def look_times(tries: int = TRIES) -> list[float]:
    """Nanoseconds of Python's look at a scalar in memory."""
    flag = np.ones(1, np.bool_)
    return _python_times(lambda: bool(flag[0]), tries)


def _python_times(deed: Callable[[], object], tries: int) -> list[float]:
    found = []
    for _ in range(tries):
        begin = perf_counter_ns()
        for _ in range(DEEDS):
            deed()
        found.append((perf_counter_ns() - begin) / DEEDS)
    return found


def wake_times(tries: int = TRIES) -> list[float]:
    """Nanoseconds from a launch to the first task of a worker that slept; fewer than asked for
    where others took its core. Nothing with one core.
    """
    if cores() < 2:
        return []
    busy: list[Row] = [(isa.LET, 0, 0, 0, 0), (isa.LOOP, 0, 0, 4, 0), (isa.NEXT, 0, 0, 0, 0)]
    rows = [[*busy, (isa.JUMP, 1, 0, 0, 0), END], [(isa.RUN, 0, 0, 1, 0), END]]
    tried = _Tried(rows, AWAKE_TURNS)
    return [ns for ns in [tried.wake_ns() for _ in range(tries)] if ns]


class _Tried:
    """A launch of a kernel that does nothing; its one slot holds a number of turns."""

    def __init__(self, units: Sequence[Sequence[Row]], turns: int = 0) -> None:
        self.launch = Launch([rows_of(rows) for rows in units], 1, 1)
        nothing = ctypes.CDLL(None).labs  # takes a number, writes none
        self.launch.code[:, :, 0] = ctypes.cast(nothing, ctypes.c_void_p).value or 0
        self.turns = np.array([turns], np.int64)
        self.launch.slots[:, 0] = address_of(self.turns)
        self.team, self.rate = teams(), clock.cycles_per_us()
        self.taken = 0
        self.launch.run(self.team)

    def ns(self, capacity: int = 0) -> float:
        """How long it takes between its begin and its end; how often a unit was `taken` then."""
        before = self.team.taken
        if capacity:
            stamps = self.launch.trace(self.team, capacity)
            span = stamps.end - stamps.begin
        else:
            span = self.launch.span(self.team)
        self.taken = self.team.taken - before
        return 1000 * span / self.rate

    def outer_ns(self) -> float:
        """How long it takes as its caller sees it."""
        begin = perf_counter_ns()
        self.launch.run(self.team)
        return float(perf_counter_ns() - begin)

    def wake_ns(self) -> float:
        """From its begin to the first stamp of unit 1, if its own worker carried it; or 0."""
        sleep(BEFORE_SLEEP_S)
        before = self.team.taken
        stamps = self.launch.trace(self.team, 1)
        if self.team.taken > before:
            return 0.0
        return 1000 * float(stamps.units[1][0, 1] - stamps.begin) / self.rate
