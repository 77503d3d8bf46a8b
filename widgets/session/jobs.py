"""Background jobs that report progress and can be cancelled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any
from weakref import WeakSet

from explorer.cli.last_fault import store_fault
from explorer.errors import BadOption, Cancelled, InternalFault, fault, traceback_of

MOST_FINISHED = 16  # finished jobs whose answers can still be fetched
AT_ONCE = 0.15  # seconds without a progress report
GIVES_WAY_SECONDS = 2.0  # seconds that an unrequested job may take to end


@dataclass(eq=False)
class Job:
    """A background job: `done` of `of` steps; `what` is done before the first.

    `answer` or `error` is set once `over` is. Other jobs may run beside one that is not `alone`.
    """

    of: int
    alone: bool = True
    done: int = 0
    what: str = ""
    answer: Any = None
    error: dict[str, Any] | None = None
    over: Event = field(default_factory=Event)
    stop: Event = field(default_factory=Event)

    def report(self, done: int) -> None:
        """Report progress; raises Cancelled if the job is no longer wanted."""
        if self.stop.is_set():
            raise Cancelled("the timing was cancelled; its results were discarded")
        self.done = min(done, self.of)

    def at(self, step: str, done: int, of: int) -> None:
        """Report the present step, and how many are done."""
        self.what, self.done, self.of = step, done, of

    def compiling(self, step: str, done: int, steps: int) -> None:
        """Report the step of a compilation; the last one also when all are done."""
        self.what = f"Compiling: {step}, {min(done + 1, steps)} of {steps}"

    def progress_part(self) -> dict[str, Any]:
        """Return the progress as a JSON value."""
        over = self.over.is_set()
        return {
            "n": self.done,
            "of": self.of,
            "what": self.what,
            "over": over,
            "data": self.answer if over else None,
            "error": self.error if over else None,
        }


_aside: WeakSet[Job] = WeakSet()  # of every session, since all share one machine


def stop_unrequested_jobs(seconds: float = GIVES_WAY_SECONDS) -> None:
    """End unrequested jobs, waiting up to `seconds` for each."""
    for job in list(_aside):
        job.stop.set()
        job.over.wait(seconds)
        _aside.discard(job)


class Jobs:
    """A session's jobs: one timing at a time, and pictures beside it.

    Two timings would disturb each other.
    """

    def __init__(self) -> None:
        """Create an empty list of jobs."""
        self._jobs: dict[int, Job] = {}
        self._count = 0

    def start(self, of: int, work: Callable[[Job], Any], *, aside: bool = False) -> int:
        """Begin a job and return its number; raises BadOption while a requested one is in progress.

        `aside`: it yields to any other job of any session.
        """
        stop_unrequested_jobs()
        if self.busy:
            raise BadOption(
                "another timing is under way", try_="wait for it, or cancel it, and ask again"
            )
        return self._begin(Job(of), work, aside=aside)

    def beside(self, work: Callable[[Job], Any]) -> dict[str, Any]:
        """Begin a job that times nothing; return its number and its progress.

        Waits up to `AT_ONCE` seconds. A job that is over by then is not stored.
        """
        number = self._begin(Job(0, alone=False), work)
        progress = {"job": number, **self.wait(number, AT_ONCE)}
        if progress["over"]:
            del self._jobs[number]
        return progress

    def _begin(self, job: Job, work: Callable[[Job], Any], *, aside: bool = False) -> int:
        self._count += 1
        oldest = sorted(self._jobs)[: -MOST_FINISHED or None]
        self._jobs = {n: j for n, j in self._jobs.items() if n not in oldest}
        self._jobs[self._count] = job
        if aside:
            _aside.add(job)
        Thread(target=_run, args=(job, work), name="ironworks timing", daemon=True).start()
        return self._count

    @property
    def busy(self) -> bool:
        """True while a timing is in progress."""
        return any(job.alone and not job.over.is_set() for job in self._jobs.values())

    def end(self, seconds: float = GIVES_WAY_SECONDS) -> None:
        """End the timing in progress, waiting up to `seconds` for it."""
        for job in self._jobs.values():
            if job.alone and not job.over.is_set():
                job.stop.set()
                job.over.wait(seconds)

    def progress(self, job: int) -> dict[str, Any]:
        """Return the progress of a job; raises BadOption if it does not exist."""
        return self._of(job).progress_part()

    def cancel(self, job: int) -> dict[str, Any]:
        """Ask a job to end; it does at its next step."""
        self._of(job).stop.set()
        return {}

    def wait(self, job: int, seconds: float = 60.0) -> dict[str, Any]:
        """Return the progress of a job once it is over, or after `seconds`."""
        self._of(job).over.wait(seconds)
        return self.progress(job)

    def _of(self, job: int) -> Job:
        if job not in self._jobs:
            raise BadOption(f"there is no timing number {job!r}")
        return self._jobs[job]


def error_parts(problem: Exception, doing: str) -> dict[str, str]:
    """Return an error's fields for the page.

    An internal fault includes its traceback if IRONWORKS_DEBUG=1.
    """
    error, shown = fault(problem, doing), traceback_of(problem)
    fields = error.fields()
    if isinstance(error, InternalFault):
        store_fault(("the explorer",), error, problem)
    return fields | {"traceback": shown} if shown else fields


def _run(job: Job, work: Callable[[Job], Any]) -> None:
    try:
        job.answer = work(job)
    except Exception as problem:  # an internal fault must not leave the page waiting
        job.error = error_parts(problem, "a background job")
    finally:
        job.over.set()
