"""Persistent worker threads that run device programs; the calling thread is worker 0.

An idle worker spins for a moment, then yields, then sleeps: idle costs nothing. Concurrent launches
of several threads have a team of workers each.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import numpy as np

from explorer.errors import BadOption
from explorer.process.allowance import cores
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.device_program.native import native
from explorer.runtime.workers import clock
from explorer.runtime.workers.aligned_memory import address_of, aligned_bytes

# A waiting worker spins for a moment, then sets its unit aside, then sleeps. An undisturbed
# barrier takes 0.2 us, a wake-up tens of us: `python -m tests.benchmarks.overheads`.
# The times are chosen accordingly.
SPIN_US = 2.0
PATIENCE_US = 100.0
IDLE_US = 1000.0  # a worker stays awake while runs come in quick succession
# A time slice of the system is about 3 ms. A worker that lost its core for longer than this, and
# did not make up for it, is not called for a while, at most for the longest; these are chosen.
LOST_US = 5e3
BACKOFF_US, LONGEST_US = 50e3, 2e6
BREATH_US = 100e3  # between two checks of Python's signals; chosen
FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98}
JOIN_SECONDS = 1.0  # chosen


class Team:
    """The threads that carry the units of one launch at a time.

    Launches from several threads queue. There are at most `workers`, the caller's own among them,
    by default as many as allowed cores.
    """

    def __init__(self, workers: int = 0) -> None:
        """Create a team without threads, which the first launch starts."""
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._words = aligned_bytes(isa.TEAM_BYTES, isa.LINE_BYTES).view(np.int64)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._words))  # threads outlive the interpreter
        self._words[:] = 0
        self._words[: len(_LIBRARY_WORDS)] = _library_addresses()
        self._words[isa.T_FUTEX] = _futex_number()
        self._words[isa.T_WORKERS] = 1
        self._words[isa.T_CLOCK_ID] = getattr(time, "CLOCK_THREAD_CPUTIME_ID", 0)
        self._address = address_of(self._words)
        self._call = native().call
        self._set_times(clock.cycles_per_us())
        self._most = min(workers or cores(), isa.MAX_UNITS)
        self._callers_core = -1
        self._last: tuple[int, int] | None = None  # units and workers of the last launch
        self._wanted = 1  # workers that it had
        self.owner = 0  # the thread whose launch runs
        self.running = 0  # workers that this launch has
        linux = sys.platform == "linux" and hasattr(os, "sched_setaffinity")
        self._getcpu = getattr(ctypes.CDLL(None), "sched_getcpu", None) if linux else None

    def _set_times(self, rate: float) -> None:
        words = self._words
        words[isa.T_PER_MS] = int(1000 * rate)
        words[isa.T_NAP + 1] = int(1000 * BREATH_US)  # nanoseconds
        for word, us in (
            (isa.T_SPIN, SPIN_US),
            (isa.T_PATIENCE, PATIENCE_US),
            (isa.T_IDLE, IDLE_US),
            (isa.T_LOST, LOST_US),
            (isa.T_BACKOFF, BACKOFF_US),
            (isa.T_LONGEST, LONGEST_US),
            (isa.T_BREATH, BREATH_US),
        ):
            words[word] = int(us * rate)

    @property
    def workers(self) -> int:
        """The number of worker threads, without the caller."""
        return len(self._threads)

    @property
    def thread_ids(self) -> tuple[int, ...]:
        """The workers' ids in the operating system."""
        return tuple(t.native_id for t in self._threads if t.native_id is not None)

    @property
    def taken(self) -> int:
        """How often a worker has carried another one's unit."""
        return int(self._words[isa.T_TAKEN])

    def launch(self, block: int, units: int, free: Callable[[Team], int] | None = None) -> None:
        """Run the launch block at an address; return when all its units have ended.

        It has at most as many workers as `free` returns when its turn has come. An exception
        meanwhile (Ctrl-C) abandons it.

        Raises:
            BadOption: A signal handler that this thread's own launch let run begins a launch,
                which could never end.
        """
        me = threading.get_ident()
        if self.owner == me:
            raise BadOption("a run began inside another one of this thread", try_="another thread")
        with self._lock:
            try:
                self.owner = me
                workers = units if units == 1 or free is None else free(self)
                self.running = self._worker_count(units, workers)
                unfinished = self._call(isa.ASK_LAUNCH, self._address, block)
                while unfinished:
                    unfinished = self._call(isa.ASK_RESUME, self._address, block)
            except BaseException:
                self._call(isa.ASK_ABANDON, self._address, 0)
                raise
            finally:
                self.owner = self.running = 0

    def stop(self, seconds: float = JOIN_SECONDS) -> None:
        """End every worker, each within a time; a later launch starts fresh ones."""
        if not self._lock.acquire(timeout=seconds):
            return
        try:
            self._last = None
            self._words[isa.T_STOP] = 1
            self._call(isa.ASK_STOP, self._address, len(self._threads) + 1)
            for thread in self._threads:
                thread.join(seconds)
            self._threads = [t for t in self._threads if t.is_alive()]
            if not self._threads:
                self._words[isa.T_STOP] = 0
        finally:
            self._lock.release()

    def _avoid_callers_core(self) -> None:
        """Keep the workers off the core that the caller runs on.

        Otherwise the system at times wakes a worker beside its caller, and the two take turns on
        one core for many runs: twice as slow.
        """
        core = self._getcpu() if self._getcpu is not None else -1
        if core < 0 or core == self._callers_core:
            return
        self._callers_core = core
        others = os.sched_getaffinity(0) - {core}
        if len(others) < len(self._threads):
            return
        for thread in self.thread_ids:
            with suppress(OSError):  # staying there is slower, not wrong
                os.sched_setaffinity(thread, others)

    def _worker_count(self, units: int, workers: int) -> int:
        """Return the number of workers of the next launch, usually that of the last."""
        if (units, workers) != self._last:
            self._wanted = self._start_missing(units, workers)
            self._last = units, workers
        if self._wanted > 1:
            self._avoid_callers_core()
        return self._wanted

    def _start_missing(self, units: int, workers: int) -> int:
        """Return the number of workers of such a launch; start those that are missing."""
        if not 1 <= units <= isa.MAX_UNITS:
            raise BadOption(f"a launch has 1 to {isa.MAX_UNITS} units, found {units}", actual=units)
        wanted = max(1, min(units, workers, self._most))
        if wanted > 1 + len(self._threads):
            self._callers_core = -1
            try:
                while wanted > 1 + len(self._threads):
                    self._start(len(self._threads) + 1)
            except RuntimeError:  # the existing ones carry every unit
                wanted = self._most = 1 + len(self._threads)
        self._words[isa.T_WORKERS] = wanted
        return wanted

    def _start(self, worker: int) -> None:
        mailbox = isa.LINE_WORDS * (isa.TEAM_LINES + 2 * worker)
        self._words[mailbox : mailbox + isa.LINE_WORDS] = 0
        self._words[mailbox + isa.M_IDLE] = self._words[isa.T_PATIENCE]
        self._words[mailbox + isa.M_TURN] = self._words[isa.T_TURN]
        self._words[mailbox + isa.M_SEEN] = self._words[isa.T_TURN]
        thread = threading.Thread(
            target=self._call,
            args=(isa.ASK_SERVE, self._address, worker),
            name=f"ironworks-worker-{worker}",
            daemon=True,
        )
        thread.start()  # RuntimeError if the system refuses
        self._threads.append(thread)


