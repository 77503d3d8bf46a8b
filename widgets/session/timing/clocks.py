"""What the clocks of pictures said in a session, by what it was asked of."""

from __future__ import annotations

from typing import Any

from explorer.errors import BadOption
from widgets.model.compiled import Arrays
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.model.picture import Clock, Picture
from widgets.session.timing.jobs import Job, Jobs


class Clocks:
    """One session's measurements for pictures. Nothing here changes what is on show."""

    def __init__(self) -> None:
        self.known: dict[tuple[Setting, str, str], Any] = {}

    def said(self, now: Setting, picture: Picture, about: str) -> Any:
        """What was found under this setting; None where nothing was."""
        if not self.known:
            return None
        return self.known.get((clock_of(picture).under(now, about), picture.name, about))

    def measure(
        self, now: Setting, house: House, picture: Picture, about: str, inputs: Arrays
    ) -> None:
        """Measure what a picture is about, to the end."""
        for _ in self._steps(now, house, picture, about, inputs):
            pass

    def start(
        self, now: Setting, house: House, picture: Picture, about: str, inputs: Arrays, jobs: Jobs
    ) -> dict[str, Any]:
        """Begin to measure it, beside: what was found stays where the rest is cancelled."""

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
        for done, of, found in clock.run(now, house, about, inputs):
            if found is not None:
                self.known[clock.under(now, about), picture.name, about] = found
            yield done, of

    def words(self, now: Setting, picture: Picture, about: str) -> str:
        """What came of it; raises BadOption where nothing did."""
        found = self.said(now, picture, about)
        text = clock_of(picture).told(found) if found is not None else ""
        if not text:
            said = f"{picture.title} was not measured as it is now"
            raise BadOption(said, try_="measure it again")
        return text


def clock_of(picture: Picture) -> Clock:
    """The clock of a picture; raises BadOption where it measures nothing."""
    if picture.clock is None:
        raise BadOption(f"{picture.title} measures nothing", where=picture.name)
    return picture.clock
