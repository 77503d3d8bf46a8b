"""The sweep: points to workers, rows to a store, as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from explorer.errors import BadOption, Cancelled
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.options import Options
from explorer.passes.pipeline import own_passes
from explorer.plain_text import counted, duration, size, table
from explorer.printed import Printed
from explorer.tuning.sweep.points import points
from explorer.tuning.sweep.rows import FAILED, MEASURED, Row, here
from explorer.tuning.sweep.store import Store
from explorer.tuning.sweep.work import Job, runs_here, work
from explorer.tuning.sweep.workers import Given, Processes, Workers

LOOK_SECONDS = 0.2  # between two looks at whether it was cancelled; chosen
TRIES = 1  # alone, of a job that lost its worker: that one is to blame then; chosen
Progress = Callable[[str, int, int], None]
MOST_SECONDS = 3600.0  # of one point; chosen


MOST_ROWS = 20  # of those that may be compared, in a table; `rows` has all


@dataclass(frozen=True, slots=True, repr=False)
class Sweep(Printed):
    """The rows of a sweep, in the order of its points."""

    model: str
    vary: tuple[tuple[str, tuple[str, ...]], ...]
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        return "\n".join(self._lines()).rstrip()

    @property
    def first_line(self) -> str:
        """The model, and what was varied."""
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
    def comparable(self) -> Mapping[str, tuple[Row, ...]]:
        """The rows that may be compared, fastest first: of the same sizes, those that the clock of
        one machine said, by its card, or those that data sheets predict.
        """
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            if row.kind != FAILED:
                on = row.card if row.kind == MEASURED else "data sheets, predicted"
                found.setdefault(f"{row.sizes}{on}", []).append(row)
        return {of: tuple(sorted(rows, key=lambda r: r.us or 0.0)) for of, rows in found.items()}

    @property
    def front(self) -> Mapping[str, tuple[Row, ...]]:
        """Of these the rows than which none is faster with as little memory: Pareto's front."""
        return {of: tuple(_front(rows)) for of, rows in self.comparable.items()}

    @property
    def failures(self) -> tuple[Row, ...]:
        """The rows that have a reason instead."""
        return tuple(row for row in self.rows if row.kind == FAILED)


