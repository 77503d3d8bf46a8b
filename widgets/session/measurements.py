"""Measurements of a session, some in the background: of pictures, loops, tasks and this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import explorer
from explorer.compiler.compilation import Compilation
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.measure.in_background import measured_undisturbed
from explorer.measure.turns import Disturbance
from explorer.runtime.planning.schedule_times import TimedSchedule
from widgets.model.compiled import Arrays
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.model.picture import Clock, Picture
from widgets.session.history import HistoryEntry
from widgets.session.jobs import Job, Jobs


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


Measured = Callable[[], tuple[Device, Disturbance]]


class Fitting:
    """One session's measurement of the machine, until it is taken."""

    def __init__(self, measured: Measured = measured_undisturbed) -> None:
        """Create a record without a result; `measured` measures this machine."""
        self._measured = measured
        self._result: tuple[Setting, Setting, str] | None = None

    def start(self, now: Setting, jobs: Jobs) -> dict[str, Any]:
        """Begin to measure this machine, which takes seconds, and recompile for the result."""
        c = fittable(now)

        def work(job: Job) -> None:
            job.what = "measuring this machine"
            device, bore = self._measured()
            job.report(1)
            changed = explorer.compile(
                c.model, device, c.options, c.stage, c.check, donate=c.donate
            )
            self._result = now, replace(now, compiled=changed), describe_fit(device, bore)

        return {"job": jobs.start(1, work)}

    def take(self, now: Setting) -> HistoryEntry:
        """Return the step to the result.

        Raises BadOption if there is none, or if another setting is on show by now.
        """
        result, self._result = self._result, None
        if result is None or result[0] != now:
            raise BadOption(
                "this machine was not measured for the current plan", try_="measure it again"
            )
        return HistoryEntry(result[1], result[2])


def describe_fit(device: Device, bore: Disturbance) -> str:
    """Describe the fit's error, and whether other work disturbed the measurement."""
    errors = [abs(f.modelled_us / f.measured_us - 1) for f in device.costs.fits if f.measured_us]
    words = f"fitted to this machine, median error of {len(errors)} probes {median(errors):.0%}"
    return f"{words}, measured while it was busy" if bore.disturbed else words


def fittable(now: Setting) -> Compilation:
    """Return the compilation; raises BadOption if it is not for this machine."""
    c = now.compiled
    if not isinstance(c, Compilation) or not c.device.is_this_cpu:
        name = getattr(c.device, "name", "this")
        raise BadOption(f"{name} is not this machine: nothing of it can be measured here")
    return c
