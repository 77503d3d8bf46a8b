"""Task times measured in the background, for plans that use them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.errors import BadOption
from widgets.model.compiled import Arrays
from widgets.model.knobs import Setting
from widgets.session.timing.jobs import Job, Jobs


class Profiling:
    """One session's profile of tasks, until it is taken; None if nothing was measured."""

    def __init__(self) -> None:
        """Create a record without a profile."""
        self.profile: tuple[Setting, Any] | None = None

    def start(self, now: Setting, inputs: Arrays, jobs: Jobs) -> dict[str, Any]:
        """Begin to measure the time of each task."""
        compiled = profilable(now)

        def work(job: Job) -> None:
            def report(what: str, done: int, of: int) -> None:
                job.what, job.of = what, of
                job.report(done)

            self.profile = now, compiled.profiled(inputs, progress=report)

        return {"job": jobs.start(1, work)}

    def take(self, now: Setting) -> Setting | None:
        """Return the setting with the measured times; None if no measurement was begun.

        Raises BadOption if the tasks of another setting were measured.
        """
        profilable(now)
        taken, self.profile = self.profile, None
        if taken is None:
            return None
        measured, compiled = taken
        if measured != now:
            raise BadOption(
                "the plan has changed since its tasks were measured",
                try_="measure them again",
            )
        return replace(now, compiled=compiled)


def profilable(now: Setting) -> Any:
    """Return the compilation; raises BadOption if its tasks cannot be measured."""
    compiled: Any = now.compiled
    if not hasattr(compiled, "profiled"):
        raise BadOption(f"{compiled.model.name} cannot be measured")
    return compiled
