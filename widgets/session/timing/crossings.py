"""The ways of loops that are timed in a session, and what the clock said so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.errors import BadOption
from explorer.runtime.control.way_times import Timed
from widgets.model.compiled import Arrays
from widgets.model.knobs import Setting
from widgets.session.timing.jobs import Job, Jobs


class Crossings:
    """One session's timings of loops. Nothing here changes what is on show."""

    def __init__(self) -> None:
        self.known: dict[tuple[Setting, str], tuple[Timed, ...]] = {}

    def timed(self, now: Setting, loop: str) -> tuple[Timed, ...]:
        """What the clock said of a loop's ways under this setting."""
        return self.known.get((now, loop), ())

    def time(
        self,
        now: Setting,
        inputs: Arrays,
        loop: str,
        progress: Callable[[str, int, int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        """Time a loop's ways; raises BadOption where that cannot be, Cancelled where it was."""
        c: Any = now.compiled
        found = c.crossing(loop, dict(now.sizes))
        told = {"progress": progress, "cancelled": cancelled}
        self.known[now, loop] = c.timed_crossing(inputs, found, **told).timed

    def start(self, now: Setting, inputs: Arrays, jobs: Jobs, loop: str) -> dict[str, Any]:
        """Begin to time a loop's ways, beside; raises BadOption where there is none to time."""
        c: Any = now.compiled
        c.crossing(loop, dict(now.sizes))

        def work(job: Job) -> None:
            def told(what: str, done: int, of: int) -> None:
                job.what, job.of = what, of
                job.told(done)

            self.time(now, inputs, loop, told, job.stop.is_set)

        return {"job": jobs.start(1, work)}

    def said(self, now: Setting, loop: str) -> str:
        """What came of it, in words; raises BadOption where nothing did."""
        found = self.timed(now, loop)
        if not found:
            raise BadOption(f"{loop[:40]} was not timed as it is now", try_="measure it again")
        most = max(t.trips for t in found)
        best = min((t for t in found if t.trips == most), key=lambda t: t.median_us)
        return f"{loop}: with {most:,} iterations {best.label} took the least"
