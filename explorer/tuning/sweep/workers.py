"""Who does the work: processes of this machine, or whatever executor is given."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Protocol

from explorer.allowance import cores, free_bytes
from explorer.tuning.sweep.guarded import check_guarded

WORKER_BYTES = 400 << 20  # of a process that compiles a model of the zoo's middle; assumed
FLYING = 2  # jobs under way for each worker of somebody's executor: one runs, one waits; chosen


class Workers(Protocol):
    """Where jobs are submitted to. `width`: how many are under way at once."""

    width: int
    local: bool

    def submit(self, do: Callable[..., Any], *given: Any) -> Future[Any]:
        """The job's future; raises where nobody takes any."""
        ...

    def renew(self) -> bool:
        """After a worker was lost: whether there are others."""
        ...

    def close(self) -> None:
        """After: what was made for the sweep is gone, jobs that run included."""
        ...


class Processes:
    """Processes of this machine, as many as cores and memory allow. Raises BadOption where each of
    them would begin what begins them.
    """

    local = True

    def __init__(self) -> None:
        check_guarded()
        self.width = max(1, min(cores(), free_bytes() // WORKER_BYTES))
        self._pool = self._made()

    def submit(self, do: Callable[..., Any], *given: Any) -> Future[Any]:
        """The job's future."""
        return self._pool.submit(do, *given)

    def renew(self) -> bool:
        """A pool that lost a process takes nothing more."""
        self.close()
        self._pool = self._made()
        return True

    def close(self) -> None:
        """After: no process of it runs."""
        processes = tuple((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
            process.join()

    def _made(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self.width, mp_context=get_context("spawn"))


class Given:
    """An executor of somebody's: `concurrent.futures`, Dask's, MPI's."""

    local = False

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.width = FLYING * _workers(executor)

    def submit(self, do: Callable[..., Any], *given: Any) -> Future[Any]:
        """The job's future."""
        return self._executor.submit(do, *given)

    def renew(self) -> bool:
        """Dask's own workers come back by themselves, and one of a pool never does."""
        client = getattr(self._executor, "_client", None)
        return client is not None and bool(client.status == "running")

    def close(self) -> None:
        """It is not ours to close."""


def _workers(executor: Executor) -> int:
    client = getattr(executor, "_client", None)
    if client is not None:
        return max(1, sum(int(n) for n in client.nthreads().values()))
    return int(getattr(executor, "_max_workers", 1) or 1)