# In the order of isa.T_YIELD ...
_LIBRARY_WORDS = ("sched_yield", "usleep", "memmove", "syscall", "clock_gettime")


def _library_addresses() -> list[int]:
    library = ctypes.CDLL(None)
    functions = [getattr(library, name) for name in _LIBRARY_WORDS]
    return [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions]


def _futex_number() -> int:
    """Return the system call that sleeps on a word; 0 if there is none."""
    return FUTEX_NUMBERS.get(platform.machine(), 0) if sys.platform == "linux" else 0


class Launcher(Protocol):
    """The executor of a launch: one team, or a free one of several."""

    def launch(self, block: int, units: int) -> None:
        """Run the launch block at an address; return when all its units have ended."""


class Teams:
    """Teams that share the cores.

    Together they have about as many active workers as there are cores, so that none spins while
    another one wants its core. A launch that finds no core free queues.

    The owner of a team is read without a lock, which interrupts would make unsafe. Two launches
    that begin at the same moment may have a worker too many, or queue for one team.
    """

    def __init__(self, most: int = 0) -> None:
        """Create one team; `most` is the number of cores, 0: all allowed ones."""
        self.most = most or cores()
        self._teams = [Team(self.most)]

    @property
    def teams(self) -> tuple[Team, ...]:
        """The teams created so far."""
        return tuple(self._teams)

    @property
    def workers(self) -> int:
        """The number of worker threads, without the callers."""
        return sum(t.workers for t in self._teams)

    @property
    def thread_ids(self) -> tuple[int, ...]:
        """The workers' ids in the operating system."""
        return tuple(n for t in self._teams for n in t.thread_ids)

    @property
    def taken(self) -> int:
        """How often a worker has carried another one's unit."""
        return sum(t.taken for t in self._teams)

    def launch(self, block: int, units: int) -> None:
        """Run as `Team.launch`, with the workers that no other launch has, at most one a unit."""
        if len(self._teams) == 1 and not self._teams[0].owner:  # as in most processes
            self._teams[0].launch(block, units)
        else:
            self._select_team().launch(block, units, self._free)

    def stop(self, seconds: float = JOIN_SECONDS) -> None:
        """End every worker, each within a time; a later launch starts fresh ones."""
        for team in self._teams:
            team.stop(seconds)

    def _free(self, asking: Team) -> int:
        """Return the number of cores that no other team's launch uses."""
        return self.most - sum(t.running for t in self._teams if t is not asking)

    def _select_team(self) -> Team:
        """Return the first idle team if a core is free; else one to wait for."""
        busy = [t for t in self._teams if t.owner]
        if not busy:
            return self._teams[0]
        me = threading.get_ident()
        if any(t.owner == me for t in busy):
            raise BadOption("a run began inside another one of this thread", try_="another thread")
        if sum(t.running for t in busy) >= self.most:
            return busy[threading.get_native_id() % len(busy)]
        for team in self._teams:
            if team not in busy:
                return team
        self._teams.append(Team(self.most))
        return self._teams[-1]


_teams: Teams | None = None
_making = threading.Lock()


def teams() -> Teams:
    """Return the teams of this process; after a fork, the child's own."""
    global _teams
    if _teams is None:
        with _making:
            if _teams is None:
                _teams = Teams()
    return _teams


def _forget_after_fork() -> None:
    global _teams, _making
    _teams, _making = None, threading.Lock()


@atexit.register
def _stop_at_exit() -> None:
    if _teams is not None:
        _teams.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
