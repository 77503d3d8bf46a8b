"""Workers of a sweep: processes of this machine, or a given executor."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Protocol

from explorer.allowance import cores, free_bytes
from explorer.tuning.sweep.main_guard import check_guarded

WORKER_BYTES = 400 << 20  # memory of a process that compiles a medium zoo model; assumed
FLYING = 2  # jobs for each worker of a user's executor: one runs, one waits; chosen


class Workers(Protocol):
    """A pool that jobs are submitted to; `width`: how many run at once."""

    width: int
    local: bool

    def submit(self, do: Callable[..., Any], *args: Any) -> Future[Any]:
        """Submit a job and return its future; raise if no worker accepts it."""
        ...

    def renew(self) -> bool:
        """Replace lost workers; return True if there are others."""
        ...

    def close(self) -> None:
        """Release what was created for the sweep, including running jobs."""
        ...


class Processes:
    """Processes of this machine, as many as cores and memory allow."""

    local = True

    def __init__(self) -> None:
        """Start the pool; BadOption if the main script lacks a main guard."""
        check_guarded()
        self.width = max(1, min(cores(), free_bytes() // WORKER_BYTES))
        self._pool = self._new_pool()

    def submit(self, do: Callable[..., Any], *args: Any) -> Future[Any]:
        """Submit a job and return its future."""
        return self._pool.submit(do, *args)

    def renew(self) -> bool:
        """Create a new pool: one that lost a process accepts no job."""
        self.close()
        self._pool = self._new_pool()
        return True

    def close(self) -> None:
        """Terminate all processes."""
        processes = tuple((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
            process.join()

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self.width, mp_context=get_context("spawn"))


class UserExecutor:
    """An executor given by the user: `concurrent.futures`, Dask's, MPI's."""

    local = False

    def __init__(self, executor: Executor) -> None:
        """Wrap an executor."""
        self._executor = executor
        self.width = FLYING * _workers(executor)

    def submit(self, do: Callable[..., Any], *args: Any) -> Future[Any]:
        """Submit a job and return its future."""
        return self._executor.submit(do, *args)

    def renew(self) -> bool:
        """Return True if lost workers come back: Dask's restart, those of a pool do not."""
        client = getattr(self._executor, "_client", None)
        return client is not None and bool(client.status == "running")

    def close(self) -> None:
        """Do nothing: the executor belongs to the user."""


def _workers(executor: Executor) -> int:
    client = getattr(executor, "_client", None)
    if client is not None:
        return max(1, sum(int(n) for n in client.nthreads().values()))
    return int(getattr(executor, "_max_workers", 1) or 1)
