"""Sweeps of one model over all combinations of settings, with local or remote workers.

Points are distributed to workers. Rows carry the card of their machine and are stored as they
arrive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from explorer.cache import content_key
from explorer.compiler.options import Options
from explorer.errors import BadOption, Cancelled
from explorer.extend import passes
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.plain_text import counted, duration, size, table
from explorer.printed import Printed
from explorer.tuning.sweep_rows import FAILED, MEASURED, Store, SweepRow, here, points
from explorer.tuning.sweep_workers import (
    Job,
    Processes,
    UserExecutor,
    Workers,
    load_plugins,
    runs_here,
    work,
)

LOOK_SECONDS = 0.2  # between two checks for cancellation; chosen
TRIES = 1  # repeats of a job that lost its worker, run alone; then it is to blame; chosen
Progress = Callable[[str, int, int], None]
MOST_SECONDS = 3600.0  # of one point; chosen


MOST_ROWS = 20  # rows of a table; `rows` has all


@dataclass(frozen=True, slots=True, repr=False)
class Sweep(Printed):
    """The rows of a sweep, in the order of its points."""

    model: str
    vary: tuple[tuple[str, tuple[str, ...]], ...]
    rows: tuple[SweepRow, ...]

    def __str__(self) -> str:
        """Return the rows as tables."""
        return "\n".join(self._lines()).rstrip()

    @property
    def first_line(self) -> str:
        """The model and the varied names."""
        varied = ", ".join(name for name, _ in self.vary)
        return f"{self.model}: {counted(len(self.rows), 'row')} over {varied}"

    def _lines(self) -> Iterator[str]:
        for on, rows in self.comparable.items():
            front = {row.key for row in self.front[on]}
            yield from (f"{counted(len(rows), 'row')}, {on.partition(';')[0]}", "")
            head = [name for name, _ in rows[0].varied]
            head += [">per run", ">99 % from", ">to", ">predicted", ">memory", ""]
            yield from (table(head, [_cells(r, r.key in front) for r in rows[:MOST_ROWS]]), "")
            if len(rows) > MOST_ROWS:
                yield from (f"  and {counted(len(rows) - MOST_ROWS, 'slower row')}", "")
        for row in self.failures:
            words = " ".join(f"{name}={text}" for name, text in row.varied)
            yield f"{words}: {row.reason}"

    @property
    def comparable(self) -> Mapping[str, tuple[SweepRow, ...]]:
        """The comparable rows, fastest first.

        Rows are comparable if they have the same sizes and were measured on the same machine, by
        its card, or if all are predicted from data sheets.
        """
        groups: dict[str, list[SweepRow]] = {}
        for row in self.rows:
            if row.kind != FAILED:
                on = row.card if row.kind == MEASURED else "data sheets, predicted"
                groups.setdefault(f"{row.sizes}{on}", []).append(row)
        return {of: tuple(sorted(rows, key=lambda r: r.us or 0.0)) for of, rows in groups.items()}

    @property
    def front(self) -> Mapping[str, tuple[SweepRow, ...]]:
        """The Pareto front of the comparable rows: none is faster with as little memory."""
        return {of: tuple(_pareto_front(rows)) for of, rows in self.comparable.items()}

    @property
    def failures(self) -> tuple[SweepRow, ...]:
        """The failed rows."""
        return tuple(row for row in self.rows if row.kind == FAILED)


def _cells(row: SweepRow, on_front: bool) -> tuple[str, ...]:
    times = [duration(t) if t is not None else "" for t in (row.median_us, row.low_us, row.high_us)]
    predicted = duration(row.predicted_us) if row.predicted_us is not None else ""
    mark = "none is faster with less memory" if on_front else ""
    return *(text for _, text in row.varied), *times, predicted, size(row.arena_bytes), mark


def sweep(
    model: str | PathLike[str],
    vary: Mapping[str, Sequence[Any]],
    *,
    target: str = "cpu",
    sizes: Mapping[str, int] | None = None,
    executor: Executor | None = None,
    store: str | PathLike[str] | None = None,
    seconds: float = 0.2,
    plugins: Sequence[str] = (),
    progress: Progress | None = None,
    arrived: Callable[[Sweep], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Sweep:
    """Run a model under every combination of settings, each a row.

    A row is measured for `seconds` if the target is the machine of a worker, else simulated on a
    data sheet. Failures are rows.

    Args:
        model: a path or a name of the zoo, which every worker can read.
        vary: values by "group.option", as `--set` takes them, by "bind.symbol" or the symbol alone,
            or by "target".
        target: the target if it does not vary.
        sizes: the sizes of symbols that do not vary.
        executor: any executor of `concurrent.futures`' kind, such as Dask's; by default local
            processes.
        store: a SQLite file that keeps rows as they arrive. Its rows of these points are not
            repeated; without an executor only its rows of this machine count.
        seconds: the duration of each measurement.
        plugins: files of Python or installed plug-ins that every worker loads first.
        progress: called as `progress(what, done, points)` for each row.
        arrived: called with the sweep so far for each row; `widgets.live_sweep()` draws it.
        cancelled: called regularly; Cancelled is raised if it returns True.

    Raises:
        BadOption: a name or a value is wrong; nothing ran then.
        Cancelled: cancelled, or all workers are gone; the rows so far are in the store.
    """
    code = load_plugins(tuple(plugins))
    loaded = _model(model, plugins)
    if not 0 < seconds <= MOST_SECONDS:
        raise BadOption(
            f"a sweep measures each point for more than 0 s, not {seconds}", where="seconds"
        )
    grid = points(loaded, vary, target, dict(sizes or {}))
    digest = content_key(loaded.digest, code) if code else loaded.digest
    jobs = [Job(p.key(digest), str(model), loaded.digest, p, seconds, tuple(plugins)) for p in grid]
    axes = {
        name: tuple(dict.fromkeys(dict(p.varied)[name] for p in grid)) for name, _ in grid[0].varied
    }

    def until_now(rows: Mapping[str, SweepRow]) -> Sweep:
        arrived_rows = tuple(rows[job.key] for job in jobs if job.key in rows)
        return Sweep(loaded.name, tuple(axes.items()), arrived_rows)

    def came(rows: Mapping[str, SweepRow]) -> None:
        if arrived is not None:
            arrived(until_now(rows))

    with Store(store) as row_store:
        run = _Run(row_store, jobs, progress, came, cancelled or (lambda: False))
        machine = here()[0] if executor is None else None
        run.all(lambda: Processes() if executor is None else UserExecutor(executor), machine)
        return until_now(run.rows)


def _model(model: object, plugins: Sequence[str]) -> Model:
    """Load the model; refuse registered passes if there is no plug-in that workers know them by."""
    own = [run.name for _, run in passes.typed_passes(Options().entered.passes)]
    if own and not plugins:
        raise BadOption(
            f"the workers of a sweep do not know the pass {own[0]!r}",
            where="passes",
            try_=f'plugins=("./mine.py",), or explorer.forget_pass({own[0]!r})',
        )
    if isinstance(model, str | PathLike):
        return load(str(model))
    raise BadOption(
        f"a sweep takes the path of a model or a name of the zoo, not {type(model).__name__}",
        where="model",
    )


class _Run:
    """Jobs on their way to rows."""

    def __init__(
        self,
        store: Store,
        jobs: Sequence[Job],
        progress: Progress | None,
        came: Callable[[Mapping[str, SweepRow]], None],
        cancelled: Callable[[], bool],
    ) -> None:
        """Prepare the jobs of a sweep."""
        self.store, self.jobs, self.progress, self.cancelled = store, jobs, progress, cancelled
        self.came = came
        self.rows: dict[str, SweepRow] = {}

    def all(self, workers: Callable[[], Workers], machine: str | None) -> None:
        """Run jobs until each has a row; rows of machines other than `machine` are not done."""
        todo = []
        for job in self.jobs:
            row = self.store.of(job.key, machine)
            if row is None or row.kind == FAILED:
                todo.append(job)
            else:
                self.rows[job.key] = row
        if not todo:
            return
        pool = workers()
        try:
            timed = [job for job in todo if runs_here(job.point)]
            if len(timed) > 1 and (pool.width > 1 or not pool.local):
                self._compile(pool, timed)
            sheets = [job for job in todo if not runs_here(job.point)]
            self._arrive(_run_jobs(pool, sheets, pool.width, self.cancelled))
            timed = [job for job in timed if job.key not in self.rows]
            self._arrive(_run_jobs(pool, timed, 1 if pool.local else pool.width, self.cancelled))
        finally:
            pool.close()

    def _compile(self, pool: Workers, timed: Sequence[Job]) -> None:
        """Compile all kernels in parallel first, so that nothing compiles during measurements."""
        once = {(job.point.target, job.point.settings): job for job in timed}
        ahead = [replace(job, seconds=0.0) for job in once.values()]
        for n, (job, row) in enumerate(_run_jobs(pool, ahead, pool.width, self.cancelled)):
            if row.kind == FAILED:
                self._arrive([(job, row)])
            elif self.progress is not None:
                self.progress(f"compiled {n + 1} of {len(ahead)}", len(self.rows), len(self.jobs))

    def _arrive(self, rows: Iterable[tuple[Job, SweepRow]]) -> None:
        for job, row in rows:
            self.store.add(row)
            self.rows[job.key] = row
            if self.progress is not None:
                words = " ".join(f"{name}={text}" for name, text in row.varied)
                self.progress(f"{words}: {row.words}", len(self.rows), len(self.jobs))
            self.came(self.rows)


def _run_jobs(
    pool: Workers, jobs: Sequence[Job], width: int, cancelled: Callable[[], bool]
) -> Iterator[tuple[Job, SweepRow]]:
    """Yield each job with its row, as they arrive.

    Jobs whose worker was lost are repeated one at a time, which identifies the one that kills
    workers.
    """
    waiting, suspects = deque(jobs), deque[tuple[Job, int]]()
    flying: dict[Future[SweepRow], tuple[Job, int]] = {}
    while waiting or suspects or flying:
        if cancelled():
            left = len(waiting) + len(suspects) + len(flying)
            raise Cancelled(f"the sweep was stopped with {left} points left")
        alone = bool(suspects) or any(tries for _, tries in flying.values())
        while (suspects or waiting) and len(flying) < (1 if alone else width):
            job, tries = suspects.popleft() if suspects else (waiting.popleft(), 0)
            future = _submit(pool, job, last=not flying)
            if future is None:
                suspects.append((job, tries))
                break
            flying[future] = job, tries
        finished, _ = wait(flying, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
        lost = []
        for future in finished:
            job, tries = flying.pop(future)
            problem = future.exception() if not future.cancelled() else None
            if problem is None and not future.cancelled():
                yield job, future.result()
            else:
                lost.append((job, tries, problem))
        if not lost:
            continue
        if pool.local:  # the pool loses all processes with one
            lost += [(job, tries, None) for job, tries in flying.values()]
            flying.clear()
        if not pool.renew():
            raise Cancelled("the sweep's workers are gone; the same call resumes from its store")
        for job, tries, problem in lost:
            if tries < TRIES:
                suspects.append((job, tries + 1))
            else:
                yield job, _failed_row(job, problem)


def _submit(pool: Workers, job: Job, last: bool) -> Future[SweepRow] | None:
    """Submit a job and return its future.

    Returns None if no worker accepts it but other jobs are running (`last` is False), which will
    report the lost worker.
    """
    try:
        return pool.submit(work, job)
    except Exception as problem:  # an executor may raise anything
        if not last:
            return None
        if pool.local and pool.renew():
            return pool.submit(work, job)
        raise Cancelled(
            f"the sweep's workers accept no jobs ({type(problem).__name__}); the same call resumes "
            "from its store"
        ) from problem


def _failed_row(job: Job, problem: BaseException | None) -> SweepRow:
    named, card = here()
    why = "" if problem is None else f" ({type(problem).__name__})"
    return SweepRow(
        job.key, job.model, job.point.varied, FAILED, named, card,
        reason=f"its worker died, the last time without other jobs{why}",
    )  # fmt: skip


def _pareto_front(rows: Iterable[SweepRow]) -> Iterator[SweepRow]:
    least = None
    for row in rows:
        if least is None or row.arena_bytes < least:
            least = row.arena_bytes
            yield row
