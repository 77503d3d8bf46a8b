"""What a worker does with a point, in a process of its own: compile, plan, and measure where this
machine runs it. Nothing but a row comes back.
"""

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
from explorer.tuning.sweep.points import Point
from explorer.tuning.sweep.rows import FAILED, MEASURED, SIMULATED, Row, here

CLOCK = "sweep-clock.lock"


@dataclass(frozen=True, slots=True)
class Job:
    """A point of a model: its path or name, and what its content must be; `seconds` to measure for,
    0: only compile.
    """

    key: str
    model: str
    digest: str
    point: Point
    seconds: float


def work(job: Job) -> Row:
    """The row of a job; what goes wrong is a row that failed."""
    named, card = here()
    row = Row(job.key, job.model, job.point.varied, SIMULATED, named, card)
    try:
        return _done(job, row)
    except Exception as problem:  # every reason is one, and none ends the worker
        said = fault(problem, f"the sweep's point {dict(job.point.varied)}").sentence
        return replace(row, kind=FAILED, reason=said)


def runs_here(point: Point) -> bool:
    """Whether a point is measured, not simulated."""
    return point.target in (*HERE, *CPUS)


def _done(job: Job, row: Row) -> Row:
    point, sizes = job.point, dict(job.point.sizes)
    start = perf_counter()
    c = _compiled(job.model, job.digest, point.target, point.settings)
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
    with _alone():
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
def _compiled(model: str, digest: str, target: str, settings: tuple[str, ...]) -> Compilation:
    """Sizes vary fastest, and change nothing of it."""
    found = load(model)
    if found.digest != digest:
        raise BadModelFile(f"{model} holds another model on this worker", where=model)
    return compile(found, target, apply(Options().entered, settings))


@contextmanager
def _alone() -> Iterator[None]:
    """One clock a machine: no two points of it are measured at the same time."""
    with FileLock(cache.disk().folder / CLOCK, mode=0o600):
        yield
