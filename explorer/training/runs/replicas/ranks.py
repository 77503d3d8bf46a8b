"""Which replica this is, of how many, and the sum of what all of them have: on threads of one
process, or on processes and machines by MPI.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from threading import Barrier, BrokenBarrierError
from time import sleep
from typing import Protocol

import numpy as np

from explorer.errors import BadOption, Cancelled

PATIENCE = 600.0  # seconds to wait for the others
PAUSES = 20e-6, 500e-6  # seconds between two looks at what MPI has brought: at first, and at most


class Ranks(Protocol):
    """Which replica this is, of how many, and their sum."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def threaded(self) -> bool:
        """Whether sums may be asked for by another thread than the one that runs steps."""
        ...

    def total(self, part: np.ndarray) -> None:
        """Write over a flat array the sum of all replicas' arrays, in their order: the same to the
        bit for each of them. All ask for the same sums one after the other.
        """
        ...

    def leave(self) -> None:
        """This one ends early: the others shall not wait for it."""
        ...


class Mpi:
    """The processes that `mpiexec -n 4 python train.py` started (MPI's `COMM_WORLD`). BadOption
    where mpi4py is not installed.
    """

    def __init__(self) -> None:
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
        """Which process this is."""
        return int(self._world.Get_rank())

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self._world.Get_size())

    @property
    def threaded(self) -> bool:
        """Whether this MPI lets another thread speak (MPI_THREAD_SERIALIZED)."""
        return self._threaded

    def total(self, part: np.ndarray) -> None:
        """Every process gets all parts and sums them itself: an all-reduce that has one order. It
        looks twice as rarely each time, so that the core computes meanwhile.
        """
        rows = np.empty((self.size, *part.shape), part.dtype)
        asked = self._world.Iallgather(part, rows)
        pause, most = PAUSES
        while not asked.Test():
            sleep(pause)
            pause = min(2 * pause, most)
        np.copyto(part, rows[0])
        for row in rows[1:]:
            part += row

    def leave(self) -> None:
        """End all of them."""
        print(f"replica {self.rank} of {self.size} ends early: so do the others", file=sys.stderr)
        self._world.Abort(1)


@dataclass(slots=True)
class _Meeting:
    barrier: Barrier
    parts: list[np.ndarray] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ThreadRank:
    """One of some threads of this process (`on_threads`)."""

    rank: int
    size: int
    _meeting: _Meeting

    @property
    def threaded(self) -> bool:
        """Any thread may ask."""
        return True

    def total(self, part: np.ndarray) -> None:
        """Each sums a slice for all of them. Cancelled where one of them ended early."""
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
        """The others raise Cancelled."""
        self._meeting.barrier.abort()


def on_threads(count: int) -> list[ThreadRank]:
    """So many replicas, one for each thread of this process that is to have one."""
    meeting = _Meeting(Barrier(count), [np.empty(0)] * count)
    return [ThreadRank(n, count, meeting) for n in range(count)]


def _sum_over(rows: list[np.ndarray]) -> None:
    """The sum of all rows, in their order, in each of them."""
    first, *rest = rows
    for row in rest:
        first += row
    for row in rest:
        np.copyto(row, first)
