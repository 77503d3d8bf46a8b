"""A knob turned beside: compiling tells how far it is and can be ended; the old picture stays until
then.
"""

from __future__ import annotations

from typing import Any

from explorer.errors import Cancelled, IronworksError
from explorer.ops.reference.unwanted import cancellable
from explorer.passes.pipeline.progress import telling
from widgets.model.knob import Knob
from widgets.model.knobs import Setting, turned
from widgets.session.timing.jobs import Job, Jobs

AT_ONCE = 0.15  # seconds that nobody needs to be told of


class Turning:
    """What a turn came to, until it is taken."""

    def __init__(self) -> None:
        self._ahead: tuple[Setting, str, Any, Setting | IronworksError] | None = None

    def start(self, now: Setting, knob: Knob, index: int, jobs: Jobs) -> dict[str, Any]:
        """Begin to compile with one knob at another of its values; `over` where that is done."""

        def work(job: Job) -> None:
            def told(step: str, done: int, of: int) -> None:
                job.what, job.done, job.of = step, done, of

            value = knob.values[index] if 0 <= index < len(knob.values) else None
            try:
                with telling(told), cancellable(job.stop.is_set):
                    found: Setting | IronworksError = turned(now, knob, index)
            except Cancelled:
                raise
            except IronworksError as problem:
                found = problem  # for who takes it: it is not compiled twice to be told
            self._ahead = now, knob.name, value, found

        job = jobs.start(1, work)
        return {"job": job, "over": jobs.wait(job, AT_ONCE)["over"]}

    def take(self, now: Setting, knob: Knob, index: int) -> Setting:
        """The setting that was compiled beside; compiled now where that was not begun."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and 0 <= index < len(knob.values):
            before, name, value, found = ahead
            if (before, name, value) == (now, knob.name, knob.values[index]):
                if isinstance(found, IronworksError):
                    raise found
                return found
        return turned(now, knob, index)