def _cells(row: Row, on_front: bool) -> tuple[str, ...]:
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
    progress: Progress | None = None,
    arrived: Callable[[Sweep], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Sweep:
    """A model under every combination of what is varied, each a row: measured for so many `seconds`
    where the target is the machine of a worker, simulated on a data sheet.

    `model`: a path or a name of the zoo, which every worker can read. `vary`: values by
    "group.option", as `--set` takes them, by "bind.symbol" or the symbol alone, or by "target".
    `executor`: local processes, or any of `concurrent.futures`' kind, such as Dask's. `store`: a
    SQLite file that keeps rows as they come; what it holds of these points is not done again, nor,
    without an executor, what it holds of this machine. `progress(what, done, points)` is told, and
    `arrived(sweep)` given the rows until then, whenever one more is there:
    `widgets.live_sweep()` draws them.

    Failures are rows. Raises BadOption before anything runs where a name or a value is wrong, and
    Cancelled, as where all workers are gone: the rows until then are in the store.
    """
    given = _model(model)
    if not 0 < seconds <= MOST_SECONDS:
        raise BadOption(
            f"a sweep measures each point for more than 0 s, not {seconds}", where="seconds"
        )
    found = points(given, vary, target, dict(sizes or {}))
    jobs = [Job(p.key(given.digest), str(model), given.digest, p, seconds) for p in found]
    axes = {
        name: tuple(dict.fromkeys(dict(p.varied)[name] for p in found))
        for name, _ in found[0].varied
    }

    def until_now(rows: Mapping[str, Row]) -> Sweep:
        there = tuple(rows[job.key] for job in jobs if job.key in rows)
        return Sweep(given.name, tuple(axes.items()), there)

    def came(rows: Mapping[str, Row]) -> None:
        if arrived is not None:
            arrived(until_now(rows))

    with Store(store) as kept:
        run = _Run(kept, jobs, progress, came, cancelled or (lambda: False))
        machine = here()[0] if executor is None else None
        run.all(lambda: Processes() if executor is None else Given(executor), machine)
        return until_now(run.rows)


def _model(model: object) -> Model:
    """Workers read the model themselves, and know no pass that was registered here."""
    if own := [run.name for _, run in own_passes.of(Options().entered.passes)]:
        raise BadOption(
            f"the workers of a sweep do not know the pass {own[0]!r}",
            where="passes",
            try_=f"explorer.forget_pass({own[0]!r})",
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
        came: Callable[[Mapping[str, Row]], None],
        cancelled: Callable[[], bool],
    ) -> None:
        self.store, self.jobs, self.progress, self.cancelled = store, jobs, progress, cancelled
        self.came = came
        self.rows: dict[str, Row] = {}

    def all(self, workers: Callable[[], Workers], machine: str | None) -> None:
        """After: every job has a row. `machine`: rows of others do not count as done."""
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
            self._arrive(_done(pool, sheets, pool.width, self.cancelled))
            timed = [job for job in timed if job.key not in self.rows]
            self._arrive(_done(pool, timed, 1 if pool.local else pool.width, self.cancelled))
        finally:
            pool.close()

    def _compile(self, pool: Workers, timed: Sequence[Job]) -> None:
        """All kernels first, side by side, so that nothing is compiled while a clock runs."""
        once = {(job.point.target, job.point.settings): job for job in timed}
        ahead = [replace(job, seconds=0.0) for job in once.values()]
        for n, (job, row) in enumerate(_done(pool, ahead, pool.width, self.cancelled)):
            if row.kind == FAILED:
                self._arrive([(job, row)])
            elif self.progress is not None:
                self.progress(f"compiled {n + 1} of {len(ahead)}", len(self.rows), len(self.jobs))

    def _arrive(self, rows: Iterable[tuple[Job, Row]]) -> None:
        for job, row in rows:
            self.store.add(row)
            self.rows[job.key] = row
            if self.progress is not None:
                words = " ".join(f"{name}={text}" for name, text in row.varied)
                self.progress(f"{words}: {row.words}", len(self.rows), len(self.jobs))
            self.came(self.rows)


def _done(
    pool: Workers, jobs: Sequence[Job], width: int, cancelled: Callable[[], bool]
) -> Iterator[tuple[Job, Row]]:
    """Each job with its row, as they come. Jobs whose worker was lost are tried again, one at a
    time, which tells the one that is to blame from those beside it.
    """
    waiting, suspects = deque(jobs), deque[tuple[Job, int]]()
    flying: dict[Future[Row], tuple[Job, int]] = {}
    while waiting or suspects or flying:
        if cancelled():
            left = len(waiting) + len(suspects) + len(flying)
            raise Cancelled(f"the sweep was stopped with {left} points left")
        alone = bool(suspects) or any(tries for _, tries in flying.values())
        while (suspects or waiting) and len(flying) < (1 if alone else width):
            job, tries = suspects.popleft() if suspects else (waiting.popleft(), 0)
            future = _submitted(pool, job, last=not flying)
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
        if pool.local:  # all of its processes are gone with the one
            lost += [(job, tries, None) for job, tries in flying.values()]
            flying.clear()
        if not pool.renew():
            raise Cancelled("the sweep's workers are gone; the same call goes on from its store")
        for job, tries, problem in lost:
            if tries < TRIES:
                suspects.append((job, tries + 1))
            else:
                yield job, _failed(job, problem)


def _submitted(pool: Workers, job: Job, last: bool) -> Future[Row] | None:
    """The job's future; None where nobody takes it now, but other jobs are under way, which will
    tell of a lost worker. `last`: there are none.
    """
    try:
        return pool.submit(work, job)
    except Exception as problem:  # what an executor raises is its own
        if not last:
            return None
        if pool.local and pool.renew():
            return pool.submit(work, job)
        raise Cancelled(
            f"the sweep's workers take no more ({type(problem).__name__}); the same call goes on "
            "from its store"
        ) from problem


def _failed(job: Job, problem: BaseException | None) -> Row:
    named, card = here()
    why = "" if problem is None else f" ({type(problem).__name__})"
    return Row(
        job.key, job.model, job.point.varied, FAILED, named, card,
        reason=f"its worker died with it, the last time with nothing beside it{why}",
    )  # fmt: skip


def _front(rows: Iterable[Row]) -> Iterator[Row]:
    least = None
    for row in rows:
        if least is None or row.arena_bytes < least:
            least = row.arena_bytes
            yield row
