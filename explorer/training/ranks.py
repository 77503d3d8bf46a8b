"""Ranks of replicas and their all-reduce: threads of one process, or MPI processes."""

from __future__ import annotations

import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier, BrokenBarrierError
from time import sleep
from typing import Protocol

import numpy as np

from explorer.errors import BadOption, Cancelled
from explorer.training.fitted import Timeline

PATIENCE = 600.0  # seconds to wait for the others
PAUSES = 20e-6, 500e-6  # seconds between two polls of MPI: at first, and at most


class Ranks(Protocol):
    """The rank of this replica, the number of replicas, and their sum."""

    @property
    def rank(self) -> int:
        """The number of this replica."""

    @property
    def size(self) -> int:
        """The number of replicas."""

    @property
    def threaded(self) -> bool:
        """True if a thread other than the one that runs steps may request sums."""
        ...

    def total(self, part: np.ndarray) -> None:
        """Replace a flat array by the sum over all replicas, in rank order: bit-identical for each.

        All replicas request the same sums in the same order.
        """
        ...

    def leave(self) -> None:
        """End this replica early: the others do not wait for it."""
        ...


class Mpi:
    """The processes started by `mpiexec -n 4 python train.py` (MPI's `COMM_WORLD`)."""

    def __init__(self) -> None:
        """Connect to MPI; BadOption if mpi4py is not installed."""
        try:
            from mpi4py import MPI
        except ImportError:
            raise BadOption(
                "replicas on several processes need mpi4py",
                where="Mpi",
                try_="pip install ironworks[mpi], and an MPI, such as Debian's openmpi-bin",
            ) from None
        self._world = MPI.COMM_WORLD
        self._threaded = bool(MPI.Query_thread() >= MPI.THREAD_SERIALIZED)

    @property
    def rank(self) -> int:
        """The number of this process."""
        return int(self._world.Get_rank())

    @property
    def size(self) -> int:
        """The number of processes."""
        return int(self._world.Get_size())

    @property
    def threaded(self) -> bool:
        """True if this MPI allows calls from another thread (MPI_THREAD_SERIALIZED)."""
        return self._threaded

    def total(self, part: np.ndarray) -> None:
        """Gather all parts and sum them in rank order, in each process.

        The poll interval doubles, so that the core computes meanwhile.
        """
        rows = np.empty((self.size, *part.shape), part.dtype)
        request = self._world.Iallgather(part, rows)
        pause, most = PAUSES
        while not request.Test():
            sleep(pause)
            pause = min(2 * pause, most)
        np.copyto(part, rows[0])
        for row in rows[1:]:
            part += row

    def leave(self) -> None:
        """Abort all processes."""
        print(f"replica {self.rank} of {self.size} ends early: so do the others", file=sys.stderr)
        self._world.Abort(1)


@dataclass(slots=True)
class _Rendezvous:
    barrier: Barrier
    parts: list[np.ndarray] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ThreadRank:
    """One of several threads of this process (`on_threads`)."""

    rank: int
    size: int
    _meeting: _Rendezvous

    @property
    def threaded(self) -> bool:
        """True: any thread may request sums."""
        return True

    def total(self, part: np.ndarray) -> None:
        """Sum a slice for all replicas; Cancelled if one of them ended early."""
        meeting = self._meeting
        try:
            meeting.parts[self.rank] = part
            meeting.barrier.wait(PATIENCE)
            ends = [part.size * n // self.size for n in (self.rank, self.rank + 1)]
            _sum_over([p[ends[0] : ends[1]] for p in meeting.parts])
            meeting.barrier.wait(PATIENCE)
        except BrokenBarrierError:
            raise Cancelled(f"replica {self.rank} waited for one that ended early") from None

    def leave(self) -> None:
        """Make the others raise Cancelled."""
        self._meeting.barrier.abort()


def on_threads(count: int) -> list[ThreadRank]:
    """Return `count` replicas, one for each thread that is to run one."""
    meeting = _Rendezvous(Barrier(count), [np.empty(0)] * count)
    return [ThreadRank(n, count, meeting) for n in range(count)]


def _sum_over(rows: list[np.ndarray]) -> None:
    """Replace each row by the sum of all, in their order."""
    first, *others = rows
    for row in others:
        first += row
    for row in others:
        np.copyto(row, first)


class AllReduce:
    """Sums of replicas' arrays, one after the other, in the same order in all replicas."""

    def __init__(self, ranks: Ranks, timeline: Timeline) -> None:
        """Create the all-reduce and its thread pool."""
        self.ranks, self._timeline = ranks, timeline
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="training-all-reduce")
        self._pending: list[Future[None]] = []

    def begin(self, part: np.ndarray, step: int, number: int, about: str) -> None:
        """Start to sum a flat array in place; wait for it if MPI allows no other thread."""
        if self.ranks.threaded:
            self._pending.append(self._pool.submit(self._sum, part, step, number, about))
        else:
            self._sum(part, step, number, about)

    def end(self, part: np.ndarray, step: int, number: int, about: str) -> None:
        """Sum the last array and wait for all; raise the error of any sum."""
        self.wait()
        self._sum(part, step, number, about)

    def wait(self) -> None:
        """Wait until all started sums are done."""
        pending, self._pending = self._pending, []
        for future in pending:
            future.result()

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _sum(self, part: np.ndarray, step: int, number: int, about: str) -> None:
        with self._timeline.span("sums", "reduce", step, number, part.nbytes, about):
            self.ranks.total(part)
