"""Sums of the replicas' arrays by a thread of their own, beside what a replica computes."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from explorer.training.runs.replicas.ranks import Ranks
from explorer.training.runs.timeline import Timeline


class AllReduce:
    """Sums one after the other, in the order in which they are asked for, alike in all replicas."""

    def __init__(self, ranks: Ranks, timeline: Timeline) -> None:
        self.ranks, self._timeline = ranks, timeline
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="training-all-reduce")
        self._asked: list[Future[None]] = []

    def begin(self, part: np.ndarray, step: int, number: int, about: str) -> None:
        """Sum a flat array in place, beside what comes next; here, where another thread may not."""
        if self.ranks.threaded:
            self._asked.append(self._pool.submit(self._sum, part, step, number, about))
        else:
            self._sum(part, step, number, about)

    def end(self, part: np.ndarray, step: int, number: int, about: str) -> None:
        """Sum the last one, and be sure of all: raises what went wrong with one of them."""
        self.wait()
        self._sum(part, step, number, about)

    def wait(self) -> None:
        """Until all that was begun is done."""
        asked, self._asked = self._asked, []
        for one in asked:
            one.result()

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _sum(self, part: np.ndarray, step: int, number: int, about: str) -> None:
        with self._timeline.span("sums", "reduce", step, number, part.nbytes, about):
            self.ranks.total(part)
