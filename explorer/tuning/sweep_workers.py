"""Workers of a sweep, processes of this machine or a given executor, and the work for one point.

`spawn` re-imports the main script in each process, so the call that starts a sweep needs a guard.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import Any, Protocol

from filelock import FileLock

from explorer import cache, extend
from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile
from explorer.devices.catalogue import HERE
from explorer.devices.cpus import CPUS
from explorer.errors import BadModelFile, BadOption, fault
from explorer.frontends.load import load
from explorer.process.allowance import cores, free_bytes
from explorer.tuning.settings import apply
from explorer.tuning.sweep_rows import FAILED, MEASURED, SIMULATED, SweepPoint, SweepRow, here

WORKER_BYTES = 400 << 20  # memory of a process that compiles a medium zoo model; assumed
FLYING = 2  # jobs for each worker of a user's executor: one runs, one waits; chosen
GUARD = 'if __name__ == "__main__":'
CLOCK_LOCK = "sweep-clock.lock"


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


def check_guarded() -> None:
    """Raise BadOption if a line of the main script outside of its main guard starts the sweep."""
    frame = _line_of_main()
    if (
        frame is None or "__file__" not in frame.f_globals
    ):  # a notebook cell or prompt: nothing is imported again
        return
    file = Path(frame.f_code.co_filename)
    try:
        tree = ast.parse(file.read_text("utf-8"))
    except (OSError, ValueError):
        raise BadOption(
            f"`spawn` imports the main script again in each process of a sweep, and {file.name} is "
            "no file: save the script to a file",
            where="sweep",
        ) from None
    blocks = [(s.lineno, s.end_lineno or 0) for s in tree.body if _is_guard(s)]
    if not any(first <= frame.f_lineno <= last for first, last in blocks):
        raise BadOption(
            f"line {frame.f_lineno} of {file.name} starts a sweep, and `spawn` would run it again "
            f"in every process of the sweep: put it under {GUARD}",
            where="sweep",
        )


def _line_of_main() -> FrameType | None:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__":
            return frame
        frame = frame.f_back
    return None


def _is_guard(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.If):
        return False
    names = {n.id for n in ast.walk(statement.test) if isinstance(n, ast.Name)}
    return "__name__" in names


@dataclass(frozen=True, slots=True)
class Job:
    """A point of a model: its path or name, the expected digest of its content.

    `seconds` is the duration of the measurement, 0: only compile. The worker loads `plugins` first.
    """

    key: str
    model: str
    digest: str
    point: SweepPoint
    seconds: float
    plugins: tuple[str, ...] = ()


def work(job: Job) -> SweepRow:
    """Return the row of a job; an error becomes a failed row."""
    named, card = here()
    row = SweepRow(job.key, job.model, job.point.varied, SIMULATED, named, card)
    try:
        load_plugins(job.plugins)
        return _run_job(job, row)
    except Exception as problem:  # every error becomes a row, and none ends the worker
        sentence = fault(problem, f"the sweep's point {dict(job.point.varied)}").sentence
        return replace(row, kind=FAILED, reason=sentence)


@lru_cache(maxsize=8)
def load_plugins(plugins: tuple[str, ...]) -> str:
    """Load plug-ins once in this process; return the code of those that are files, for keys.

    Raises:
        BadOption: there is none of a name, or its code fails.
    """
    for name in plugins:
        extend.load(name)
    files = (Path(name) for name in plugins if name.endswith(".py"))
    return "".join(file.read_text("utf-8") for file in files)


def runs_here(point: SweepPoint) -> bool:
    """Return True if a point is measured, False if it is simulated."""
    return point.target in (*HERE, *CPUS)


def _run_job(job: Job, row: SweepRow) -> SweepRow:
    point, sizes = job.point, dict(job.point.sizes)
    start = perf_counter()
    c = _compile(job.model, job.digest, point.target, point.settings)
    took = perf_counter() - start
    wall, memory = c.planned_wall(sizes), c.memory(sizes)
    row = replace(
        row,
        predicted_us=wall.total_us,
        kernels=len(c.program.kernel_calls),
        arena_bytes=memory.planned_bytes,
        compile_seconds=took,
    )
    if not job.seconds or not runs_here(point):
        return row
    inputs = c.random_inputs(sizes)
    with _measurement_lock():
        time = c.time(inputs, job.seconds)
    return replace(
        row,
        kind=MEASURED,
        median_us=time.median_us,
        low_us=time.low_us,
        high_us=time.high_us,
        runs=time.n,
    )


@lru_cache(maxsize=2)
def _compile(model: str, digest: str, target: str, settings: tuple[str, ...]) -> Compilation:
    """Compile a point; sizes vary fastest and do not change the compilation."""
    loaded = load(model)
    if loaded.digest != digest:
        raise BadModelFile(f"{model} holds another model on this worker", where=model)
    return compile(loaded, target, apply(Options().entered, settings))


@contextmanager
def _measurement_lock() -> Iterator[None]:
    """Hold the machine's measurement lock: no two points are measured at the same time."""
    with FileLock(cache.disk().folder / CLOCK_LOCK, mode=0o600):
        yield
