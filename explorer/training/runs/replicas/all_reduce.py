"""All-reduce by a background thread, overlapped with computation."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from explorer.training.runs.replicas.ranks import Ranks
from explorer.training.runs.timeline import Timeline


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
