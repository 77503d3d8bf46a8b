"""Work of a sweep's worker process: compile, plan, and measure a point, and return a row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from time import perf_counter

from filelock import FileLock

from explorer import cache
from explorer.compilation import Compilation
from explorer.compiler import compile
from explorer.devices.catalogue import HERE
from explorer.devices.cpus import CPUS
from explorer.errors import BadModelFile, fault
from explorer.frontends.load import load
from explorer.options import Options
from explorer.tuning.settings import apply
from explorer.tuning.sweep.points import SweepPoint
from explorer.tuning.sweep.rows import FAILED, MEASURED, SIMULATED, SweepRow, here

CLOCK = "sweep-clock.lock"


@dataclass(frozen=True, slots=True)
class Job:
    """A point of a model: its path or name, the expected digest of its content.

    `seconds` is the duration of the measurement, 0: only compile.
    """

    key: str
    model: str
    digest: str
    point: SweepPoint
    seconds: float


def work(job: Job) -> SweepRow:
    """Return the row of a job; an error becomes a failed row."""
    named, card = here()
    row = SweepRow(job.key, job.model, job.point.varied, SIMULATED, named, card)
    try:
        return _run_job(job, row)
    except Exception as problem:  # every error becomes a row, and none ends the worker
        sentence = fault(problem, f"the sweep's point {dict(job.point.varied)}").sentence
        return replace(row, kind=FAILED, reason=sentence)


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
    with FileLock(cache.disk().folder / CLOCK, mode=0o600):
        yield
