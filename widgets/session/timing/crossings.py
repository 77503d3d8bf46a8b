"""Schedules of loops that are timed in a session, and earlier timings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.errors import BadOption
from explorer.runtime.control.schedule_times import TimedSchedule
from widgets.model.compiled import Arrays
from widgets.model.knobs import Setting
from widgets.session.timing.jobs import Job, Jobs


class Crossings:
    """One session's timings of loops. Nothing here changes the setting on show."""

    def __init__(self) -> None:
        """Create an empty record."""
        self.timings: dict[tuple[Setting, str], tuple[TimedSchedule, ...]] = {}

    def timed(self, now: Setting, loop: str) -> tuple[TimedSchedule, ...]:
        """Return the timed schedules of a loop under this setting."""
        return self.timings.get((now, loop), ())

    def time(
        self,
        now: Setting,
        inputs: Arrays,
        loop: str,
        progress: Callable[[str, int, int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        """Time a loop's schedules; raises BadOption if that is impossible, or Cancelled."""
        c: Any = now.compiled
        crossing = c.crossing(loop, dict(now.sizes))
        callbacks = {"progress": progress, "cancelled": cancelled}
        self.timings[now, loop] = c.timed_crossing(inputs, crossing, **callbacks).timed

    def start(self, now: Setting, inputs: Arrays, jobs: Jobs, loop: str) -> dict[str, Any]:
        """Begin to time a loop's schedules in the background; raises BadOption if it has none."""
        c: Any = now.compiled
        c.crossing(loop, dict(now.sizes))

        def work(job: Job) -> None:
            def report(what: str, done: int, of: int) -> None:
                job.what, job.of = what, of
                job.report(done)

            self.time(now, inputs, loop, report, job.stop.is_set)

        return {"job": jobs.start(1, work)}

    def describe(self, now: Setting, loop: str) -> str:
        """Describe the result; raises BadOption if there is none."""
        timings = self.timed(now, loop)
        if not timings:
            raise BadOption(f"{loop[:40]} was not timed as it is now", try_="measure it again")
        most = max(t.trips for t in timings)
        best = min((t for t in timings if t.trips == most), key=lambda t: t.median_us)
        return f"{loop}: with {most:,} iterations {best.label} took the least"
