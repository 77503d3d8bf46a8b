"""How long each task takes, measured beside; then walls can be planned with that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.errors import BadOption
from widgets.model.compiled import Arrays
from widgets.model.knobs import Setting
from widgets.session.timing.jobs import Job, Jobs


class Profiling:
    """One session's profile of tasks, until it is taken; None: nothing was measured."""

    def __init__(self) -> None:
        self.found: tuple[Setting, Any] | None = None

    def start(self, now: Setting, inputs: Arrays, jobs: Jobs) -> dict[str, Any]:
        """Begin to measure how long each task takes."""
        compiled = profilable(now)

        def work(job: Job) -> None:
            def told(what: str, done: int, of: int) -> None:
                job.what, job.of = what, of
                job.told(done)

            self.found = now, compiled.profiled(inputs, progress=told)

        return {"job": jobs.start(1, work)}

    def take(self, now: Setting) -> Setting | None:
        """The setting with what was found; None where nothing was begun. Raises BadOption where the
        tasks of another setting were measured.
        """
        profilable(now)
        found, self.found = self.found, None
        if found is None:
            return None
        measured, compiled = found
        if measured != now:
            raise BadOption(
                "the plan has changed since its tasks were measured",
                try_="measure them again",
            )
        return replace(now, compiled=compiled)


def profilable(now: Setting) -> Any:
    """The compilation; raises BadOption where its tasks cannot be measured."""
    found: Any = now.compiled
    if not hasattr(found, "profiled"):
        raise BadOption(f"{found.model.name} cannot be measured")
    return found
