"""Measurements for pictures in a session, by setting, picture and subject."""

from __future__ import annotations

from typing import Any

from explorer.errors import BadOption
from widgets.model.compiled import Arrays
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.model.picture import Clock, Picture
from widgets.session.timing.jobs import Job, Jobs


class Clocks:
    """One session's measurements for pictures. Nothing here changes the setting on show."""

    def __init__(self) -> None:
        """Create an empty record."""
        self.results: dict[tuple[Setting, str, str], Any] = {}

    def result(self, now: Setting, picture: Picture, about: str) -> Any:
        """Return the measurement under this setting; None if there is none."""
        if not self.results:
            return None
        return self.results.get((clock_of(picture).under(now, about), picture.name, about))

    def measure(
        self, now: Setting, house: House, picture: Picture, about: str, inputs: Arrays
    ) -> None:
        """Measure the subject of a picture completely."""
        for _ in self._steps(now, house, picture, about, inputs):
            pass

    def start(
        self, now: Setting, house: House, picture: Picture, about: str, inputs: Arrays, jobs: Jobs
    ) -> dict[str, Any]:
        """Begin to measure it in the background; if cancelled, the results so far stay."""

        def work(job: Job) -> None:
            for done, of in self._steps(now, house, picture, about, inputs):
                job.done, job.of = min(done, of), of
                if job.stop.is_set():
                    return

        return {"job": jobs.start(1, work)}

    def _steps(
        self, now: Setting, house: House, picture: Picture, about: str, inputs: Arrays
    ) -> Any:
        clock = clock_of(picture)
        for done, of, result in clock.run(now, house, about, inputs):
            if result is not None:
                self.results[clock.under(now, about), picture.name, about] = result
            yield done, of

    def words(self, now: Setting, picture: Picture, about: str) -> str:
        """Describe the measurement; raises BadOption if there is none."""
        result = self.result(now, picture, about)
        text = clock_of(picture).describe(result) if result is not None else ""
        if not text:
            problem = f"{picture.title} was not measured as it is now"
            raise BadOption(problem, try_="measure it again")
        return text


def clock_of(picture: Picture) -> Clock:
    """Return the clock of a picture; raises BadOption if it measures nothing."""
    if picture.clock is None:
        raise BadOption(f"{picture.title} measures nothing", where=picture.name)
    return picture.clock
