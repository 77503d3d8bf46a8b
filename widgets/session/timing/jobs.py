"""Work that goes on while the page is answered: it tells how far it is, and it can be cancelled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any
from weakref import WeakSet

from explorer.cli.bug_report.last_fault import keep
from explorer.errors import BadOption, Cancelled, InternalFault, fault, traceback_of

KEPT = 16  # finished jobs whose answers can still be fetched
AT_ONCE = 0.15  # seconds that nobody needs to be told of
GIVES_WAY_SECONDS = 2.0  # seconds that a job which nobody asked for may take to end


@dataclass(eq=False)
class Job:
    """`done` of `of` steps, and `what` is done before the first; `answer` or `error` is there once
    `over` is set. Others may go on beside one that is not `alone`.
    """

    of: int
    alone: bool = True
    done: int = 0
    what: str = ""
    answer: Any = None
    error: dict[str, Any] | None = None
    over: Event = field(default_factory=Event)
    stop: Event = field(default_factory=Event)

    def told(self, done: int) -> None:
        """The work says how far it is; raises Cancelled where nobody wants it any more."""
        if self.stop.is_set():
            raise Cancelled("the timing was cancelled; nothing of it was kept")
        self.done = min(done, self.of)

    def at(self, step: str, done: int, of: int) -> None:
        """Say which step is under way, and how many are done."""
        self.what, self.done, self.of = step, done, of

    def compiling(self, step: str, done: int, steps: int) -> None:
        """Say which step is under way; the last one is, too, when all are done."""
        self.what = f"Compiling: {step}, {min(done + 1, steps)} of {steps}"

    def told_on(self) -> dict[str, Any]:
        """How far it is, as a JSON value."""
        over = self.over.is_set()
        return {
            "n": self.done,
            "of": self.of,
            "what": self.what,
            "over": over,
            "data": self.answer if over else None,
            "error": self.error if over else None,
        }


_aside: WeakSet[Job] = WeakSet()  # of every session: they all have one machine


def make_way(seconds: float = GIVES_WAY_SECONDS) -> None:
    """End what nobody asked for, if anything of that is under way, and wait so long for it."""
    for job in list(_aside):
        job.stop.set()
        job.over.wait(seconds)
        _aside.discard(job)


class Jobs:
    """At most one timing at a time: two would disturb each other. Pictures are drawn beside it."""

    def __init__(self) -> None:
        self._known: dict[int, Job] = {}
        self._count = 0

    def start(self, of: int, work: Callable[[Job], Any], *, aside: bool = False) -> int:
        """Begin a job and name it; raises BadOption while another one is under way that somebody
        asked for. `aside`: nobody waits for it, and it gives way to whatever is begun in any
        session.
        """
        make_way()
        if self.busy:
            raise BadOption(
                "another timing is under way", try_="wait for it, or cancel it, and ask again"
            )
        return self._begin(Job(of), work, aside=aside)

    def beside(self, work: Callable[[Job], Any]) -> dict[str, Any]:
        """Begin a job that times nothing, whatever else is under way: its number, and how far it is
        after `AT_ONCE`. One that is over by then is not kept.
        """
        number = self._begin(Job(0, alone=False), work)
        found = {"job": number, **self.wait(number, AT_ONCE)}
        if found["over"]:
            del self._known[number]
        return found

    def _begin(self, job: Job, work: Callable[[Job], Any], *, aside: bool = False) -> int:
        self._count += 1
        oldest = sorted(self._known)[: -KEPT or None]
        self._known = {n: j for n, j in self._known.items() if n not in oldest}
        self._known[self._count] = job
        if aside:
            _aside.add(job)
        Thread(target=_run, args=(job, work), name="ironworks timing", daemon=True).start()
        return self._count

    @property
    def busy(self) -> bool:
        """Whether a timing is under way."""
        return any(job.alone and not job.over.is_set() for job in self._known.values())

    def end(self, seconds: float = GIVES_WAY_SECONDS) -> None:
        """End the timing that is under way, and wait so long for it."""
        for job in self._known.values():
            if job.alone and not job.over.is_set():
                job.stop.set()
                job.over.wait(seconds)

    def told(self, job: int) -> dict[str, Any]:
        """How far a job is; raises BadOption for one that there is not."""
        return self._of(job).told_on()

    def cancel(self, job: int) -> dict[str, Any]:
        """Ask a job to end; it does at its next step."""
        self._of(job).stop.set()
        return {}

    def wait(self, job: int, seconds: float = 60.0) -> dict[str, Any]:
        """The state of a job once it is over, or after that time."""
        self._of(job).over.wait(seconds)
        return self.told(job)

    def _of(self, job: int) -> Job:
        if job not in self._known:
            raise BadOption(f"there is no timing number {job!r}")
        return self._known[job]


def error_parts(problem: Exception, doing: str) -> dict[str, str]:
    """What the page is told of an error: its fields, and of a fault of ours the traceback where
    IRONWORKS_DEBUG=1 asks for it.
    """
    found, shown = fault(problem, doing), traceback_of(problem)
    fields = found.fields()
    if isinstance(found, InternalFault):
        keep(("the explorer",), found, problem)
    return fields | {"traceback": shown} if shown else fields


def _run(job: Job, work: Callable[[Job], Any]) -> None:
    try:
        job.answer = work(job)
    except Exception as problem:  # a fault of our own must not leave the page waiting
        job.error = error_parts(problem, "what was begun beside")
    finally:
        job.over.set()
